#include "runtime/execution/ops/convolution.h"

#include <algorithm>

#include "runtime/engine/ops/convolution.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

/// Holds the grouping of a map's GEMMs, and tables of the row of each pair in the gather and GEMM buffers.
/// One execution owns the view, or all executions on the map's queue share it.
struct GmasView final : KeptView {
  // The flag is true once the work that fills the tables is enqueued. Each prepare resets the flag of an
  // execution's own view.
  bool is_made = false;
  i32 direct_offset = -1;
  GroupingChoice grouping;
  GroupPlan groups;
  // These pointers refer to the tables of a shared view (GmasTables). They are null in a view that an
  // execution owns, whose tables are in the execution's arena.
  i32 *source_table = nullptr, *query_table = nullptr;
  DeviceMemory memory;
};

class GmasWork final : public OpWork {
 public:
  explicit GmasWork(const OpWorkContext& context);
  llvm::Error allocate_host() override;
  void place_fixed(Placement& parts) override;
  void begin(i64 most_rows) override;
  llvm::Error add(const OpUse& use) override;
  void bound(i32 layer, i64 rows, double neighbours) override;
  void place_tables(Placement& parts, i32* identity) override;
  void place_workspace(Placement& parts) override;
  void place_buffers(Placement& parts) override;
  llvm::Error finish() override;
  llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override;
  OpReport report(i32 layer) const override;

 private:
  struct Map {
    bool used = false;
    // If the flag is true, NetworkMaps::identity() serves as both tables of the map (GmasTables).
    bool is_identity = false;
    MapView view;
    Coords queries;
    // The flag is true if this prepare call must compute the positions of the pairs (MapView::positions).
    bool finds_positions = false;
    std::shared_ptr<GmasView> own;
    // Points to `own`, or to a view that the caller's map keeps.
    std::shared_ptr<const GmasView> view_in_use;
    // Points to the same view as view_in_use if this prepare call must fill it, and is null otherwise.
    std::shared_ptr<GmasView> view_to_fill;
    const KernelMap* owner = nullptr;
    // Holds the number of the layer whose prepare_op() fills the tables for all layers that read the map.
    i32 filler = -1;
    GmasTables tables;
    // Holds the offset, in words, of the map's group tables (GroupTables) within tables_ and host_tables_.
    i64 table_offset = 0;

    bool is_unfilled() const { return view_to_fill && !view_to_fill->is_made && !is_identity; }
  };
  struct Layer {
    i32 number = 0;
    i64 output_rows = 0;
  };

  llvm::Error add_map(const OpUse& use);
  llvm::Error choose_view(Map& map, i32 direct);
  void bound_map(i32 map, i64 rows, double neighbours);
  const GroupPlan& groups_of(i32 layer) const {
    return maps_[program_.layers[layer].map].view_in_use->groups;
  }
  i64 slice_rows_of(i32 layer) const;
  i64 operand_bytes() const { return dtype_bytes(device_.weight_type(program_.dtype)); }

  const Program& program_;
  const GroupingChoice& grouping_;
  const Device& device_;
  Engine& engine_;
  const i64 wanted_scratch_bytes_;
  i64 scratch_bytes_ = 0;
  std::vector<Map> maps_;
  // Lists the layers that were added since begin().
  std::vector<Layer> layers_;
  // Holds the slices of the GEMMs of each layer of the program.
  std::vector<GemmSlices> slices_;
  i64 table_words_ = 0;
  // These pointers refer to the group tables (GroupTables) of all maps, on the device and on the host.
  i32 *tables_ = nullptr, *host_tables_ = nullptr;
  void* gather_buffer_ = nullptr;
  float *gemm_buffer_ = nullptr, *sums_ = nullptr;
};

GmasWork::GmasWork(const OpWorkContext& context)
    : program_(context.program),
      grouping_(context.compiled.grouping),
      device_(context.device),
      engine_(context.engine),
      wanted_scratch_bytes_(context.scratch_bytes),
      slices_(context.program.layers.size()) {
  // The offset of each map's group tables within tables_ does not depend on the cloud, so it is set here
  // once.
  for (const MapSpec& spec : program_.maps) {
    Map map;
    map.own = std::make_shared<GmasView>();
    map.own->groups = GroupPlan(static_cast<i32>(spec.volume()));
    map.table_offset = table_words_;
    table_words_ += kGroupTables * spec.volume();
    maps_.push_back(std::move(map));
  }
}

llvm::Error GmasWork::allocate_host() {
  MINUET_ASSIGN(void* tables, engine_.allocate_pinned(table_words_ * static_cast<i64>(sizeof(i32))));
  host_tables_ = static_cast<i32*>(tables);
  return llvm::Error::success();
}

void GmasWork::place_fixed(Placement& parts) { tables_ = parts.take<i32>(table_words_); }

void GmasWork::begin(i64 most_rows) {
  // The buffer limit grows with the cloud, so that a layer needs few slices (GemmSlice).
  constexpr i64 kLeastScratchBytes = i64{64} << 20, kScratchBytesPerRow = 4096;
  scratch_bytes_ = wanted_scratch_bytes_ != 0 ? wanted_scratch_bytes_
                                              : std::max(kLeastScratchBytes, most_rows * kScratchBytesPerRow);
  layers_.clear();
  for (Map& map : maps_) map.used = false;
}

llvm::Error GmasWork::add(const OpUse& use) {
  layers_.push_back({use.layer, use.output_rows});
  return maps_[use.map.map].used ? llvm::Error::success() : add_map(use);
}

llvm::Error GmasWork::add_map(const OpUse& use) {
  const i32 number = use.map.map;
  Map& map = maps_[number];
  const MapSpec& spec = program_.maps[number];
  map.used = true;
  map.filler = use.layer;
  map.view = use.map.view;
  map.queries = use.map.queries;
  map.finds_positions = map.view.positions == nullptr && !spec.is_identity();
  map.owner = use.map.owner;
  const i32 direct = direct_offset(spec.fine == spec.coarse, program_.dtype, map.view.geometry, spec.offsets);
  MINUET_ASSIGN(const i32* const counts, use.counts());
  MINUET_TRY(choose_view(map, direct));
  if (!map.view_to_fill) return llvm::Error::success();
  return group_gemms(counts, map.view.geometry.volume, direct, grouping_, map.view_to_fill->groups);
}

/// Chooses the GmasView of the map, which is one that the caller's map keeps, or the execution's own, or a
/// new one. If its tables are not filled yet, this prepare call fills them.
llvm::Error GmasWork::choose_view(Map& map, i32 direct) {
  map.own->is_made = false;
  map.view_to_fill = map.own;
  if (map.owner) {
    for (const std::shared_ptr<KeptView>& kept : map.owner->kept_views(GmasChoice::kKind)) {
      auto view = std::static_pointer_cast<GmasView>(kept);
      if (view->direct_offset != direct || view->grouping != grouping_) continue;
      map.view_to_fill = view->is_made ? nullptr : view;
      map.view_in_use = std::move(view);
      return llvm::Error::success();
    }
    map.view_to_fill = std::make_shared<GmasView>();
    GmasView& made = *map.view_to_fill;
    made.groups = GroupPlan(map.view.geometry.volume);
    auto place = [&](Placement& parts) {
      made.source_table = parts.take<i32>(map.view.geometry.volume * map.view.sources);
      made.query_table = parts.take<i32>(map.view.geometry.volume * map.view.queries);
    };
    MINUET_ASSIGN(made.memory, allocate_parts(map.owner->queue()->memory(), place));
  }
  map.view_to_fill->direct_offset = direct;
  map.view_to_fill->grouping = grouping_;
  map.view_in_use = map.view_to_fill;
  if (map.owner) map.owner->kept_views(GmasChoice::kKind).push_back(map.view_to_fill);
  return llvm::Error::success();
}

/// Sets the sizes in the map's GroupPlan to upper bounds. They assume that groups have as much padding as
/// GroupingChoice::padding_threshold allows.
void GmasWork::bound_map(i32 number, i64 rows, double neighbours) {
  Map& map = maps_[number];
  map.used = true;
  map.view_in_use = map.own;
  GroupPlan& groups = map.own->groups;
  const i64 volume = program_.maps[number].volume();
  const double pairs = std::min(neighbours, static_cast<double>(volume)) * static_cast<double>(rows);
  map.view.geometry.volume = static_cast<i32>(volume);
  map.view.sources = map.view.queries = rows;
  map.finds_positions = !program_.takes_maps && !program_.maps[number].is_identity();
  groups.gathered_rows =
      static_cast<i64>(pairs * (1 + grouping_.padding_threshold)) + volume * grouping_.height_step;
  groups.largest_height = rows + grouping_.height_step;
  groups.direct_rows = rows;
}

void GmasWork::bound(i32 layer, i64 rows, double neighbours) {
  bound_map(program_.layers[layer].map, rows, neighbours);
  layers_.push_back({layer, rows});
}

void GmasWork::place_tables(Placement& parts, i32* identity) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    Map& map = maps_[i];
    if (!map.used) continue;
    const i64 volume = map.view.geometry.volume;
    map.is_identity = !program_.takes_maps && program_.maps[i].is_identity();
    if (map.view_in_use != map.own) {
      map.tables.source_table = map.view_in_use->source_table;
      map.tables.query_table = map.view_in_use->query_table;
    } else if (map.is_identity) {
      map.tables.source_table = map.tables.query_table = identity;
    } else {
      map.tables.source_table = parts.take<i32>(volume * map.view.sources);
      map.tables.query_table = parts.take<i32>(volume * map.view.queries);
    }
    map.tables.groups = tables_at(tables_ ? tables_ + map.table_offset : nullptr, map.view.geometry.volume);
  }
}

void GmasWork::place_workspace(Placement& parts) {
  for (Map& map : maps_) {
    if (!map.used || !map.finds_positions) continue;
    map.view.positions = parts.take<i32>(map.view.geometry.volume * map.view.queries + 1);
  }
}

/// Returns the number of buffer rows that the layer needs.
i64 GmasWork::slice_rows_of(i32 layer) const {
  const ConvolutionProblem& problem = *convolution_of(program_.layers[layer]);
  const i64 row_bytes =
      problem.in_channels * operand_bytes() + problem.out_channels * static_cast<i64>(sizeof(float));
  return slice_rows(groups_of(layer), row_bytes, scratch_bytes_);
}

void GmasWork::place_buffers(Placement& parts) {
  i64 gather_bytes = 0, partials = 0, sums = 0;
  for (const Layer& layer : layers_) {
    const ConvolutionProblem& problem = *convolution_of(program_.layers[layer.number]);
    const i64 rows = slice_rows_of(layer.number);
    gather_bytes = std::max(gather_bytes, rows * problem.in_channels * operand_bytes());
    partials = std::max(partials, rows * problem.out_channels);
    if (!needs_sums(groups_of(layer.number), rows)) continue;
    sums = std::max(sums, layer.output_rows * problem.out_channels);
  }
  gather_buffer_ = parts.take<char>(gather_bytes);
  gemm_buffer_ = parts.take<float>(partials);
  sums_ = parts.take<float>(sums);
}

llvm::Error GmasWork::finish() {
  if (layers_.empty()) return llvm::Error::success();
  for (const Layer& layer : layers_) {
    slice_groups(groups_of(layer.number), slice_rows_of(layer.number), slices_[layer.number]);
  }
  for (const Map& map : maps_) {
    if (map.used) copy_tables(map.view_in_use->groups, host_tables_ + map.table_offset);
  }
  MINUET_TRY(engine_.send(tables_, host_tables_, table_words_ * static_cast<i64>(sizeof(i32))));
  for (const Map& map : maps_) {
    if (!map.used || !map.is_unfilled()) continue;
    if (map.finds_positions) MINUET_TRY(engine_.maps().count_pairs(map.queries, map.view));
  }
  return llvm::Error::success();
}

llvm::Error GmasWork::with_request(const Candidate&, i32 layer, const OpRequest& common,
                                   llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const {
  const Map& map = maps_[program_.layers[layer].map];
  GmasRequest request{common};
  request.map = &map.view;
  request.tables = &map.tables;
  request.fills_tables = map.filler == layer && map.is_unfilled();
  request.groups = &map.view_in_use->groups;
  request.slices = &slices_[layer];
  request.gather_buffer = gather_buffer_;
  request.gemm_buffer = gemm_buffer_;
  request.sums = sums_;
  MINUET_TRY(enqueue(request));
  if (request.fills_tables) map.view_to_fill->is_made = true;
  return llvm::Error::success();
}

OpReport GmasWork::report(i32 layer) const {
  const GroupPlan& groups = groups_of(layer);
  return {groups.padding_rows, static_cast<i32>(groups.groups.size()) + (groups.direct_rows > 0 ? 1 : 0)};
}

}  // namespace

std::unique_ptr<OpWork> make_gmas_work(const OpWorkContext& context) {
  return std::make_unique<GmasWork>(context);
}

}  // namespace minuet
