// Determines what the ops of an execution need. These are the views of maps that their kernels read, and the
// OpWork objects of their families.
#include <algorithm>

#include "runtime/execution/execution.h"

namespace minuet {

/// Adds the memory needs of every family of ops (OpFamily) that may run the layer. The function assumes
/// Level::rows rows in each coordinate set and `neighbours` pairs per output row.
llvm::Error Execution::bound_layer(i32 number, double neighbours) {
  const ProgramLayer& layer = program_.layers[number];
  i64 rows = std::max(rows_of(layer.input), rows_of(layer.output));
  if (layer.map >= 0) {
    const MapSpec& map = program_.maps[layer.map];
    rows = std::max({rows, levels_[map.fine].rows, levels_[map.coarse].rows});
  }
  for (const Work& work : works_) {
    const auto is_of = [&](const Candidate& candidate) { return &candidate.choice.kind() == work.family; };
    if (llvm::any_of(compiled_.candidates[number], is_of)) work.work->bound(number, rows, neighbours);
  }
  if (layer.map < 0) return llvm::Error::success();
  MapUse use = map_use(number);
  use.view = {};
  use.view.geometry.volume = static_cast<i32>(program_.maps[use.map].volume());
  use.view.offsets = program_.maps[use.map].offsets;
  for (const ViewForm form : {ViewForm::Rows, ViewForm::Masked}) {
    if (compiled_.has(form, number)) MINUET_TRY(views_->add(use, form));
  }
  return llvm::Error::success();
}

llvm::Error Execution::make_works() {
  views_.emplace(program_, *engine_, view_needs(), compiled_.order.order, has_capacities());
  const OpWorkContext context{program_,
                              compiled_,
                              *loaded_->device,
                              *engine_,
                              *views_,
                              options_.scratch_bytes,
                              options_.cloud.batch_size};
  for (const std::vector<Candidate>& layer : compiled_.candidates) {
    for (const Candidate& candidate : layer) {
      const OpFamily& family = candidate.choice.kind();
      if (!may_run(candidate)) continue;
      if (llvm::any_of(works_, [&](const Work& work) { return work.family == &family; })) continue;
      MINUET_ASSIGN(std::unique_ptr<OpWork> work, make_op_work(family, context));
      works_.push_back({&family, std::move(work)});
    }
  }
  return llvm::Error::success();
}

/// Finds, for each layer, the layer whose kernel computes it (Candidate::covers). If an earlier layer
/// computes a layer, the layer's own candidate is not used and does not affect the layers after it.
void Execution::find_runners() {
  for (i32 i = 0; i < layer_count();) {
    const i32 runner = i, covers = compiled_.candidates[i][selected_[i]].covers;
    while (i <= runner + covers) runners_[i++] = runner;
  }
}

OpWork& Execution::work_of(const Candidate& candidate) const {
  const auto is_of = [&](const Work& work) { return work.family == &candidate.choice.kind(); };
  // The search succeeds, because make_works() made an element for the family of every candidate that may run.
  return *llvm::find_if(works_, is_of)->work;
}

/// Returns the direction and the form (ViewForm) of every view of a map that a layer may read.
std::vector<ViewNeed> Execution::view_needs() const {
  std::vector<ViewNeed> needs;
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    const ProgramLayer& layer = program_.layers[i];
    for (const ViewForm form : {ViewForm::Pairs, ViewForm::Rows, ViewForm::Masked}) {
      const auto reads = [&](const Candidate& candidate) {
        return candidate.form == form && may_run(candidate);
      };
      if (llvm::any_of(compiled_.candidates[i], reads))
        needs.push_back({layer.map, layer.is_transposed(), form});
    }
  }
  return needs;
}

/// Returns the coordinates that the layer reads, or null if it reads none.
const i32* Execution::coordinates_of(i32 layer) const {
  const i32 level = program_.layers[layer].coordinates_level;
  if (level < 0) return nullptr;
  return placed_ ? placed_->coordinates(pyramid_levels_[level]) : network_maps_->coordinates_of(level);
}

MapUse Execution::map_use(i32 number) const {
  const ProgramLayer& layer = program_.layers[number];
  if (layer.map < 0) return MapUse();
  const MapSpec& spec = program_.maps[layer.map];
  MapUse use{layer.map, layer.is_transposed(), maps_[layer.map], coords_of(spec.fine),
             coords_of(spec.coarse)};
  if (!network_maps_ && options_.queue) use.owner = caller_maps_[layer.map].get();
  return use;
}

/// Sets the element of maps_ for the layer's map to the caller's map, with the data that an op needs to read
/// it in this form (ViewForm).
llvm::Error Execution::take_map(i32 number, ViewForm form) {
  const ProgramLayer& layer = program_.layers[number];
  if (network_maps_ || layer.map < 0) return llvm::Error::success();
  const KernelMap& given = *caller_maps_[layer.map];
  if (form == ViewForm::Pairs) {
    MINUET_TRY(given.find_pairs());
    maps_[layer.map] = given.view();
  } else if (form != ViewForm::None) {
    MINUET_ASSIGN(maps_[layer.map], given.view_of(layer.is_transposed(), form));
  }
  return llvm::Error::success();
}

/// Adds the views that the selected kernel of each layer reads, and adds the layer's op to the OpWork of its
/// family (OpFamily).
llvm::Error Execution::add_work() {
  for (const Work& work : works_) work.work->begin(most_rows());
  views_->begin();
  for (i32 i = 0; i < layer_count(); ++i) {
    if (is_covered(i)) continue;
    const ViewForm form = candidate_of(i).form;
    MINUET_TRY(take_map(i, form));
    if (form == ViewForm::Rows || form == ViewForm::Masked) MINUET_TRY(views_->add(map_use(i), form));
    MINUET_TRY(add_op(i));
  }
  return llvm::Error::success();
}

/// Adds the layer's op to the OpWork of the family of its candidate.
llvm::Error Execution::add_op(i32 number) {
  const ProgramLayer& layer = program_.layers[number];
  const auto counts = [&] { return counts_of(layer.map); };
  return work_of(candidate_of(number))
      .add({number, rows_of(layer.output), map_use(number), counts, coordinates_of(number),
            rows_of(layer.input)});
}

}  // namespace minuet
