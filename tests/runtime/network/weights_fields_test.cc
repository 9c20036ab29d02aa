// Weights files that a description would take with other fields: the message says which.
#include <gmock/gmock.h>

#include "tests/support/contents.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Tensors = std::map<std::string, FileTensor>;

FileTensor filled(std::vector<int64_t> shape) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return {std::move(shape), std::vector<float>(count, 0.5f)};
}

std::string describe(const std::string& block, const std::string& residual) {
  return R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2, 3], "layers": [
      {"op": "block", "name": "a", "width": 0)" +
         block + R"(}, {"op": "residual", "name": "b", "width": 1, "kernel_size": 1)" + residual + "}]}";
}

/// A convolution and its batch norm.
void add_part(Tensors& tensors, const std::string& convolution, const std::string& norm, int64_t in,
              int64_t out) {
  tensors[convolution + ".weight"] = filled({1, in, out});
  for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
    tensors[norm + part] = filled({out});
}

Tensors whole() {
  Tensors tensors;
  add_part(tensors, "a.conv", "a.bn", 2, 2);
  add_part(tensors, "b.conv1", "b.bn1", 2, 3);
  add_part(tensors, "b.conv2", "b.bn2", 3, 3);
  add_part(tensors, "b.shortcut.conv", "b.shortcut.bn", 2, 3);
  return tensors;
}

class WeightsFields : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }
  minuet_status create(const std::string& description, const Tensors& tensors) {
    const TemporaryPath file("weights.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec spec;
    spec.description = description, spec.weights = file.path(), spec.allow_unused = allow_unused_;
    Plan network(nullptr, {minuet_plan_destroy});
    return create_network(*cpu_, spec, network);
  }

  Machine* cpu_ = nullptr;
  bool allow_unused_ = false;
};

struct Difference {
  std::vector<std::string> without, with;  // tensors that the file has not, and has more
  std::string block, residual;  // fields of the description that fits; that which does not has none of them
  std::vector<std::string> words;
};

const Difference kDifferences[] = {
    {{}, {"a.conv.bias"}, R"(, "bias": true)", "", {R"("bias": true in layer "a")"}},
    {{},
     {"a.conv.bias", "b.conv1.bias", "b.conv2.bias", "b.shortcut.conv.bias"},
     R"(, "bias": true)",
     R"(, "bias": true)",
     {R"("bias": true in layer "a", layer "b")"}},
    {{},
     {"b.conv1.bias", "b.shortcut.conv.bias"},
     "",
     R"(, "conv1": {"bias": true}, "shortcut": {"bias": true})",
     {R"("bias": true in conv1 of layer "b", shortcut of layer "b")"}},
    {{"a.bn.weight", "a.bn.bias"}, {}, R"(, "affine": false)", "", {R"("affine": false in layer "a")"}},
    {{"a.bn.weight", "a.bn.bias", "a.bn.running_mean", "a.bn.running_var"},
     {"a.conv.bias"},
     R"(, "norm": "none", "bias": true)",
     "",
     {R"("bias": true in layer "a" and "norm": "none" in layer "a")"}},
    {{"b.shortcut.bn.weight", "b.shortcut.bn.bias", "b.shortcut.bn.running_mean",
      "b.shortcut.bn.running_var"},
     {},
     "",
     R"(, "shortcut": {"norm": "none"})",
     {R"("norm": "none" in shortcut of layer "b")"}},
};

TEST_F(WeightsFields, AMessageSaysWhichFieldTakesTheFile) {
  for (const bool allow_unused : {false, true}) {
    allow_unused_ = allow_unused;
    for (const Difference& difference : kDifferences) {
      Tensors tensors = whole();
      for (const std::string& name : difference.without) ASSERT_EQ(tensors.erase(name), 1u) << name;
      for (const std::string& name : difference.with) tensors[name] = filled({name[0] == 'a' ? 2 : 3});
      EXPECT_EQ(create(describe("", ""), tensors), MINUET_INVALID_ARGUMENT);
      for (const std::string& words : difference.words)
        EXPECT_THAT(last_error(), HasSubstr("; set " + words + " to use the file's tensors"));
      EXPECT_EQ(create(describe(difference.block, difference.residual), tensors), MINUET_OK) << last_error();
      // And back: of a description with these fields the whole file wants the others.
      EXPECT_EQ(create(describe(difference.block, difference.residual), whole()), MINUET_INVALID_ARGUMENT)
          << difference.words[0];
      EXPECT_THAT(last_error(), HasSubstr(" to use the file's tensors"));
    }
  }
}

/// Tensors that stand beside parameters of a layer would change its result. They are refused with the option
/// allow_unused too, so that no message advises it for them.
TEST_F(WeightsFields, WhatALayerWouldLoseIsNotPassedOver) {
  const std::string
      one =
          "no layer uses 1 tensor: \"a.conv.bias\"; it belongs to a layer that uses other parameters, "
          "so ignoring it would change the layer's result",
      two =
          "no layer uses 2 tensors: \"a.conv.bias\", \"b.conv1.bias\"; they belong to layers that "
          "use other parameters, so ignoring them would change the layers' results",
      passed = "no layer uses 1 tensor: \"c.weight\"; the option allow_unused ignores it",
      all_passed = "no layer uses 2 tensors: \"c.weight\", \"d\"; the option allow_unused ignores them";
  struct Row {
    std::vector<const char*> more;
    std::string text, text_if_allowed;  // empty: taken
  };
  const Row rows[] = {
      {{"a.conv.bias"}, one, one},
      {{"a.conv.bias", "b.conv1.bias"}, two, two},
      {{"c.weight"}, passed, ""},
      {{"c.weight", "d"}, all_passed, ""},
      {{"a.conv.bias", "c.weight"}, one + "; " + passed, one},
      {{"a.conv.bias", "b.conv1.bias", "c.weight", "d"}, two + "; " + all_passed, two},
  };
  for (const Row& row : rows) {
    Tensors tensors = whole();
    for (const char* const name : row.more) tensors[name] = filled({name[0] == 'b' ? 3 : 2});
    for (const bool is_allowed : {false, true}) {
      SCOPED_TRACE(row.text + (is_allowed ? ", allowed" : ""));
      allow_unused_ = is_allowed;
      const std::string& text = is_allowed ? row.text_if_allowed : row.text;
      EXPECT_EQ(create(describe("", ""), tensors), text.empty() ? MINUET_OK : MINUET_INVALID_ARGUMENT);
      if (text.empty()) continue;
      EXPECT_THAT(last_error(), HasSubstr(text));
      if (text == one || text == two) {
        EXPECT_THAT(last_error(), Not(HasSubstr("the option")));
      }
    }
  }
}

TEST_F(WeightsFields, BackToTheUsualFields) {
  const std::pair<const char*, const char*> fields[] = {
      {R"(, "bias": true)", R"(; set "bias": false in layer "a" to use)"},
      {R"(, "norm": "none")", R"(; set "norm": "batch_norm" in layer "a" to use)"},
      {R"(, "affine": false)", R"(; set "affine": true in layer "a" to use)"},
  };
  for (const auto& [field, words] : fields) {
    allow_unused_ = false;
    EXPECT_EQ(create(describe(field, ""), whole()), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
    allow_unused_ = true;  // a norm that a layer would lose is not passed over
    EXPECT_EQ(create(describe(field, ""), whole()), MINUET_INVALID_ARGUMENT) << field;
  }
}

TEST_F(WeightsFields, ANormWithoutRunningStatisticsHasNoField) {
  Tensors tensors = whole();
  for (const char* part : {"running_mean", "running_var"}) tensors.erase(std::string("a.bn.") + part);
  EXPECT_EQ(create(describe("", ""), tensors), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(
      last_error(),
      AllOf(HasSubstr("2 tensors are missing: \"a.bn.running_mean\", \"a.bn.running_var\""),
            HasSubstr("there are no running_mean and running_var of \"a.bn\": a batch norm "
                      "without running statistics normalizes by"),
            HasSubstr("a description cannot express it"), Not(HasSubstr("to use the file's tensors"))));
  EXPECT_THAT(last_error_detail(), HasSubstr("without running statistics: \"a.bn\"\n"));
}

/// Parameters by other names are no reason to describe a layer without them.
TEST_F(WeightsFields, OtherNamesAreNoHint) {
  Tensors tensors = whole();
  for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
    auto node = tensors.extract(std::string("a.bn.") + part);
    node.key() = std::string("a.norm.bn.") + part;
    tensors.insert(std::move(node));
  }
  EXPECT_EQ(create(describe("", ""), tensors), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), Not(HasSubstr("to use the file's tensors")));
  tensors = whole();
  tensors.erase("a.bn.running_mean");
  EXPECT_EQ(create(describe("", ""), tensors), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), Not(HasSubstr("to use the file's tensors")));
  EXPECT_EQ(create(describe("", ""), {{"x", filled({1})}}), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), Not(HasSubstr("to use the file's tensors")));
}

/// The detail has a line for each layer, the message the first few.
TEST_F(WeightsFields, OfManyLayersTheFirstFewAreNamed) {
  std::string layers;
  Tensors tensors;
  for (int i = 10; i < 30; ++i) {
    const std::string name = "l" + std::to_string(i);
    layers += (layers.empty() ? "" : ", ") + (R"({"op": "block", "name": ")" + name + R"(", "width": 0})");
    add_part(tensors, name + ".conv", name + ".bn", 2, 2);
    tensors[name + ".conv.bias"] = filled({2});
  }
  const std::string description =
      R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [)" + layers + "]}";
  EXPECT_EQ(create(description, tensors), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr(R"(set "bias": true in layer "l10", )"));
  EXPECT_THAT(last_error(), AllOf(HasSubstr("layer \"l17\" and 12 more to use the file's tensors"),
                                  Not(HasSubstr("layer \"l18\""))));
  EXPECT_THAT(last_error_detail(), HasSubstr("set: \"bias\": true in layer \"l29\"\n"));
}

/// What a description with such fields takes is converted and gives the same bits.
TEST_F(WeightsFields, AreConverted) {
  Tensors tensors = whole();
  for (const char* part : {"weight", "bias"}) tensors.erase(std::string("b.bn1.") + part);
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    tensors.erase(std::string("a.bn.") + part);
  tensors["a.conv.bias"] = {{2}, {1, -2}};
  tensors["b.conv2.bias"] = {{3}, {3, 4, -5}};
  const TemporaryPath file("weights.safetensors"), converted("converted.safetensors");
  write_safetensors(file.path(), tensors);
  NetworkSpec spec;
  spec.description = describe(R"(, "norm": "none", "bias": true)",
                              R"(, "conv1": {"affine": false}, "conv2": {"bias": true})");
  spec.weights = file.path();
  const minuet_network_options options = network_options(spec);
  ASSERT_EQ(minuet_weights_convert(&options, converted.path().c_str()), MINUET_OK) << last_error();
  const auto run = [&](const std::string& path) {
    NetworkSpec of = spec;
    of.weights = path;
    const Plan network = make_network(*cpu_, of);
    minuet_plan_info info{};
    info.struct_size = sizeof info;
    check(minuet_plan_query(network.get(), &info));
    return run_network(*cpu_, make_execution(*cpu_, network.get()).get(), {0, 1, 2, 3, 0, 1, 2, 4},
                       encode(spec.dtype, {1, -2, 3, 4}), spec.dtype, 3, 2);
  };
  EXPECT_EQ(run(converted.path()), run(file.path()));
}

}  // namespace
}  // namespace minuet::abi
