// The shipped detection networks, from coordinates to the bird's-eye tensor, on every device and in every
// dtype, against an fp64 oracle in their authors' terms; and checkpoints under the authors' names.
#include <gmock/gmock.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <set>

#include "tests/support/compare.h"
#include "tests/support/detection_oracle.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"
#include "tests/support/row_order.h"
#include "tests/support/torch_checkpoints.h"

namespace minuet::abi {
namespace {

using oracle::Checkpoint;
using oracle::DetectionInput;
using oracle::DetectionLevel;
using oracle::DetectionOutput;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kSeed = 4646;
/// Sides that the strides of 8 do not divide; along z the shapes are 41, 21, 11, 5, 2 as at KITTI's setting.
constexpr oracle::Triple kShape{44, 35, 41};
/// Items 0 and 2 have voxels, 1 and 3 are empty.
constexpr int64_t kBatch = 4, kVoxels = kSanitized ? 60 : 300;
const std::vector<int32_t> kNarrow = {8, 8, 12, 16, 20};

std::string shipped_description(const std::string& name) {
  for (int32_t i = 0;; ++i) {
    minuet_shipped_network_info info{};
    info.struct_size = sizeof(info);
    check(minuet_query_shipped_network(i, &info));
    if (name == info.name) return info.description;
  }
}

/// The description with every level that has a name among its outputs.
std::string with_levels(const std::string& name, const std::vector<std::string>& levels) {
  std::string text = shipped_description(name), list;
  for (const std::string& level : levels) list += "\"" + level + "\", ";
  const std::string one = "[\"bev\"]";
  return text.replace(text.find(one), one.size(), "[" + list + "\"bev\"]");
}

/// One network on one batch: evaluated once in fp64, for every dtype and device.
struct Reference {
  Reference(const std::string& network, const std::vector<int32_t>& widths, int64_t voxels)
      : name(network), channels(widths), checkpoint(kSeed), file(network + ".safetensors") {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    input.shape = kShape;
    input.batch_size = kBatch;
    input.coordinates = oracle::draw_voxels(kShape, 3, 1, voxels, kSeed);
    input.channels = network == "bevfusion_encoder" ? 5 : 4;
    input.features =
        oracle::draw_features(static_cast<int64_t>(input.coordinates.size()) / 4 * input.channels, kSeed);
    expected = network == "voxel_backbone_8x"       ? oracle::voxel_backbone_8x(checkpoint, widths, input)
               : network == "voxel_res_backbone_8x" ? oracle::voxel_res_backbone_8x(checkpoint, widths, input)
                                                    : oracle::bevfusion_encoder(checkpoint, widths, input);
    for (const auto& [level, unused] : expected.levels) levels.push_back(level);
    write_safetensors(file.path(), checkpoint.all());
  }

  NetworkSpec spec(DType dtype) const {
    NetworkSpec spec{name, channels, dtype, file.path(), 0};
    spec.description = with_levels(name, levels);
    spec.shape = {kShape[0], kShape[1], kShape[2]};
    return spec;
  }

  std::string name;
  std::vector<int32_t> channels;
  DetectionInput input;
  Checkpoint checkpoint;
  DetectionOutput expected;
  std::vector<std::string> levels;  // in the order of the outputs before the bird's-eye tensor
  TemporaryPath file;
};

const Reference& reference(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Reference>> made;
  std::unique_ptr<Reference>& one = made[name];
  if (!one) one = std::make_unique<Reference>(name, kNarrow, kVoxels);
  return *one;
}

/// The authors' widths.
const Reference& full_reference(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Reference>> made;
  std::unique_ptr<Reference>& one = made[name];
  const int32_t fourth = name == "voxel_backbone_8x" ? 64 : 128;
  const std::vector<int32_t> widths = {16, 32, 64, fourth, 128};
  if (!one) one = std::make_unique<Reference>(name, widths, kVoxels / 6);
  return *one;
}

struct Result {
  minuet_tensor_info info;
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::vector<int32_t> coordinates;  // empty where it is dense
};

minuet_array array_for(const Buffer& memory, const std::vector<int64_t>& shape, DType dtype) {
  const minuet_element element = dtype == DType::F16    ? MINUET_ELEMENT_F16
                                 : dtype == DType::BF16 ? MINUET_ELEMENT_BF16
                                                        : MINUET_ELEMENT_F32;
  return array_of(memory.data(), shape, element);
}

/// All outputs for the reference's batch. Their buffers are poisoned first.
std::vector<Result> run(Machine& machine, minuet_plan* network, const DetectionInput& input, DType dtype) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.batch_size = input.batch_size;
  const Execution execution = make_execution(machine, network, &options);
  check(prepare(machine, execution.get(), input.coordinates));
  const auto rows_in = static_cast<int64_t>(input.coordinates.size()) / 4;
  const Buffer features(machine, encode(dtype, input.features));
  std::vector<Result> results(static_cast<size_t>(info_of(network).outputs));
  std::deque<Buffer> memory;
  std::vector<minuet_array> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    Result& result = results[i];
    result.info = output_of(network, number);
    result.shape.assign(result.info.shape, result.info.shape + result.info.rank);
    if (result.info.rank == 2) {
      int32_t channels = 0;
      check(minuet_execution_output_shape_of(execution.get(), number, &result.shape[0], &channels));
      EXPECT_EQ(result.shape[1], channels);
    } else {
      EXPECT_EQ(result.shape[0], -1);
      result.shape[0] = input.batch_size;
    }
    int64_t elements = 1;
    for (const int64_t extent : result.shape) elements *= extent;
    Buffer& buffer = memory.emplace_back(machine, elements * dtype_bytes(dtype));
    buffer.poison();
    outputs.push_back(array_for(buffer, result.shape, dtype));
  }
  check(run_arrays(execution.get(), {array_for(features, {rows_in, input.channels}, dtype)}, outputs));
  for (size_t i = 0; i < results.size(); ++i) {
    Result& result = results[i];
    result.values = decode(dtype, memory[i].read<char>());
    if (result.info.rank > 2) continue;
    const Buffer where(machine, result.shape[0] * 16);
    check(minuet_execution_output_coordinates_of(execution.get(), static_cast<int32_t>(i),
                                                 static_cast<int32_t*>(where.data()), nullptr));
    result.coordinates = where.read<int32_t>();
  }
  return results;
}

void check_level(const Result& result, const DetectionLevel& expected, DType dtype) {
  for (size_t axis = 0; axis < 3; ++axis)
    EXPECT_EQ(result.info.tensor_stride[axis], expected.tensor_stride[axis]) << axis;
  ASSERT_EQ(result.shape[1], expected.channels);
  std::vector<int32_t> coordinates = result.coordinates;
  std::vector<float> values = result.values;
  if (result.info.level != 0) {
    const std::vector<int32_t> rows = ascending_rows(coordinates, 3);
    coordinates = take_rows(coordinates, rows);
    values = take_rows(values, rows);
  }
  ASSERT_EQ(coordinates, expected.coordinates);
  EXPECT_TRUE(is_close(values, expected.features, expected.channels, error_bound(dtype, true)));
}

/// Within the bound, and exactly 0 where the level has no voxel.
void check_bev(const Result& result, const Reference& reference, DType dtype) {
  const DetectionOutput& expected = reference.expected;
  ASSERT_EQ(result.shape, std::vector<int64_t>(expected.bev_shape.begin(), expected.bev_shape.end()));
  const int64_t width = expected.bev_shape[3];
  EXPECT_TRUE(is_close(result.values, expected.bev, width, error_bound(dtype, true)));
  const bool is_yx = reference.name != "bevfusion_encoder";
  const DetectionLevel& encoded = expected.levels.at("encoded");
  std::set<std::array<int64_t, 4>> cells;  // batch, z, image axes
  for (size_t i = 0; i < encoded.coordinates.size(); i += 4) {
    std::array<int64_t, 3> at{};
    for (size_t a = 0; a < 3; ++a) at[a] = encoded.coordinates[i + 1 + a] / encoded.tensor_stride[a];
    cells.insert({encoded.coordinates[i], at[2], at[is_yx ? 1 : 0], at[is_yx ? 0 : 1]});
  }
  const int64_t depth = encoded.shape[2], height = expected.bev_shape[2], channels = expected.bev_shape[1];
  for (size_t i = 0; i < result.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t channel = at / width / height % channels;
    const std::array<int64_t, 4> cell{at / width / height / channels, channel % depth, at / width % height,
                                      at % width};
    if (cells.count(cell) == 0) {
      ASSERT_EQ(result.values[i], 0.0f) << "element " << i;
    }
  }
}

class DetectionTest : public DeviceTest {
 protected:
  /// `as_described`: the widths are those of the description.
  void check_network(const Reference& one, bool as_described = false) {
    ASSERT_GT(one.expected.largest, 1e-2);
    ASSERT_LT(one.expected.largest, 6e4 / 16) << "too near to what fp16 holds";
    NetworkSpec spec = one.spec(dtype());
    if (as_described) spec.channels.clear();
    const Plan network = make_network(machine(), spec);
    const std::vector<Result> results = run(machine(), network.get(), one.input, dtype());
    ASSERT_EQ(results.size(), one.levels.size() + 1);
    for (size_t i = 0; i < one.levels.size(); ++i) {
      SCOPED_TRACE(one.levels[i]);
      EXPECT_EQ(results[i].info.name, one.levels[i]);
      check_level(results[i], one.expected.levels.at(one.levels[i]), dtype());
    }
    check_bev(results.back(), one, dtype());
  }
};

TEST_P(DetectionTest, VoxelBackBone8x) { check_network(reference("voxel_backbone_8x")); }
TEST_P(DetectionTest, VoxelResBackBone8x) { check_network(reference("voxel_res_backbone_8x")); }
TEST_P(DetectionTest, BevFusionEncoder) { check_network(reference("bevfusion_encoder")); }

TEST_P(DetectionTest, AtTheAuthorsWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  for (const char* name : {"voxel_backbone_8x", "voxel_res_backbone_8x", "bevfusion_encoder"}) {
    SCOPED_TRACE(name);
    check_network(full_reference(name), /*as_described=*/true);
  }
}

/// By its name alone, a network ends in the bird's-eye tensor, and gives the same bits as with its levels.
TEST_P(DetectionTest, TheNameAloneGivesTheBirdsEyeTensor) {
  const Reference& one = reference("voxel_backbone_8x");
  NetworkSpec spec = one.spec(dtype());
  const Plan with_all = make_network(machine(), spec);
  spec.description.clear();
  const Plan network = make_network(machine(), spec);
  EXPECT_EQ(info_of(network.get()).outputs, 1);
  const std::vector<Result> results = run(machine(), network.get(), one.input, dtype());
  EXPECT_EQ(results[0].values, run(machine(), with_all.get(), one.input, dtype()).back().values);
}

/// An empty cloud gives zeros, and one voxel at the far corner is inside.
TEST_P(DetectionTest, CloudsOfNoVoxelAndOfOne) {
  const Reference& one = reference("voxel_backbone_8x");
  const Plan network = make_network(machine(), one.spec(dtype()));
  DetectionInput input = one.input;
  input.coordinates.clear(), input.features.clear();
  const Result none = run(machine(), network.get(), input, dtype()).back();
  EXPECT_EQ(none.values, std::vector<float>(none.values.size(), 0.0f));
  input.coordinates = {3, kShape[0] - 1, kShape[1] - 1, kShape[2] - 1};
  input.features = {1, 2, 3, 4};
  Checkpoint checkpoint = one.checkpoint;
  const DetectionOutput expected = oracle::voxel_backbone_8x(checkpoint, kNarrow, input);
  const Result result = run(machine(), network.get(), input, dtype()).back();
  EXPECT_TRUE(is_close(result.values, expected.bev, expected.bev_shape[3], error_bound(dtype(), true)));
}

/// In capacity mode, only the device knows the numbers of voxels.
TEST_P(DetectionTest, InCapacityMode) {
  const Reference& one = reference("voxel_res_backbone_8x");
  NetworkSpec spec = one.spec(dtype());
  spec.description.clear();
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.batch_size = kBatch;
  const Execution exact = make_execution(machine(), network.get(), &options);
  check(prepare(machine(), exact.get(), one.input.coordinates));
  std::vector<int64_t> capacities(static_cast<size_t>(info_of(network.get()).levels));
  options.level_count = static_cast<int32_t>(capacities.size());
  check(minuet_execution_suggest_capacities(exact.get(), 1.25, capacities.data(), options.level_count));
  options.level_capacity = capacities.data();
  const Execution execution = make_execution(machine(), network.get(), &options);
  std::vector<int32_t> padded = one.input.coordinates;
  const auto rows = static_cast<int32_t>(padded.size() / 4);
  padded.resize(static_cast<size_t>(capacities[0]) * 4, 77);
  std::vector<float> features = one.input.features;
  features.resize(static_cast<size_t>(capacities[0]) * 4, 77);
  const Buffer coordinates(machine(), padded), count(machine(), std::vector<int32_t>{rows});
  const Buffer input(machine(), encode(dtype(), features));
  check(
      minuet_execution_prepare_on_device(execution.get(), coordinates.integers(), count.integers(), nullptr));
  const DetectionOutput& expected = one.expected;
  const std::vector<int64_t> shape(expected.bev_shape.begin(), expected.bev_shape.end());
  Buffer bev(machine(), static_cast<int64_t>(expected.bev.size()) * dtype_bytes(dtype()));
  bev.poison();
  check(run_arrays(execution.get(), {array_for(input, {capacities[0], 4}, dtype())},
                   {array_for(bev, shape, dtype())}));
  uint32_t status = 1;
  check(minuet_execution_read_cloud(execution.get(), &status, nullptr, 0, nullptr));
  EXPECT_EQ(status, 0u);
  EXPECT_TRUE(is_close(decode(dtype(), bev.read<char>()), expected.bev, expected.bev_shape[3],
                       error_bound(dtype(), true)));
}

MINUET_INSTANTIATE_DEVICE_TEST(DetectionTest);

/// Checkpoints on the CPU device, in fp32.
class DetectionCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  NetworkSpec spec(const Reference& one, const std::string& path) {
    NetworkSpec spec = one.spec(DType::F32);
    spec.weights = path;
    return spec;
  }

  void expect_same(
      const Reference& one, const Tensors& tensors,
      const std::function<void(NetworkSpec&)>& change = [](NetworkSpec&) {}) {
    const TemporaryPath file("checkpoint.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec changed = spec(one, file.path());
    change(changed);
    const Plan network = make_network(*cpu_, changed);
    check_bev(run(*cpu_, network.get(), one.input, DType::F32).back(), one, DType::F32);
  }

  void expect_refused(
      const Reference& one, const Tensors& tensors, const std::string& words,
      const std::function<void(NetworkSpec&)>& change = [](NetworkSpec&) {}) {
    const TemporaryPath file("checkpoint.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec changed = spec(one, file.path());
    change(changed);
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(*cpu_, changed, network), MINUET_INVALID_ARGUMENT) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  }

  Machine* cpu_ = nullptr;
};

Tensors with_prefix(const Tensors& tensors, const std::string& prefix) {
  Tensors all;
  for (const auto& [name, tensor] : tensors) all[prefix + name] = tensor;
  return all;
}

TEST_F(DetectionCheckpoint, OfSpconv1) {
  for (const char* name : {"voxel_backbone_8x", "voxel_res_backbone_8x", "bevfusion_encoder"}) {
    SCOPED_TRACE(name);
    expect_same(reference(name), reference(name).checkpoint.in_spconv1());
  }
}

TEST_F(DetectionCheckpoint, OfPyTorch) {
  for (const char* name : {"voxel_backbone_8x", "voxel_res_backbone_8x", "bevfusion_encoder"})
    expect_torch_checkpoints(reference(name).spec(DType::F32), reference(name).checkpoint.all());
}

/// SpMiddleResNetFHD has other names for the same layers.
TEST_F(DetectionCheckpoint, OfCenterPoint) {
  const Reference& one = reference("voxel_res_backbone_8x");
  Checkpoint drawn(kSeed + 1);
  Reference theirs(one.name, kNarrow, 40);
  theirs.expected = oracle::voxel_res_backbone_8x(drawn, kNarrow, theirs.input, /*is_centerpoint=*/true);
  EXPECT_EQ(drawn.all().count("extra_conv.0.weight"), 1u);
  EXPECT_EQ(drawn.all().count("conv2.3.conv1.bias"), 1u);
  expect_same(theirs, drawn.all());
}

/// A whole detector has its backbone under a prefix, beside other modules, and counters of batches.
TEST_F(DetectionCheckpoint, OfAWholeDetector) {
  const Reference& one = reference("voxel_backbone_8x");
  Tensors tensors = with_prefix(one.checkpoint.all(), "backbone_3d.");
  tensors["backbone_3d.conv1.0.1.num_batches_tracked"] = {{1}, {7}};
  tensors["dense_head.conv_cls.weight"] = {{2}, {1, 2}};
  expect_same(one, tensors, [](NetworkSpec& spec) {
    spec.weights_prefix = "backbone_3d.";
    spec.allow_unused = true;
  });
  expect_refused(one, tensors, "the option weights_prefix \"backbone_3d.\" strips it");
}

TEST_F(DetectionCheckpoint, UnderMinuetsNames) {
  const Reference& one = reference("voxel_backbone_8x");
  const TemporaryPath theirs("theirs.safetensors"), ours("ours.safetensors");
  write_safetensors(theirs.path(), one.checkpoint.all());
  const NetworkSpec from = spec(one, theirs.path());
  const minuet_network_options options = network_options(from);
  ASSERT_EQ(minuet_weights_convert(&options, ours.path().c_str()), MINUET_OK) << last_error();
  const Plan network = make_network(*cpu_, spec(one, ours.path()));
  check_bev(run(*cpu_, network.get(), one.input, DType::F32).back(), one, DType::F32);
}

TEST_F(DetectionCheckpoint, AMapOfTheUserReplacesTheShippedOne) {
  const Reference& one = reference("voxel_backbone_8x");
  expect_refused(one, one.checkpoint.all(), "missing: \"conv_input.conv.weight\"",
                 [](NetworkSpec& spec) { spec.weights_map = R"({"conv_out.0.": "conv_out.conv."})"; });
}

TEST_F(DetectionCheckpoint, WrongNamesShapesAndOrdersAreRefused) {
  const Reference& one = reference("voxel_backbone_8x");
  const Tensors good = one.checkpoint.all();
  Tensors tensors = good;
  tensors.erase("conv3.1.0.weight");
  expect_refused(one, tensors, "1 tensor is missing: \"conv3.1.0.weight\"");
  tensors = good;
  tensors["conv3.1.0.weigth"] = std::move(tensors.extract("conv3.1.0.weight").mapped());
  expect_refused(one, tensors, "missing: \"conv3.1.0.weight\" (there is \"conv3.1.0.weigth\")");
  tensors = good;
  tensors["conv5.0.0.weight"] = good.at("conv4.1.0.weight");
  expect_refused(one, tensors, "no layer uses 1 tensor: \"conv5.0.0.weight\"");
  tensors = good;
  tensors["conv2.1.1.running_mean"] = {{3}, {1, 2, 3}};
  expect_refused(one, tensors, "\"conv2.1.1.running_mean\" has shape [3], but the network needs [8]");
  tensors = good;
  FileTensor& weight = tensors["conv_out.0.weight"];
  weight.shape = {weight.shape[0], weight.shape[3], weight.shape[2], weight.shape[1], weight.shape[4]};
  expect_refused(one, tensors, "\"conv_out.0.weight\" has shape [20, 1, 1, 3, 16]");
  // The last layer's kernel tells the order of the axes.
  expect_refused(one, good, "\"conv_out.0.weight\" has shape [20, 3, 1, 1, 16]",
                 [](NetworkSpec& spec) { spec.weights_order = MINUET_WEIGHTS_SPCONV_XYZ; });
  expect_refused(one, good, "but the network needs [3, 3, 3, 4, 8]",
                 [](NetworkSpec& spec) { spec.weights_order = MINUET_WEIGHTS_SPCONV1; });
  expect_refused(one, good, "describe the layer with the rule \"cells\"",
                 [](NetworkSpec& spec) { spec.weights_order = MINUET_WEIGHTS_MINKOWSKI; });
  tensors = good;
  tensors["conv4.1.0.weight"] = one.checkpoint.in_spconv1().at("conv4.1.0.weight");
  expect_refused(one, tensors, "one version must have stored all of them");
  // The residual blocks of OpenPCDet's USE_BIAS: False have no bias.
  const Reference& residual = reference("voxel_res_backbone_8x");
  tensors = residual.checkpoint.all();
  for (auto entry = tensors.begin(); entry != tensors.end();) {
    const bool is_bias = entry->first.find(".conv1.bias") != std::string::npos ||
                         entry->first.find(".conv2.bias") != std::string::npos;
    entry = is_bias ? tensors.erase(entry) : std::next(entry);
  }
  expect_refused(residual, tensors, "set \"bias\": false in layer \"conv1.0\"");
}

/// The comparison sees details of the layers: another epsilon, another padding.
TEST_F(DetectionCheckpoint, WrongDetailsOfADescriptionShow) {
  const auto changed = [](const Reference& one, const std::string& from, const std::string& to) {
    std::string text = shipped_description(one.name);
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const char* name : {"voxel_backbone_8x", "bevfusion_encoder"}) {
    const Reference& one = reference(name);
    NetworkSpec spec = this->spec(one, one.file.path());
    spec.description = changed(one, "1e-3", "1e-5");
    Plan network = make_network(*cpu_, spec);
    const auto is_right = [&] {
      const Result bev = run(*cpu_, network.get(), one.input, DType::F32).back();
      return bool(
          is_close(bev.values, one.expected.bev, one.expected.bev_shape[3], error_bound(DType::F32, true)));
    };
    EXPECT_FALSE(is_right()) << "epsilon";
    // The padding along z moves the voxels of the last levels, whose shape stays.
    spec.description = changed(one, "[1, 1, 0]", "[1, 1, 1]");
    network = make_network(*cpu_, spec);
    EXPECT_FALSE(is_right()) << "padding";
    spec.description = shipped_description(one.name);
    network = make_network(*cpu_, spec);
    EXPECT_TRUE(is_right());
  }
}

/// A plan as bytes has its shape, widths and values.
TEST_F(DetectionCheckpoint, APlanAsBytes) {
  const Reference& one = reference("voxel_backbone_8x");
  const Plan network = make_network(*cpu_, one.spec(DType::F32));
  size_t size = 0;
  ASSERT_EQ(minuet_plan_serialize(network.get(), nullptr, 0, 0, nullptr, 0, &size), MINUET_OK);
  std::vector<char> bytes(size);
  check(minuet_plan_serialize(network.get(), nullptr, 0, 0, bytes.data(), size, &size));
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(cpu_->context(), bytes.data(), size, &made));
  const Plan again(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, cpu_->arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, cpu_->device()));
  EXPECT_EQ(run(*cpu_, made, one.input, DType::F32).back().values,
            run(*cpu_, network.get(), one.input, DType::F32).back().values);
}

/// Channels that come in are an option, as OpenPCDet's networks for nuScenes have 5.
TEST_F(DetectionCheckpoint, OfAnotherNumberOfInputChannels) {
  Reference five("voxel_backbone_8x", kNarrow, 40);
  Checkpoint drawn(kSeed + 2);
  five.input.channels = 5;
  five.input.features = oracle::draw_features(static_cast<int64_t>(five.input.coordinates.size()) / 4 * 5, 3);
  five.expected = oracle::voxel_backbone_8x(drawn, kNarrow, five.input);
  expect_same(five, drawn.all(), [](NetworkSpec& spec) { spec.in_channels = 5; });
}

}  // namespace
}  // namespace minuet::abi
