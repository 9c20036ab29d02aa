#include "runtime/maps/map_views.h"

#include <algorithm>
#include <utility>

namespace minuet {
namespace {

// The value true stands for the transposed direction.
constexpr bool kDirections[] = {false, true};
constexpr ViewForm kForms[] = {ViewForm::Rows, ViewForm::Masked};

/// Returns true if the map has only the offset 0 and its two sides are the same set. Each row is then its
/// only neighbour, and no view is needed. A set is identified by the address of its row count.
bool is_identity(const MapView& map, const Coords& sources, const Coords& queries) {
  return map.has_only_offset_0() && sources.count == queries.count;
}

NeighbourView& neighbours(MapView& map, bool transposed) { return transposed ? map.transposed : map; }

RowOrder order_for(llvm::ArrayRef<ViewNeed> needs, RowOrder preferred, bool has_capacities) {
  const auto is_masked = [](const ViewNeed& need) { return need.form == ViewForm::Masked; };
  if (llvm::none_of(needs, is_masked)) return RowOrder::AsTheyCome;
  return has_capacities && preferred == RowOrder::AsTheyCome ? OrderChoice().order : preferred;
}

}  // namespace

MapViews::MapViews(const Program& program, Engine& engine, std::vector<ViewNeed> needs, RowOrder order,
                   bool has_capacities)
    : program_(program),
      engine_(engine),
      needs_(std::move(needs)),
      order_(order_for(needs_, order, has_capacities)),
      maps_(program.maps.size()),
      offsets_(program.maps.size()) {}

bool MapViews::may_look_up(i32 map, bool fills_voxels) const {
  return llvm::all_of(needs_, [&](const ViewNeed& need) {
    return need.map != map || (is_ordered(need.form) && (!need.transposed || fills_voxels));
  });
}

bool MapViews::keeps_rows(i32 map) const {
  return llvm::any_of(needs_, [&](const ViewNeed& need) {
    return need.map == map && (need.form == ViewForm::Rows || has_plain_masks(need.form));
  });
}

void MapViews::begin() {
  for (Map& map : maps_) map = Map();
  requests_.clear();
  forms_.clear();
}

/// Calls visitor(map, side, transposed, form) for every view that an op reads.
template <class Visitor>
void MapViews::visit_sides(const Visitor& visitor) {
  for (std::size_t map = 0; map < maps_.size(); ++map) {
    for (const bool transposed : kDirections) {
      for (const ViewForm form : kForms) {
        Side& side = side_of(static_cast<i32>(map), transposed, form);
        if (side.used) visitor(static_cast<i32>(map), side, transposed, form);
      }
    }
  }
}

llvm::Error MapViews::add(const MapUse& use, ViewForm form) {
  Side& side = side_of(use.map, use.transposed, form);
  if (side.used || is_identity(use.view, use.sources, use.queries)) return llvm::Error::success();
  side.used = true;
  side.view = use.view;
  side.has_masks = use.view.masks != nullptr;
  side.sources = use.sources;
  side.queries = use.queries;
  // The map itself serves as a view that is neither transposed nor ordered, so nothing needs to be made.
  if (!use.transposed && !is_ordered(form)) return llvm::Error::success();
  if (is_ordered(form)) find_offsets(use.map);
  if (!use.owner) {
    ask_for(use.map, side, use.transposed, form);
    return llvm::Error::success();
  }
  side.shared = use.owner->find_view(use.transposed, form);
  if (!side.shared) {
    side.shared = std::make_shared<SharedView>();
    side.shared->transposed = use.transposed;
    side.shared->form = form;
    MINUET_ASSIGN(side.shared->memory, allocate_parts(use.owner->queue()->memory(), [&](Placement& parts) {
                    place_view(parts, side, use.transposed, form);
                    place_view_workspace(parts, side, use.transposed, form);
                  }));
    side.shared->view = neighbours(side.view, use.transposed);
    use.owner->keep_view(side.shared);
  }
  neighbours(side.view, use.transposed) = side.shared->view;
  if (!side.shared->is_made) ask_for(use.map, side, use.transposed, form);
  return llvm::Error::success();
}

void MapViews::take_made(i32 map, const MapView& made, bool transposed, ViewForm form) {
  Side& side = side_of(map, transposed, form);
  side.used = true;
  side.view = made;
}

void MapViews::ask_for(i32 map, Side& side, bool transposed, ViewForm form) {
  side.unmade = true;
  ViewRequest request;
  request.map = &side.view;
  request.sources = side.sources;
  request.queries = side.queries;
  request.transposed = transposed;
  request.has_masks = !transposed && side.has_masks;
  if (is_ordered(form)) request.offsets = &offsets_[map];
  requests_.push_back(request);
  forms_.push_back(form);
}

void MapViews::find_offsets(i32 map) {
  if (offsets_[map].ranked > 0) return;
  const MapSpec& spec = program_.maps[map];
  offsets_[map] = order_offsets(geometry_of(program_, spec), spec.offsets);
}

void MapViews::place_view(Placement& parts, Side& side, bool transposed, ViewForm form) const {
  NeighbourView& view = neighbours(side.view, transposed);
  const i64 volume = side.view.geometry.volume, words = mask_words(side.view.geometry.volume);
  const i64 queries = (transposed ? side.sources : side.queries).capacity;
  if (!is_ordered(form)) {
    place_rows(parts, side, transposed);
    if (transposed && has_plain_masks(form)) view.masks = parts.take<u32>(words * queries);
    return;
  }
  view.order = parts.take<i32>(queries);
  view.ordered_rows = parts.take<i32>(volume * ordered_row_stride(queries));
  view.ordered_masks = parts.take<u32>(words * ordered_row_stride(queries));
  view.block_orders = parts.take<i32>(block_order_begin(queries, kBlockHeightCount));
}

void MapViews::place_view_workspace(Placement& parts, Side& side, bool transposed, ViewForm form) const {
  if (!is_ordered(form)) return;
  NeighbourView& view = neighbours(side.view, transposed);
  const i64 words = mask_words(side.view.geometry.volume);
  const i64 queries = (transposed ? side.sources : side.queries).capacity;
  place_rows(parts, side, transposed);
  if (transposed || !side.has_masks) view.masks = parts.take<u32>(words * queries);
  view.block_masks = parts.take<u32>(words * blocks_of_height(queries, kLeastBlockHeight));
}

/// Places the table of rows of a transposed view. A view whose rows come from an index gets no table.
void MapViews::place_rows(Placement& parts, Side& side, bool transposed) {
  const bool is_table = side.view.rows || !side.view.index.index;
  if (!transposed || !is_table) return;
  side.view.transposed.rows = parts.take<i32>(side.view.geometry.volume * side.sources.capacity);
}

/// Calls `place` for each view that must be made in the execution's own memory. Shared views have memory of
/// their own.
void MapViews::place_unmade(Placement& parts, PlaceView place) {
  visit_sides([&](i32, Side& side, bool transposed, ViewForm form) {
    if (side.unmade && !side.shared) (this->*place)(parts, side, transposed, form);
  });
}

void MapViews::place_views(Placement& parts) { place_unmade(parts, &MapViews::place_view); }

void MapViews::place_workspace(Placement& parts) {
  place_unmade(parts, &MapViews::place_view_workspace);
  workspace_ = parts.take<char>(engine_.maps().view_workspace_bytes(requests_));
  i64 most_offsets = 0;
  bool has_masks = false;
  visit_sides([&](i32, Side& side, bool, ViewForm form) {
    most_offsets = std::max<i64>(most_offsets, side.view.geometry.volume);
    has_masks = has_masks || has_plain_masks(form);
  });
  mask_counts_ = has_masks ? parts.take<i32>(most_offsets) : nullptr;
}

llvm::Error MapViews::make_views() {
  if (requests_.empty()) return llvm::Error::success();
  MINUET_TRY(engine_.maps().make_views(requests_, workspace_));
  return finish_views();
}

/// Makes the masks of transposed views without an order, and marks all views as made. The other views without
/// an order need no work here, because the map already has the masks of its coarser side.
llvm::Error MapViews::finish_views() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const ViewRequest& request = requests_[i];
    if (!request.transposed || !has_plain_masks(forms_[i])) continue;
    const i32 volume = request.map->geometry.volume;
    MINUET_TRY(engine_.fill_words(mask_counts_, 0, volume));
    MINUET_TRY(engine_.maps().make_masks(request.output_coords(), volume, request.view(), mask_counts_));
  }
  visit_sides([&](i32, Side& side, bool, ViewForm) {
    if (side.unmade && side.shared) side.shared->is_made = true;
    side.unmade = false;
  });
  requests_.clear();
  forms_.clear();
  return llvm::Error::success();
}

llvm::Error MapViews::make_views(llvm::ArrayRef<MapViews*> views, Queue& queue) {
  std::vector<ViewRequest> requests;
  for (MapViews* const own : views) {
    for (const ViewRequest& request : own->requests_) {
      // Executions that use the same map share its views, so each view is requested only once.
      const auto is_same = [&](const ViewRequest& other) {
        return other.view().order == request.view().order && other.view().rows == request.view().rows;
      };
      if (llvm::none_of(requests, is_same)) requests.push_back(request);
    }
  }
  if (requests.empty()) return llvm::Error::success();
  Engine& engine = views.front()->engine_;
  MINUET_ASSIGN(const auto workspace, queue.scratch(engine.maps().view_workspace_bytes(requests)));
  MINUET_TRY(engine.maps().make_views(requests, workspace->data()));
  for (MapViews* const own : views) MINUET_TRY(own->finish_views());
  return llvm::Error::success();
}

const MapView* MapViews::made(i32 map, bool transposed, ViewForm form) const {
  const Side& side = maps_[map].sides[transposed][form == ViewForm::Masked];
  return side.used ? &side.view : nullptr;
}

NeighbourView MapViews::view(i32 map, bool transposed, ViewForm form) const {
  const MapView* const read = made(map, transposed, form);
  if (!read) return {};
  NeighbourView view = transposed ? read->transposed : *read;
  if (order_ == RowOrder::ByMask) view.block_orders = nullptr;
  return view;
}

}  // namespace minuet
