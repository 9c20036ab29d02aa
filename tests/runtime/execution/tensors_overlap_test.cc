// Memory that a call writes and memory that it reads must lie apart: single convolutions and networks, in
// exact and in capacity mode, on every device.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kChannels = 16;

/// Ends on the caller's level, which is copied in and out, or on a coarser one, which is written in place.
constexpr const char* kOntoItself =
    R"({"name": "n", "ndim": 3, "in_channels": 16, "channels": [16], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";
constexpr const char* kCoarser = R"({"name": "n", "ndim": 3, "in_channels": 16, "channels": [16], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "stride": 2}]})";

class OverlapTest : public DeviceTest {
 protected:
  int64_t points() { return machine().is_software() ? 40 : 200; }
  int64_t element() { return dtype_bytes(dtype()); }
  minuet_tensor at(void* data, int64_t rows, int64_t stride = 0) {
    return tensor(data, rows, kChannels, abi_dtype(dtype()), stride);
  }
  static char* moved(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

  void expect_refused(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                      const minuet_tensor& output, const char* one, const char* other) {
    EXPECT_EQ(run_tensors(execution, inputs, output), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr(one), HasSubstr(other), HasSubstr("overlap")));
  }

  /// Every way in which the output may share memory with the input, in one block of memory, and the ways in
  /// which it may come close. `expected`: what the output is where it lies apart.
  void check_input_and_output(minuet_execution* execution, const std::vector<char>& features, int64_t in_rows,
                              int64_t out_rows, const std::vector<char>& expected) {
    const int64_t row = kChannels * element(), in_bytes = in_rows * row, out_bytes = out_rows * row;
    ASSERT_EQ(static_cast<int64_t>(features.size()), in_bytes);
    Buffer block(machine(), in_bytes + 2 * out_bytes);
    char* const input = moved(block.data(), out_bytes);
    const auto fill = [&] {
      block.poison();
      check(minuet_device_copy(machine().device(), input, features.data(), in_bytes, 0));
    };
    fill();
    for (const int64_t place : {out_bytes, out_bytes + row, int64_t{16}, out_bytes + in_bytes - 16}) {
      SCOPED_TRACE(place);
      expect_refused(execution, {at(input, in_rows)}, at(moved(block.data(), place), out_rows), "output 0",
                     "input 0");
    }
    std::vector<char> before(block.read<char>());
    EXPECT_TRUE(std::equal(features.begin(), features.end(), before.begin() + out_bytes))
        << "nothing is written";
    for (const int64_t place : {int64_t{0}, out_bytes + in_bytes}) {  // just before it and just behind it
      fill();
      check(run_tensors(execution, {at(input, in_rows)}, at(moved(block.data(), place), out_rows)));
      const std::vector<char> after = block.read<char>();
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), after.begin() + place)) << place;
    }
  }

  /// Two ranges of columns of one wider matrix, whose rows lie between each other's.
  void check_columns(minuet_execution* execution, const std::vector<char>& features, int64_t in_rows,
                     int64_t out_rows, const std::vector<char>& expected) {
    const int64_t row = kChannels * element(), rows = std::max(in_rows, out_rows);
    Buffer wide(machine(), rows * 2 * row);
    std::vector<char> bytes = wide.read<char>();
    for (int64_t r = 0; r < in_rows; ++r) std::memcpy(&bytes[r * 2 * row], &features[r * row], row);
    check(minuet_device_copy(machine().device(), wide.data(), bytes.data(), wide.bytes(), 0));
    const minuet_tensor input = at(wide.data(), in_rows, 2 * kChannels);
    expect_refused(execution, {input}, at(moved(wide.data(), 16), out_rows, 2 * kChannels), "output 0",
                   "input 0");
    check(run_tensors(execution, {input}, at(moved(wide.data(), row), out_rows, 2 * kChannels)));
    for (int64_t r = 0; r < out_rows; ++r) std::memcpy(&bytes[r * 2 * row + row], &expected[r * row], row);
    EXPECT_EQ(wide.read<char>(), bytes);
    if (out_rows < 2 || in_rows < 2) return;
    const minuet_tensor dense = at(moved(wide.data(), row), out_rows);
    expect_refused(execution, {input}, dense, "output 0", "input 0");  // another stride, and ranges that meet
  }

  void check_network(const char* description) {
    SCOPED_TRACE(description);
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
    const Plan network = make_network(machine(), spec);
    const std::vector<int32_t> scene = make_scene(points(), 411);
    const auto count = static_cast<int64_t>(scene.size()) / 4;
    const std::vector<char> features = encode(dtype(), oracle::draw_features(count * kChannels, 412));
    const Execution exact = make_execution(machine(), network.get());
    const NetworkRun run = run_network(machine(), exact.get(), scene, features, dtype(), 3, kChannels);
    check_input_and_output(exact.get(), features, count, run.rows, run.bytes);
    check_columns(exact.get(), features, count, run.rows, run.bytes);

    std::vector<int64_t> capacities(static_cast<size_t>(info_of(network.get()).levels));
    const auto levels = static_cast<int32_t>(capacities.size());
    check(minuet_execution_suggest_capacities(exact.get(), 1, capacities.data(), levels));
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = capacities.data();
    options.level_count = levels;
    const Execution within = make_execution(machine(), network.get(), &options);
    const int64_t rows = capacities[static_cast<size_t>(info_of(network.get()).output_level)];
    std::vector<char> padded = features;
    padded.resize(static_cast<size_t>(capacities[0] * kChannels * element()), '\0');
    const Buffer coordinates(machine(), scene), input(machine(), padded);
    const Buffer output(machine(), rows * kChannels * element());
    check(minuet_execution_prepare(within.get(), coordinates.integers(), count, nullptr));
    check(run_tensors(within.get(), {at(input.data(), capacities[0])}, at(output.data(), rows)));
    const std::vector<char> expected = output.read<char>();
    check_input_and_output(within.get(), padded, capacities[0], rows, expected);
    check_columns(within.get(), padded, capacities[0], rows, expected);
    check_words_of_the_cloud(within.get(), coordinates, capacities[0]);
  }

  /// A prepare writes the status and the counts, and reads the count.
  void check_words_of_the_cloud(minuet_execution* execution, const Buffer& scene, int64_t capacity) {
    const uint32_t* status = nullptr;
    const int32_t* counts = nullptr;
    check(minuet_execution_query_cloud(execution, &status, &counts));
    const Buffer coordinates(machine(), std::max<int64_t>(capacity * 16, scene.bytes()));
    const void* const words[] = {status, counts, counts + 1};
    for (const void* const count : words) {
      EXPECT_EQ(minuet_execution_prepare_on_device(execution, coordinates.integers(),
                                                   static_cast<const int32_t*>(count), nullptr),
                MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), AllOf(HasSubstr("status and counts"), HasSubstr("count overlap")));
    }
  }
};

TEST_P(OverlapTest, AConvolutionsOutputLiesApart) {
  for (const ConvolutionKind kind : all_kinds()) {
    if (machine().is_software() && kind != ConvolutionKind::Submanifold) continue;
    ConvolutionCase test = small_case(dtype(), kind, kChannels, kChannels, points());
    test.residual = false;
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    Convolution convolution(machine(), test, data);
    const Execution execution = convolution.execution();
    const std::vector<char> expected = map.to_output(convolution.run(execution.get(), map, data));
    const std::vector<char> features = encode(dtype(), map.to_input(data.features));
    check_input_and_output(execution.get(), features, data.in_rows(), data.out_rows(), expected);
    check_columns(execution.get(), features, data.in_rows(), data.out_rows(), expected);
  }
}

TEST_P(OverlapTest, AConvolutionsResidualIsCalledSo) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, kChannels, kChannels, points());
  test.residual = true;
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  const Execution execution = convolution.execution();
  convolution.run(execution.get(), map, data);
  const int64_t rows = data.out_rows(), bytes = rows * kChannels * element();
  Buffer block(machine(), encode(dtype(), data.features));
  const Buffer residual(machine(), 2 * bytes);
  const minuet_tensor input = at(block.data(), rows), added = at(residual.data(), rows);
  expect_refused(execution.get(), {input, added}, added, "output 0", "input 1 (the residual)");
  expect_refused(execution.get(), {input, added}, at(moved(residual.data(), bytes - 16), rows), "output 0",
                 "input 1 (the residual)");
  expect_refused(execution.get(), {input, added}, input, "output 0", "input 0");
  check(run_tensors(execution.get(), {input, input}, added));  // inputs may be the same
}

TEST_P(OverlapTest, ANetworksOutputLiesApart) {
  for (const char* const description : {kOntoItself, kCoarser}) check_network(description);
}

/// The execution's own memory, where the caller gave it.
TEST_P(OverlapTest, NothingLiesInTheWorkspace) {
  NetworkSpec spec;
  spec.description = kOntoItself, spec.dtype = dtype();
  const Plan network = make_network(machine(), spec);
  const std::vector<int32_t> scene = make_scene(points(), 413);
  const auto count = static_cast<int64_t>(scene.size()) / 4;
  int64_t bytes = 0;
  check(minuet_plan_workspace_bytes(network.get(), machine().arch().c_str(), nullptr, count, 27, &bytes));
  // What begins inside of the workspace may end behind it. Another buffer must not lie there, or it would be
  // named.
  const Buffer workspace(machine(), bytes + count * kChannels * element()), coordinates(machine(), scene);
  const Buffer input(machine(), encode(dtype(), oracle::draw_features(count * kChannels, 414)));
  const Buffer output(machine(), count * kChannels * element());
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.workspace = workspace.data();
  options.workspace_bytes = bytes;
  const Execution execution = make_execution(machine(), network.get(), &options);
  for (const int64_t place : {int64_t{0}, bytes - 16}) {
    auto* const inside = reinterpret_cast<int32_t*>(moved(workspace.data(), place));
    const auto expect_named = [&](minuet_status status, const char* name) {
      EXPECT_EQ(status, MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), AllOf(HasSubstr("the workspace"), HasSubstr(name), HasSubstr("overlap")));
    };
    expect_named(minuet_execution_prepare(execution.get(), inside, count, nullptr), "coordinates");
    check(minuet_execution_prepare(execution.get(), coordinates.integers(), count, nullptr));
    const minuet_tensor good_input = at(input.data(), count), good_output = at(output.data(), count);
    expect_refused(execution.get(), {at(inside, count)}, good_output, "the workspace", "input 0");
    expect_refused(execution.get(), {good_input}, at(inside, count), "output 0", "the workspace");
    expect_named(minuet_execution_output_coordinates(execution.get(), inside, nullptr), "coordinates");
    check(run_tensors(execution.get(), {good_input}, good_output));
  }
}

/// Where the count is on the device, the host knows of one row of the coordinates: their rows may end where
/// the workspace begins. Where the count is on the host, all rows are known.
TEST_P(OverlapTest, CoordinatesMayEndWhereTheWorkspaceBegins) {
  constexpr int32_t kCount = 16;
  constexpr int64_t kCapacity = 64, kRow = 16, kBefore = kCount * kRow;
  NetworkSpec spec;
  spec.description = kOntoItself, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = &kCapacity;
  options.level_count = 1;
  const int64_t bytes = counters_of(make_execution(machine(), network.get(), &options).get()).workspace_bytes;
  const Buffer pool(machine(), kBefore + bytes + kBefore);
  options.workspace = moved(pool.data(), kBefore);
  options.workspace_bytes = bytes;
  const Execution execution = make_execution(machine(), network.get(), &options);
  std::vector<int32_t> scene;
  for (int32_t i = 0; i < kCount; ++i) scene.insert(scene.end(), {0, i, 2 * i, -i});
  const Buffer count(machine(), std::vector<int32_t>{kCount});
  const auto at_byte = [&](int64_t place) { return reinterpret_cast<int32_t*>(moved(pool.data(), place)); };
  for (const int64_t place : {int64_t{0}, kBefore + bytes}) {  // just before it and just behind it
    SCOPED_TRACE(place);
    check(minuet_device_copy(machine().device(), at_byte(place), scene.data(), kBefore, 0));
    for (const bool is_on_device : {false, true}) {
      EXPECT_EQ(is_on_device ? minuet_execution_prepare_on_device(execution.get(), at_byte(place),
                                                                  count.integers(), nullptr)
                             : minuet_execution_prepare(execution.get(), at_byte(place), kCount, nullptr),
                MINUET_OK)
          << last_error();
      uint32_t status = ~0u;
      std::vector<int32_t> counts(2);
      check(minuet_execution_read_cloud(execution.get(), &status, counts.data(), 2, nullptr));
      EXPECT_EQ(status, 0u);
      EXPECT_EQ(counts, std::vector<int32_t>(2, kCount));
    }
  }
  const auto expect_refused = [&](minuet_status status) {
    EXPECT_EQ(status, MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("the workspace"), HasSubstr("coordinates overlap")));
  };
  for (const int64_t place : {kBefore - 4, kBefore, kBefore + bytes - 4}) {  // bytes of the first row
    SCOPED_TRACE(place);
    expect_refused(
        minuet_execution_prepare_on_device(execution.get(), at_byte(place), count.integers(), nullptr));
  }
  expect_refused(minuet_execution_prepare(execution.get(), at_byte(0), kCount + 1, nullptr));
}

/// Two numbers that one call gives go to two places.
TEST_P(OverlapTest, AnswersLieApart) {
  constexpr int64_t kCapacity = 64;
  NetworkSpec spec;
  spec.description = kOntoItself, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = &kCapacity;
  options.level_count = 1;
  const Execution made = make_execution(machine(), network.get(), &options);
  minuet_execution* const execution = made.get();
  const Buffer scene(machine(), std::vector<int32_t>{0, 1, 2, 3});
  check(minuet_execution_prepare(execution, scene.integers(), 1, nullptr));
  alignas(16) char room[64];
  const auto place = [&](int bytes) { return static_cast<void*>(room + 16 + bytes); };
  struct Row {
    const char *one, *other;
    int64_t one_bytes, other_bytes;
    std::function<minuet_status(void* one, void* other)> call;
  };
  const Row rows[] = {
      {"rows", "channels", 8, 4,
       [&](void* one, void* other) {
         return minuet_execution_output_shape(execution, static_cast<int64_t*>(one),
                                              static_cast<int32_t*>(other));
       }},
      {"status", "counts", 8, 8,
       [&](void* one, void* other) {
         return minuet_execution_query_cloud(execution, static_cast<const uint32_t**>(one),
                                             static_cast<const int32_t**>(other));
       }},
      {"status", "counts", 4, 8,
       [&](void* one, void* other) {
         return minuet_execution_read_cloud(execution, static_cast<uint32_t*>(one),
                                            static_cast<int32_t*>(other), 2, nullptr);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.one) + " " + std::to_string(row.one_bytes));
    const auto step = static_cast<int>(row.other_bytes == 8 && row.one_bytes == 8 ? 8 : 4);
    for (int at = -16; at <= 16; at += step) {
      const bool is_apart = at + row.other_bytes <= 0 || at >= row.one_bytes;
      std::memset(room, 'x', sizeof(room));
      const std::vector<char> before(room, room + sizeof(room));
      EXPECT_EQ(row.call(place(0), place(at)), is_apart ? MINUET_OK : MINUET_INVALID_ARGUMENT) << at;
      if (is_apart) continue;
      EXPECT_THAT(last_error(), AllOf(HasSubstr(row.one), HasSubstr(row.other), HasSubstr("overlap")));
      EXPECT_EQ(std::vector<char>(room, room + sizeof(room)), before) << "nothing is written";
    }
  }
}

/// On the CPU device both sides of a copy are the host's.
TEST_P(OverlapTest, ACopysTargetLiesApart) {
  Buffer memory(machine(), 64);
  const std::vector<char> host(64, 'x');
  check(minuet_device_copy(machine().device(), memory.data(), host.data(), 64, 0));
  for (const int32_t direction : {0, 1}) {
    for (const int place : {0, 16, 31}) {
      EXPECT_EQ(
          minuet_device_copy(machine().device(), memory.data(), moved(memory.data(), place), 32, direction),
          MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("target and source overlap"));
    }
  }
  if (machine().is_cpu())
    check(minuet_device_copy(machine().device(), memory.data(), moved(memory.data(), 32), 32, 0));
}

MINUET_INSTANTIATE_DEVICE_TEST(OverlapTest);

}  // namespace
}  // namespace minuet::abi
