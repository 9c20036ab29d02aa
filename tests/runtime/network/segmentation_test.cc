// The shipped segmentation networks whose checkpoints have their authors' names, on every device and in every
// dtype, against an fp64 oracle in their authors' terms.
#include "tests/support/segmentation_oracle.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/torch_checkpoints.h"

namespace minuet::abi {
namespace {

using oracle::SegmentationSize;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kSeed = 4747;
constexpr int64_t kVoxels = kSanitized ? 100 : 400;
constexpr int64_t kClasses = 19;
const std::vector<int32_t> kBlocks14{1, 1, 1, 1, 1, 1, 1, 1}, kBlocks18{2, 2, 2, 2, 2, 2, 2, 2},
    kBlocks34{2, 3, 4, 6, 2, 2, 2, 2};

/// A network at its authors' size.
struct Network {
  const char* name;
  SegmentationSize size;
};
const std::vector<Network>& networks() {
  static const std::vector<Network> all = {
      {"minkunet14a", {{32, 32, 64, 128, 256, 128, 128, 96, 96}, kBlocks14}},
      {"minkunet18a", {{32, 32, 64, 128, 256, 128, 128, 96, 96}, kBlocks18}},
      {"minkunet34a", {{32, 32, 64, 128, 256, 256, 128, 64, 64}, kBlocks34}},
      {"minkunet34c", {{32, 32, 64, 128, 256, 256, 128, 96, 96}, kBlocks34}},
      {"spunet34", {{32, 32, 64, 128, 256, 256, 128, 96, 96}, kBlocks34}},
      {"softgroup_unet", {{32, 64, 96, 128, 160, 192, 224}, {}}},
  };
  return all;
}

/// The size with a few channels, so that each layer takes the path that it takes at full width.
SegmentationSize narrowed(const SegmentationSize& size) {
  std::vector<int32_t> widths = {8, 8, 8, 12, 16, 16, 12, 8, 8};
  widths.resize(size.widths.size());
  return {widths, size.blocks};
}

/// One network on one cloud: evaluated once in fp64, for every dtype and device.
struct Reference {
  Reference(const std::string& network, const SegmentationSize& given, int64_t voxels, int64_t classes)
      : name(network), size(given), file(network + ".safetensors") {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    coordinates = make_scene(voxels, kSeed);
    features = oracle::draw_features(static_cast<int64_t>(coordinates.size()), kSeed);  // 4 channels too
    oracle::Parameters parameters(kSeed);
    const bool is_minkowski = network.compare(0, 8, "minkunet") == 0;
    expected = is_minkowski ? oracle::minkunet(parameters, size, coordinates, features, classes)
               : network == "spunet34"
                   ? oracle::spunet(parameters, size, coordinates, features, classes)
                   : oracle::softgroup_unet(parameters, size.widths, coordinates, features);
    checkpoint =
        is_minkowski ? in_minkowski(parameters) : in_spconv_xyz(parameters, network == "softgroup_unet");
    write_safetensors(file.path(), checkpoint);
  }

  NetworkSpec spec(DType dtype) const { return {name, size.widths, dtype, file.path(), 0}; }

  std::string name;
  SegmentationSize size;
  std::vector<int32_t> coordinates;
  std::vector<float> features;
  oracle::NetworkOutput expected;
  Tensors checkpoint;
  TemporaryPath file;
};

const Reference& reference(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Reference>> made;
  std::unique_ptr<Reference>& one = made[name];
  if (one) return *one;
  const auto network = std::find_if(networks().begin(), networks().end(),
                                    [&](const Network& each) { return name == each.name; });
  one = std::make_unique<Reference>(name, narrowed(network->size), kVoxels, kClasses);
  return *one;
}

NetworkRun run(Machine& machine, const Reference& one, const NetworkSpec& spec) {
  const Plan network = make_network(machine, spec);
  const Execution execution = make_execution(machine, network.get());
  return in_oracle_order(network.get(), run_network(machine, execution.get(), one.coordinates,
                                                    encode(spec.dtype, one.features), spec.dtype));
}

void check_output(const NetworkRun& run, const Reference& one, DType dtype) {
  EXPECT_EQ(run.coordinates, one.expected.coordinates);
  ASSERT_EQ(run.channels, one.expected.channels);
  EXPECT_TRUE(
      is_close(decode(dtype, run.bytes), one.expected.features, run.channels, error_bound(dtype, true)));
}

class SegmentationTest : public DeviceTest {
 protected:
  void check_network(const std::string& name) {
    const Reference& one = reference(name);
    ASSERT_GT(one.expected.largest, 1e-2);
    ASSERT_LT(one.expected.largest, 6e4 / 16) << "too near to what fp16 holds";
    check_output(run(machine(), one, one.spec(dtype())), one, dtype());
  }
};

TEST_P(SegmentationTest, MinkUNet14A) { check_network("minkunet14a"); }
TEST_P(SegmentationTest, MinkUNet18A) { check_network("minkunet18a"); }
TEST_P(SegmentationTest, MinkUNet34A) { check_network("minkunet34a"); }
TEST_P(SegmentationTest, MinkUNet34C) { check_network("minkunet34c"); }
TEST_P(SegmentationTest, SpUNet34) { check_network("spunet34"); }
TEST_P(SegmentationTest, SoftGroupUNet) { check_network("softgroup_unet"); }

/// The descriptions' own widths are the authors', because their checkpoints fit.
TEST_P(SegmentationTest, AtTheAuthorsWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer; narrow networks take the same paths";
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.name);
    const Reference one(network.name, network.size, kVoxels / 8, kClasses);
    NetworkSpec spec = one.spec(dtype());
    spec.channels.clear();
    check_output(run(machine(), one, spec), one, dtype());
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(SegmentationTest);

/// Checkpoints on the CPU device, in fp32.
class SegmentationCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  void expect_same(const Reference& one, const Tensors& tensors,
                   const std::function<void(NetworkSpec&)>& change) {
    const TemporaryPath file("checkpoint.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec spec = one.spec(DType::F32);
    spec.weights = file.path();
    change(spec);
    check_output(run(*cpu_, one, spec), one, DType::F32);
  }

  void expect_refused(
      const Reference& one, const Tensors& tensors, const std::string& words,
      const std::function<void(NetworkSpec&)>& change = [](NetworkSpec&) {}) {
    const TemporaryPath file("checkpoint.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec spec = one.spec(DType::F32);
    spec.weights = file.path();
    change(spec);
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(*cpu_, spec, network), MINUET_INVALID_ARGUMENT) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  }

  Machine* cpu_ = nullptr;
};

/// Pointcept's trainer stores a segmentor that was wrapped for several GPUs.
TEST_F(SegmentationCheckpoint, OfPointceptsTrainer) {
  const Reference& one = reference("spunet34");
  Tensors tensors;
  for (const auto& [name, tensor] : one.checkpoint) tensors["module.backbone." + name] = tensor;
  expect_same(one, tensors, [](NetworkSpec& spec) { spec.weights_prefix = "module.backbone."; });
}

TEST_F(SegmentationCheckpoint, OfPyTorch) {
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.name);
    const Reference& one = reference(network.name);
    expect_torch_checkpoints(one.spec(DType::F32), one.checkpoint);
  }
}

/// Minuet's own names are taken too, as a converted file has them.
TEST_F(SegmentationCheckpoint, ConvertedFilesAreRead) {
  for (const Network& network : networks()) {
    SCOPED_TRACE(network.name);
    const Reference& one = reference(network.name);
    const TemporaryPath converted("converted.safetensors");
    NetworkSpec spec = one.spec(DType::F32);
    const minuet_network_options options = network_options(spec);
    ASSERT_EQ(minuet_weights_convert(&options, converted.path().c_str()), MINUET_OK) << last_error();
    spec.weights = converted.path();
    check_output(run(*cpu_, one, spec), one, DType::F32);
  }
}

/// A whole SoftGroup has other modules beside its backbone.
TEST_F(SegmentationCheckpoint, OfSoftGroup) {
  const Reference& one = reference("softgroup_unet");
  Tensors tensors = one.checkpoint;
  tensors["semantic_linear.0.weight"] = {{2, 2}, {1, 2, 3, 4}};
  tensors["unet.conv.0.num_batches_tracked"] = {{1}, {3}};
  expect_same(one, tensors, [](NetworkSpec& spec) { spec.allow_unused = true; });
  expect_refused(one, tensors, "no layer uses 1 tensor: \"semantic_linear.0.weight\"");
}

TEST_F(SegmentationCheckpoint, WrongNamesShapesAndOrdersAreRefused) {
  const Reference& spunet = reference("spunet34");
  Tensors tensors = spunet.checkpoint;
  tensors["dec.3.block0.projection.0.weight"] =
      std::move(tensors.extract("dec.3.block0.proj.0.weight").mapped());
  expect_refused(spunet, tensors, "missing: \"dec.3.block0.proj.0.weight\"");
  expect_refused(spunet, spunet.checkpoint, "but the network needs [5, 5, 5, 4, 8]",
                 [](NetworkSpec& spec) { spec.weights_order = MINUET_WEIGHTS_SPCONV1_XYZ; });
  const Reference& minkunet = reference("minkunet34c");
  tensors = minkunet.checkpoint;
  tensors.erase("block4.5.norm2.bn.running_var");
  expect_refused(minkunet, tensors, "1 tensor is missing: \"block4.5.norm2.bn.running_var\"");
  tensors = minkunet.checkpoint;
  tensors["convtr7p2s2.kernel"].shape = {8, 8, 12};
  expect_refused(minkunet, tensors, "\"convtr7p2s2.kernel\"");
  // A checkpoint of another member of the family does not fit.
  expect_refused(reference("minkunet18a"), minkunet.checkpoint, "no layer uses");
  expect_refused(minkunet, reference("minkunet18a").checkpoint, "missing");
}

/// The comparison sees the epsilon and the order of offsets.
TEST_F(SegmentationCheckpoint, WrongDetailsShow) {
  const Reference& spunet = reference("spunet34");
  NetworkSpec spec = spunet.spec(DType::F32);
  const auto differs = [&](const Reference& one) {
    const NetworkRun wrong = run(*cpu_, one, spec);
    return !is_close(decode(DType::F32, wrong.bytes), one.expected.features, wrong.channels,
                     error_bound(DType::F32, true));
  };
  const Plan network = make_network(*cpu_, spec);
  spec.description = description_of(network.get());
  const std::string epsilon = "0.001";
  ASSERT_NE(spec.description.find(epsilon), std::string::npos) << spec.description;
  for (size_t at = 0; (at = spec.description.find(epsilon, at)) != std::string::npos; ++at)
    spec.description.replace(at, epsilon.size(), "1e-05");
  EXPECT_TRUE(differs(spunet)) << "epsilon";
  spec = spunet.spec(DType::F32);
  spec.weights_order = MINUET_WEIGHTS_SPCONV;
  EXPECT_TRUE(differs(spunet)) << "order of axes";
  spec = spunet.spec(DType::F32);
  spec.weights_order = MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR;
  EXPECT_TRUE(differs(spunet)) << "weights of kernels of one offset";
}

}  // namespace
}  // namespace minuet::abi
