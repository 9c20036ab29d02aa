// Single ops on pyramids, against the same ops on sets and maps whose sizes the host knows; and what can be
// taken out of a pyramid.
#include "include/minuet/gradient.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/pooling_abi.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class PyramidOpsTest : public CapacityTest {
 protected:
  static constexpr int32_t kIn = 16, kOut = 24;
  // The pyramid's maps.
  static constexpr int32_t kSubmanifold = 0, kPoint = 1, kDown = 2, kWide = 3;

  void SetUp() override {
    CapacityTest::SetUp();
    if (IsSkipped()) return;
    coordinates_ = make_scene(machine().is_software() ? 50 : 400, 3);
    rows_ = static_cast<int64_t>(coordinates_.size()) / 4;
    capacity_ = {rows_ + 37, rows_ + 5};
  }

  minuet_pyramid_options options() {
    constexpr uint32_t kAll = 31;
    levels_ = {level_of(capacity_[0]), level_of(capacity_[1], 0, 2)};
    maps_ = {map_between(0, 0, 3, kAll), map_between(0, 0, 1, kAll - MINUET_PURPOSE_EXPORT),
             map_between(0, 1, 2, kAll), map_between(0, 1, 3, kAll)};
    minuet_pyramid_options made = MINUET_PYRAMID_OPTIONS_INIT;
    made.levels = levels_.data(), made.level_count = static_cast<int32_t>(levels_.size());
    made.maps = maps_.data(), made.map_count = static_cast<int32_t>(maps_.size());
    made.keep_coordinates = 3;
    return made;
  }

  minuet_convolution_options convolution(int32_t map, bool transposed, bool residual) {
    minuet_convolution_options made = MINUET_CONVOLUTION_OPTIONS_INIT;
    made.dtype = abi_dtype(dtype());
    made.in_channels = kIn, made.out_channels = kOut;
    const int32_t kernel = maps_[static_cast<size_t>(map)].kernel_size[0];
    const bool is_within = maps_[static_cast<size_t>(map)].coarse == 0;
    for (int a = 0; a < 3; ++a) made.kernel_size[a] = kernel, made.stride[a] = is_within ? 1 : 2;
    made.submanifold = is_within, made.transposed = transposed;
    made.residual = residual;
    made.dataflow = MINUET_DATAFLOW_FUSED;
    Random random(5);
    weight_.resize(static_cast<size_t>(kernel * kernel * kernel * kIn * kOut));
    for (float& value : weight_) value = random.uniform(-1, 1);
    made.weight = weight_.data(), made.weight_count = static_cast<int64_t>(weight_.size());
    return made;
  }
  Plan plan_of(minuet_plan* made) {
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }
  Plan convolution_plan(int32_t map, bool transposed, bool residual = false) {
    const minuet_convolution_options given = convolution(map, transposed, residual);
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(machine().context(), &given, &made));
    return plan_of(made);
  }
  Plan pooling_plan(int32_t map, bool transposed, bool winners) {
    const minuet_pooling_options given = pooling(map, transposed, winners);
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pooling(machine().context(), &given, &made));
    return plan_of(made);
  }
  Plan pooling_gradient_plan(int32_t map, bool transposed, minuet_reduction reduction) {
    minuet_pooling_options given = pooling(map, transposed, false);
    given.reduction = reduction;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pooling_gradient(machine().context(), &given, &made));
    return plan_of(made);
  }
  minuet_pooling_options pooling(int32_t map, bool transposed, bool winners) {
    const minuet_convolution_options like = convolution(map, transposed, false);
    minuet_pooling_options given = MINUET_POOLING_OPTIONS_INIT;
    given.dtype = like.dtype, given.channels = kIn;
    std::copy_n(like.kernel_size, 4, given.kernel_size);
    std::copy_n(like.stride, 4, given.stride);
    given.submanifold = like.submanifold, given.transposed = transposed;
    given.winners = winners;
    return given;
  }

  /// Sets and maps of the same coordinates, whose sizes the host knows.
  struct Exact {
    Coordinates fine{nullptr, {minuet_coordinates_destroy}}, coarse{nullptr, {minuet_coordinates_destroy}};
    KernelMap map{nullptr, {minuet_kernel_map_destroy}};
    int64_t in_rows = 0, out_rows = 0;
  };
  Exact exact(int32_t map, bool transposed) {
    Exact made;
    made.fine = make_set(machine(), 3, coordinates_, {1, 1, 1, 1}, set_options_);
    made.coarse = downsample(made.fine.get(), {2, 2, 2, 1});
    const minuet_pyramid_map& wanted = maps_[static_cast<size_t>(map)];
    minuet_kernel_map_options given = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::copy_n(wanted.kernel_size, 4, given.kernel_size);
    given.transposed = transposed;
    minuet_coordinates* const other = wanted.coarse == 0 ? made.fine.get() : made.coarse.get();
    minuet_coordinates* const in = transposed ? other : made.fine.get();
    minuet_coordinates* const out = transposed ? made.fine.get() : other;
    minuet_kernel_map* made_map = nullptr;
    check(minuet_kernel_map_create(in, out, &given, nullptr, &made_map));
    made.map.reset(made_map);
    made.in_rows = minuet_coordinates_rows(in), made.out_rows = minuet_coordinates_rows(out);
    return made;
  }

  std::vector<float> random_features(int64_t rows, int32_t channels, uint64_t seed) const {
    Random random(seed);
    std::vector<float> values(static_cast<size_t>(rows * channels));
    for (float& value : values) value = static_cast<float>(random.between(-3, 3));
    return values;
  }
  minuet_array array(const Buffer& buffer, int64_t rows, int32_t channels) const {
    return array_of(tensor(buffer, rows, channels, dtype()));
  }
  /// Rows past the count are poison.
  Buffer& padded(const std::vector<char>& bytes, int64_t rows, int64_t row_bytes) {
    Buffer& made = buffers_.emplace_back(machine(), rows * row_bytes);
    if (!bytes.empty())
      check(minuet_device_copy(machine().device(), made.data(), bytes.data(),
                               static_cast<int64_t>(bytes.size()), 0));
    return made;
  }

  /// Outputs of the exact run, and of the run on the pyramid, as far as the exact one has rows; the rest of
  /// the latter is zeros, and -1 for winners.
  void expect_same(minuet_plan* plan, TestPyramid& pyramid, int32_t map, bool transposed,
                   int32_t out_channels, bool residual, bool winners) {
    const Exact given = exact(map, transposed);
    const minuet_pyramid_map& wanted = maps_[static_cast<size_t>(map)];
    const int64_t element = dtype_bytes(dtype());
    const int64_t in_capacity = capacity_[static_cast<size_t>(transposed ? wanted.coarse : wanted.fine)];
    const int64_t out_capacity = capacity_[static_cast<size_t>(transposed ? wanted.fine : wanted.coarse)];
    const std::vector<char> features = encode(dtype(), random_features(given.in_rows, kIn, 11));
    const std::vector<char> added =
        residual ? encode(dtype(), random_features(given.out_rows, out_channels, 12)) : std::vector<char>();

    Buffer exact_output(machine(), given.out_rows * out_channels * element);
    Buffer exact_winners(machine(), given.out_rows * out_channels * 4);
    Buffer& exact_input = padded(features, given.in_rows, kIn * element);
    Buffer& exact_added = padded(added, given.out_rows, out_channels * element);
    const Execution execution = make_execution(machine(), plan, nullptr);
    check(prepare_map(execution.get(), given.map.get()));
    std::vector<minuet_array> inputs{array(exact_input, given.in_rows, kIn)};
    if (residual) inputs.push_back(array(exact_added, given.out_rows, out_channels));
    std::vector<minuet_array> outputs{array(exact_output, given.out_rows, out_channels)};
    const std::vector<int64_t> exact_shape{given.out_rows, out_channels};
    if (winners) outputs.push_back(array_of(exact_winners.data(), exact_shape, MINUET_ELEMENT_I32));
    check(run_arrays(execution.get(), inputs, outputs));

    pyramid.build(coordinates_);
    Buffer& input = padded(features, in_capacity, kIn * element);
    Buffer& more = padded(added, out_capacity, out_channels * element);
    Buffer output(machine(), out_capacity * out_channels * element),
        rows(machine(), out_capacity * out_channels * 4);
    inputs = {array(input, in_capacity, kIn)};
    if (residual) inputs.push_back(array(more, out_capacity, out_channels));
    outputs = {array(output, out_capacity, out_channels)};
    const std::vector<int64_t> shape{out_capacity, out_channels};
    if (winners) outputs.push_back(array_of(rows.data(), shape, MINUET_ELEMENT_I32));
    minuet_run_arguments arguments = pyramid.run_arguments();
    arguments.map = map;
    run_on(machine(), plan, arguments, inputs, outputs);

    std::vector<char> expected = exact_output.read<char>();
    expected.resize(static_cast<size_t>(output.bytes()));
    EXPECT_EQ(output.read<char>(), expected);
    if (!winners) return;
    std::vector<int32_t> expected_rows = exact_winners.read<int32_t>();
    expected_rows.resize(static_cast<size_t>(out_capacity * out_channels), -1);
    EXPECT_EQ(rows.read<int32_t>(), expected_rows);
  }

  int64_t capacity_of(int32_t map, bool of_coarse) const {
    const minuet_pyramid_map& wanted = maps_[static_cast<size_t>(map)];
    return capacity_[static_cast<size_t>(of_coarse ? wanted.coarse : wanted.fine)];
  }
  /// The gradient of a pooling's input on the pyramid. Rows past the counts are poison before.
  std::vector<char> gradient_on(TestPyramid& pyramid, minuet_plan* plan, int32_t map, bool transposed,
                                const std::vector<minuet_array>& inputs, uint32_t order) {
    const int64_t rows = capacity_of(map, transposed);
    const Buffer output(machine(), rows * kIn * dtype_bytes(dtype()));
    minuet_run_arguments arguments = pyramid.run_arguments();
    arguments.map = map, arguments.set_order = order;
    run_on(machine(), plan, arguments, inputs, {array(output, rows, kIn)});
    return output.read<char>();
  }

  void expect_same_gradient(TestPyramid& pyramid, int32_t map, bool transposed, minuet_reduction reduction) {
    const Plan plan = pooling_gradient_plan(map, transposed, reduction);
    const Exact given = exact(map, transposed);
    const int64_t element = dtype_bytes(dtype()), capacity = capacity_of(map, !transposed);
    const std::vector<char> gradient = encode(dtype(), random_features(given.out_rows, kIn, 13));
    minuet_kernel_map* swapped = nullptr;
    check(minuet_kernel_map_transpose(given.map.get(), &swapped));
    const KernelMap owner(swapped, {minuet_kernel_map_destroy});
    const Execution execution = make_execution(machine(), plan.get(), nullptr);
    check(prepare_map(execution.get(), swapped));
    const Buffer output(machine(), given.in_rows * kIn * element);
    check(run_arrays(execution.get(),
                     {array(padded(gradient, given.out_rows, kIn * element), given.out_rows, kIn)},
                     {array(output, given.in_rows, kIn)}));
    pyramid.build(coordinates_);
    std::vector<char> expected = output.read<char>();
    expected.resize(static_cast<size_t>(capacity_of(map, transposed) * kIn * element));
    const Buffer& input = padded(gradient, capacity, kIn * element);
    EXPECT_EQ(gradient_on(pyramid, plan.get(), map, transposed, {array(input, capacity, kIn)}, 0), expected);
  }

  void expect_gradient_of_winners(TestPyramid& pyramid, int32_t map, bool transposed, uint32_t order) {
    const Plan forward = pooling_plan(map, transposed, /*winners=*/true);
    const Plan plan = pooling_gradient_plan(map, transposed, MINUET_REDUCE_MAX);
    const int64_t element = dtype_bytes(dtype()), in_capacity = capacity_of(map, transposed),
                  out_capacity = capacity_of(map, !transposed);
    const Exact given = exact(map, transposed);
    pyramid.build(coordinates_);
    const Buffer &input = padded(encode(dtype(), random_features(given.in_rows, kIn, 14)), in_capacity,
                                 kIn * element),
                 &pooled = padded({}, out_capacity, kIn * element),
                 &winners = padded({}, out_capacity, kIn * 4);
    const minuet_array second = array_of(winners.data(), {out_capacity, kIn}, MINUET_ELEMENT_I32);
    minuet_run_arguments arguments = pyramid.run_arguments();
    arguments.map = map, arguments.set_order = order;
    run_on(machine(), forward.get(), arguments, {array(input, in_capacity, kIn)},
           {array(pooled, out_capacity, kIn), second});
    const std::vector<float> gradient = random_features(given.out_rows, kIn, 15);
    const Buffer& out_gradient = padded(encode(dtype(), gradient), out_capacity, kIn * element);
    const std::vector<char> got = gradient_on(pyramid, plan.get(), map, transposed,
                                              {array(out_gradient, out_capacity, kIn), second}, order);
    const std::vector<int32_t> rows = winners.read<int32_t>();
    std::vector<float> expected(static_cast<size_t>(in_capacity * kIn), 0);  // small integers, so exact
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (rows[i] >= 0) expected[static_cast<size_t>(rows[i]) * kIn + i % kIn] += gradient[i];
    }
    EXPECT_EQ(decode(dtype(), got), expected);
  }

  std::vector<int32_t> coordinates_;
  int64_t rows_ = 0;
  Capacities capacity_;
  minuet_coordinates_options set_options_ = MINUET_COORDINATES_OPTIONS_INIT;
  std::vector<minuet_pyramid_level> levels_;
  std::vector<minuet_pyramid_map> maps_;
  std::vector<float> weight_;
  std::deque<Buffer> buffers_;
};

TEST_P(PyramidOpsTest, Convolutions) {
  TestPyramid pyramid(machine(), options());
  for (const int32_t map : {kSubmanifold, kPoint, kDown, kWide}) {
    for (const bool transposed : {false, true}) {
      if (transposed && map < kDown) continue;
      for (const bool residual : {false, true}) {
        SCOPED_TRACE(testing::Message() << "map " << map << transposed << residual);
        const Plan plan = convolution_plan(map, transposed, residual);
        expect_same(plan.get(), pyramid, map, transposed, kOut, residual, false);
      }
    }
  }
}

TEST_P(PyramidOpsTest, Poolings) {
  TestPyramid pyramid(machine(), options());
  for (const int32_t map : {kSubmanifold, kPoint, kDown, kWide}) {
    for (const bool transposed : {false, true}) {
      if (transposed && map < kDown) continue;
      SCOPED_TRACE(testing::Message() << "map " << map << transposed);
      const Plan plan = pooling_plan(map, transposed, /*winners=*/true);
      expect_same(plan.get(), pyramid, map, transposed, kIn, false, true);
    }
  }
}

/// The gradients of sums and averages equal those of sets and maps whose sizes the host knows. That of a
/// maximum adds each element to the row that the pooling on the pyramid has named, whatever the order of
/// rows.
TEST_P(PyramidOpsTest, PoolingGradients) {
  TestPyramid pyramid(machine(), options());
  for (const int32_t map : {kSubmanifold, kPoint, kDown, kWide}) {
    for (const bool transposed : {false, true}) {
      if (transposed && map < kDown) continue;
      SCOPED_TRACE(testing::Message() << "map " << map << transposed);
      for (const minuet_reduction reduction : {MINUET_REDUCE_AVERAGE, MINUET_REDUCE_SUM}) {
        expect_same_gradient(pyramid, map, transposed, reduction);
      }
      constexpr uint32_t kAll = MINUET_SET_ORDER_INPUT | MINUET_SET_ORDER_OUTPUT | MINUET_SET_ORDER_RESIDUAL;
      for (const uint32_t order : {0u, kAll}) expect_gradient_of_winners(pyramid, map, transposed, order);
    }
  }
  coordinates_.clear();
  expect_same_gradient(pyramid, kDown, false, MINUET_REDUCE_AVERAGE);
  expect_gradient_of_winners(pyramid, kDown, false, 0);
}

/// The first of duplicates counts, and all of them get its output.
TEST_P(PyramidOpsTest, WithDuplicates) {
  for (int i = 0; i < 9; ++i) {
    const size_t from = static_cast<size_t>(4 * (7 * i % rows_));
    for (size_t word = 0; word < 4; ++word) coordinates_.push_back(coordinates_[from + word]);
  }
  set_options_.keep_first_duplicate = 1;
  minuet_pyramid_options given = options();
  given.keep_first_duplicate = 1;
  TestPyramid pyramid(machine(), given);
  for (const int32_t map : {kSubmanifold, kDown}) {
    const Plan plan = convolution_plan(map, false);
    expect_same(plan.get(), pyramid, map, false, kOut, false, false);
    const Plan pooling = pooling_plan(map, false, /*winners=*/true);
    expect_same(pooling.get(), pyramid, map, false, kIn, false, true);
  }
}

/// Two convolutions on level 0 with the set's order between them give what they give in the caller's order.
TEST_P(PyramidOpsTest, RowsInTheOrderOfTheSet) {
  TestPyramid pyramid(machine(), options());
  pyramid.build(coordinates_);
  const Plan first = convolution_plan(kSubmanifold, false);
  const Plan second = pooling_plan(kSubmanifold, false, /*winners=*/true);
  const int64_t element = dtype_bytes(dtype()), capacity = capacity_[0];
  Buffer& input = padded(encode(dtype(), random_features(rows_, kIn, 13)), capacity, kIn * element);
  const Plan pool = pooling_plan(kSubmanifold, false, false);
  std::vector<char> results[2];
  std::vector<int32_t> winners[2];
  for (const bool in_set_order : {false, true}) {
    const Buffer between(machine(), capacity * kIn * element), output(machine(), capacity * kIn * element);
    const Buffer rows(machine(), capacity * kIn * 4);
    minuet_run_arguments given = pyramid.run_arguments();
    if (in_set_order) given.set_order = MINUET_SET_ORDER_OUTPUT;
    run_on(machine(), pool.get(), given, {array(input, capacity, kIn)}, {array(between, capacity, kIn)});
    if (in_set_order) given.set_order = MINUET_SET_ORDER_INPUT;
    run_on(machine(), second.get(), given, {array(between, capacity, kIn)},
           {array(output, capacity, kIn), array_of(rows.data(), {capacity, kIn}, MINUET_ELEMENT_I32)});
    results[in_set_order] = output.read<char>();
    winners[in_set_order] = rows.read<int32_t>();
  }
  EXPECT_EQ(results[0], results[1]);
  // Winners are numbers of the input's rows, in whichever order they are.
  const Buffer source_row(machine(), capacity * 4), set_row(machine(), capacity * 4);
  check(minuet_pyramid_rows(pyramid.get(), machine().device(), pyramid.buffer().data(),
                            pyramid.buffer().bytes(), static_cast<int32_t*>(source_row.data()),
                            static_cast<int32_t*>(set_row.data()), nullptr));
  const std::vector<int32_t> sources = source_row.read<int32_t>(), set_rows = set_row.read<int32_t>();
  for (int32_t& row : winners[1]) {
    if (row >= 0) row = sources[static_cast<size_t>(row)];
  }
  EXPECT_EQ(winners[0], winners[1]);
  for (int64_t row = 0; row < rows_; ++row) EXPECT_EQ(sources[static_cast<size_t>(set_rows[row])], row);
}

TEST_P(PyramidOpsTest, CoordinatesAndPairsCanBeTakenOut) {
  TestPyramid pyramid(machine(), options());
  pyramid.build(coordinates_);
  const Exact sets = exact(kDown, false);
  const auto coordinates = [&](int32_t level) {
    const Buffer taken(machine(), capacity_[static_cast<size_t>(level)] * 16);
    check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                     pyramid.buffer().bytes(), level, static_cast<int32_t*>(taken.data()),
                                     nullptr));
    return taken.read<int32_t>();
  };
  std::vector<int32_t> expected = coordinates_of(machine(), sets.coarse.get(), 3);
  expected.resize(static_cast<size_t>(capacity_[1] * 4));
  EXPECT_EQ(coordinates(1), expected);
  std::vector<int32_t> finest = coordinates(0);
  EXPECT_TRUE(std::all_of(finest.begin() + rows_ * 4, finest.end(), [](int32_t word) { return word == 0; }));
  finest.resize(static_cast<size_t>(rows_ * 4));
  EXPECT_EQ(ascending(finest, 3), ascending(coordinates_, 3));

  for (const int32_t map : {kSubmanifold, kDown, kWide}) {
    const Exact given = exact(map, false);
    const std::vector<oracle::Pair> pairs = pairs_of(given.map.get());
    for (const int64_t room :
         {static_cast<int64_t>(pairs.size()) + 4, static_cast<int64_t>(pairs.size()) / 2}) {
      const Buffer list(machine(), room * 12), count(machine(), 4);
      const std::vector<int32_t> poison = list.read<int32_t>();
      check(minuet_pyramid_export_pairs(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                        pyramid.buffer().bytes(), map, static_cast<int32_t*>(list.data()),
                                        room, static_cast<int32_t*>(count.data()), nullptr));
      EXPECT_EQ(count.read<int32_t>().front(), static_cast<int32_t>(pairs.size()));
      const std::vector<int32_t> words = list.read<int32_t>();
      const size_t written = std::min(pairs.size(), static_cast<size_t>(room));
      std::vector<oracle::Pair> found;
      for (size_t i = 0; i < written; ++i)
        found.push_back({words[3 * i], words[3 * i + 1], words[3 * i + 2]});
      oracle::sort(found);
      if (written == pairs.size()) {
        EXPECT_EQ(found, pairs);
        EXPECT_TRUE(std::equal(words.begin() + 3 * written, words.end(), poison.begin() + 3 * written));
      } else {
        for (const oracle::Pair& pair : found)
          EXPECT_TRUE(std::binary_search(pairs.begin(), pairs.end(), pair));
      }
    }
  }
}

TEST_P(PyramidOpsTest, RefusesOpsThatTheMapDoesNotServe) {
  TestPyramid pyramid(machine(), options());
  const Plan plan = convolution_plan(kSubmanifold, false), up = convolution_plan(kDown, true);
  const auto refused = [&](minuet_plan* given, int32_t map, const std::string& words) {
    minuet_run_arguments arguments = pyramid.run_arguments();
    arguments.map = map;
    int64_t bytes = 0;
    EXPECT_EQ(minuet_plan_run_bytes(given, machine().arch().c_str(), &arguments, &bytes),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused(plan.get(), 4, "map is 4");
  refused(plan.get(), -1, "map is -1");
  refused(plan.get(), kDown, "kernel size");
  refused(plan.get(), kWide, "submanifold");
  refused(up.get(), kWide, "kernel size");
  maps_[kSubmanifold].purposes = MINUET_PURPOSE_POOLING;
  minuet_pyramid_options given = MINUET_PYRAMID_OPTIONS_INIT;
  given.levels = levels_.data(), given.level_count = static_cast<int32_t>(levels_.size());
  given.maps = maps_.data(), given.map_count = static_cast<int32_t>(maps_.size());
  const TestPyramid poolings(machine(), given);
  minuet_run_arguments arguments = poolings.run_arguments();
  int64_t bytes = 0;
  EXPECT_EQ(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &arguments, &bytes),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("is not made for"));
  int32_t word = 0;
  EXPECT_EQ(minuet_pyramid_export_pairs(poolings.get(), machine().device(), poolings.run_arguments().buffer,
                                        poolings.run_arguments().buffer_bytes, kSubmanifold, nullptr, 0,
                                        &word, nullptr),
            MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(minuet_pyramid_coordinates(poolings.get(), machine().device(), poolings.run_arguments().buffer,
                                       poolings.run_arguments().buffer_bytes, 1, &word, nullptr),
            MINUET_FAILED_PRECONDITION);
}

MINUET_INSTANTIATE_EXECUTION_TEST(PyramidOpsTest);

}  // namespace
}  // namespace minuet::abi
