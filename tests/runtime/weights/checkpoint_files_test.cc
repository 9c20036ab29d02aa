// Networks from checkpoints through the C ABI: files that Python's pickler wrote (checkpoints/), and those of
// PyTorch where it is installed.
#include <sys/wait.h>

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/detection_oracle.h"
#include "tests/support/rounding.h"
#include "tests/support/torch_checkpoints.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

constexpr const char* kBlocksOfTheFiles =
    R"({"name": "n", "ndim": 3, "in_channels": 2, "channels": [2], "layers": [
    {"op": "block", "name": "first", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "second", "width": 0}]})";
const std::string kFolder = MINUET_SOURCE_DIR "/tests/runtime/weights/checkpoints/";

/// What make_checkpoints.py writes.
FileTensor tensor_of(const std::string& name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  FileTensor tensor{std::move(shape), {}};
  for (int64_t i = 0; i < count; ++i)
    tensor.values.push_back(static_cast<float>(1 + (7 * i + 3 * static_cast<int64_t>(name.size())) % 32) /
                            16);
  return tensor;
}

Tensors tensors_of_the_files() {
  Tensors tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors[name] = tensor_of(name, std::move(shape));
  };
  add("first.conv.weight", {27, 2, 2});
  add("second.conv.weight", {1, 2, 2});
  for (const std::string block : {"first", "second"}) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"})
      add(block + ".bn." + part, {2});
  }
  return tensors;
}

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
    spec_.description = kBlocksOfTheFiles;
  }

  /// What the network takes from the file, as bytes; or the error.
  std::string converted(const std::string& path) { return converted_weights(spec_, path); }
  std::string converted(const Tensors& tensors) {
    const TemporaryPath file("w.safetensors");
    write_safetensors(file.path(), tensors);
    return converted(file.path());
  }
  std::string converted(const Tensors& tensors, torch::Form form,
                        std::string (*wrap)(const std::string& dict) = nullptr) {
    const TemporaryPath file("w.pth");
    std::ofstream(file.path(), std::ios::binary) << torch::checkpoint(tensors, form, wrap);
    return converted(file.path());
  }
  std::vector<char> run(const std::string& path) {
    spec_.weights = path;
    const Plan network = make_network(*cpu_, spec_);
    const std::vector<char> features = encode(DType::F32, {1, -2, 3, 0.5f});
    return run_network(*cpu_, make_execution(*cpu_, network.get()).get(), {0, 1, 2, 3, 0, 1, 2, 4}, features,
                       DType::F32, 3, 2)
        .bytes;
  }

  Machine* cpu_ = nullptr;
  NetworkSpec spec_;
};

TEST_F(CheckpointFiles, GiveTheSameBitsAsSafetensors) {
  const TemporaryPath file("w.safetensors");
  write_safetensors(file.path(), tensors_of_the_files());
  const std::string expected = converted(file.path());
  const std::vector<char> output = run(file.path());
  for (const char* name : {"state_zip", "state_old", "state_zipfile", "state_protocol_4", "views_zip",
                           "views_old", "detector_zip", "detector_old"}) {
    SCOPED_TRACE(name);
    const std::string path = kFolder + name + ".pth";
    EXPECT_EQ(converted(path), expected);
    EXPECT_EQ(run(path), output);
  }
}

TEST_F(CheckpointFiles, OfADetector) {
  const std::string expected = converted(tensors_of_the_files());
  for (const char* name : {"detector_zip.pth", "detector_old.pth"}) {
    SCOPED_TRACE(name);
    spec_.weights_key = "model_state";
    EXPECT_EQ(converted(kFolder + name), expected);
    spec_.weights_prefix = "module.";
    EXPECT_EQ(converted(kFolder + name), expected);
    spec_.weights_prefix = "modul.";
    EXPECT_THAT(converted(kFolder + name), HasSubstr("no tensor's name begins with it"));
    spec_.weights_prefix.clear();
    spec_.weights_key = "optimizer_state";
    EXPECT_THAT(converted(kFolder + name),
                HasSubstr("its dict \"optimizer_state\" has other values than tensors: \"state\" is a dict, "
                          "\"param_groups\" is a list"));
    spec_.weights_key = "config";
    EXPECT_THAT(converted(kFolder + name),
                AllOf(HasSubstr("the option weights_key is \"config\", but \"config\" is not a dict"),
                      HasSubstr("\"best\" (the Python object numpy.core.multiarray.scalar)"),
                      HasSubstr("\"config\" (the Python object argparse.Namespace)")));
    spec_.weights_key.clear();
  }
}

TEST_F(CheckpointFiles, CompressedAreRefused) {
  EXPECT_THAT(converted(kFolder + "deflated.pth"),
              HasSubstr("is compressed, and torch.save does not compress"));
}

/// Only where all names have it: else it may be the name of a module.
TEST_F(CheckpointFiles, ThePrefixModuleOfAllNames) {
  const std::string expected = converted(tensors_of_the_files());
  Tensors module, mixed;
  for (const auto& [name, tensor] : tensors_of_the_files()) {
    module["module." + name] = tensor;
    mixed[(name == "first.conv.weight" ? "" : "module.") + name] = tensor;
  }
  for (const torch::Form form : {torch::Form::Zip, torch::Form::Old}) {
    EXPECT_EQ(converted(module, form), expected);
    EXPECT_THAT(converted(mixed, form), HasSubstr("weights_prefix \"module.\" strips it"));
  }
  spec_.weights_map = R"({"module.first.": "first.", "module.second.": "second."})";
  EXPECT_EQ(converted(module, torch::Form::Zip), expected);
  spec_.weights_map.clear();
  EXPECT_THAT(converted(module), HasSubstr("weights_prefix \"module.\" strips it"));
}

/// What does not fit is refused in the same words as in a safetensors file.
TEST_F(CheckpointFiles, WrongNamesAndShapesAreRefused) {
  Tensors misnamed = tensors_of_the_files(), misshapen = tensors_of_the_files(),
          more = tensors_of_the_files(), infinite = tensors_of_the_files();
  misnamed["first.bn.bais"] = misnamed["first.bn.bias"];
  misnamed.erase("first.bn.bias");
  misshapen["second.conv.weight"] = {{2, 2, 1}, {1, 2, 3, 4}};
  more["third.weight"] = {{1}, {1}};
  infinite["first.bn.bias"].values[1] = HUGE_VALF;
  const auto reason = [](const std::string& error) {
    return error.substr(error.find(": ", error.find("weights file")) + 2);
  };
  for (const Tensors& tensors : {misnamed, misshapen, more, infinite}) {
    const std::string expected = reason(converted(tensors));
    for (const torch::Form form : {torch::Form::Zip, torch::Form::Old})
      EXPECT_EQ(reason(converted(tensors, form)), expected);
  }
  EXPECT_THAT(converted(misnamed, torch::Form::Zip), HasSubstr("(there is \"first.bn.bais\")"));
  EXPECT_THAT(converted(misshapen, torch::Form::Zip),
              HasSubstr("has shape [2, 2, 1], but the network needs [1, 2, 2]"));
}

/// Under its authors' names, in the order of spconv, in the dict and below the prefix that OpenPCDet has.
TEST_F(CheckpointFiles, OfVoxelBackbone8x) {
  const std::vector<int32_t> widths = {8, 8, 12, 16, 20};
  oracle::Checkpoint drawn(47);
  oracle::DetectionInput input;
  input.shape = {44, 35, 41};
  input.coordinates = oracle::draw_voxels(input.shape, 1, -1, 20, 47);
  input.features = std::vector<float>(input.coordinates.size(), 1);
  oracle::voxel_backbone_8x(drawn, widths, input);
  Tensors tensors;
  for (const auto& [name, tensor] : drawn.all()) tensors["backbone_3d." + name] = tensor;
  tensors["dense_head.conv_cls.weight"] = {{2}, {1, 2}};
  spec_.description.clear();
  spec_.name = "voxel_backbone_8x";
  spec_.channels = widths;
  spec_.weights_prefix = "backbone_3d.";
  spec_.allow_unused = true;
  const std::string expected = converted(tensors);
  EXPECT_GT(expected.size(), 50000u);
  const auto in_model_state = [](const std::string& dict) {
    return torch::dict({{"epoch", torch::integer(80)}, {"model_state", dict}});
  };
  for (const torch::Form form : {torch::Form::Zip, torch::Form::Old}) {
    EXPECT_EQ(converted(tensors, form, in_model_state), expected);
    EXPECT_EQ(converted(tensors, form), expected);
  }
}

/// PyTorch 2.11 has saved these files by save_with_torch.py.
TEST_F(CheckpointFiles, OfPyTorch211) {
  const std::string expected = converted(tensors_of_the_files());
  for (const char* name : {"state", "views", "detector"}) {
    for (const char* form : {"_zip.pth", "_old.pth"})
      EXPECT_EQ(converted(kFolder + "pytorch/" + name + form), expected) << name << form;
  }
}

TEST_F(CheckpointFiles, OfPyTorchItself) {
  const TemporaryPath folder("torch");
  std::filesystem::create_directory(folder.path());
  const std::string command = "python3 -B '" + kFolder + "save_with_torch.py' '" + folder.path() + "'";
  const int status = std::system(command.c_str());
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)
    GTEST_SKIP() << "there is no torch here";
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::string expected = converted(tensors_of_the_files());
  for (const char* name : {"state", "views", "detector"}) {
    for (const char* form : {"_zip.pth", "_old.pth"})
      EXPECT_EQ(converted(folder.path() + "/" + name + form), expected) << name << form;
  }
}

}  // namespace
}  // namespace minuet::abi
