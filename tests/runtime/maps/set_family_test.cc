// Coarser sets of a queue, which are made together when somebody asks for the first of them, and kernel maps
// between them: whatever the order of the questions they are what they are without a queue. On every device.
#include <algorithm>
#include <thread>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/environment.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using testing::HasSubstr;

/// Sets that a test asks for: each coarser than an earlier one, the first than what the caller gave.
struct Coarser {
  size_t of = 0;
  Axes stride{2, 2, 2, 1};
};

class SetFamilyTest : public SetsOnDevice {
 protected:
  SetFamilyTest() : control_(software_cuda::Control::find()) {}
  void SetUp() override {
    SetsOnDevice::SetUp();
    if (!IsSkipped()) queue_ = make_queue(machine());
  }
  /// What the caller gave, then the others, of none of which anything was asked.
  std::vector<Coordinates> family(const std::vector<int32_t>& points, const std::vector<Coarser>& coarser,
                                  const Axes& tensor_stride = {1, 1, 1, 1}) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue_.get();
    std::vector<Coordinates> sets;
    sets.push_back(make_set(machine(), 3, points, tensor_stride, options));
    for (const Coarser& set : coarser) sets.push_back(downsample(sets[set.of].get(), set.stride));
    return sets;
  }
  /// By their tensor strides.
  static std::vector<std::vector<int32_t>> expected(const std::vector<int32_t>& points,
                                                    const std::vector<Coarser>& coarser) {
    std::vector<Axes> strides{{1, 1, 1, 1}};
    std::vector<std::vector<int32_t>> all{points};
    for (const Coarser& set : coarser) {
      Axes stride = strides[set.of];
      for (int a = 0; a < 3; ++a) stride[a] *= set.stride[a];
      strides.push_back(stride);
      all.push_back(oracle::downsample(3, points, stride));
    }
    return all;
  }
  static int64_t rows_of(const std::vector<int32_t>& coordinates) {
    return static_cast<int64_t>(coordinates.size()) / 4;
  }
  /// The sets' coordinates are asked for after the map is made.
  void expect_map(minuet_coordinates* in, minuet_coordinates* out, const oracle::Geometry& geometry,
                  const std::vector<int32_t>& in_points, const std::vector<int32_t>& out_points) {
    const std::vector<oracle::Pair> found = pairs_of(map_of(in, out, geometry).get());
    const std::vector<oracle::Pair> expected =
        oracle::find_pairs(geometry, expect_coordinates(machine(), in, 3, in_points),
                           expect_coordinates(machine(), out, 3, out_points));
    EXPECT_TRUE(found == expected) << found.size() << " pairs";
  }
  /// Of the host for the device since the last count; and no more of them.
  void expect_waits(int64_t waits, const char* where) {
    if (!control_ || machine().is_cpu()) return;
    EXPECT_EQ(control_->waits(), waits) << where;
    control_->reset();
  }
  void reset_counts() {
    if (control_) control_->reset();
  }

  const std::optional<software_cuda::Control> control_;
  Queue queue_{nullptr, {minuet_queue_destroy}};
};

const std::vector<Coarser> kChain = {{0}, {1}, {2}, {3}};
/// Strides that nest and that do not, and one set twice.
const std::vector<Coarser> kTree = {{0},
                                    {1},
                                    {0, {1, 2, 4, 1}},
                                    {0, {3, 3, 3, 1}},
                                    {0},
                                    {2, {2, 1, 2, 1}},
                                    {4, {2, 2, 2, 1}},
                                    {6, {3, 1, 1, 1}}};

TEST_P(SetFamilyTest, AskedInAnyOrder) {
  const std::vector<int32_t> points = make_scene(300, 41);
  for (const std::vector<Coarser>& coarser : {kChain, kTree}) {
    const std::vector<std::vector<int32_t>> expected = this->expected(points, coarser);
    for (size_t first = 0; first < expected.size(); ++first) {
      SCOPED_TRACE("set " + std::to_string(first) + " first of " + std::to_string(expected.size()));
      const std::vector<Coordinates> sets = family(points, coarser);
      EXPECT_EQ(minuet_coordinates_count(sets[first].get()), rows_of(expected[first]));
      for (size_t i = sets.size(); i-- > 0;) {
        EXPECT_EQ(minuet_coordinates_rows(sets[i].get()), rows_of(expected[i])) << i;
        expect_coordinates(machine(), sets[i].get(), 3, expected[i]);
      }
    }
  }
}

/// One for all counts, and none before somebody asks.
TEST_P(SetFamilyTest, OneWaitForAllCounts) {
  const std::vector<int32_t> points = make_scene(300, 42);
  const std::vector<std::vector<int32_t>> expected = this->expected(points, kChain);
  std::vector<Coordinates> sets = family(points, {});
  reset_counts();
  for (const Coarser& coarser : kChain) sets.push_back(downsample(sets[coarser.of].get(), coarser.stride));
  expect_waits(0, "downsample");
  const KernelMap map = map_of(sets[0].get(), sets[0].get(), {3, {3, 3, 3, 1}});
  expect_waits(0, "a map of the finest");
  EXPECT_EQ(minuet_coordinates_count(sets[3].get()), rows_of(expected[3]));
  expect_waits(1, "a count");
  for (size_t i = 0; i < sets.size(); ++i) {
    EXPECT_EQ(minuet_coordinates_count(sets[i].get()), rows_of(expected[i])) << i;
  }
  expect_waits(0, "the others' counts");
  // Later ones are made by themselves.
  const Coordinates later = downsample(sets[1].get(), {4, 2, 1, 1});
  expect_coordinates(machine(), later.get(), 3, oracle::downsample(3, points, {8, 4, 2, 1}));
}

TEST_P(SetFamilyTest, SetsThatAreDestroyedUnasked) {
  const std::vector<int32_t> points = make_scene(200, 43);
  const std::vector<std::vector<int32_t>> expected = this->expected(points, kChain);
  for (const std::vector<size_t>& gone :
       std::vector<std::vector<size_t>>{{0}, {0, 1, 2}, {2}, {4}, {1, 3}, {4, 3, 2, 1}, {0, 1, 2, 3, 4}}) {
    std::vector<Coordinates> sets = family(points, kChain);
    for (const size_t i : gone) sets[i].reset();
    for (size_t i = 0; i < sets.size(); ++i) {
      if (sets[i]) expect_coordinates(machine(), sets[i].get(), 3, expected[i]);
    }
    if (!sets[4]) continue;
    const oracle::Geometry geometry{3, {3, 3, 3, 1}, {1, 1, 1, 1}, {16, 16, 16, 1}};
    expect_map(sets[4].get(), sets[4].get(), geometry, expected[4], expected[4]);
  }
  // Over and over, of one set that stays: more than one index has room for.
  std::vector<Coordinates> sets = family(points, {});
  for (int i = 0; i < 20; ++i) downsample(sets[0].get(), {2, 2, 2, 1});
  expect_coordinates(machine(), downsample(sets[0].get(), {2, 2, 2, 1}).get(), 3, expected[1]);
}

/// With a point far from the others; of no coordinates; of one; with voxels that are no multiples of their
/// tensor stride.
TEST_P(SetFamilyTest, CloudsOfAllKinds) {
  std::vector<int32_t> wide = make_scene(200, 44);
  wide.insert(wide.end(), {3, 1 << 20, -(1 << 20), 5});
  for (const std::vector<int32_t>& points : {wide, std::vector<int32_t>{}, {2, 7, -13, 1000}}) {
    SCOPED_TRACE(points.size());
    const std::vector<std::vector<int32_t>> expected = this->expected(points, kTree);
    const std::vector<Coordinates> sets = family(points, kTree);
    for (size_t i = 0; i < sets.size(); ++i) {
      EXPECT_EQ(minuet_coordinates_count(sets[i].get()), rows_of(expected[i])) << i;
      expect_coordinates(machine(), sets[i].get(), 3, expected[i]);
    }
    expect_map(sets[0].get(), sets[1].get(), {3, {2, 2, 2, 1}}, expected[0], expected[1]);
    expect_map(sets[0].get(), sets[0].get(), {3, {3, 3, 3, 1}}, expected[0], expected[0]);
  }
  const std::vector<int32_t> odd = make_scene(200, 45);
  const std::vector<Coordinates> sets = family(odd, {{0}}, {2, 2, 2, 1});
  const std::vector<int32_t> coarse =
      expect_coordinates(machine(), sets[1].get(), 3, oracle::downsample(3, odd, {4, 4, 4, 1}));
  for (const int32_t size : {2, 3}) {
    const oracle::Geometry geometry{3, {size, size, size, 1}, {1, 1, 1, 1}, {2, 2, 2, 1}};
    expect_map(sets[0].get(), sets[1].get(), geometry, odd, coarse);
    expect_map(sets[0].get(), sets[0].get(), geometry, odd, odd);
  }
}

/// Voxels of stride 1 in the index, although the set's tensor stride is 2, beside a copy whose voxels have
/// stride 2.
TEST_P(SetFamilyTest, ACopyOfASetWithATensorStride) {
  std::vector<int32_t> points = make_scene(200, 46);
  for (size_t i = 0; i < points.size(); ++i) points[i] *= i % 4 == 0 ? 1 : 2;
  const std::vector<Coordinates> sets = family(points, {{0, {1, 1, 1, 1}}}, {2, 2, 2, 1});
  const std::vector<int32_t> copy =
      expect_coordinates(machine(), sets[1].get(), 3, oracle::downsample(3, points, {2, 2, 2, 1}));
  for (const int32_t size : {1, 2, 3}) {
    const oracle::Geometry geometry{3, {size, size, size, 1}, {1, 1, 1, 1}, {2, 2, 2, 1}};
    expect_map(sets[1].get(), sets[0].get(), geometry, copy, points);
  }
}

/// Between any two sets, whichever of them is the coarser one, with near and far offsets.
TEST_P(SetFamilyTest, MapsBetweenAllSets) {
  const std::vector<int32_t> points = make_scene(200, 46);
  const std::vector<std::vector<int32_t>> expected = this->expected(points, kTree);
  const std::vector<Coordinates> sets = family(points, kTree);
  const Axes strides[] = {{1, 1, 1, 1}, {2, 2, 2, 1}, {4, 4, 4, 1}, {1, 2, 4, 1}, {3, 3, 3, 1}};
  const struct {
    Axes size, dilation;
  } kernels[] = {{{3, 3, 3, 1}, {1, 1, 1, 1}},
                 {{2, 2, 2, 1}, {1, 1, 1, 1}},
                 {{1, 1, 1, 1}, {1, 1, 1, 1}},
                 {{1, 7, 3, 1}, {2, 1, 3, 1}},
                 {{3, 3, 3, 1}, {70, 1, 1, 1}}};
  for (size_t in = 0; in < std::size(strides); ++in) {
    for (size_t out = 0; out < std::size(strides); ++out) {
      for (const auto& [size, dilation] : kernels) {
        SCOPED_TRACE(std::to_string(in) + " to " + std::to_string(out) + ", kernel " +
                     std::to_string(size[1]) + ", dilation " + std::to_string(dilation[0]));
        oracle::Geometry geometry{3, size, dilation, strides[in]};
        expect_map(sets[in].get(), sets[out].get(), geometry, expected[in], expected[out]);
        geometry.transposed = true;
        geometry.fine_tensor_stride = strides[out];
        expect_map(sets[in].get(), sets[out].get(), geometry, expected[in], expected[out]);
      }
    }
  }
}

/// Beside one another, and beside calls of the queue, none of which is refused.
TEST_P(SetFamilyTest, AskedByManyThreads) {
  const std::vector<int32_t> points = make_scene(100, 47);
  const std::vector<std::vector<int32_t>> expected = this->expected(points, kChain);
  for (int repeat = 0; repeat < 10; ++repeat) {
    const std::vector<Coordinates> sets = family(points, kChain);
    std::vector<std::thread> threads;
    for (size_t i = 1; i < sets.size(); ++i) {
      threads.emplace_back(
          [&, i] { EXPECT_EQ(minuet_coordinates_count(sets[i].get()), rows_of(expected[i])) << i; });
    }
    const std::vector<Coordinates> others = family(points, kChain);
    map_of(others[0].get(), others[1].get(), {3, {2, 2, 2, 1}});
    for (std::thread& thread : threads) thread.join();
  }
}

class FamilyMapsTest : public ExecutionTest {
 protected:
  static constexpr int32_t kChannels = 16;
  struct Problem {
    ConvolutionKind kind;
    int32_t size, stride, dilation;
  };
  static ConvolutionCase case_of(const Problem& problem, DType dtype) {
    ConvolutionCase test;
    test.kind = problem.kind;
    test.dtype = dtype;
    test.points = 10;
    for (int a = 0; a < 3; ++a) {
      test.kernel_size[a] = problem.size;
      test.stride[a] = problem.stride;
      test.dilation[a] = problem.dilation;
    }
    return test;
  }
  struct Sets {
    Coordinates fine, coarse;
  };
  /// With a queue or without.
  Sets sets_of(minuet_queue* queue, const Cloud& cloud, int32_t stride) {
    minuet_coordinates_options set_options = MINUET_COORDINATES_OPTIONS_INIT;
    set_options.queue = queue;
    Coordinates fine = make_set(machine(), 3, cloud.coordinates, {1, 1, 1, 1}, set_options);
    Coordinates coarse = downsample(fine.get(), {stride == 1 ? 2 : stride, 2, 2, 1});
    return {std::move(fine), std::move(coarse)};
  }
};

/// Rows and pairs of a map whose views look rows up, asked before the views, after them, or not at all.
TEST_P(FamilyMapsTest, ViewsAndPairsInAnyOrder) {
  const Cloud cloud = scene(200);
  const Queue queue = make_queue(machine());
  const Problem problems[] = {
      {ConvolutionKind::Submanifold, 3, 1, 1}, {ConvolutionKind::Submanifold, 3, 1, 3},
      {ConvolutionKind::Strided, 2, 2, 1},     {ConvolutionKind::Strided, 3, 2, 1},
      {ConvolutionKind::Strided, 1, 2, 1},     {ConvolutionKind::Transposed, 2, 2, 1},
      {ConvolutionKind::Transposed, 3, 2, 1},  {ConvolutionKind::Transposed, 1, 2, 1}};
  for (const char* const dataflow : {"fused", "gather-gemm-scatter"}) {
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    for (const Problem& problem : problems) {
      SCOPED_TRACE(std::string(dataflow) + ", kind " + std::to_string(static_cast<int>(problem.kind)) +
                   ", kernel " + std::to_string(problem.size) + ", dilation " +
                   std::to_string(problem.dilation));
      const ConvolutionCase test = case_of(problem, dtype());
      Convolution convolution(machine(), test, make_data(test));
      const auto map_between = [&](const Sets& sets) {
        const bool turned = problem.kind == ConvolutionKind::Transposed;
        minuet_coordinates* const other =
            problem.kind == ConvolutionKind::Submanifold ? sets.fine.get() : sets.coarse.get();
        minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
        std::copy_n(test.kernel_size.begin(), 3, options.kernel_size);
        std::copy_n(test.dilation.begin(), 3, options.dilation);
        options.transposed = turned;
        minuet_kernel_map* map = nullptr;
        check(minuet_kernel_map_create(turned ? other : sets.fine.get(), turned ? sets.fine.get() : other,
                                       &options, nullptr, &map));
        return KernelMap(map, {minuet_kernel_map_destroy});
      };
      const Sets loose = sets_of(nullptr, cloud, problem.stride),
                 sets = sets_of(queue.get(), cloud, problem.stride);
      const auto rows_of = [&](bool inputs) {
        const bool fine = problem.kind == ConvolutionKind::Submanifold ||
                          inputs != (problem.kind == ConvolutionKind::Transposed);
        return minuet_coordinates_rows((fine ? loose.fine : loose.coarse).get());
      };
      const int64_t in_rows = rows_of(true), out_rows = rows_of(false);
      const Buffer input(machine(), encode(dtype(), oracle::draw_features(in_rows * kChannels, 5)));
      const auto output_of = [&](minuet_kernel_map* map, minuet_queue* with) {
        minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
        options.queue = with;
        const Execution execution = convolution.execution(&options);
        check(prepare_map(execution.get(), map));
        const Buffer output(machine(), out_rows * kChannels * dtype_bytes(dtype()));
        check(run_tensors(execution.get(), {tensor(input, in_rows, kChannels, dtype())},
                          tensor(output, out_rows, kChannels, dtype())));
        return output.read<char>();
      };
      const KernelMap searched = map_between(loose);
      const std::vector<oracle::Pair> pairs = pairs_of(searched.get());
      const std::vector<char> output = output_of(searched.get(), nullptr);
      const KernelMap pairs_first = map_between(sets), views_first = map_between(sets);
      EXPECT_EQ(pairs_of(pairs_first.get()), pairs);
      EXPECT_EQ(output_of(pairs_first.get(), queue.get()), output);
      EXPECT_EQ(output_of(views_first.get(), queue.get()), output);
      EXPECT_EQ(pairs_of(views_first.get()), pairs);
      EXPECT_EQ(output_of(views_first.get(), queue.get()), output);
    }
  }
}

/// Two clouds' maps, in turn: views of two indexes are not made as of one.
TEST_P(FamilyMapsTest, TwoFamiliesArePreparedTogether) {
  for (const char* const dataflow : {"fused", "gather-gemm-scatter"}) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    const Queue queue = make_queue(machine());
    const Cloud clouds[] = {scene(150), scene(90, kSeed + 1)};
    const ConvolutionCase test = case_of({ConvolutionKind::Submanifold, 3, 1, 1}, dtype());
    Convolution convolution(machine(), test, make_data(test));
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue.get();
    std::vector<Sets> sets;
    std::vector<KernelMap> maps;
    std::vector<Execution> executions;
    for (int i = 0; i < 4; ++i) {
      if (i < 2) sets.push_back(sets_of(queue.get(), clouds[i], 2));
      maps.push_back(map_of(sets[i % 2].fine.get()));
      executions.push_back(convolution.execution(&options));
    }
    std::vector<minuet_execution*> prepared;
    std::vector<minuet_kernel_map*> given;
    for (int i = 0; i < 4; ++i) prepared.push_back(executions[i].get()), given.push_back(maps[i].get());
    check(minuet_executions_prepare_maps(prepared.data(), given.data(), 4, nullptr));
    for (int i = 0; i < 4; ++i) {
      const int64_t rows = clouds[i % 2].count();
      const Buffer input(machine(), encode(dtype(), oracle::draw_features(rows * kChannels, 5)));
      const auto output_of = [&](minuet_execution* execution) {
        const Buffer output(machine(), input.bytes());
        check(run_tensors(execution, {tensor(input, rows, kChannels, dtype())},
                          tensor(output, rows, kChannels, dtype())));
        return output.read<char>();
      };
      const Coordinates loose = set_on(nullptr, clouds[i % 2].coordinates);
      const KernelMap map = map_of(loose.get());
      const Execution alone = convolution.execution();
      check(prepare_map(alone.get(), map.get()));
      EXPECT_EQ(output_of(executions[i].get()), output_of(alone.get())) << i;
    }
  }
}

/// What there is on a GPU only.
class FamilyOnGpu : public ExecutionTest {};

/// They are there once, and not at each replay.
TEST_P(FamilyOnGpu, NoSetOrMapIsCaptured) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  const Cloud cloud = scene(60);
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.queue = queue.get();
  const Buffer coordinates(machine(), cloud.coordinates);
  const auto make_set = [&](minuet_coordinates** set) {
    return minuet_coordinates_create(machine().device(), &options, coordinates.integers(), cloud.count(),
                                     stream.get(), set);
  };
  minuet_kernel_map_options shape = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::fill_n(shape.kernel_size, 3, 3);
  const auto make_map = [&](minuet_coordinates* set, minuet_kernel_map** map) {
    return minuet_kernel_map_create(set, set, &shape, stream.get(), map);
  };
  minuet_coordinates* set = nullptr;
  check(make_set(&set));
  const Coordinates owned_set(set, {minuet_coordinates_destroy});
  minuet_kernel_map* map = nullptr;
  check(make_map(set, &map));
  const KernelMap owned_map(map, {minuet_kernel_map_destroy});
  const int32_t two[MINUET_MAX_DIM] = {2, 2, 2, 1};
  const auto coarser = [&] {
    minuet_coordinates* coarse = nullptr;
    check(minuet_coordinates_downsample(set, two, stream.get(), &coarse));
    return Coordinates(coarse, {minuet_coordinates_destroy});
  };
  const Coordinates coarse = coarser(), other_coarse = coarser();
  const CapturedGraph beside(  // what is made of a set by then is nothing to the graph
      stream.get(),
      [&] {
        EXPECT_EQ(minuet_coordinates_count(coarse.get()), -1);
        EXPECT_THAT(last_error(), HasSubstr("is being captured"));
      },
      CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_TRUE(beside.whole());
  const CapturedGraph graph(
      stream.get(),
      [&] {
        minuet_coordinates* other_set = nullptr;
        minuet_kernel_map* other_map = nullptr;
        EXPECT_EQ(make_set(&other_set), MINUET_FAILED_PRECONDITION);
        EXPECT_EQ(make_map(set, &other_map), MINUET_FAILED_PRECONDITION);
        EXPECT_EQ(make_map(other_coarse.get(), &other_map), MINUET_FAILED_PRECONDITION);
        minuet_coordinates* third_coarse = nullptr;
        EXPECT_EQ(minuet_coordinates_downsample(set, two, stream.get(), &third_coarse),
                  MINUET_FAILED_PRECONDITION);
        EXPECT_THAT(last_error(), HasSubstr("is being captured"));
        int64_t none = 0;
        EXPECT_EQ(minuet_kernel_map_query_pairs(map, &none), MINUET_FAILED_PRECONDITION);
        EXPECT_THAT(last_error(), HasSubstr("is being captured"));
      },
      CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_TRUE(graph.whole());
  for (const Coordinates* each : {&coarse, &other_coarse}) {
    EXPECT_EQ(minuet_coordinates_count(each->get()),
              static_cast<int64_t>(oracle::downsample(3, cloud.coordinates, {2, 2, 2, 1}).size()) / 4);
  }
  EXPECT_EQ(pair_count(map),
            static_cast<int64_t>(
                oracle::find_pairs({3, {3, 3, 3, 1}}, cloud.coordinates, cloud.coordinates).size()));
}

MINUET_INSTANTIATE_SETS_TEST(SetFamilyTest);
MINUET_INSTANTIATE_EXECUTION_TEST(FamilyMapsTest);
INSTANTIATE_TEST_SUITE_P(Devices, FamilyOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
