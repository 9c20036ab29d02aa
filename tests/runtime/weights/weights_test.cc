// What minuet_plan_create_network answers to weights files that do not fit, and to those that are none.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include "tests/support/contents.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Tensors = std::map<std::string, FileTensor>;

constexpr const char* kTwoBlocks = R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [
    {"op": "block", "name": "first", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "second", "width": 0}, {"op": "head", "name": "head"}]})";

FileTensor filled(std::vector<int64_t> shape, float value) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return {std::move(shape), std::vector<float>(count, value)};
}

Tensors two_blocks() {
  Tensors tensors{{"first.conv.weight", filled({27, 2, 2}, 0.5f)},
                  {"second.conv.weight", filled({1, 2, 2}, 0.5f)}};
  for (const char* block : {"first", "second"}) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      tensors[block + std::string(".bn.") + part] = filled({2}, 1);
    }
  }
  return tensors;
}

Tensors renamed(const Tensors& tensors, const std::function<std::string(const std::string&)>& rename) {
  Tensors all;
  for (const auto& [name, tensor] : tensors) all[rename(name)] = tensor;
  return all;
}

class Weights : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
    spec_.description = kTwoBlocks;
  }

  minuet_status create(const Tensors& tensors) {
    const TemporaryPath file("weights.safetensors");
    write_safetensors(file.path(), tensors);
    return create_of(file.path());
  }
  minuet_status create_of(const std::string& path) {
    spec_.weights = path;
    Plan network(nullptr, {minuet_plan_destroy});
    return create_network(*cpu_, spec_, network);
  }
  void expect_refused(const Tensors& tensors, const testing::Matcher<std::string>& words) {
    EXPECT_EQ(create(tensors), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("weights file /"), words));
  }

  Machine* cpu_ = nullptr;
  NetworkSpec spec_;
};

TEST_F(Weights, ThatFit) {
  EXPECT_EQ(create(two_blocks()), MINUET_OK) << last_error();
  Tensors tracked = two_blocks();
  tracked["first.bn.num_batches_tracked"] = filled({}, 7);
  EXPECT_EQ(create(tracked), MINUET_OK) << last_error();
}

/// As PyTorch writes it: an int64 scalar, which is not read.
TEST_F(Weights, WithBatchesTrackedOfInt64) {
  Tensors tracked = two_blocks();
  tracked["first.bn.num_batches_tracked"] = filled({2}, 0);  // as many bytes
  const TemporaryPath file("weights.safetensors"), converted("converted.safetensors");
  write_safetensors(file.path(), tracked);
  std::string bytes = contents(file.path());
  const size_t tensor = bytes.find("num_batches_tracked");
  bytes.replace(bytes.find("F32", tensor), 3, "I64");
  bytes.replace(bytes.find("[2]", tensor), 3, "[ ]");
  std::ofstream(file.path(), std::ios::binary) << bytes;
  EXPECT_EQ(create_of(file.path()), MINUET_OK) << last_error();
  const minuet_network_options options = network_options(spec_);
  EXPECT_EQ(minuet_weights_convert(&options, converted.path().c_str()), MINUET_OK) << last_error();
  EXPECT_EQ(create_of(converted.path()), MINUET_OK) << last_error();
}

TEST_F(Weights, TheEpsilonOfBatchNormIsTheDescriptions) {
  const auto description = [](const std::string& epsilon) {
    return R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [4], )" + epsilon +
           R"("layers": [{"op": "block", "name": "a", "width": 0}]})";
  };
  Tensors tensors{{"a.conv.weight", filled({1, 4, 4}, 0.5f)}};
  for (const char* part : {"bias", "running_mean"}) tensors[std::string("a.bn.") + part] = filled({4}, 0);
  tensors["a.bn.weight"] = filled({4}, 1);
  tensors["a.bn.running_var"] = filled({4}, 0.0625f);
  const TemporaryPath file("weights.safetensors");
  write_safetensors(file.path(), tensors);
  spec_.weights = file.path();
  spec_.dtype = DType::F32;
  const auto scale = [&](const std::string& epsilon) {
    spec_.description = description(epsilon);
    const Plan network = make_network(*cpu_, spec_);
    const std::vector<char> ones = encode(DType::F32, {1, 1, 1, 1});
    const NetworkRun run =
        run_network(*cpu_, make_execution(*cpu_, network.get()).get(), {0, 1, 2, 3}, ones, DType::F32);
    return decode(DType::F32, run.bytes).front() / 2;
  };
  EXPECT_FLOAT_EQ(scale(""), static_cast<float>(1 / std::sqrt(0.0625 + 1e-5)));
  EXPECT_FLOAT_EQ(scale(R"("batch_norm_epsilon": 1e-3, )"), static_cast<float>(1 / std::sqrt(0.0625 + 1e-3)));
  EXPECT_FLOAT_EQ(scale(R"("batch_norm_epsilon": 0.1875, )"), 2);
  for (const char* wrong : {"0", "-1e-5", "1", "\"1e-5\"", "null"}) {
    spec_.description = description(std::string("\"batch_norm_epsilon\": ") + wrong + ", ");
    EXPECT_EQ(create_of(file.path()), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("batch_norm_epsilon")) << wrong;
  }
}

TEST_F(Weights, ThatNoLayerUses) {
  Tensors tensors = two_blocks();
  tensors["third.conv.weight"] = filled({27, 2, 2}, 1);
  tensors["third.bn.num_batches_tracked"] = filled({}, 1);
  expect_refused(tensors, HasSubstr("no layer uses 2 tensors: \"third.bn.num_batches_tracked\", "
                                    "\"third.conv.weight\"; the option allow_unused ignores them"));
  spec_.allow_unused = true;
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
  spec_.allow_unused = false;
  for (int i = 0; i < 12; ++i) tensors["more." + std::to_string(10 + i)] = filled({1}, 1);
  expect_refused(tensors, AllOf(HasSubstr("14 tensors: \"more.10\""), HasSubstr("\"more.17\" and 6 more"),
                                Not(HasSubstr("more.18"))));
}

/// Weights of a segmenter for a network without a head.
TEST_F(Weights, AHeadThatTheNetworkHasNot) {
  Tensors tensors = two_blocks();
  tensors["head.bias"] = filled({4}, 1);
  expect_refused(tensors, HasSubstr("no layer uses 1 tensor: \"head.bias\""));
  tensors["head.weight"] = filled({1, 2, 4}, 1);
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
  spec_.description = R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [
    {"op": "block", "name": "first", "width": 0, "kernel_size": 3}, {"op": "block", "name": "second", "width": 0}]})";
  expect_refused(tensors, HasSubstr("no layer uses 2 tensors: \"head.bias\", \"head.weight\""));
}

/// And the other way round: the description says how many classes, and the file has none, or others.
TEST_F(Weights, AHeadThatTheFileHasNot) {
  spec_.description.replace(spec_.description.find("\"name\": \"head\""), 14,
                            R"("name": "head", "classes": 19)");
  expect_refused(two_blocks(), HasSubstr("2 tensors are missing: \"head.weight\", \"head.bias\""));
  Tensors tensors = two_blocks();
  tensors["head.weight"] = filled({1, 2, 4}, 1);
  tensors["head.bias"] = filled({4}, 1);
  expect_refused(tensors,
                 AllOf(HasSubstr("\"head.weight\" has shape [1, 2, 4], but the network needs [1, 2, 19]"),
                       HasSubstr("\"head.bias\" has shape [4], but the network needs [19]")));
  spec_.weights.clear();
  const Plan network = make_network(*cpu_, spec_);
  minuet_plan_info info{};
  info.struct_size = sizeof info;
  check(minuet_plan_query(network.get(), &info));
  EXPECT_EQ(info.out_channels, 19) << "random weights have it too";
}

TEST_F(Weights, ThatAreMissingAreNamedAllAtOnceWithTheNearest) {
  Tensors tensors = two_blocks();
  auto node = tensors.extract("first.bn.running_mean");
  node.key() = "first.bn.runing_mean";
  tensors.insert(std::move(node));
  tensors.erase("second.conv.weight");
  tensors["second.bn.bias"] = filled({3}, 1);
  expect_refused(
      tensors,
      HasSubstr("2 tensors are missing: \"first.bn.running_mean\" (there is \"first.bn.runing_mean\"), "
                "\"second.conv.weight\"; \"second.bn.bias\" has shape [3], but the network needs [2]"));
  // A hint at the weights' order belongs to the weight, not to the bias beside it.
  spec_.weights_order = MINUET_WEIGHTS_MINKOWSKI;
  tensors = two_blocks();
  tensors["head.kernel"] = filled({2, 4}, 1);
  expect_refused(tensors, AllOf(HasSubstr("1 tensor is missing: \"head.bias\""), Not(HasSubstr("there is"))));
  spec_.weights_order = MINUET_WEIGHTS_AS_DESCRIBED;
  expect_refused({{"x", filled({1}, 1)}}, AllOf(HasSubstr("10 tensors are missing"), HasSubstr(" and 2 more"),
                                                Not(HasSubstr("there is"))));
}

TEST_F(Weights, MistakesOfAllKindsAreInOneAnswerAndAllInItsDetail) {
  Tensors tensors = two_blocks();
  tensors.erase("second.conv.weight");
  tensors["second.bn.bias"] = filled({3}, 1);
  for (int i = 10; i < 30; ++i) tensors["more." + std::to_string(i)] = filled({1}, 1);
  expect_refused(tensors,
                 AllOf(HasSubstr("1 tensor is missing: \"second.conv.weight\"; \"second.bn.bias\" has "
                                 "shape [3], but the network needs [2]; no layer uses 20 tensors: "
                                 "\"more.10\""),
                       HasSubstr("\"more.17\" and 12 more"), Not(HasSubstr("allow_unused"))));
  std::string detail =
      "missing: \"second.conv.weight\"\nof another shape: \"second.bn.bias\" has shape [3], but "
      "the network needs [2]\n";
  const std::string without_unused = detail;
  for (int i = 10; i < 30; ++i) detail += "unused: \"more." + std::to_string(i) + "\"\n";
  EXPECT_EQ(last_error_detail(), detail);
  spec_.allow_unused = true;
  expect_refused(tensors, Not(HasSubstr("no layer uses")));
  EXPECT_EQ(last_error_detail(), without_unused);
  spec_.allow_unused = false;
  expect_refused({{"x", filled({1}, 1)}}, HasSubstr("10 tensors are missing"));
  for (const auto& [name, tensor] : two_blocks())
    EXPECT_THAT(last_error_detail(), HasSubstr("missing: \"" + name + "\"\n"));
}

TEST_F(Weights, InAnotherShapeHintAtAnotherEngine) {
  Tensors tensors = two_blocks();
  tensors["first.conv.weight"].shape = {2, 3, 3, 3, 2};
  expect_refused(
      tensors,
      HasSubstr("\"first.conv.weight\" has shape [2, 3, 3, 3, 2], but the network needs [27, 2, "
                "2]; if another engine stored the weights, name that engine with the option weights_order"));
  tensors["first.conv.weight"] = filled({8, 2, 2}, 1);
  expect_refused(tensors, Not(HasSubstr("weights_order")));
}

/// As many inputs as outputs: [C_in, C_out] and [C_out, C_in] look alike.
TEST_F(Weights, ASquareMatrixThatMayBeEitherIsRefused) {
  spec_.description = R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [
      {"op": "block", "name": "a", "width": 0}]})";
  Tensors tensors{{"a.conv.weight", {{2, 2}, {1, 2, 3, 4}}}};
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    tensors["a.bn." + std::string(part)] = filled({2}, 1);
  spec_.weights_order = MINUET_WEIGHTS_MINKOWSKI;
  EXPECT_EQ(create(tensors), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("\"a.conv.weight\": its shape [2, 2] may be"));
  spec_.weights_order = MINUET_WEIGHTS_SPCONV;
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
  auto node = tensors.extract("a.conv.weight");
  node.key() = "a.conv.kernel";
  tensors.insert(std::move(node));
  spec_.weights_order = MINUET_WEIGHTS_MINKOWSKI;
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
}

TEST_F(Weights, BelowAPrefix) {
  for (const std::string prefix : {"module.", "model.backbone."}) {
    const Tensors tensors = renamed(two_blocks(), [&](const std::string& name) { return prefix + name; });
    spec_.weights_prefix.clear();
    expect_refused(tensors, HasSubstr("10 of 10 tensors have \"" + prefix +
                                      "\" in front of their names: the option weights_prefix \"" + prefix +
                                      "\" strips it"));
    spec_.weights_prefix = prefix;
    EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
    Tensors more = tensors;
    more["optimizer.state"] = filled({1}, 1);
    expect_refused(more, HasSubstr("no layer uses 1 tensor: \"optimizer.state\""));
    spec_.weights_prefix.clear();
    expect_refused(more, HasSubstr("strips it; no layer uses 1 tensor: \"optimizer.state\""));
    spec_.weights_prefix = "modul.";
    expect_refused(tensors,
                   HasSubstr("the option weights_prefix is \"modul.\", but no tensor's name begins with it "
                             "(the first name is \"" +
                             prefix + "first.bn.bias\"): correct or omit the prefix"));
    spec_.weights_prefix = "model.";  // half of one
    if (prefix == "model.backbone.") expect_refused(tensors, HasSubstr("weights_prefix \"model.backbone.\""));
  }
}

TEST_F(Weights, ByOtherNames) {
  Tensors tensors = renamed(two_blocks(), [](const std::string& name) {
    if (name == "first.conv.weight") return std::string("net.0.0.kernel");
    if (name.rfind("first.bn.", 0) == 0) return "net.0.1.bn." + name.substr(9);
    return "net." + name;
  });
  spec_.weights_prefix = "net.";
  spec_.weights_map = R"({"0.0.kernel": "first.conv.weight", "0.1.": "nowhere.", "0.1.bn.": "first.bn."})";
  expect_refused(tensors, HasSubstr("the entry \"0.1.\" of the option weights_map applies to no tensor"));
  spec_.weights_map = R"({"0.0.kernel": "first.conv.weight", "0.1.bn.": "first.bn."})";
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
  tensors["net.first.conv.weight"] = filled({27, 2, 2}, 1);
  expect_refused(tensors,
                 HasSubstr("the option weights_map gives \"net.0.0.kernel\" and \"net.first.conv.weight\" "
                           "the same name \"first.conv.weight\""));
  for (const char* map : {"[]", "{", R"({"a": 1})", R"({"a": ""})", R"({"a.": "b"})", R"({"": "b"})"}) {
    spec_.weights_map = map;
    EXPECT_EQ(create(tensors), MINUET_INVALID_ARGUMENT) << map;
    EXPECT_THAT(last_error(), HasSubstr("the option weights_map must be a JSON object")) << map;
  }
}

TEST_F(Weights, OptionsWithoutAFile) {
  for (int option = 0; option < 4; ++option) {
    NetworkSpec spec;
    spec.description = kTwoBlocks;
    if (option == 0) spec.weights_order = MINUET_WEIGHTS_SPCONV;
    if (option == 1) spec.allow_unused = true;
    if (option == 2) spec.weights_prefix = "a.";
    if (option == 3) spec.weights_map = "{}";
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(*cpu_, spec, network), MINUET_INVALID_ARGUMENT) << option;
    EXPECT_THAT(last_error(), HasSubstr("but weights_path is null"));
  }
}

/// Every parameter, not the convolutions' alone.
TEST_F(Weights, ThatAreNotFinite) {
  Tensors whole = two_blocks();
  whole["head.weight"] = filled({1, 2, 4}, 1);
  whole["head.bias"] = filled({4}, 1);
  for (const auto& [name, tensor] : whole) {
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
      Tensors tensors = whole;
      tensors[name].values.back() = value;
      std::string place;
      for (const int64_t size : tensor.shape) place += (place.empty() ? "" : ", ") + std::to_string(size - 1);
      expect_refused(tensors, HasSubstr("tensor \"" + name + "\" is " +
                                        (std::isnan(value) ? "nan"
                                         : value > 0       ? "inf"
                                                           : "-inf") +
                                        " at [" + place + "]; every parameter must be a finite number"));
    }
  }
}

TEST_F(Weights, ThatTheDtypeCannotHold) {
  Tensors tensors = two_blocks();
  tensors["first.conv.weight"].values[4 * 5 + 2] = 1e6f;
  EXPECT_EQ(create(tensors), MINUET_OK) << last_error();
  spec_.dtype = DType::F16;
  expect_refused(tensors,
                 HasSubstr("\"first.conv.weight\" is 1000000 at [5, 1, 0] (offset, input, output), which "
                           "fp16 cannot hold; use bf16, tf32 or fp32"));
  tensors["first.conv.weight"].values[4 * 5 + 2] = std::numeric_limits<float>::max();
  spec_.dtype = DType::BF16;
  expect_refused(tensors, HasSubstr("which bf16 cannot hold; use fp32"));
}

TEST_F(Weights, ThatBatchNormMakesInfinite) {
  Tensors tensors = two_blocks();
  tensors["second.bn.weight"].values[1] = 3e38f;
  tensors["second.bn.running_var"].values[1] = 0;
  expect_refused(tensors, AllOf(HasSubstr("\"second.bn\" scales channel 1 by 9.48"),
                                HasSubstr("which float32 cannot hold: weight")));
  tensors["second.bn.weight"].values[1] = 1e30f;
  tensors["second.bn.running_mean"].values[1] = 1e30f;
  tensors["second.bn.running_var"].values[1] = 1;
  expect_refused(tensors, HasSubstr("\"second.bn\" scales channel 1"));
}

TEST_F(Weights, EveryLayerThatDoesNotCarryOverIsListed) {
  std::string layers;
  for (int i = 10; i < 20; ++i) {
    const std::string name = "a" + std::to_string(i);
    layers += (i == 10 ? "" : ",") + (R"({"op": "block", "name": ")" + name) +
              R"(", "width": 0, "kernel_size": 4, "dilation": 1})";
  }
  layers += R"(,{"op": "block", "name": "b", "width": 0, "kernel_size": 3},
               {"op": "block", "name": "c", "width": 0, "kernel_size": 6})";
  spec_.description =
      R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [)" + layers + "]}";
  spec_.weights_order = MINUET_WEIGHTS_MINKOWSKI;
  EXPECT_EQ(create({}), MINUET_INVALID_ARGUMENT);
  for (const char* words : {": a10, a11", "a17 and 2 more: MinkowskiEngine", "; c: MinkowskiEngine",
                            "; 60 tensors are missing"}) {
    EXPECT_THAT(last_error(), HasSubstr(words));
  }
  EXPECT_THAT(last_error(), Not(HasSubstr("a18,")));
  for (const char* layer : {"a10", "a18", "a19", "c"}) {
    EXPECT_THAT(last_error_detail(),
                HasSubstr(std::string("cannot be carried over: ") + layer + ": MinkowskiEngine's kernels"))
        << layer;
  }
  EXPECT_THAT(last_error_detail(), Not(HasSubstr("over: b")));
}

TEST_F(Weights, ConvertRefusesWhatCreateRefuses) {
  const auto expect_both = [&](const Tensors& tensors, DType dtype, const std::string& words) {
    const TemporaryPath from("from.safetensors"), to("to.safetensors");
    write_safetensors(from.path(), tensors);
    spec_.dtype = dtype;
    const minuet_status status = create_of(from.path());
    EXPECT_THAT(status == MINUET_OK ? "" : last_error(), HasSubstr(words));
    const minuet_network_options options = network_options(spec_);
    EXPECT_EQ(minuet_weights_convert(&options, to.path().c_str()), status);
    EXPECT_THAT(status == MINUET_OK ? "" : last_error(), HasSubstr(words));
    EXPECT_EQ(std::ifstream(to.path()).good(), status == MINUET_OK);
  };
  expect_both(two_blocks(), DType::F32, "");
  Tensors negative = two_blocks();
  negative["first.bn.running_var"].values[1] = -1;
  expect_both(negative, DType::F32, "\"first.bn.running_var\" of channel 1 is -1; it must not be negative");
  Tensors infinite = two_blocks();
  infinite["first.bn.weight"].values[0] = 3e38f;
  infinite["first.bn.running_var"].values[0] = 0;
  expect_both(infinite, DType::F32, "which float32 cannot hold: weight");
  Tensors large = two_blocks();
  large["first.conv.weight"].values[0] = 1e6f;
  expect_both(large, DType::F32, "");
  expect_both(large, DType::F16, "which fp16 cannot hold");
}

/// What create takes as it is, convert writes as it is.
TEST_F(Weights, ConvertKeepsWhatIsNotFinite) {
  Tensors tensors = two_blocks();
  tensors["first.conv.weight"].values[0] = std::numeric_limits<float>::quiet_NaN();
  tensors["second.bn.bias"].values[1] = -std::numeric_limits<float>::infinity();
  const TemporaryPath from("from.safetensors"), to("to.safetensors");
  write_safetensors(from.path(), tensors);
  EXPECT_EQ(create_of(from.path()), MINUET_INVALID_ARGUMENT);
  minuet_network_options options = network_options(spec_);
  EXPECT_EQ(minuet_weights_convert(&options, to.path().c_str()), MINUET_INVALID_ARGUMENT);
  options.allow_non_finite_parameters = 1;
  check(minuet_weights_convert(&options, to.path().c_str()));
  const std::string written = contents(to.path()), whole = contents(from.path());
  const auto data_of = [](const std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return bytes.substr(8 + length);
  };
  EXPECT_EQ(data_of(written), data_of(whole));
  options.weights_path = nullptr;
  minuet_plan* none = nullptr;
  std::string reason;
  EXPECT_EQ(minuet_plan_create_network(Machine::open("cpu", reason)->context(), &options, &none),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("allow_non_finite_parameters apply to a weights file"));
}

TEST_F(Weights, WithMetadata) {
  const TemporaryPath file("weights.safetensors");
  llvm::cantFail(write_safetensors_file(file.path(), two_blocks(), {{"format", "pt"}}));
  EXPECT_EQ(create_of(file.path()), MINUET_OK) << last_error();
  llvm::cantFail(
      write_safetensors_file(file.path(), two_blocks(), {{"format", "pt"}, {"minuet.weights_order", "tf"}}));
  EXPECT_EQ(create_of(file.path()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("minuet.weights_order: there is no weights order \"tf\""));
}

TEST_F(Weights, InFormatsOfOthers) {
  const std::pair<std::string, const char*> files[] = {
      {std::string("PK\x03\x04\x14\0\0\0", 8) + "arr_0.npy", "a zip archive, as numpy.savez"},
      {"\x93NUMPY\x01 and more", "a NumPy array"},
      {"\x89HDF\r\n\x1a\n and more", "an HDF5 file"},
      {"\x08\x07\x12\x07pytorch and more", "an ONNX model"}};
  for (const auto& [bytes, words] : files) {
    const TemporaryPath file("foreign.pth");
    std::ofstream(file.path(), std::ios::binary) << bytes;
    EXPECT_EQ(create_of(file.path()), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(),
                AllOf(HasSubstr(words), HasSubstr("not a safetensors file"), HasSubstr("save_file")));
    EXPECT_EQ(last_error().find('\n'), std::string::npos);
  }
}

/// What lies in place of a weights file where a download or a checkout did not do what it should.
TEST_F(Weights, OtherFilesInTheirPlace) {
  const std::tuple<std::string, const char*, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n", "a Git LFS pointer",
       "`git lfs pull`"},
      {R"({"metadata": {}, "weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors"}})",
       "the index of a checkpoint in parts", "m-1.safetensors, m-2.safetensors"},
      {"<!DOCTYPE html><html></html>", "a web page", "download the file itself"},
      {"\xef\xbb\xbf{\"name\": \"n\"}", "JSON text", ""},
      {"Entry not found", "text that begins 'Entry not found'", ""},
      {"<!-- saved from url --><html>", "a web page", "download the file itself"},
      {std::string("\x1f\x8b\x08\0\0\0\0\0\x02\x03", 10), "compressed by gzip", "unpack it"}};
  for (const auto& [bytes, is, advice] : files) {
    const TemporaryPath file("other.safetensors");
    std::ofstream(file.path(), std::ios::binary) << bytes;
    EXPECT_EQ(create_of(file.path()), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr(is), HasSubstr(advice), HasSubstr("not a safetensors file")));
    EXPECT_EQ(last_error().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace minuet::abi
