// The memory of a queue: blocks that nobody has are freed before an allocation fails, whatever allocation
// fails leaves the queue usable, and counts of more sets than one block of words holds are told apart.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

constexpr int32_t kSmallChannels = 8;

std::vector<int32_t> line_of(int32_t count, int32_t step = 1) {
  std::vector<int32_t> coordinates;
  for (int32_t i = 0; i < count; ++i) coordinates.insert(coordinates.end(), {0, step * i, 1, -2});
  return coordinates;
}

Coordinates no_set() { return {nullptr, {minuet_coordinates_destroy}}; }

class QueueMemoryTest : public DeviceTest {
 protected:
  minuet_status make_set(minuet_queue* queue, const Buffer& coordinates, Coordinates& set) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue;
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_create(
        machine().device(), &options, coordinates.integers(), coordinates.bytes() / 16, nullptr, &made);
    set.reset(made);
    return status;
  }
  static minuet_status make_coarser(minuet_coordinates* fine, int32_t stride, Coordinates& coarse) {
    const int32_t strides[] = {stride, stride, stride, 1};
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_downsample(fine, strides, nullptr, &made);
    coarse.reset(made);
    return status;
  }
};

/// Once the sets that were asked for together are made, each later one is made by itself, and counted late.
TEST_P(QueueMemoryTest, SixtySetsAreCountedLate) {
  const Queue queue = make_queue(machine());
  std::vector<Coordinates> fine, coarse;
  for (int32_t i = 0; i < 60; ++i) {
    const Buffer coordinates(machine(), line_of(3 * i + 1));
    fine.push_back(no_set()), coarse.push_back(no_set());
    check(make_set(queue.get(), coordinates, fine.back()));
    Coordinates counted = no_set();
    check(make_coarser(fine.back().get(), 2, counted));
    EXPECT_EQ(minuet_coordinates_count(counted.get()), (3 * i + 2) / 2);
    check(make_coarser(fine.back().get(), 3, coarse.back()));
  }
  for (int32_t i = 59; i >= 0; --i) EXPECT_EQ(minuet_coordinates_count(coarse[i].get()), i + 1);
  for (int32_t i = 0; i < 60; ++i) EXPECT_EQ(minuet_coordinates_rows(coarse[i].get()), i + 1);
}

/// Sets that are made together share the words that their counts come in. The words stay theirs until the
/// last of them is counted, whatever is made and counted in between.
TEST_P(QueueMemoryTest, SetsThatAreMadeTogetherKeepTheirCounts) {
  const Queue queue = make_queue(machine());
  constexpr size_t kSets = 4;
  const auto make_family = [&](int32_t rows) {
    const Buffer coordinates(machine(), line_of(rows));
    std::vector<Coordinates> sets;
    sets.push_back(no_set());
    check(make_set(queue.get(), coordinates, sets.back()));
    while (sets.size() < kSets) {
      sets.push_back(no_set());
      check(make_coarser(sets[sets.size() - 2].get(), 2, sets.back()));
    }
    return sets;
  };
  for (size_t counted = 1; counted < kSets; ++counted) {
    SCOPED_TRACE(testing::Message() << "set " << counted << " is counted first");
    const std::vector<Coordinates> family = make_family(160);
    EXPECT_EQ(minuet_coordinates_count(family[counted].get()), 160 >> counted);
    for (const int32_t rows : {8, 40, 24}) {
      const std::vector<Coordinates> others = make_family(rows);
      for (size_t i = kSets; i-- > 0;) EXPECT_EQ(minuet_coordinates_count(others[i].get()), rows >> i);
    }
    for (size_t i = 0; i < kSets; ++i) EXPECT_EQ(minuet_coordinates_count(family[i].get()), 160 >> i);
  }
}

/// The counts of a map's pairs go through memory that the first map had made, however many offsets the next
/// one has.
TEST_P(QueueMemoryTest, MapsOfManyOffsetsComeAfterMapsOfFew) {
  constexpr int32_t kRows = 20;
  const Queue queue = make_queue(machine());
  const Buffer coordinates(machine(), line_of(kRows));
  for (minuet_queue* const with : {queue.get(), static_cast<minuet_queue*>(nullptr)}) {
    Coordinates set = no_set();
    check(make_set(with, coordinates, set));
    for (const int32_t size : {3, 11, 1, 15}) {  // up to 3375 offsets
      minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
      std::fill_n(options.kernel_size, 3, size);
      minuet_kernel_map* made = nullptr;
      check(minuet_kernel_map_create(set.get(), set.get(), &options, nullptr, &made));
      const KernelMap map(made, {minuet_kernel_map_destroy});
      int64_t pairs = 0;
      for (int32_t d = -(size / 2); d <= size / 2; ++d) pairs += kRows - std::abs(d);
      EXPECT_EQ(pair_count(map.get()), pairs) << size;
      EXPECT_EQ(static_cast<int64_t>(pairs_of(map.get()).size()), pairs) << size;
    }
  }
}

class QueueMemoryOnGpu : public QueueMemoryTest {
 protected:
  void SetUp() override {
    QueueMemoryTest::SetUp();
    control_ = software_cuda::Control::find();
  }
  void TearDown() override {
    if (control_) control_->reset();
  }

  /// Sets that are made together and by themselves, maps, and a convolution, up to its output. Gives the
  /// first status that is not MINUET_OK.
  minuet_status work(minuet_queue* queue, const Buffer& coordinates, Convolution& convolution,
                     std::vector<char>& output) {
    Coordinates fine = no_set(), half = no_set(), third = no_set();
    minuet_status status = make_set(queue, coordinates, fine);
    if (status == MINUET_OK) status = make_coarser(fine.get(), 2, half);
    if (status == MINUET_OK) status = make_coarser(fine.get(), 3, third);
    if (status == MINUET_OK && minuet_coordinates_count(third.get()) < 0) status = MINUET_RESOURCE_EXHAUSTED;
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(options.kernel_size, 3, 3);
    minuet_kernel_map* made = nullptr;
    if (status == MINUET_OK)
      status = minuet_kernel_map_create(fine.get(), half.get(), &options, nullptr, &made);
    minuet_kernel_map_destroy(made);
    made = nullptr;
    if (status == MINUET_OK)
      status = minuet_kernel_map_create(fine.get(), fine.get(), &options, nullptr, &made);
    const KernelMap map(made, {minuet_kernel_map_destroy});
    minuet_execution_options with = MINUET_EXECUTION_OPTIONS_INIT;
    with.queue = queue;
    minuet_execution* execution = nullptr;
    if (status == MINUET_OK)
      status = minuet_execution_create(convolution.get(), machine().device(), &with, &execution);
    const Execution owner(execution, {minuet_execution_destroy});
    if (status == MINUET_OK) status = prepare_map(execution, map.get());
    if (status != MINUET_OK) return status;
    return run(execution, coordinates.bytes() / 16, output);
  }
  minuet_status run(minuet_execution* execution, int64_t rows, std::vector<char>& output) {
    features_->poison(), room_->poison();
    const std::vector<char> ones =
        encode(dtype(), std::vector<float>(static_cast<size_t>(rows * kSmallChannels), 1.0f));
    check(minuet_device_copy(machine().device(), features_->data(), ones.data(),
                             static_cast<int64_t>(ones.size()), 0));
    const minuet_status status = run_tensors(execution, {tensor(*features_, rows, kSmallChannels, dtype())},
                                             tensor(*room_, rows, kSmallChannels, dtype()));
    output = room_->read<char>();
    return status;
  }
  Convolution make_convolution() {
    ConvolutionCase test;
    test.dtype = dtype(), test.kernel_size = {3, 3, 3, 1}, test.points = 10;
    test.in_channels = test.out_channels = kSmallChannels;
    features_.emplace(machine(), 64 * kSmallChannels * 4);
    room_.emplace(machine(), 64 * kSmallChannels * 4);
    return {machine(), test, make_data(test)};
  }

  std::optional<software_cuda::Control> control_;
  std::optional<Buffer> features_, room_;
};

/// Each allocation in turn fails once. Device memory is there at the second try, once free blocks have gone
/// back.
TEST_P(QueueMemoryOnGpu, EveryAllocationMayFail) {
  if (!control_) return;  // only the software device fails on demand
  Convolution convolution = make_convolution();
  const Buffer coordinates(machine(), line_of(20));
  std::vector<char> expected, output;
  for (const char* const name : {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"}) {
    int64_t calls = 0, failed = 0;
    {
      control_->reset();
      const Queue queue = make_queue(machine());
      ASSERT_EQ(work(queue.get(), coordinates, convolution, expected), MINUET_OK) << last_error();
      calls = control_->calls(name);
    }
    const int64_t live = control_->live();
    for (int64_t nth = 1; nth <= calls; ++nth) {
      SCOPED_TRACE(testing::Message() << name << " number " << nth);
      control_->reset();
      control_->fail(name, static_cast<int>(nth), CUDA_ERROR_OUT_OF_MEMORY);
      minuet_queue* made = nullptr;
      minuet_status status = minuet_queue_create(machine().device(), nullptr, &made);
      const Queue first(made, {minuet_queue_destroy});
      if (status == MINUET_OK) status = work(first.get(), coordinates, convolution, output);
      control_->reset();
      if (status != MINUET_OK) {
        ++failed;
        EXPECT_EQ(status, MINUET_RESOURCE_EXHAUSTED) << last_error();
      }
      EXPECT_TRUE(status != MINUET_OK || output == expected);
      if (!first) continue;
      EXPECT_EQ(work(first.get(), coordinates, convolution, output), MINUET_OK) << last_error();
      EXPECT_EQ(output, expected);
    }
    EXPECT_EQ(control_->live(), live) << name;
    EXPECT_EQ(failed > 0, calls > 0 && std::string(name) != "cuMemAlloc")
        << name << ", " << calls << " calls";
  }
}

/// A block that no object has goes back to the driver before an allocation fails, and the others stay.
TEST_P(QueueMemoryOnGpu, FreeBlocksGoBeforeAnAllocationFails) {
  if (!control_) return;  // only the software device fails on demand
  const Queue queue = make_queue(machine());
  const Buffer few(machine(), line_of(30)), many(machine(), line_of(3000));
  Coordinates kept = no_set(), set = no_set();
  check(make_set(queue.get(), few, kept));
  check(make_set(queue.get(), few, set));
  set.reset();
  control_->reset();
  control_->fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(make_set(queue.get(), many, set), MINUET_OK) << last_error();
  EXPECT_GT(control_->calls("cuMemFree"), 0);
  control_->reset();
  set.reset();
  check(make_set(queue.get(), few, set));
  EXPECT_EQ(coordinates_of(machine(), kept.get(), 3), line_of(30));
  EXPECT_EQ(coordinates_of(machine(), set.get(), 3), line_of(30));
}

/// A network's arena is filled by a copy that no stream orders. The block that it takes may still be written
/// by work for a set that is gone.
TEST_P(QueueMemoryOnGpu, ANetworksArenaWaitsForWorkInItsBlock) {
  if (!control_) return;  // only the software device shows all orders
  const Plan plan = make_network(
      machine(),
      {"", {}, dtype(), "", 3, R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
          {"op": "block", "name": "a", "width": 0, "kernel_size": 1}]})"});
  const std::vector<int32_t> voxels = line_of(50);
  const std::vector<char> features = encode(dtype(), oracle::draw_features(200, 5));
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.max_points = 64;
  NetworkRun expected;
  int64_t bytes = 0;
  {
    const Queue queue = make_queue(machine());
    options.queue = queue.get();
    const Execution execution = make_execution(machine(), plan.get(), &options);
    bytes = counters_of(execution.get()).workspace_bytes;
    expected = run_network(machine(), execution.get(), voxels, features, dtype());
  }
  // A coarser set has room for as many keys of 8 bytes as its finer one has rows: half as much again as the
  // arena.
  const Buffer coordinates(machine(), line_of(static_cast<int32_t>(bytes / 8 * 3 / 2)));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    control_->seed(seed);
    const Queue queue = make_queue(machine());
    options.queue = queue.get();
    Coordinates fine = no_set(), coarse = no_set();
    check(make_set(queue.get(), coordinates, fine));
    check(make_coarser(fine.get(), 3, coarse));
    coarse.reset();
    control_->reset();
    const Execution execution = make_execution(machine(), plan.get(), &options);
    EXPECT_EQ(run_network(machine(), execution.get(), voxels, features, dtype()), expected)
        << "order of seed " << seed;
  }
  control_->seed(1);
}

MINUET_INSTANTIATE_EXECUTION_TEST(QueueMemoryTest);
INSTANTIATE_TEST_SUITE_P(Devices, QueueMemoryOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
