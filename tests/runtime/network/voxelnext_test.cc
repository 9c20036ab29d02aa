// The shipped network voxelnext, from coordinates to the features of its last level, on every device and in
// every dtype, against an fp64 oracle in its authors' terms; and checkpoints under the authors' names.
#include <gmock/gmock.h>

#include <deque>
#include <fstream>
#include <functional>
#include <set>

#include "tests/support/clouds.h"
#include "tests/support/compare.h"
#include "tests/support/contents.h"
#include "tests/support/detection_oracle.h"
#include "tests/support/golden.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"
#include "tests/support/torch_checkpoints.h"

namespace minuet::abi {
namespace {

using oracle::Checkpoint;
using oracle::DetectionInput;
using oracle::DetectionLevel;
using oracle::DetectionOutput;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kSeed = 4748;
constexpr int32_t kInChannels = 5;
const std::vector<int32_t> kNarrow = {8, 8, 12, 16, 16, 20};

/// One network on one batch: evaluated once in fp64, for every dtype and device.
struct Reference {
  Reference(const std::vector<int32_t>& widths, DetectionInput given)
      : channels(widths), input(std::move(given)), checkpoint(kSeed), file("voxelnext.safetensors") {
    input.channels = kInChannels;
    input.features =
        oracle::draw_features(static_cast<int64_t>(input.coordinates.size()) / 4 * kInChannels, kSeed);
    expected = oracle::voxelnext(checkpoint, widths, input);
    for (const auto& [level, unused] : expected.levels) levels.push_back(level);
    write_safetensors(file.path(), checkpoint.all());
  }

  /// The network with every level that has a name among its outputs.
  NetworkSpec spec(DType dtype) const {
    NetworkSpec spec{"voxelnext", channels, dtype, file.path(), 0};
    std::string text, list;
    for (int32_t i = 0; text.empty(); ++i) {
      minuet_shipped_network_info info{};
      info.struct_size = sizeof(info);
      check(minuet_query_shipped_network(i, &info));
      if (spec.name == info.name) text = info.description;
    }
    for (const std::string& level : levels) list += (list.empty() ? "[\"" : ", \"") + level + "\"";
    const std::string one = "[\"encoded\"]";
    spec.description = text.replace(text.find(one), one.size(), list + "]");
    spec.shape = {input.shape[0], input.shape[1], input.shape[2]};
    return spec;
  }

  std::vector<int32_t> channels;
  DetectionInput input;
  Checkpoint checkpoint;
  DetectionOutput expected;
  std::vector<std::string> levels;  // in the order of the outputs
  TemporaryPath file;
};

/// Sides that no stride divides; along z the shapes are 41, 21, 11, 6, 3, 2 as in the authors' setting. Items
/// 0 and 2 have voxels, 1 is empty.
DetectionInput drawn_input(int64_t voxels) {
  DetectionInput input;
  input.shape = {44, 35, 41};
  input.batch_size = 3;
  input.coordinates = oracle::draw_voxels(input.shape, 3, 1, voxels, kSeed);
  return input;
}

const Reference& reference() {
  static const Reference one(kNarrow, drawn_input(kSanitized ? 60 : 300));
  return one;
}

/// A sweep of a LiDAR, or a generated one where there is none: every other point, in coarse voxels.
DetectionInput sweep() {
  std::vector<float> points;
  std::ifstream stream(shared_folder() + "/data/ouster_os1_128_f1795.bin", std::ios::binary);
  if (stream) {
    const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    points.resize(bytes.size() / sizeof(float));
    std::memcpy(points.data(), bytes.data(), points.size() * sizeof(float));
  } else {
    points = make_cloud({});
  }
  DetectionInput input;
  input.shape = {360, 360, 41};
  const double low[] = {-54, -54, -5}, size[] = {0.3, 0.3, 0.2};
  std::set<std::array<int32_t, 4>> cells;
  for (size_t i = 0; i + 4 <= points.size(); i += 4 * (kSanitized ? 200 : 2)) {
    std::array<int32_t, 4> cell{};
    bool is_inside = true;
    for (size_t a = 0; a < 3; ++a) {
      const double at = std::floor((static_cast<double>(points[i + a]) - low[a]) / size[a]);
      is_inside = is_inside && at >= 0 && at < input.shape[a];
      cell[a + 1] = is_inside ? static_cast<int32_t>(at) : 0;
    }
    if (is_inside) cells.insert(cell);
  }
  for (const auto& cell : cells) input.coordinates.insert(input.coordinates.end(), cell.begin(), cell.end());
  return input;
}

const Reference& sweep_reference() {
  static const Reference one(kNarrow, sweep());
  return one;
}

/// The bound is that of a network's output. At narrow widths, the roundings of the up to 26 layers before
/// x_conv5 and x_conv6 add up to more, so these levels are allowed twice as much. The levels behind the
/// unions are not, because the shallower x_conv4 dominates their sums.
double bound_of(const std::string& level, DType dtype) {
  return error_bound(dtype, true) * (level == "x_conv5" || level == "x_conv6" ? 2 : 1);
}

/// Compares output number `i` of the plan, whose outputs are the reference's levels.
void check_level(minuet_plan* plan, const std::vector<std::string>& levels, size_t i, const NetworkRun& run,
                 const DetectionOutput& output, DType dtype) {
  SCOPED_TRACE(levels[i]);
  const DetectionLevel& expected = output.levels.at(levels[i]);
  const minuet_tensor_info info = output_of(plan, static_cast<int32_t>(i));
  // Behind the collapse, levels have the axes x and y only. The oracle's z is 0 there.
  const bool is_flat = levels[i] == "bev_out" || levels[i] == "conv_out" || levels[i] == "encoded";
  ASSERT_EQ(info.ndim, is_flat ? 2 : 3);
  EXPECT_EQ(info.axes, is_flat ? 3 : 7);
  std::vector<int32_t> coordinates;
  for (size_t row = 0; row < expected.coordinates.size(); row += 4) {
    const auto first = expected.coordinates.begin() + static_cast<std::ptrdiff_t>(row);
    coordinates.insert(coordinates.end(), first, first + 1 + info.ndim);
  }
  for (int32_t axis = 0; axis < info.ndim; ++axis) {
    EXPECT_EQ(info.tensor_stride[axis], expected.tensor_stride[static_cast<size_t>(axis)]);
  }
  ASSERT_EQ(run.channels, expected.channels);
  const NetworkRun sorted = info.level == 0 ? run : ascending(run, info.ndim);
  ASSERT_EQ(sorted.coordinates, coordinates);
  EXPECT_TRUE(is_close(decode(dtype, sorted.bytes), expected.features, expected.channels,
                       bound_of(levels[i], dtype)));
}

class VoxelNextTest : public DeviceTest {
 protected:
  std::vector<NetworkRun> run(minuet_plan* plan, const DetectionInput& input, minuet_map_method method) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution execution = make_execution(machine(), plan, &options);
    return run_graph(machine(), plan, execution.get(), input.coordinates, {encode(dtype(), input.features)},
                     dtype());
  }
  void check_network(const Reference& one, const NetworkSpec& spec) {
    ASSERT_GT(one.expected.largest, 1e-2);
    ASSERT_LT(one.expected.largest, 6e4 / 8) << "too near to what fp16 holds";
    const Plan plan = make_network(machine(), spec);
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      const std::vector<NetworkRun> runs = run(plan.get(), one.input, method);
      ASSERT_EQ(runs.size(), one.levels.size());
      for (size_t i = 0; i < runs.size(); ++i)
        check_level(plan.get(), one.levels, i, runs[i], one.expected, dtype());
    }
  }
};

TEST_P(VoxelNextTest, IsTheAuthorsNetwork) { check_network(reference(), reference().spec(dtype())); }

TEST_P(VoxelNextTest, AtTheAuthorsWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  static const Reference one({16, 32, 64, 128, 128, 128}, drawn_input(kSanitized ? 10 : 50));
  NetworkSpec spec = one.spec(dtype());
  spec.channels.clear();
  check_network(one, spec);
}

TEST_P(VoxelNextTest, OnASweep) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; smaller clouds take the same paths";
  }
  check_network(sweep_reference(), sweep_reference().spec(dtype()));
}

/// By its name alone, the network ends in the last level, and gives the same bits as with all levels.
TEST_P(VoxelNextTest, TheNameAloneGivesTheLastLevel) {
  const Reference& one = reference();
  NetworkSpec spec = one.spec(dtype());
  const Plan with_all = make_network(machine(), spec);
  spec.description.clear();
  const Plan alone = make_network(machine(), spec);
  const std::vector<NetworkRun> runs = run(alone.get(), one.input, MINUET_MAPS_INDEXED);
  ASSERT_EQ(runs.size(), 1u);
  const auto last = std::find(one.levels.begin(), one.levels.end(), "encoded") - one.levels.begin();
  EXPECT_EQ(runs[0], run(with_all.get(), one.input, MINUET_MAPS_INDEXED)[static_cast<size_t>(last)]);
}

TEST_P(VoxelNextTest, CloudsOfNoVoxelAndOfOne) {
  const Reference& one = reference();
  const Plan plan = make_network(machine(), one.spec(dtype()));
  DetectionInput input = one.input;
  input.coordinates.clear(), input.features.clear();
  for (const NetworkRun& run : run(plan.get(), input, MINUET_MAPS_INDEXED)) EXPECT_EQ(run.rows, 0);
  input.coordinates = {2, 43, 34, 40};
  input.features = {1, 2, 3, 4, 5};
  Checkpoint checkpoint = one.checkpoint;
  const DetectionOutput expected = oracle::voxelnext(checkpoint, kNarrow, input);
  const std::vector<NetworkRun> runs = run(plan.get(), input, MINUET_MAPS_INDEXED);
  for (size_t i = 0; i < runs.size(); ++i) check_level(plan.get(), one.levels, i, runs[i], expected, dtype());
}

/// In capacity mode, only the device knows the numbers of voxels. What lies past the last row is zero.
TEST_P(VoxelNextTest, InCapacityMode) {
  const Reference& one = reference();
  NetworkSpec spec = one.spec(dtype());
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), spec);
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution exact = make_execution(machine(), plan.get(), &options);
    const std::vector<NetworkRun> runs = run_graph(machine(), plan.get(), exact.get(), one.input.coordinates,
                                                   {encode(dtype(), one.input.features)}, dtype());
    std::vector<int64_t> capacities(static_cast<size_t>(info_of(plan.get()).levels));
    options.level_count = static_cast<int32_t>(capacities.size());
    check(minuet_execution_suggest_capacities(exact.get(), 1.25, capacities.data(), options.level_count));
    options.level_capacity = capacities.data();
    const Execution within = make_execution(machine(), plan.get(), &options);
    std::vector<float> features = one.input.features;
    features.resize(static_cast<size_t>(capacities[0]) * kInChannels, 77);
    const Buffer input(machine(), encode(dtype(), features));
    std::deque<Buffer> memory;
    std::vector<minuet_array> outputs;
    for (size_t i = 0; i < runs.size(); ++i) {
      const minuet_tensor_info info = output_of(plan.get(), static_cast<int32_t>(i));
      const int64_t rows = capacities[static_cast<size_t>(info.level)];
      memory.emplace_back(machine(), rows * info.channels * dtype_bytes(dtype())).poison();
      outputs.push_back(array_of(tensor(memory.back(), rows, info.channels, dtype())));
    }
    check(prepare(machine(), within.get(), one.input.coordinates));
    check(run_arrays(within.get(), {array_of(tensor(input, capacities[0], kInChannels, dtype()))}, outputs));
    uint32_t status = 1;
    check(minuet_execution_read_cloud(within.get(), &status, nullptr, 0, nullptr));
    EXPECT_EQ(status, 0u);
    for (size_t i = 0; i < runs.size(); ++i) {
      NetworkRun run = runs[i];
      const std::vector<char> bytes = memory[i].read<char>();
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(run.bytes.size());
      run.bytes.assign(bytes.begin(), end);
      check_level(plan.get(), one.levels, i, run, one.expected, dtype());
      EXPECT_TRUE(std::all_of(end, bytes.end(), [](char byte) { return byte == 0; }));
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(VoxelNextTest);

/// Checkpoints on the CPU device, in fp32.
class VoxelNextCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }
  minuet_status create(
      const Tensors& tensors, Plan& plan,
      const std::function<void(NetworkSpec&)>& change = [](NetworkSpec&) {}) {
    const TemporaryPath file("checkpoint.safetensors");
    write_safetensors(file.path(), tensors);
    NetworkSpec spec = reference().spec(DType::F32);
    spec.weights = file.path();
    change(spec);
    const minuet_status status = create_network(*cpu_, spec, plan);
    if (status == MINUET_OK) plan = make_network(*cpu_, spec);
    return status;
  }
  void expect_same(
      const Tensors& tensors, const std::function<void(NetworkSpec&)>& change = [](NetworkSpec&) {}) {
    const Reference& one = reference();
    Plan plan(nullptr, {minuet_plan_destroy});
    ASSERT_EQ(create(tensors, plan, change), MINUET_OK) << last_error();
    const Execution execution = make_execution(*cpu_, plan.get());
    const std::vector<NetworkRun> runs = run_graph(*cpu_, plan.get(), execution.get(), one.input.coordinates,
                                                   {encode(DType::F32, one.input.features)}, DType::F32);
    for (size_t i = 0; i < runs.size(); ++i)
      check_level(plan.get(), one.levels, i, runs[i], one.expected, DType::F32);
  }
  void expect_refused(const Tensors& tensors, const std::string& words) {
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create(tensors, plan), MINUET_INVALID_ARGUMENT) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  }

  Machine* cpu_ = nullptr;
};

/// The layers with two axes have weights with two axes, in both versions of spconv.
TEST_F(VoxelNextCheckpoint, OfBothVersionsOfSpconv) {
  const Checkpoint& checkpoint = reference().checkpoint;
  EXPECT_EQ(checkpoint.all().at("conv_out.0.weight").shape, (std::vector<int64_t>{20, 3, 3, 16}));
  EXPECT_EQ(checkpoint.all().at("shared_conv.0.weight").shape, (std::vector<int64_t>{20, 3, 3, 20}));
  EXPECT_EQ(checkpoint.all().count("shared_conv.0.bias"), 1u);
  expect_same(checkpoint.all());
  expect_same(checkpoint.in_spconv1());
}

TEST_F(VoxelNextCheckpoint, OfPyTorch) {
  expect_torch_checkpoints(reference().spec(DType::F32), reference().checkpoint.all());
}

/// A whole detector has its backbone under a prefix, beside the heads, and counters of batches.
TEST_F(VoxelNextCheckpoint, OfAWholeDetector) {
  Tensors tensors;
  for (const auto& [name, tensor] : reference().checkpoint.all()) tensors["backbone_3d." + name] = tensor;
  tensors["backbone_3d.shared_conv.1.num_batches_tracked"] = {{1}, {7}};
  tensors["dense_head.heads_list.0.hm.1.weight"] = {{1, 1, 1, 2}, {1, 2}};
  expect_same(tensors, [](NetworkSpec& spec) {
    spec.weights_prefix = "backbone_3d.";
    spec.allow_unused = true;
  });
}

TEST_F(VoxelNextCheckpoint, WrongShapesAreRefused) {
  Tensors tensors = reference().checkpoint.all();
  // A kernel along z is not one of the layer's.
  tensors["conv_out.0.weight"].shape = {20, 3, 3, 4, 4};
  expect_refused(tensors, "\"conv_out.0.weight\" has shape [20, 3, 3, 4, 4]");
  tensors = reference().checkpoint.all();
  // A weight whose kernel has three axes may not lose one.
  tensors["conv2.0.0.weight"].shape = {8, 9, 3, 8};
  expect_refused(tensors, "\"conv2.0.0.weight\" has shape [8, 9, 3, 8]");
}

/// The sums need as many channels in conv4 as in conv5 and conv6.
TEST_F(VoxelNextCheckpoint, OtherWidthsThatDoNotFitAreRefused) {
  NetworkSpec spec = reference().spec(DType::F32);
  spec.weights.clear();
  spec.channels = {8, 8, 12, 16, 20, 20};
  Plan plan(nullptr, {minuet_plan_destroy});
  EXPECT_EQ(create_network(*cpu_, spec, plan), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("layers[18].with"));
}

}  // namespace
}  // namespace minuet::abi
