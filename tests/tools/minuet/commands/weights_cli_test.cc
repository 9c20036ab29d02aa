// Flags about weights files, and another engine's weights converted once and for all.
#include <gmock/gmock.h>

#include "codegen/base/sha256.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/tools/folder.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Tensors = std::map<std::string, FileTensor>;

FileTensor drawn(std::vector<int64_t> shape) {
  FileTensor tensor{std::move(shape), {}};
  size_t count = 1;
  for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
  for (size_t i = 0; i < count; ++i) tensor.values.push_back(0.125f + static_cast<float>(i * 37 % 101) / 64);
  return tensor;
}

/// One block and a head, as spconv and a linear layer would have them.
Tensors of_spconv() {
  Tensors tensors{{"module.conv1.weight", drawn({6, 3, 3, 3, 4})},
                  {"module.out.weight", drawn({5, 6})},
                  {"module.out.bias", drawn({5})}};
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    tensors["module.bn1." + std::string(part)] = drawn({6});
  return tensors;
}

class WeightsCli : public testing::Test {
 protected:
  std::string file(const std::string& name, const Tensors& tensors) {
    llvm::cantFail(write_safetensors_file(folder_.path(name), tensors));
    return folder_.path(name);
  }
  Finished run(const std::vector<std::string>& more) const {
    return minuet(
        {"run", "--device", "cpu", "--synthetic", "object", "--points", "300", "--network", network_}, more);
  }
  void expect_refused(const Finished& finished, const testing::Matcher<std::string>& words) {
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, words);
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
  }

  const Folder folder_;
  const std::string network_ =
      folder_.file("net.json", R"({"name": "net", "ndim": 3, "in_channels": 4, "channels": [6], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3}, {"op": "head", "name": "head"}]})");
  const std::string names_ =
      folder_.file("names.json", R"({"conv1.": "a.conv.", "bn1.": "a.bn.", "out.": "head."})");
};

TEST_F(WeightsCli, ConvertedIsAsReadEachTime) {
  const std::string theirs = file("theirs.safetensors", of_spconv()), ours = folder_.path("ours.safetensors");
  const Finished each =
      run({"--weights", theirs, "--weights-order", "spconv", "--weights-prefix", "module.", "--weights-map",
           names_, "--output", folder_.path("each.npy"), "--json", folder_.path("each.json")});
  ASSERT_EQ(each.code, 0) << each.err;
  EXPECT_EQ(
      *json_in(folder_.path("each.json")).getObject("weights"),
      (llvm::json::Object{{"file", theirs}, {"sha256", sha256_hex(contents(theirs))}, {"order", "spconv"}}));
  const Finished converted = minuet({"weights", "convert", theirs, ours, "--from", "spconv", "--map", names_,
                                     "--weights-prefix", "module.", "--network", network_});
  ASSERT_EQ(converted.code, 0) << converted.err;
  EXPECT_EQ(converted.out, ours + "\n");
  const Finished once = run({"--weights", ours, "--output", folder_.path("once.npy")});
  ASSERT_EQ(once.code, 0) << once.err;
  EXPECT_GT(contents(folder_.path("each.npy")).size(), 1000u);
  EXPECT_EQ(contents(folder_.path("once.npy")), contents(folder_.path("each.npy")));
  const Finished mirrored = run({"--weights", theirs, "--weights-order", "spconv-xyz", "--weights-prefix",
                                 "module.", "--weights-map", names_, "--output", folder_.path("xyz.npy")});
  ASSERT_EQ(mirrored.code, 0) << mirrored.err;
  EXPECT_NE(contents(folder_.path("xyz.npy")), contents(folder_.path("each.npy")));
}

/// What the library calls an option is a flag here.
TEST_F(WeightsCli, MistakesNameFlags) {
  const std::string theirs = file("theirs.safetensors", of_spconv()), ours = folder_.path("ours.safetensors");
  const auto no_fields =
      AllOf(Not(HasSubstr("the option")), Not(HasSubstr("weights_")), Not(HasSubstr("allow_")));
  const auto convert = [&](const std::string& in, const std::string& out,
                           const std::vector<std::string>& more) {
    return minuet({"weights", "convert", in, out, "--network", network_}, more);
  };
  Tensors more = of_spconv();
  more["optimizer.step"] = drawn({1});
  const std::string larger = file("larger.safetensors", more);
  expect_refused(convert(larger, ours, {"--from", "spconv", "--map", names_, "--weights-prefix", "module."}),
                 AllOf(HasSubstr("\"optimizer.step\"; --allow-unused ignores it"), no_fields));
  EXPECT_EQ(convert(larger, ours,
                    {"--from", "spconv", "--map", names_, "--weights-prefix", "module.", "--allow-unused"})
                .code,
            0);
  Tensors below;
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    below["model.a.bn." + std::string(part)] = drawn({6});
  expect_refused(run({"--weights", file("below.safetensors", below)}),
                 AllOf(HasSubstr("--weights-prefix \"model.\" strips it"), no_fields));
  expect_refused(run({"--weights", theirs, "--weights-map", network_}),
                 AllOf(HasSubstr("--weights-map must be a JSON object"), no_fields));
  expect_refused(run({"--weights", theirs, "--weights-map", folder_.path("none")}), HasSubstr("none"));
  expect_refused(run({"--weights", theirs, "--weights-order", "tf"}),
                 HasSubstr("'tf' is not one of minuet, minkowski"));
  for (const char* flag : {"--weights-order", "--weights-prefix", "--weights-map"})
    expect_refused(run({flag, "spconv"}), HasSubstr("need --weights"));
  expect_refused(run({"--allow-unused"}), HasSubstr("need --weights"));
  expect_refused(
      convert(theirs, theirs, {"--from", "spconv", "--map", names_, "--weights-prefix", "module."}),
      HasSubstr("would overwrite IN"));
  expect_refused(convert(theirs, ours, {}), HasSubstr("--from"));
  expect_refused(convert(folder_.file("w.pth", "\x80\x02}q\x01(X"), ours, {"--from", "spconv"}),
                 HasSubstr("its pickle cannot be read"));
  expect_refused(minuet({"weights"}), HasSubstr("subcommand"));
}

TEST_F(WeightsCli, PrecompileChecksThemTooAndBeforeItCompiles) {
  const auto precompile = [&](const std::vector<std::string>& more) {
    return minuet({"precompile", "--cache", folder_.path("cache")}, more);
  };
  const std::string theirs = file("theirs.safetensors", of_spconv());
  expect_refused(precompile({"--network", network_, "--weights", theirs}), HasSubstr("tensors are missing"));
  expect_refused(precompile({"--network", network_ + ",minkunet42", "--weights", theirs}),
                 HasSubstr("--weights belongs to one network, but --network names 2"));
  expect_refused(precompile({"--weights-order", "spconv"}), HasSubstr("need --weights"));
  expect_refused(precompile({"--from", network_, "--weights", theirs}), HasSubstr("--from excludes"));
}

/// Weights of zero make a point's logits the biases of the head.
TEST_F(WeightsCli, TheFirstOfEqualLogitsIsTheLabel) {
  const struct {
    std::vector<float> logits;
    int32_t label;
  } cases[] = {{{0, 0, 0, 0, 0}, 0}, {{-3, -3, -3, -3, -3}, 0},     {{1, 0, 0, 0, 1}, 0},
               {{0, 2, 0, 2, 2}, 1}, {{-1, -2, -2, -0.5, -0.5}, 3}, {{0, -0.0f, 0, 0, 0}, 0},
               {{0, 1, 2, 3, 4}, 4}};
  for (const auto& [logits, label] : cases) {
    SCOPED_TRACE(testing::PrintToString(logits));
    Tensors tensors = of_spconv();
    std::fill(tensors["module.out.weight"].values.begin(), tensors["module.out.weight"].values.end(), 0.0f);
    tensors["module.out.bias"].values = logits;
    const Finished finished =
        run({"--weights", file("w.safetensors", tensors), "--weights-order", "spconv", "--weights-prefix",
             "module.", "--weights-map", names_, "--labels", "--output", folder_.path("labels.npy")});
    ASSERT_EQ(finished.code, 0) << finished.err;
    const std::string bytes = contents(folder_.path("labels.npy"));
    llvm::Expected<NpyArray> labels = parse_npy(bytes);
    ASSERT_TRUE(!!labels) << llvm::toString(labels.takeError());
    ASSERT_EQ(labels->shape.size(), 1u);
    ASSERT_GT(labels->shape[0], 10);
    for (int64_t row = 0; row < labels->shape[0]; ++row)
      ASSERT_EQ(decode_integer(labels->type, labels->data.data() + 4 * row, false), label) << row;
  }
}

}  // namespace
}  // namespace minuet::tool
