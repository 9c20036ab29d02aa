#include "codegen/choose/ops/row_gradient.h"

#include "codegen/choose/choice.h"

namespace minuet {

[[gnu::cold]] DevoxelizeGradientChoice choose_devoxelize_gradient(const DevoxelizeProblem& problem) {
  DevoxelizeGradientChoice choice{problem, {}, {}, {}, {}, {}, {}};
  const DevoxelizeChoice forward = choose_devoxelize(problem);
  choice.index = forward.index;
  choice.weigh = forward.weigh;
  choice.sum.io = forward.devoxelize.io;
  choice.sum.vector_bytes = forward.devoxelize.vector_bytes;
  choice.sum.weighs = problem.blends();
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const DevoxelizeGradientChoice& choice) {
  list.add(choice.clear);
  list.add(choice.key);
  list.add(choice.find);
  list.add(choice.sum);
  if (!choice.problem.blends()) return;
  list.add(choice.index);
  list.add(choice.weigh);
}

llvm::Error validate(const GroupGradientProblem& problem) {
  DevoxelizeProblem limits;  // It has the same numbers of axes and channels.
  limits.ndim = problem.ndim;
  limits.channels = problem.channels;
  return validate(limits);
}

[[gnu::cold]] GroupGradientChoice choose_group_gradient(const GroupGradientProblem& problem) {
  GroupGradientChoice choice{problem, {}, {}, {}};
  choice.combine.io = choice.spread.out = problem.row_type();
  choice.spread.io = storage_type(problem.dtype);
  choice.combine.reduction = choice.spread.reduction = problem.reduction;
  const Columns rows{problem.channels, 0};
  choice.spread.vector_bytes = widest_vector(dtype_bytes(choice.spread.out), problem.channels, {rows});
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const GroupGradientChoice& choice) {
  list.add(choice.spread);
  if (choice.problem.reduction == PointReduction::Sum) return;
  list.add(choice.clear);
  list.add(choice.combine);
}

}  // namespace minuet
