// Lists the families of ops that lead from one stage of a program to another one.
#include "runtime/execution/leading_op.h"
#include "runtime/execution/ops/points.h"
#include "runtime/execution/ops/prune.h"

namespace minuet {

llvm::Expected<const LeadingFamily*> find_leading_family(const OpChoice& choice) {
  static const LeadingFamily families[] = {voxelize_family(), devoxelize_family(), prune_family()};
  const LeadingFamily* const known = find_family<LeadingFamily>(families, choice.kind());
  if (known) return known;
  return make_error(StatusCode::Internal,
                    "the library has no code that leads to a stage by an op of kind {0}", choice.kind().name);
}

}  // namespace minuet
