// The rows of runtime/abi/GRADIENTS.md that need no op of their own: the call that a row names computes the
// gradient. Each op here is linear, so its gradient is the sum, over the places of outputs that read a place
// of the input, of their gradients. The tests list these places from coordinates alone. All numbers are small
// integers, so that every dtype holds every sum.
#include <algorithm>
#include <map>

#include "include/minuet/gradient.h"
#include "include/minuet/row_gradient.h"
#include "include/minuet/select.h"
#include "include/minuet/space.h"
#include "tests/support/abi.h"
#include "tests/support/pooling_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using Cell = std::vector<int32_t>;  // batch, x, y, z
constexpr int kChannels = 8;

/// Row `in_row` of the input goes to row `out_row` of the output, or columns of one to columns of the other.
struct Place {
  int64_t in_row, out_row;
  int in_column = 0, out_column = 0;
};

class GradientOfOpsTest : public DeviceTest {
 protected:
  int64_t rows() { return machine().is_software() ? 60 : 200; }
  /// Different cells of two batch items in random order, about `rows` of them.
  std::vector<Cell> cells_of(Random& random, int64_t rows) {
    std::vector<Cell> cells;
    std::map<Cell, int> seen;
    for (int64_t i = 0; i < rows; ++i) {
      Cell cell{static_cast<int32_t>(random.below(2))};
      for (int a = 0; a < 3; ++a) cell.push_back(static_cast<int32_t>(random.between(-3, 4)));
      if (seen.emplace(cell, 0).second) cells.push_back(cell);
    }
    return cells;
  }
  static std::vector<int32_t> flat(const std::vector<Cell>& cells) {
    std::vector<int32_t> words;
    for (const Cell& cell : cells) words.insert(words.end(), cell.begin(), cell.end());
    return words;
  }
  static std::vector<Cell> cells_in(const std::vector<int32_t>& words) {
    std::vector<Cell> cells;
    for (size_t at = 0; at + 4 <= words.size(); at += 4) {
      cells.emplace_back(words.begin() + static_cast<std::ptrdiff_t>(at),
                         words.begin() + static_cast<std::ptrdiff_t>(at + 4));
    }
    return cells;
  }
  static int64_t row_in(const std::vector<Cell>& cells, const Cell& cell) {
    const auto found = std::find(cells.begin(), cells.end(), cell);
    return found == cells.end() ? -1 : found - cells.begin();
  }
  static Cell coarse(Cell cell) {
    for (size_t a = 1; a < cell.size(); ++a) cell[a] -= ((cell[a] % 2) + 2) % 2;
    return cell;
  }

  Coordinates set_of(const std::vector<Cell>& cells) {
    return make_set(machine(), 3, flat(cells), {1, 1, 1, 1});
  }
  KernelMap map_of(minuet_coordinates* input, minuet_coordinates* output, int32_t size) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = size;
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_create(input, output, &options, nullptr, &made));
    return {made, {minuet_kernel_map_destroy}};
  }
  KernelMap transposed(const KernelMap& map) {
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_transpose(map.get(), &made));
    return {made, {minuet_kernel_map_destroy}};
  }

  std::vector<float> numbers(Random& random, int64_t count) {
    std::vector<float> values;
    values.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.between(-3, 3)));
    return values;
  }
  DType stored() const { return storage_type(dtype()); }

  /// Runs a plan of one op over a map. `row_stride` is that of the input, whose first column is `column`.
  std::vector<float> run(minuet_plan* made, minuet_kernel_map* map, const std::vector<float>& input,
                         int in_channels, int64_t out_rows, int out_channels, int row_stride = 0,
                         int column = 0) {
    const Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    minuet_execution* opened = nullptr;
    check(minuet_execution_create(made, machine().device(), nullptr, &opened));
    const Execution execution(opened, {minuet_execution_destroy});
    check(prepare_map(opened, map));
    const int stride = row_stride > 0 ? row_stride : in_channels;
    const Buffer in(machine(), encode(stored(), input)),
        out(machine(), out_rows * out_channels * dtype_bytes(dtype()));
    const minuet_tensor read =
        tensor(static_cast<char*>(in.data()) + column * dtype_bytes(dtype()),
               static_cast<int64_t>(input.size()) / stride, in_channels, abi_dtype(dtype()), row_stride);
    check(run_tensors(opened, {read}, tensor(out, out_rows, out_channels, dtype())));
    return decode(stored(), out.read<char>());
  }
  minuet_plan* sum_pooling(int32_t size, bool is_transposed) {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype()), options.channels = kChannels;
    options.reduction = MINUET_REDUCE_SUM, options.transposed = is_transposed ? 1 : 0;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = options.stride[a] = size;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pooling(machine().context(), &options, &made));
    return made;
  }
  minuet_plan* space_op(bool is_down) {
    minuet_space_options options = MINUET_SPACE_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype()), options.channels = kChannels;
    for (int a = 0; a < 3; ++a) options.stride[a] = 2;
    minuet_plan* made = nullptr;
    check((is_down ? minuet_plan_create_space_to_channel : minuet_plan_create_channel_to_space)(
        machine().context(), &options, &made));
    return made;
  }

  /// minuet_devoxelize, or its gradient, with the nearest row of each output.
  std::vector<float> gather(const std::vector<int32_t>& row_of, const std::vector<float>& features,
                            int64_t row_count, bool is_gradient) {
    minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype()), options.channels = kChannels;
    minuet_point_op* made = nullptr;
    check((is_gradient ? minuet_devoxelize_gradient_create : minuet_devoxelize_create)(machine().context(),
                                                                                       &options, &made));
    const Handle<minuet_point_op> op(made, {minuet_point_op_destroy});
    check(minuet_point_op_load(made, machine().device()));
    const auto most = static_cast<int64_t>(row_of.size());
    int64_t bytes = 0;
    check((is_gradient ? minuet_devoxelize_gradient_bytes : minuet_devoxelize_bytes)(
        made, machine().arch().c_str(), most, row_count, &bytes));
    const int64_t results = is_gradient ? row_count : most;
    const Buffer rows(machine(), row_of), in(machine(), encode(stored(), features)),
        out(machine(), results * kChannels * dtype_bytes(dtype())),
        workspace(machine(), std::max<int64_t>(bytes, 16));
    minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
    given.most = most, given.most_rows = row_count, given.point_rows = rows.integers();
    given.features = in.data(), given.output = out.data();
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check((is_gradient ? minuet_devoxelize_gradient : minuet_devoxelize)(made, machine().device(), &given,
                                                                         nullptr));
    return decode(stored(), out.read<char>());
  }

  /// Expects that `output` is the op's result for `input`, of which each place gives kChannels columns.
  void expect_moved(const std::vector<float>& got, const std::vector<float>& from,
                    const std::vector<Place>& places, bool is_gradient, int from_width, int to_width) {
    std::vector<float> expected(got.size(), 0);
    for (const Place& place : places) {
      for (int c = 0; c < kChannels; ++c) {
        const int64_t in = place.in_row * (is_gradient ? to_width : from_width) + place.in_column + c;
        const int64_t out = place.out_row * (is_gradient ? from_width : to_width) + place.out_column + c;
        expected[static_cast<size_t>(is_gradient ? in : out)] +=
            from[static_cast<size_t>(is_gradient ? out : in)];
      }
    }
    EXPECT_EQ(got, expected) << (is_gradient ? "the gradient" : "the op");
    EXPECT_GT(std::count_if(got.begin(), got.end(), [](float value) { return value != 0; }), 0);
  }
};

/// concat, and linear behind it: the gradient of a part is a range of columns, read by its stride.
TEST_P(GradientOfOpsTest, LinearBehindAConcat) {
  Random random(1);
  const std::vector<Cell> cells = cells_of(random, rows());
  const auto count = static_cast<int64_t>(cells.size());
  const Coordinates set = set_of(cells);
  const KernelMap map = map_of(set.get(), set.get(), 1);
  const std::vector<float> weight = numbers(random, 4 * kChannels);  // [4, kChannels]
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype()), options.in_channels = 4, options.out_channels = kChannels;
  for (int a = 0; a < 3; ++a) options.kernel_size[a] = options.stride[a] = options.dilation[a] = 1;
  options.submanifold = 1;
  options.weight = weight.data(), options.weight_count = static_cast<int64_t>(weight.size());
  const KernelMap back = transposed(map);
  for (const int column : {0, kChannels}) {
    // The concat has the linear layer's output at `column`, beside another part.
    const std::vector<float> gradient = numbers(random, count * 2 * kChannels);
    minuet_plan* made = nullptr;
    check(
        minuet_plan_create_convolution_gradient(machine().context(), &options, MINUET_GRADIENT_INPUT, &made));
    const std::vector<float> got =
        run(made, back.get(), gradient, kChannels, count, 4, 2 * kChannels, column);
    for (int64_t row = 0; row < count; ++row) {
      for (int i = 0; i < 4; ++i) {
        double sum = 0;
        for (int c = 0; c < kChannels; ++c) {
          sum += static_cast<double>(gradient[static_cast<size_t>(row * 2 * kChannels + column + c)]) *
                 static_cast<double>(weight[static_cast<size_t>(i * kChannels + c)]);
        }
        ASSERT_EQ(static_cast<double>(got[static_cast<size_t>(row * 4 + i)]), sum) << row << " " << i;
      }
    }
  }
}

TEST_P(GradientOfOpsTest, UpsampleAndSpaceToChannelAndBack) {
  Random random(2);
  const std::vector<Cell> fine = cells_of(random, rows());
  const Coordinates fine_set = set_of(fine), coarse_set = downsample(fine_set.get(), {2, 2, 2, 1});
  const std::vector<Cell> cells = cells_in(coordinates_of(machine(), coarse_set.get(), 3));
  const auto fine_rows = static_cast<int64_t>(fine.size()), coarse_rows = static_cast<int64_t>(cells.size());
  const KernelMap down = map_of(fine_set.get(), coarse_set.get(), 2), up = transposed(down);
  std::vector<Place> up_places, down_places, channel_places;
  for (int64_t row = 0; row < fine_rows; ++row) {
    const Cell& cell = fine[static_cast<size_t>(row)];
    const Cell parent = coarse(cell);
    int child = 0;
    for (size_t a = 1; a < 4; ++a) child = child * 2 + cell[a] - parent[a];
    const int64_t parent_row = row_in(cells, parent);
    ASSERT_GE(parent_row, 0);
    up_places.push_back({parent_row, row});
    down_places.push_back({row, parent_row, 0, child * kChannels});
    channel_places.push_back({parent_row, row, child * kChannels, 0});
  }
  constexpr int kWide = 8 * kChannels;
  const std::vector<float> of_fine = numbers(random, fine_rows * kChannels),
                           of_coarse = numbers(random, coarse_rows * kChannels),
                           of_wide = numbers(random, coarse_rows * kWide);
  // upsample, and unpool: a voxel has one coarser cell, so that a sum copies.
  expect_moved(run(sum_pooling(2, true), up.get(), of_coarse, kChannels, fine_rows, kChannels), of_coarse,
               up_places, false, kChannels, kChannels);
  expect_moved(run(sum_pooling(2, false), down.get(), of_fine, kChannels, coarse_rows, kChannels), of_fine,
               up_places, true, kChannels, kChannels);
  // space_to_channel and its gradient
  expect_moved(run(space_op(true), down.get(), of_fine, kChannels, coarse_rows, kWide), of_fine, down_places,
               false, kChannels, kWide);
  expect_moved(run(space_op(false), up.get(), of_wide, kWide, fine_rows, kChannels), of_wide, down_places,
               true, kWide, kChannels);
  // channel_to_space and its gradient
  expect_moved(run(space_op(false), up.get(), of_wide, kWide, fine_rows, kChannels), of_wide, channel_places,
               false, kWide, kChannels);
  expect_moved(run(space_op(true), down.get(), of_fine, kChannels, coarse_rows, kWide), of_fine,
               channel_places, true, kChannels, kWide);
}

TEST_P(GradientOfOpsTest, UnionAndIntersection) {
  Random random(3);
  const std::vector<Cell> first = cells_of(random, rows()), second = cells_of(random, rows());
  std::vector<Cell> both = first, common;
  for (const Cell& cell : second) (row_in(first, cell) < 0 ? both : common).push_back(cell);
  const Coordinates first_set = set_of(first);
  for (const std::vector<Cell>& result : {both, common}) {
    ASSERT_FALSE(result.empty());
    const Coordinates result_set = set_of(result);
    std::vector<Place> places;
    for (size_t row = 0; row < first.size(); ++row) {
      const int64_t to = row_in(result, first[row]);
      if (to >= 0) places.push_back({static_cast<int64_t>(row), to});
    }
    const std::vector<float> gradient = numbers(random, static_cast<int64_t>(result.size()) * kChannels);
    const KernelMap map = map_of(result_set.get(), first_set.get(), 1);
    expect_moved(run(sum_pooling(1, false), map.get(), gradient, kChannels,
                     static_cast<int64_t>(first.size()), kChannels),
                 gradient, places, true, kChannels, kChannels);
  }
}

/// Levels of kept rows and of children, whose features minuet_devoxelize gathers.
TEST_P(GradientOfOpsTest, PruneAndSubdivide) {
  Random random(4);
  const std::vector<Cell> cells = cells_of(random, rows());
  const auto count = static_cast<int64_t>(cells.size());
  for (const int children : {1, 2}) {
    const int64_t each = int64_t{children} * children * children, candidates = count * each;
    minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype()), options.rule = MINUET_SELECT_MASK;
    for (int& axis : options.children) axis = 1;
    for (int a = 0; a < 3; ++a) options.children[a] = children;
    minuet_select_op* made = nullptr;
    check(minuet_select_create(machine().context(), &options, &made));
    const Handle<minuet_select_op> op(made, {minuet_select_op_destroy});
    check(minuet_select_op_load(made, machine().device()));
    int64_t bytes = 0;
    check(minuet_select_bytes(made, machine().arch().c_str(), count, &bytes));
    std::vector<uint8_t> mask(static_cast<size_t>(candidates));
    for (uint8_t& kept : mask) kept = random.below(3) == 0 ? 1 : 0;
    const Buffer coordinates(machine(), flat(cells)), given_mask(machine(), mask),
        workspace(machine(), std::max<int64_t>(bytes, 16)), selected(machine(), candidates * 16),
        parents(machine(), candidates * 4), places(machine(), candidates * 4), kept(machine(), 4);
    minuet_select_arguments given = MINUET_SELECT_ARGUMENTS_INIT;
    given.coordinates = coordinates.integers(), given.most_rows = count;
    given.mask = static_cast<const uint8_t*>(given_mask.data());
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    given.capacity = candidates;
    given.selected = static_cast<int32_t*>(selected.data());
    given.parents = static_cast<int32_t*>(parents.data());
    given.places = static_cast<int32_t*>(places.data()), given.count = static_cast<int32_t*>(kept.data());
    check(minuet_select(made, machine().device(), &given, nullptr));
    // The gather reads row candidate / each for each kept candidate, in order; what is not kept gives none.
    std::vector<Place> moved;
    for (int64_t candidate = 0; candidate < candidates; ++candidate) {
      if (mask[static_cast<size_t>(candidate)] != 0)
        moved.push_back({candidate / each, static_cast<int64_t>(moved.size())});
    }
    ASSERT_EQ(kept.read<int32_t>().front(), static_cast<int32_t>(moved.size()));
    const std::vector<float> features = numbers(random, count * kChannels);
    std::vector<float> gradient = numbers(random, candidates * kChannels);
    expect_moved(gather(parents.read<int32_t>(), features, count, false), features, moved, false, kChannels,
                 kChannels);
    expect_moved(gather(parents.read<int32_t>(), gradient, count, true), gradient, moved, true, kChannels,
                 kChannels);
    // Of kept rows, each is read once, so that the way back gathers too.
    if (children == 1) {
      expect_moved(gather(places.read<int32_t>(), gradient, candidates, false), gradient, moved, true,
                   kChannels, kChannels);
    }
  }
}

/// A dense tensor with channels last, whose cells are numbered as minuet_select numbers them.
TEST_P(GradientOfOpsTest, ToDenseAndFromDense) {
  Random random(5);
  constexpr int64_t kCells = int64_t{2} * 8 * 8 * 8;
  std::vector<Place> to_dense, from_dense;
  std::vector<int32_t> cell_of;
  for (const Cell& cell : cells_of(random, rows())) {
    int32_t number = cell[0];
    for (size_t a = 1; a < 4; ++a) number = number * 8 + cell[a] + 3;
    to_dense.push_back({static_cast<int64_t>(cell_of.size()), number});
    from_dense.push_back({number, static_cast<int64_t>(cell_of.size())});
    cell_of.push_back(number);
  }
  const std::vector<float> of_cells = numbers(random, kCells * kChannels),
                           of_rows = numbers(random, static_cast<int64_t>(cell_of.size()) * kChannels);
  expect_moved(gather(cell_of, of_cells, kCells, false), of_cells, to_dense, true, kChannels, kChannels);
  expect_moved(gather(cell_of, of_rows, kCells, true), of_rows, from_dense, true, kChannels, kChannels);
}

MINUET_INSTANTIATE_DEVICE_TEST(GradientOfOpsTest);

}  // namespace
}  // namespace minuet::abi
