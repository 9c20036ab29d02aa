// One line for each family of ops that an execution may run. A test may link a table of its own in this one's
// place.
#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/ops/pooling.h"
#include "runtime/execution/op_work.h"
#include "runtime/execution/ops/convolution.h"

namespace minuet {

llvm::ArrayRef<WorkOfFamily> works_of_families() {
  static const WorkOfFamily families[] = {
      {GmasChoice::kKind, make_gmas_work},
      {FusedChoice::kKind, make_view_work},
      {PoolChoice::kKind, make_view_work},
  };
  return families;
}

}  // namespace minuet
