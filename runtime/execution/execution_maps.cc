// Implements executions of single ops, for which the caller gives the kernel maps.
#include "runtime/execution/execution.h"

namespace minuet {
llvm::Error Execution::prepare_maps(std::vector<std::shared_ptr<const KernelMap>> maps, void* stream) {
  MINUET_TRY(call(stream, Timed::Prepare, [&]() -> llvm::Error {
    MINUET_TRY(refuse_capture());
    MINUET_TRY(use_maps(std::move(maps)));
    MINUET_TRY(place_maps());
    MINUET_TRY(KernelMap::find_masks(caller_maps_, *engine_));
    return views_->make_views();
  }));
  prepared_ = Prepared::Ready;
  return llvm::Error::success();
}

llvm::Error Execution::prepare_together(llvm::ArrayRef<Execution*> executions,
                                        llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, void* stream) {
  if (executions.empty()) return llvm::Error::success();
  Execution& first = *executions.front();
  const auto name_of = [](std::size_t i) { return "execution " + std::to_string(i); };
  // The work that makes the views is enqueued first, so that the device makes them while the host continues.
  MINUET_TRY(first.call(stream, Timed::Prepare, [&]() -> llvm::Error {
    MINUET_TRY(first.refuse_capture());
    std::vector<MapViews*> views;
    for (std::size_t i = 0; i < executions.size(); ++i) {
      Execution& own = *executions[i];
      MINUET_TRY(annotate(own.use_maps({maps[i]}), name_of(i)));
      views.push_back(&*own.views_);
    }
    MINUET_TRY(KernelMap::find_masks(maps, *first.engine_));
    return MapViews::make_views(views, *first.options_.queue);
  }));
  for (std::size_t i = 0; i < executions.size(); ++i) {
    Execution& own = *executions[i];
    const Timed timed = i == 0 ? Timed::MoreOfPrepare : Timed::Prepare;
    MINUET_TRY(annotate(own.call(stream, timed, [&] { return own.place_maps(); }), name_of(i)));
  }
  for (Execution* const execution : executions) execution->prepared_ = Prepared::Ready;
  return llvm::Error::success();
}

/// Takes the maps, selects the kernel of each layer (Candidate), and calls add_work(). This function needs no
/// memory of the execution, because views of maps with a queue have memory of their own, and other views are
/// placed later.
llvm::Error Execution::use_maps(std::vector<std::shared_ptr<const KernelMap>> maps) {
  if (maps.size() != maps_.size()) {
    return make_error(StatusCode::InvalidArgument, "{0} kernel maps are given, but the plan takes {1}",
                      maps.size(), maps_.size());
  }
  MINUET_TRY(keep_captured());
  // A run in progress may read the earlier maps, and this execution may be their last owner.
  const bool must_wait = !options_.queue && !loaded_->device->release_waits();
  if (must_wait && caller_maps_ != maps) MINUET_TRY(engine_->wait());
  caller_maps_ = std::move(maps);
  MINUET_TRY(take_maps());
  MINUET_TRY(select_candidates());
  keep_callers_order();
  return add_work();
}

llvm::Error Execution::place_maps() {
  // The code below overwrites tables in pinned memory, so earlier copies of them to the device must have
  // finished.
  MINUET_TRY(engine_->wait_for_sends());
  memory_.measure_cloud();
  bool idle = false;
  MINUET_TRY(reserve(memory_.cloud_slack(), idle));
  MINUET_TRY(place_cloud(idle));
  return prepare_layers();
}

llvm::Error Execution::take_maps() {
  const auto level_of = [](const CoordinateSet& set) {
    return Level{set.rows(),       set.caller_rows(), set.count(),        nullptr,
                 set.source_row(), set.row_of(),      set.tensor_stride()};
  };
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const KernelMap& map = *caller_maps_[i];
    const MapSpec& spec = program_.maps[i];
    if (map.device() != loaded_->device) {
      return make_error(
          StatusCode::InvalidArgument,
          "the kernel map is on another device than the execution: make it on the execution's device");
    }
    if (map.queue() != options_.queue) {
      return make_error(
          StatusCode::InvalidArgument,
          "the kernel map was made {0} a queue, but the execution {1}: use the same queue for both, or none",
          map.queue() ? "with" : "without", options_.queue ? "with a queue of its own" : "without one");
    }
    for (const ProgramLayer& layer : program_.layers) {
      if (layer.map != static_cast<i32>(i)) continue;
      MINUET_TRY(map.check_serves(*layer.window(), layer.problem.kind().name));
      const OpKind& kind = layer.problem.kind();
      if (kind.shape(layer.problem).refuses_duplicates) MINUET_TRY(map.check_no_duplicates());
    }
    levels_[spec.fine] = level_of(map.fine());
    levels_[spec.coarse] = level_of(map.coarse());
    maps_[i] = map.view();
  }
  return llvm::Error::success();
}

/// Lets the op use the caller's order of rows, so that features need no permutation. Ordered views
/// (ViewForm::Masked) then refer to rows by the caller's row numbers. An op without views, for example a
/// chain of pointwise steps, computes each row from the rows of the same number, whatever the order is. This
/// is not possible if duplicate coordinates were dropped, because no row of the set refers to the duplicates.
void Execution::keep_callers_order() {
  const ViewForm form = candidate_of(0).form;
  const bool has_ordered_views = form == ViewForm::Masked && views_->has_order();
  if (!has_ordered_views && form != ViewForm::None) return;
  for (Level& level : levels_) {
    if (level.rows != level.caller_rows) continue;
    level.caller_row = std::exchange(level.source_row, nullptr);
    level.row_of = nullptr;
  }
}

}  // namespace minuet
