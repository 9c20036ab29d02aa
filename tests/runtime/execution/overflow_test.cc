// minuet_execution_find_overflow: every layer of a network can be the one that is found, in both dataflows,
// and words that other executions left in memory are never read.
#include <gmock/gmock.h>

#include <limits>

#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using Tensors = std::map<std::string, FileTensor>;

constexpr minuet_dataflow kDataflows[] = {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED};

/// One layer of each kind. On a GPU the fused dataflow computes the shortcut in the launch of the layer
/// before it.
constexpr const char* kAllKinds = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16, 24],
  "layers": [
  {"op": "block", "name": "first", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "residual", "name": "both", "width": 1},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"},
  {"op": "concat", "with": "fine"},
  {"op": "head", "name": "head", "classes": 3}]})";
constexpr const char* kTwoBlocks = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16], "layers": [
  {"op": "block", "name": "first", "width": 0, "kernel_size": 3},
  {"op": "block", "name": "second", "width": 0, "kernel_size": 1}]})";

/// A layer of a network, and the tensor of its weights file that multiplies all its output.
struct LayerOfNetwork {
  std::string name, factor;
};
const std::vector<LayerOfNetwork> kLayers = {{"first", "first.bn.weight"},
                                             {"down", "down.bn.weight"},
                                             {"both.conv1", "both.bn1.weight"},
                                             {"both.shortcut", "both.shortcut.bn.weight"},
                                             {"both.conv2", "both.bn2.weight"},
                                             {"up", "up.bn.weight"},
                                             {"head", "head.weight"}};
const std::vector<LayerOfNetwork> kLayersOfTwo = {{"first", "first.bn.weight"},
                                                  {"second", "second.bn.weight"}};

/// Voxels so far from one another that none has a neighbour in any layer: each output is an average of
/// inputs.
std::vector<int32_t> lonely_voxels(int32_t count) {
  std::vector<int32_t> coordinates;
  for (int32_t i = 0; i < count; ++i) coordinates.insert(coordinates.end(), {0, 16 * i, -16 * i, 8});
  return coordinates;
}

class OverflowTest : public DeviceTest {
 protected:
  static constexpr int32_t kVoxels = 5;
  static constexpr float kFits = 1.0f / 64, kTooLarge = 4;  // features, before `factor_` multiplies them

  /// Every layer averages its inputs. The tensor `scaled` multiplies by so much that the dtype holds the
  /// product with kFits, and not the one with kTooLarge.
  Plan network(const char* description, const std::string& scaled, minuet_dataflow dataflow) {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.dataflow = dataflow;
    Plan drawn(nullptr, {minuet_plan_destroy});
    check(create_network(machine(), spec, drawn));
    Tensors tensors;
    for (int32_t i = 0; i < info_of(drawn.get()).parameter_tensors; ++i) {
      minuet_parameter_info info{};
      info.struct_size = sizeof(info);
      check(minuet_plan_query_parameter(drawn.get(), i, &info));
      const std::string name = info.name;
      FileTensor& tensor = tensors[name];
      tensor.shape.assign(info.shape, info.shape + info.rank);
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      const bool is_average = info.rank > 1;  // [volume, in, out], or [in, out]
      const auto inputs = static_cast<float>(is_average ? info.shape[info.rank - 2] : 1);
      const bool is_zero = name.ends_with("bias") || name.ends_with("running_mean");
      tensor.values.assign(static_cast<size_t>(count),
                           is_zero ? 0.0f : (name == scaled ? factor() : 1.0f) / inputs);
    }
    EXPECT_TRUE(scaled.empty() || tensors.contains(scaled)) << scaled;
    const TemporaryPath file("overflow.safetensors");
    write_safetensors(file.path(), tensors);
    spec.weights = file.path();
    return make_network(machine(), spec);
  }
  float factor() const { return dtype() == DType::F16 ? 3e4f : 3e38f; }

  /// Runs what is prepared, with `last` as the feature of the last voxel, and gives the layer that is found.
  int32_t overflow_of(minuet_execution* execution, float last, int32_t voxels = kVoxels, int32_t rows = 0) {
    std::vector<float> features(static_cast<size_t>(4 * voxels), kFits);
    std::fill_n(features.end() - 4, 4, last);
    rows = std::max(rows, voxels);
    features.resize(static_cast<size_t>(4 * rows), kTooLarge);  // capacity mode: must not be read
    int64_t output_rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape(execution, &output_rows, &channels));
    const Buffer input(machine(), encode(dtype(), features));
    const Buffer output(machine(), output_rows * channels * dtype_bytes(dtype()));
    check(run_tensors(execution, {tensor(input, rows, 4, dtype())},
                      tensor(output, output_rows, channels, dtype())));
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution, nullptr, &layer));
    return layer;
  }
  /// `prepare` prepares kVoxels lonely voxels.
  template <class Prepare>
  void expect_found(minuet_execution* execution, int32_t layer, int32_t rows, const Prepare& prepare) {
    for (int twice = 0; twice < 2; ++twice) {
      prepare();
      EXPECT_EQ(overflow_of(execution, kFits, kVoxels, rows), -1);
      EXPECT_EQ(overflow_of(execution, kTooLarge, kVoxels, rows), layer);
      EXPECT_EQ(overflow_of(execution, kFits, kVoxels, rows), layer) << "a run since prepare overflowed";
    }
  }
  static minuet_layer_info info_of_layer(minuet_execution* execution, int32_t layer) {
    minuet_layer_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(execution, layer, &info));
    return info;
  }
};

TEST_P(OverflowTest, EachLayerCanBeTheOneThatIsFound) {
  for (const minuet_dataflow dataflow : kDataflows) {
    for (int32_t layer = 0; layer < static_cast<int32_t>(kLayers.size()); ++layer) {
      SCOPED_TRACE(testing::Message() << "dataflow " << dataflow << ", layer " << kLayers[layer].name);
      const Plan plan = network(kAllKinds, kLayers[layer].factor, dataflow);
      ASSERT_EQ(info_of(plan.get()).layers, static_cast<int32_t>(kLayers.size()));
      const std::vector<int32_t> voxels = lonely_voxels(kVoxels);
      const Execution execution = make_execution(machine(), plan.get());
      EXPECT_EQ(info_of_layer(execution.get(), layer).name, kLayers[layer].name);
      if (dataflow == MINUET_DATAFLOW_FUSED && !machine().is_cpu()) {
        check(prepare(machine(), execution.get(), voxels));
        EXPECT_EQ(std::string(info_of_layer(execution.get(), 3).kernel),
                  info_of_layer(execution.get(), 2).kernel)
            << "the shortcut runs in the launch of the layer before it";
      }
      expect_found(execution.get(), layer, 0, [&] { check(prepare(machine(), execution.get(), voxels)); });
      if (dataflow != MINUET_DATAFLOW_FUSED) continue;
      const std::vector<int64_t> capacities(2, 8);
      minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
      options.level_capacity = capacities.data(), options.level_count = 2, options.key_bits = 64;
      const Execution within = make_execution(machine(), plan.get(), &options);
      const Buffer coordinates(machine(), voxels), count(machine(), std::vector<int32_t>{kVoxels});
      expect_found(within.get(), layer, 8, [&] {
        check(minuet_execution_prepare_on_device(within.get(), coordinates.integers(), count.integers(),
                                                 nullptr));
      });
    }
  }
}

/// Of two layers that overflow the first is found, and of a cloud without voxels none is.
TEST_P(OverflowTest, OfSeveralLayersTheFirstIsFound) {
  for (const minuet_dataflow dataflow : kDataflows) {
    SCOPED_TRACE(dataflow);
    const Plan plan = network(kTwoBlocks, "", dataflow);
    const Execution execution = make_execution(machine(), plan.get());
    check(prepare(machine(), execution.get(), lonely_voxels(kVoxels)));
    EXPECT_EQ(overflow_of(execution.get(), std::numeric_limits<float>::infinity()), 0);
    check(prepare(machine(), execution.get(), {}));
    const Buffer nothing(machine(), 16);
    check(run_tensors(execution.get(), {tensor(nothing, 0, 4, dtype())}, tensor(nothing, 0, 16, dtype())));
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, -1) << "a cloud without voxels";
  }
}

/// A queue gives an execution the memory that a destroyed one left, and two executions work in turn.
TEST_P(OverflowTest, NetworksOfOneQueueReadTheirOwnWords) {
  const Queue queue = make_queue(machine());
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  const Plan large = network(kAllKinds, kLayers.back().factor, tested_dataflow());
  const Plan small = network(kTwoBlocks, kLayersOfTwo.back().factor, tested_dataflow());
  const auto prepared = [&](const Plan& plan, int32_t voxels) {
    Execution execution = make_execution(machine(), plan.get(), &options);
    check(prepare(machine(), execution.get(), lonely_voxels(voxels)));
    return execution;
  };
  for (const int32_t voxels : {1, 40}) {
    {
      const Execution destroyed = prepared(large, 60);
      EXPECT_EQ(overflow_of(destroyed.get(), kTooLarge, 60), 6);
    }
    const Execution after = prepared(small, voxels), other = prepared(small, voxels);
    EXPECT_EQ(overflow_of(after.get(), kFits, voxels), -1);
    EXPECT_EQ(overflow_of(other.get(), kTooLarge, voxels), 1);
    EXPECT_EQ(overflow_of(after.get(), kFits, voxels), -1);
    EXPECT_EQ(overflow_of(other.get(), kFits, voxels), 1);
  }
}

/// Single convolutions of one queue.
class ConvolutionOverflowTest : public OverflowTest {
 protected:
  void SetUp() override {
    OverflowTest::SetUp();
    if (IsSkipped()) return;
    test_ = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 31);
    test_.scale_shift = test_.residual = false, test_.activation = Activation::None;
    data_ = make_data(test_);
    queue_.emplace(make_queue(machine()));
    minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
    of_set.queue = queue_->get();
    set_ = make_set(machine(), 3, data_.in_coordinates, test_.tensor_stride, of_set);
    minuet_kernel_map_options of_map = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::copy_n(test_.kernel_size.begin(), 3, of_map.kernel_size);
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set_.get(), set_.get(), &of_map, nullptr, &map));
    map_.reset(map);
    convolution_.emplace(machine(), test_, data_);
  }
  void TearDown() override { convolution_.reset(), map_.reset(), set_.reset(), queue_.reset(); }
  Execution execution() {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue_->get();
    return convolution_->execution(&options);
  }
  int32_t overflow_of(minuet_execution* execution, float first) {
    data_.features.front() = first;
    const Buffer input(machine(), encode(dtype(), data_.features));
    const Buffer output(machine(), data_.out_rows() * 8 * dtype_bytes(dtype()));
    check(run_tensors(execution, {tensor(input, data_.in_rows(), 8, dtype())},
                      tensor(output, data_.out_rows(), 8, dtype())));
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution, nullptr, &layer));
    return layer;
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ConvolutionCase test_;
  ConvolutionData data_;
  std::optional<Queue> queue_;
  Coordinates set_{nullptr, {minuet_coordinates_destroy}};
  KernelMap map_{nullptr, {minuet_kernel_map_destroy}};
  std::optional<Convolution> convolution_;
};

/// An execution that was prepared several times leaves a word that a later one may compare with its own mark.
TEST_P(ConvolutionOverflowTest, AWordOfADestroyedExecutionIsNotRead) {
  for (int earlier = 1; earlier <= 3; ++earlier) {
    for (int later = 1; later <= 3; ++later) {
      SCOPED_TRACE(testing::Message() << earlier << " prepares, then " << later);
      {
        const Execution destroyed = execution();
        for (int i = 0; i < earlier; ++i) check(prepare_map(destroyed.get(), map_.get()));
        EXPECT_EQ(overflow_of(destroyed.get(), kInfinity), 0);
      }
      const Execution after = execution();
      for (int i = 0; i < later; ++i) check(prepare_map(after.get(), map_.get()));
      EXPECT_EQ(overflow_of(after.get(), 1), -1);
    }
  }
}

TEST_P(ConvolutionOverflowTest, ExecutionsThatArePreparedTogetherHaveWordsOfTheirOwn) {
  const Execution first = execution(), second = execution();
  minuet_execution* const both[] = {first.get(), second.get()};
  minuet_kernel_map* const maps[] = {map_.get(), map_.get()};
  for (int twice = 0; twice < 2; ++twice) {
    check(minuet_executions_prepare_maps(both, maps, 2, nullptr));
    EXPECT_EQ(overflow_of(first.get(), 1), -1);
    EXPECT_EQ(overflow_of(second.get(), kInfinity), 0);
    EXPECT_EQ(overflow_of(first.get(), 1), -1);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(OverflowTest);
MINUET_INSTANTIATE_DEVICE_TEST(ConvolutionOverflowTest);

}  // namespace
}  // namespace minuet::abi
