#include "runtime/execution/gmas_work.h"

#include <algorithm>

namespace minuet {

GmasWork::GmasWork(const Program& program, const GroupingChoice& grouping, Engine& engine, i64 scratch_bytes)
    : program_(program),
      grouping_(grouping),
      engine_(engine),
      wanted_scratch_bytes_(scratch_bytes),
      slices_(program.layers.size()) {
  // Places in the tables: the same for every cloud.
  for (const MapSpec& spec : program.maps) {
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
  // What the buffers may take grows with the cloud, so that there are never many slices.
  constexpr i64 kLeastScratchBytes = i64{64} << 20, kScratchBytesPerRow = 4096;
  scratch_bytes_ = wanted_scratch_bytes_ != 0 ? wanted_scratch_bytes_
                                              : std::max(kLeastScratchBytes, most_rows * kScratchBytesPerRow);
  layers_.clear();
  for (Map& map : maps_) map.used = false;
}

llvm::Error GmasWork::add_map(i32 number, const MapView& view, const Coords& queries, const i32* counts,
                              const KernelMap* keeper) {
  Map& map = maps_[number];
  const MapSpec& spec = program_.maps[number];
  map.used = true;
  map.view = view;
  map.queries = queries;
  map.finds_positions = view.positions == nullptr && !program_.maps[number].is_identity();
  map.keeper = keeper;
  const i32 direct = direct_offset(spec.fine == spec.coarse, program_.dtype, view.geometry);
  MINUET_TRY(choose_view(map, direct));
  if (!map.unfilled) return llvm::Error::success();
  return group_gemms(counts, view.geometry.volume, direct, grouping_, map.unfilled->groups);
}

/// The map's view that others on the queue have filled or will fill, or one to be filled: of the map, or the
/// own.
llvm::Error GmasWork::choose_view(Map& map, i32 direct) {
  map.unfilled = map.own;
  if (map.keeper) {
    if (const std::shared_ptr<GmasView> kept = map.keeper->find_gmas_view(direct, grouping_)) {
      map.shown = kept;
      map.unfilled = kept->is_made ? nullptr : kept;
      return llvm::Error::success();
    }
    map.unfilled = std::make_shared<GmasView>();
    GmasView& made = *map.unfilled;
    made.groups = GroupPlan(map.view.geometry.volume);
    auto place = [&](Placement& parts) {
      made.source_table = parts.take<i32>(map.view.geometry.volume * map.view.sources);
      made.query_table = parts.take<i32>(map.view.geometry.volume * map.view.queries);
    };
    MINUET_ASSIGN(made.memory, allocate_parts(map.keeper->queue()->memory(), place));
  }
  map.unfilled->direct_offset = direct;
  map.unfilled->grouping = grouping_;
  map.shown = map.unfilled;
  if (map.keeper) map.keeper->keep_gmas_view(map.unfilled);
  return llvm::Error::success();
}

void GmasWork::bound_map(i32 number, i64 rows, double neighbours) {
  Map& map = maps_[number];
  map.used = true;
  map.shown = map.own;
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

void GmasWork::add_layer(i32 layer, i64 output_rows) { layers_.push_back({layer, output_rows}); }

void GmasWork::place_tables(Placement& parts, const CloudMaps* cloud) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    Map& map = maps_[i];
    if (!map.used) continue;
    const i64 volume = map.view.geometry.volume;
    map.is_identity = cloud && program_.maps[i].is_identity();
    if (map.shown != map.own) {
      map.tables.source_table = map.shown->source_table;
      map.tables.query_table = map.shown->query_table;
    } else if (map.is_identity) {
      map.tables.source_table = map.tables.query_table = cloud->identity();
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

/// Rows of the layer's buffers.
i64 GmasWork::slice_rows_of(i32 layer) const {
  const ConvolutionProblem& problem = program_.layers[layer].convolution();
  const i64 row_bytes = problem.in_channels * engine_.gather_element_bytes(problem.dtype) +
                        problem.out_channels * static_cast<i64>(sizeof(float));
  return slice_rows(groups_of(layer), row_bytes, scratch_bytes_);
}

void GmasWork::place_buffers(Placement& parts) {
  i64 gather_bytes = 0, partials = 0, sums = 0;
  for (const Layer& layer : layers_) {
    const ConvolutionProblem& problem = program_.layers[layer.number].convolution();
    const i64 rows = slice_rows_of(layer.number);
    gather_bytes =
        std::max(gather_bytes, rows * problem.in_channels * engine_.gather_element_bytes(problem.dtype));
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
    if (map.used) copy_tables(map.shown->groups, host_tables_ + map.table_offset);
  }
  MINUET_TRY(engine_.send(tables_, host_tables_, table_words_ * static_cast<i64>(sizeof(i32))));
  for (Map& map : maps_) {
    if (!map.used || !map.unfilled || map.unfilled->is_made || map.is_identity) continue;
    if (map.finds_positions) MINUET_TRY(engine_.count_pairs(map.queries, map.view));
    MINUET_TRY(engine_.make_tables(map.view, map.shown->direct_offset, map.tables));
    map.unfilled->is_made = map.unfilled != map.own;
  }
  return llvm::Error::success();
}

GmasOperands GmasWork::operands(i32 layer) const {
  const Map& map = maps_[program_.layers[layer].map];
  return {&map.tables, &map.shown->groups, &slices_[layer], gather_buffer_, gemm_buffer_, sums_};
}

}  // namespace minuet
