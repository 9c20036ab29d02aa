// Lists the kernels that compute the layers of a compiled plan, with all that a caller needs to launch them
// through the driver.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/plan/compiled_plan.h"

namespace minuet {

/// Describes a field of a kernel's Params.
struct KernelCodeField {
  ParamsField field;
  /// Gives the size of the parameters that the field points to, or is 0 if it does not point to parameters.
  i64 data_bytes = 0;
  /// Holds these parameters in the layout that the kernel reads. It is empty if the plan has no values.
  std::string data;
};

/// Describes one kernel of one candidate of a layer. The references are valid during the visit only.
struct KernelCode {
  std::size_t layer, candidate;  // These are the numbers of the layer, and of the candidate within the layer.
  const std::string& layer_name;
  const Candidate& way;
  i32 kernel_count;  // Counts the kernels of the candidate.
  const KernelLaunch& launch;
  const Binary& binary;
  std::vector<KernelCodeField> fields;
};

/// Calls `visitor` for each kernel of each candidate of each layer, in this order.
llvm::Error visit_kernel_code(const Plan& plan, const CompiledPlan& compiled, const BinaryList& binaries,
                              llvm::function_ref<void(const KernelCode&)> visitor);

}  // namespace minuet
