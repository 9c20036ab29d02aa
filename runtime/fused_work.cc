#include "runtime/fused_work.h"

#include <algorithm>

namespace minuet {
namespace {

constexpr bool kDirections[] = {false, true};  // whether transposed

/// One offset onto the set itself: each row is its own neighbour, and no view says more.
bool is_identity(const MapView& map, const Coords& sources, const Coords& queries) {
  return map.geometry.volume == 1 && sources.count == queries.count;
}

bool is_transposed(const ProgramLayer& layer) {
  return layer.convolution().kind == ConvolutionKind::Transposed;
}

}  // namespace

FusedWork::FusedWork(const Program& program, Engine& engine, bool ordered)
    : program_(program), engine_(engine), ordered_(ordered), maps_(program.maps.size()) {}

void FusedWork::begin() {
  for (Map& map : maps_) map = Map();
}

llvm::Error FusedWork::add_layer(i32 number, const MapView& view, const Coords& sources,
                                 const Coords& queries, const KernelMap* keeper) {
  const ProgramLayer& layer = program_.layers[number];
  const bool transposed = is_transposed(layer);
  Map& map = maps_[layer.map];
  Side& side = map.sides[transposed];
  if (side.used) return llvm::Error::success();
  if (!map.sides[!transposed].used) {
    map.view = view;
    map.has_masks = view.masks != nullptr;
  }
  map.sources = sources;
  map.queries = queries;
  if (is_identity(view, sources, queries)) return llvm::Error::success();
  side.used = side.unmade = true;
  side.keeper = keeper;
  if (!keeper) return llvm::Error::success();
  if (const auto kept = keeper->find_fused_view(transposed)) {
    map.neighbours(transposed) = kept->view;
    side.unmade = false;
    return llvm::Error::success();
  }
  side.shared = std::make_shared<FusedView>();
  side.shared->transposed = transposed;
  MINUET_ASSIGN(side.shared->memory, allocate_parts(keeper->queue()->memory(), [&](Placement& parts) {
                  place_view(parts, map, transposed);
                }));
  side.shared->view = map.neighbours(transposed);
  return llvm::Error::success();
}

void FusedWork::place_view(Placement& parts, Map& map, bool transposed) const {
  NeighbourView& view = map.neighbours(transposed);
  const i64 volume = map.view.geometry.volume, words = mask_words(map.view.geometry.volume);
  const i64 queries = map.askers(transposed).capacity;
  if (transposed) view.rows = parts.take<i32>(volume * queries);
  if (!ordered_) return;
  if (transposed || !map.has_masks) view.masks = parts.take<u32>(words * queries);
  view.order = parts.take<i32>(queries);
  view.ordered_rows = parts.take<i32>(volume * queries);
  view.ordered_masks = parts.take<u32>(words * queries);
}

MapLimits FusedWork::order_limits() const {
  MapLimits limits;
  limits.sets = 0;
  for (const Map& map : maps_) {
    for (const bool transposed : kDirections) {
      if (!ordered_ || !map.sides[transposed].unmade) continue;
      ++limits.orders;
      limits.capacity = std::max(limits.capacity, map.askers(transposed).capacity);
    }
  }
  return limits;
}

void FusedWork::place_views(Placement& parts, bool in_cloud) {
  for (Map& map : maps_) {
    for (const bool transposed : kDirections) {
      const Side& side = map.sides[transposed];
      if (side.unmade && !side.shared) place_view(parts, map, transposed);
    }
  }
  const MapLimits limits = order_limits();
  if (!in_cloud && limits.orders > 0) workspace_ = parts.take<char>(engine_.map_workspace_bytes(limits));
}

llvm::Error FusedWork::make_views(bool in_cloud) {
  const MapLimits limits = order_limits();
  if (!in_cloud && limits.orders > 0) MINUET_TRY(engine_.begin_maps(limits, workspace_));
  for (Map& map : maps_) {
    for (const bool transposed : kDirections) {
      Side& side = map.sides[transposed];
      if (!side.unmade) continue;
      MINUET_TRY(make_view(map, transposed));
      if (side.shared) side.keeper->keep_fused_view(side.shared);
      side.unmade = false;
    }
  }
  return llvm::Error::success();
}

llvm::Error FusedWork::make_view(Map& map, bool transposed) {
  const NeighbourView& view = map.neighbours(transposed);
  const Coords& queries = map.askers(transposed);
  if (transposed) MINUET_TRY(engine_.transpose_rows(map.sources, map.queries, map.view));
  if (!ordered_) return llvm::Error::success();
  const i32 volume = map.view.geometry.volume;
  if (transposed || !map.has_masks) MINUET_TRY(engine_.make_masks(queries, volume, view, nullptr));
  MINUET_TRY(engine_.order_queries(queries, map.view.geometry, view));
  return engine_.order_rows(queries, volume, view);
}

FusedOperands FusedWork::operands(i32 number) const {
  const ProgramLayer& layer = program_.layers[number];
  const Map& map = maps_[layer.map];
  const bool transposed = is_transposed(layer);
  const i32* const count = map.askers(transposed).count;
  if (!map.sides[transposed].used) return {{}, count};
  return {transposed ? map.view.transposed : map.view, count};
}

}  // namespace minuet
