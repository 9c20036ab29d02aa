#include "runtime/execution/ops/prune.h"

#include "codegen/choose/ops/prune.h"

namespace minuet {
namespace {

const PruneProblem& prune_of(const OpChoice& choice) { return choice.get<PruneChoice>().problem; }

bool reads_cells(const OpChoice& choice) { return prune_of(choice).select.source == SelectSource::Cells; }

RootArrays arrays_to_gather_by(const OpChoice& choice) {
  if (reads_cells(choice)) return {};
  const bool by_children = prune_of(choice).divides_channels;
  return {.sources = by_children, .parents = !by_children};
}

i64 most_kept_rows(const OpChoice& choice, const LeadingSizes& sizes) {
  return prune_of(choice).select.candidates(sizes.input_rows, sizes.batch_size);
}

llvm::Error check_prune(const OpChoice& choice, const LeadingSizes& sizes) {
  if (!prune_of(choice).makes_level) return llvm::Error::success();
  return check_candidates(prune_of(choice).select, sizes.input_rows, sizes.batch_size);
}

i64 prune_bytes(Engine& engine, const OpChoice& choice, const LeadingSizes& sizes) {
  if (!prune_of(choice).makes_level) return 0;
  return engine.selections().workspace_bytes(choice.get<PruneChoice>().select, sizes.input_rows,
                                             sizes.batch_size);
}

llvm::Error list_kept_rows(Engine& engine, const LeadingRequest& given) {
  const LeadingInput& input = given.inputs.front();
  SelectRequest request;
  request.choice = &given.choice->get<PruneChoice>().select;
  request.batch_size = given.batch_size;
  if (reads_cells(*given.choice)) {
    request.dense = input.matrix.data;
    request.features = given.output.data;
  } else {
    request.coordinates = input.coordinates;
    request.row_count = input.count;
    request.most_rows = input.matrix.rows;
    const Tensor& by = given.inputs.back().matrix;
    const bool is_mask = prune_of(*given.choice).select.rule == SelectRule::Mask;
    request.mask = is_mask ? static_cast<const unsigned char*>(by.data) : nullptr;
    request.scores = is_mask ? nullptr : by.data;
    request.scores_ld = is_mask ? 0 : by.ld;
    request.parents = given.to.parents;
  }
  request.workspace = given.workspace;
  request.capacity = given.to.capacity;
  request.selected = given.to.coordinates;
  request.sources = given.to.sources;
  request.count = given.to.count;
  request.status = given.to.status;
  return engine.selections().select(request);
}

llvm::Error gather_kept_rows(Engine& engine, const LeadingRequest& given) {
  PermuteRequest request;
  request.permute = given.permute;
  request.input = given.inputs.front().matrix.data;
  request.input_ld = given.output.ld;
  // A part of a parent's channels is a row of a matrix that has a row for each child.
  request.index = arrays_to_gather_by(*given.choice).sources ? given.to.sources : given.to.parents;
  if (!prune_of(*given.choice).divides_channels) request.input_ld = given.inputs.front().matrix.ld;
  request.rows = given.output.rows;
  request.output = given.output.data;
  request.output_ld = given.output.ld;
  request.count = given.to.count;
  return engine.permute_rows(request);
}

}  // namespace

LeadingFamily prune_family() {
  LeadingFamily family{PruneChoice::kKind};
  family.reads_coordinates = [](const OpChoice& choice) {
    return prune_of(choice).makes_level && !reads_cells(choice);
  };
  family.reads = arrays_to_gather_by;
  family.gather = [](const OpChoice& choice) { return choice.get<PruneChoice>().gather; };
  family.check = check_prune;
  family.most_rows = most_kept_rows;
  family.workspace_bytes = prune_bytes;
  family.make = list_kept_rows;
  family.makes_output = reads_cells;
  family.load = gather_kept_rows;
  return family;
}

}  // namespace minuet
