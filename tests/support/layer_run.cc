#include "tests/support/layer_run.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/expect.h"
#include "tests/support/poison.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/view_check.h"

namespace minuet {
namespace {

/// One coordinate set on the device, and its way back to the caller's rows.
struct TestSet {
  TestSet(Device& device, i64 rows, KeyType key)
      : rows(rows),
        key(key),
        keys(device, rows * key_bytes(key)),
        count(device, 4),
        source_row(device, rows * 4),
        row_of(device, rows * 4) {}
  Coords coords() { return {keys.as(), count.as<i32>(), rows, key}; }

  i64 rows;
  KeyType key;
  TestBuffer keys, count, source_row, row_of;
};

KernelGeometry geometry_of(const ConvolutionCase& test) {
  AxisArray kernel_size{1, 1, 1, 1}, dilation{1, 1, 1, 1}, stride{1, 1, 1, 1};
  for (i32 a = 0; a < test.ndim; ++a) {
    kernel_size[a] = test.kernel_size[a], dilation[a] = test.dilation[a], stride[a] = test.tensor_stride[a];
  }
  return make_geometry(test.ndim, kernel_size, dilation, stride, std::nullopt, test.offsets);
}

CloudLayout layout_of(const ConvolutionCase& test, const ConvolutionData& data) {
  i32 least[kMaxFields], greatest[kMaxFields];
  std::fill_n(least, kMaxFields, INT_MAX);
  std::fill_n(greatest, kMaxFields, INT_MIN);
  for (const auto* coordinates : {&data.in_coordinates, &data.out_coordinates}) {
    for (size_t i = 0; i < coordinates->size(); ++i) {
      const size_t f = i % (1 + test.ndim);
      least[f] = std::min(least[f], (*coordinates)[i]);
      greatest[f] = std::max(greatest[f], (*coordinates)[i]);
    }
  }
  if (data.in_coordinates.empty() && data.out_coordinates.empty()) {
    std::fill_n(least, kMaxFields, 0), std::fill_n(greatest, kMaxFields, 0);
  }
  i64 guard[kMaxDim], period[kMaxDim];
  for (i32 a = 0; a < kMaxDim; ++a) {
    guard[a] = test.offsets.empty() ? axis_reach(geometry_of(test), a)
                                    : farthest_offset(test.offsets, a) * test.tensor_stride[a];
    period[a] = static_cast<i64>(test.stride[a]) * test.tensor_stride[a];
  }
  return make_bounded_layout(test.ndim, least, greatest, guard, period);
}

/// [rows, channels] -> [rows, ld] as stored, with poison between the rows.
std::vector<char> spread_rows(DType type, const std::vector<float>& values, i64 channels, i64 ld) {
  const std::vector<char> dense = encode(type, values);
  const i64 row = channels * dtype_bytes(type), pitch = ld * dtype_bytes(type);
  const i64 rows = row > 0 ? static_cast<i64>(dense.size()) / row : 0;
  std::vector<char> spread(rows * pitch, static_cast<char>(0xff));
  for (i64 r = 0; r < rows; ++r) std::copy_n(dense.begin() + r * row, row, spread.begin() + r * pitch);
  return spread;
}

/// All device state of one run, step by step.
class LayerRun {
 public:
  LayerRun(Device& device, const ConvolutionCase& test, const ConvolutionData& data,
           const LayerRunOptions& options)
      : device_(device), test_(test), data_(data), problem_(problem_of(test, options.row_padding)) {
    layout_ = layout_of(test, data);
    key_ = layout_.keys.total_bits > 32 ? KeyType::U64 : options.key;
    fine_ = std::make_unique<TestSet>(device, test.transposed() ? data.out_rows() : data.in_rows(), key_);
    if (test.kind != ConvolutionKind::Submanifold) {
      coarse_ = std::make_unique<TestSet>(device, test.transposed() ? data.in_rows() : data.out_rows(), key_);
    }
  }

  LayerResult run() {
    choice_ = choose_gmas(problem_);
    EngineChoice engine_choice;
    engine_choice.ndim = test_.ndim;
    engine_choice.map32 = choose_map(KeyType::U32, test_.ndim);
    engine_choice.map64 = choose_map(KeyType::U64, test_.ndim);
    engine_ = take(device_.create_engine(engine_choice));
    add_layer();
    take(engine_->begin(nullptr));
    build_maps();
    convolve();
    take(engine_->wait());
    return collect();
  }

 private:
  TestSet& queries() { return coarse_ ? *coarse_ : *fine_; }
  TestSet& in_set() { return test_.transposed() ? queries() : *fine_; }
  TestSet& out_set() { return test_.transposed() ? *fine_ : queries(); }

  TestBuffer& keep(std::unique_ptr<TestBuffer> buffer) {
    buffers_.push_back(std::move(buffer));
    return *buffers_.back();
  }
  TestBuffer& make(i64 bytes) { return keep(std::make_unique<TestBuffer>(device_, bytes)); }
  template <class T>
  TestBuffer& make(const std::vector<T>& values) {
    return keep(std::make_unique<TestBuffer>(device_, values));
  }

  void add_layer() {
    parameters_ = {make(encode(device_.weight_type(test_.dtype), data_.weight)).as()};
    if (test_.scale_shift)
      parameters_.insert(parameters_.end(), {make(data_.scale).as(), make(data_.shift).as()});
    convolution_ = take(engine_->add_op(choice_));
    permute_in_ = take(engine_->add_permute_rows(
        choose_permute_rows(test_.dtype, test_.in_channels, problem_.input, problem_.input)));
    permute_out_ = take(engine_->add_permute_rows(
        choose_permute_rows(test_.dtype, test_.out_channels, problem_.output, problem_.output)));
    take(engine_->set_workspace(make(engine_->workspace_bytes()).as()));
  }

  void build(TestSet& set, const std::vector<i32>& coordinates, TestBuffer& status) {
    BuildCoordsRequest request;
    request.coordinates = make(coordinates).as<i32>();
    request.count = make(std::vector<i32>{static_cast<i32>(set.rows)}).as<i32>();
    request.most = set.rows;
    request.layout = device_layout_;
    request.coords = set.coords();
    request.source_row = set.source_row.as<i32>();
    request.row_of = set.row_of.as<i32>();
    request.status = status.as<u32>();
    take(engine_->maps().build_coords(request));
  }

  void build_maps() {
    MapLimits limits;
    limits.key_bits = 8 * key_bytes(key_);
    device_layout_ = make(std::vector<CloudLayout>{layout_}).as<CloudLayout>();
    limits.capacity = std::max(fine_->rows, queries().rows);
    limits.sets = 3, limits.maps = 1;
    limits.max_volume = static_cast<i32>(test_.volume());
    take(engine_->maps().begin(limits, make(engine_->maps().workspace_bytes(limits)).as()));
    TestBuffer& status = make(4);
    take(engine_->fill_words(status.as(), 0, 1));
    const bool transposed = test_.transposed();
    build(*fine_, transposed ? data_.out_coordinates : data_.in_coordinates, status);
    if (coarse_) build(*coarse_, transposed ? data_.in_coordinates : data_.out_coordinates, status);

    const i64 volume = test_.volume();
    map_.geometry = geometry_of(test_);
    map_.offsets = test_.offsets;
    map_.sources = fine_->rows, map_.queries = queries().rows;
    map_.rows = make(volume * map_.queries * 4).as<i32>();
    map_.positions = make((volume * map_.queries + 1) * 4).as<i32>();
    counts_ = &make(volume * 4);
    map_.counts = counts_->as<i32>();
    tables_.source_table = make(volume * map_.sources * 4).as<i32>();
    tables_.query_table = make(volume * map_.queries * 4).as<i32>();
    take(engine_->maps().search({fine_->coords(), queries().coords(), device_layout_, &map_}));
    take(engine_->maps().count_pairs(queries().coords(), map_));
    check_views();
    take(engine_->wait());
    EXPECT_EQ(status.read_first<u32>(), 0u);
    EXPECT_EQ(fine_->count.read_first<i32>(), fine_->rows);
    EXPECT_EQ(queries().count.read_first<i32>(), queries().rows);
    group();
  }

  NeighbourView make_view(i64 queries) {
    const i64 volume = test_.volume();
    NeighbourView view;
    view.rows = make(volume * queries * 4).as<i32>();
    view.masks = make(mask_words(static_cast<i32>(volume)) * queries * 4).as<u32>();
    view.order = make(queries * 4).as<i32>();
    const i64 stride = ordered_row_stride(queries);
    view.ordered_rows = make(volume * stride * 4).as<i32>();
    view.ordered_masks = make(mask_words(static_cast<i32>(volume)) * stride * 4).as<u32>();
    view.block_masks =
        make(mask_words(static_cast<i32>(volume)) * blocks_of_height(queries, kLeastBlockHeight) * 4)
            .as<u32>();
    view.block_orders = make(block_order_begin(queries, kBlockHeightCount) * 4).as<i32>();
    return view;
  }

  /// Masks, counts and order in both directions, against plain loops over the rows.
  void check_views() {
    const i64 volume = test_.volume();
    const NeighbourView forward = make_view(map_.queries);
    map_.masks = forward.masks, map_.order = forward.order;
    map_.ordered_rows = forward.ordered_rows, map_.ordered_masks = forward.ordered_masks;
    map_.block_masks = forward.block_masks, map_.block_orders = forward.block_orders;
    map_.transposed = make_view(map_.sources);
    TestBuffer& counts = make(volume * 4);
    take(engine_->fill_words(counts.as(), 0, volume));
    take(engine_->maps().make_masks(queries().coords(), map_.geometry.volume, map_, counts.as<i32>()));
    const OffsetOrder offsets = order_offsets(map_.geometry, test_.offsets);
    const ViewRequest requests[] = {{&map_, fine_->coords(), queries().coords(), false, true, &offsets},
                                    {&map_, fine_->coords(), queries().coords(), true, false, &offsets}};
    take(engine_->maps().make_views(requests, make(engine_->maps().view_workspace_bytes(requests)).as()));
    take(engine_->wait());
    EXPECT_EQ(counts.read<i32>(), counts_->read<i32>());
    const std::vector<i32> rows = read_words(device_, map_.rows, volume * map_.queries);
    const std::vector<i32> transposed = transpose(rows, volume, map_.sources);
    EXPECT_EQ(read_words(device_, map_.transposed.rows, volume * map_.sources), transposed);
    // A GPU sorts both together.
    const bool together = !device_.info().arch.empty();
    const std::vector<i32> ranked(together ? 2 : 1, offsets.ranked);
    const MaskRanks ranks =
        share_ranks(ranked, together ? map_.queries + map_.sources : map_.queries).front();
    check_view(device_, rows, map_.geometry, ordered_row_stride(map_.queries), map_, ranks, test_.offsets);
    check_view(device_, transposed, map_.geometry, ordered_row_stride(map_.sources), map_.transposed, ranks,
               test_.offsets);
  }

  void group() {
    const std::vector<i32> counts = counts_->read<i32>();
    const i64 pairs = std::accumulate(counts.begin(), counts.end(), i64{0});
    TestBuffer& sources = make(pairs * 4);
    TestBuffer& targets = make(pairs * 4);
    PairsRequest list;
    list.map = &map_;
    list.most_queries = map_.queries;
    list.sources = sources.as<i32>(), list.targets = targets.as<i32>();
    list.capacity = pairs;
    take(engine_->maps().compact_pairs(list));
    take(engine_->wait());
    collect_pairs(counts, sources.read<i32>(), targets.read<i32>());
    // The centre is where the offset is zero; it covers every row of a submanifold layer.
    i32 direct = -1;
    if (choice_.direct_center) {
      direct = test_.offsets.empty() ? 0 : find_center(test_.offsets);
      for (i32 a = 0; a < test_.ndim && test_.offsets.empty(); ++a)
        direct = direct * test_.kernel_size[a] + (test_.kernel_size[a] - 1) / 2;
    }
    groups_ = random_groups(counts, direct, test_.seed);
    tables_.groups.row_base = make(groups_.row_base).as<i32>();
    tables_.groups.padding_ends = make(groups_.padding_ends).as<i32>();
    tables_.groups.padding_start = make(groups_.padding_start).as<i32>();
    tables_.groups.order = make(groups_.order).as<i32>();
  }

  void collect_pairs(const std::vector<i32>& counts, const std::vector<i32>& sources,
                     const std::vector<i32>& targets) {
    const std::vector<i32> fine_rows = fine_->source_row.read<i32>();
    const std::vector<i32> query_rows = queries().source_row.read<i32>();
    size_t i = 0;
    for (i32 k = 0; k < static_cast<i32>(counts.size()); ++k) {
      for (i32 n = 0; n < counts[k]; ++n, ++i) {
        const i32 fine = fine_rows[sources[i]], coarse = query_rows[targets[i]];
        result_.pairs.push_back(test_.transposed() ? oracle::Pair{k, coarse, fine}
                                                   : oracle::Pair{k, fine, coarse});
      }
    }
    oracle::sort(result_.pairs);
  }

  void convolve() {
    const i64 in_ld = problem_.input.ld, out_ld = problem_.output.ld, bytes = dtype_bytes(test_.dtype);
    const i64 in_rows = data_.in_rows(), out_rows = data_.out_rows();
    TestBuffer& input = make(spread_rows(test_.dtype, data_.features, test_.in_channels, in_ld));
    TestBuffer& sorted = make(in_rows * in_ld * bytes);
    take(engine_->permute_rows(
        {permute_in_, input.as(), in_ld, in_set().source_row.as<i32>(), in_rows, sorted.as(), in_ld}));
    GmasRequest request;
    request.op = convolution_;
    request.parameters = parameters_;
    request.map = &map_;
    request.tables = &tables_;
    request.fills_tables = true;
    request.groups = &groups_;
    request.transposed = test_.transposed();
    request.input = sorted.as();
    request.input_rows = in_rows;
    request.input_ld = in_ld;
    request.output_rows = out_rows;
    request.output_ld = out_ld;
    TestBuffer& output = make(out_rows * out_ld * bytes);
    request.output = output.as();
    TestBuffer& overflow = make(std::vector<u32>{0});
    request.overflow = overflow.as<u32>();
    if (test_.residual) {
      const i64 ld = problem_.residual_input.ld;
      TestBuffer& residual = make(spread_rows(test_.dtype, data_.residual, test_.out_channels, ld));
      TestBuffer& sorted_residual = make(out_rows * ld * bytes);
      take(engine_->permute_rows({permute_out_, residual.as(), ld, out_set().source_row.as<i32>(), out_rows,
                                  sorted_residual.as(), ld}));
      request.residual = sorted_residual.as();
      request.residual_ld = ld;
    }
    request.scratch = make(engine_->scratch_bytes()).as();
    const i64 buffer_rows = draw_buffer_rows();
    GemmSlices slices;
    slice_groups(groups_, buffer_rows, slices);
    request.slices = &slices;
    gathered_ = &make(buffer_rows * test_.in_channels * dtype_bytes(device_.weight_type(test_.dtype)));
    request.gather_buffer = gathered_->as();
    request.gemm_buffer = make(buffer_rows * test_.out_channels * 4).as<float>();
    if (needs_sums(groups_, buffer_rows)) {
      request.sums = make(out_rows * test_.out_channels * 4).as<float>();
    }
    is_sliced_ = buffer_rows < groups_.gathered_rows;
    take(engine_->prepare_op(request));
    take(engine_->send_prepared());
    take(engine_->run_op(request));
    final_ = &make(out_rows * out_ld * bytes);
    take(engine_->permute_rows(
        {permute_out_, output.as(), out_ld, out_set().row_of.as<i32>(), out_rows, final_->as(), out_ld}));
    EXPECT_EQ(overflow.read_first<u32>(), 0u);
    engine_output_ = &output;
  }

  /// The whole, or, every other time, a few slices.
  i64 draw_buffer_rows() const {
    Random random(test_.seed + 5000);
    const i64 whole = groups_.gathered_rows;
    return random.below(2) == 0 ? whole
                                : slice_rows(groups_, 1, 1 + static_cast<i64>(random.below(whole + 1)));
  }

  LayerResult collect() {
    const i64 bytes = dtype_bytes(test_.dtype), pitch = problem_.output.ld * bytes;
    const i64 row = test_.out_channels * bytes;
    const std::vector<char> stored = final_->read<char>(), untouched = engine_output_->read<char>();
    for (i64 r = 0; r < data_.out_rows(); ++r) {
      result_.bytes.insert(result_.bytes.end(), stored.begin() + r * pitch, stored.begin() + r * pitch + row);
      for (i64 i = r * pitch + row; i < (r + 1) * pitch; ++i) {
        const char poison = static_cast<char>(kPoison >> (i % 4 * 8));
        if (untouched[i] != poison) result_.padding_clean = false;
      }
    }
    check_padding_rows();
    result_.output = decode(test_.dtype, result_.bytes);
    return std::move(result_);
  }

  void check_padding_rows() {
    if (is_sliced_) return;  // the buffer has been used again
    const std::vector<char> buffer = gathered_->read<char>();
    const i64 row = test_.in_channels * dtype_bytes(device_.weight_type(test_.dtype));
    for (size_t k = 0; k < groups_.padding_ends.size(); ++k) {
      const i64 rows = groups_.padding_ends[k] - (k > 0 ? groups_.padding_ends[k - 1] : 0);
      const auto first = buffer.begin() + groups_.padding_start[k] * row;
      const auto is_zero = [](char byte) { return byte == 0; };
      if (rows > 0 && !std::all_of(first, first + rows * row, is_zero)) result_.padding_rows_zero = false;
    }
  }

  Device& device_;
  const ConvolutionCase& test_;
  const ConvolutionData& data_;
  ConvolutionProblem problem_;
  GmasChoice choice_;
  CloudLayout layout_;
  const CloudLayout* device_layout_ = nullptr;
  KeyType key_ = KeyType::U32;
  std::vector<std::unique_ptr<TestBuffer>> buffers_;
  std::unique_ptr<TestSet> fine_, coarse_;  // coarse: also the outputs that the caller gives
  std::unique_ptr<Engine> engine_;
  std::vector<const void*> parameters_;
  i32 convolution_ = 0, permute_in_ = 0, permute_out_ = 0;
  MapView map_;
  GmasTables tables_;
  GroupPlan groups_;
  TestBuffer* counts_ = nullptr;
  TestBuffer* gathered_ = nullptr;
  bool is_sliced_ = false;
  TestBuffer* final_ = nullptr;
  TestBuffer* engine_output_ = nullptr;
  LayerResult result_;
};

}  // namespace

TestBuffer::TestBuffer(Device& device, i64 bytes) : device_(device), bytes_(bytes) {
  data_ = take(device.allocate(bytes));
  const bool is_poisoned = on_software_device() && !device.info().arch.empty();
  if (!is_poisoned) take(device.upload(data_, poison(bytes), bytes));
}

TestBuffer::~TestBuffer() { device_.release(data_); }

LayerResult run_layer(Device& device, const ConvolutionCase& test, const ConvolutionData& data,
                      const LayerRunOptions& options) {
  return LayerRun(device, test, data, options).run();
}

std::vector<ConvolutionCase> listed_cases(i64 points) {
  std::vector<oracle::Axes> box;
  for (i32 i = 0; i < 7 * 5 * 5; ++i) box.push_back({i / 25 - 3, i / 5 % 5 - 2, i % 5 - 2, 0});
  std::vector<ConvolutionCase> cases;
  for (const ConvolutionKind kind : all_kinds()) {
    for (const std::size_t count : {3, 130}) {
      for (const bool has_center : {false, true}) {
        const DType dtype = all_dtypes()[(cases.size() + cases.size() / 4) % all_dtypes().size()];
        ConvolutionCase test = small_case(dtype, kind, 8, 16, points);
        test.kernel_size = test.dilation = {1, 1, 1, 1};
        std::mt19937_64 random(test.seed + cases.size());
        std::shuffle(box.begin(), box.end(), random);
        const auto center = std::find(box.begin(), box.end(), oracle::Axes{0, 0, 0, 0});
        // The second offset of the list is the centre, or no offset of it is.
        std::iter_swap(center, has_center ? box.begin() + 1 : box.end() - 1);
        test.offsets.assign(box.begin(), box.begin() + static_cast<std::ptrdiff_t>(count));
        cases.push_back(test);
      }
    }
  }
  return cases;
}

ConvolutionProblem problem_of(const ConvolutionCase& test, i32 row_padding) {
  ConvolutionProblem problem;
  problem.ndim = test.ndim;
  problem.kind = test.kind;
  problem.dtype = test.dtype;
  problem.in_channels = test.in_channels;
  problem.out_channels = test.out_channels;
  problem.kernel_size = test.kernel_size;
  problem.stride = test.stride;
  problem.dilation = test.dilation;
  problem.offsets = test.offsets;
  problem.input = {test.in_channels + row_padding, 0};
  problem.output = problem.residual_input = {test.out_channels + row_padding, 0};
  problem.scale_shift = test.scale_shift;
  problem.residual = test.residual;
  problem.set_activation(test.activation, test.negative_slope);
  return problem;
}

GroupPlan random_groups(const std::vector<i32>& counts, i32 direct_offset, u64 seed) {
  Random random(seed + 4000);
  const i32 volume = static_cast<i32>(counts.size());
  GroupPlan plan(volume);
  plan.direct_offset = direct_offset;
  plan.direct_rows = direct_offset >= 0 ? counts[direct_offset] : 0;
  std::iota(plan.order.begin(), plan.order.end(), 0);
  auto rank = [&](i32 k) { return k == direct_offset ? INT_MAX : counts[k]; };
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](i32 a, i32 b) { return rank(a) < rank(b); });
  i32 slot = 0;
  const i32 end = volume - (direct_offset >= 0 ? 1 : 0);
  while (slot < end && counts[plan.order[slot]] == 0) ++slot;
  while (slot < end) {
    GemmGroup group;
    group.first_slot = slot;
    group.count = static_cast<i32>(1 + random.below(std::min(5, end - slot)));
    group.first_row = plan.gathered_rows;
    group.height = counts[plan.order[slot + group.count - 1]] + static_cast<i64>(random.below(40));
    for (i32 member = 0; member < group.count; ++member, ++slot) {
      const i32 k = plan.order[slot];
      plan.row_base[k] = static_cast<i32>(group.first_row + member * group.height);
      plan.padding_start[k] = plan.row_base[k] + counts[k];
      plan.padding_ends[k] = static_cast<i32>(group.height - counts[k]);
    }
    plan.gathered_rows += group.count * group.height;
    plan.largest_height = std::max(plan.largest_height, group.height);
    plan.groups.insert(plan.groups.begin(), group);
  }
  std::partial_sum(plan.padding_ends.begin(), plan.padding_ends.end(), plan.padding_ends.begin());
  plan.padding_rows = volume > 0 ? plan.padding_ends.back() : 0;
  plan.pairs = std::accumulate(counts.begin(), counts.end(), i64{0});
  return plan;
}

}  // namespace minuet
