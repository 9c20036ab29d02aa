// Implements kernels.h, the kernels of a plan for callers that launch them themselves.
#include "runtime/abi/c_api_internal.h"
#include "runtime/plan/kernel_code.h"

namespace minuet {
namespace {

minuet_kernel_field told(const KernelCodeField& field) {
  minuet_kernel_field answer{};
  answer.name = field.field.name.c_str();
  answer.offset = field.field.offset;
  answer.bytes = field.field.bytes;
  answer.kind = static_cast<minuet_field_kind>(field.field.kind);
  answer.count = field.field.count;
  answer.data = field.data.empty() ? nullptr : field.data.data();
  answer.data_bytes = field.data_bytes;
  return answer;
}

/// The answer points into `kernel` and `fields`.
[[gnu::cold]] minuet_kernel_code told(const KernelCode& kernel,
                                      const std::vector<minuet_kernel_field>& fields) {
  minuet_kernel_code answer{};
  answer.struct_size = sizeof(answer);
  answer.layer_name = kernel.layer_name.c_str();
  answer.layer = static_cast<int32_t>(kernel.layer);
  answer.candidate = static_cast<int32_t>(kernel.candidate);
  answer.family = kernel.way.choice.kind().name;
  answer.kernel_count = kernel.kernel_count;
  answer.covers = kernel.way.covers;
  answer.least_rows = kernel.way.least_rows;
  answer.most_rows = kernel.way.most_rows;
  answer.least_density = kernel.way.least_density;
  answer.most_density = kernel.way.most_density;
  answer.name = kernel.launch.display_name.c_str();
  answer.arch = kernel.binary.arch.c_str();
  answer.symbol = kernel.binary.lowered_name.c_str();
  // A driver that is given PTX reads up to the final zero, which std::string has behind its last byte.
  answer.image = kernel.binary.cubin.c_str();
  answer.image_bytes =
      static_cast<int64_t>(kernel.binary.cubin.size()) + (is_ptx(kernel.binary.arch) ? 1 : 0);
  answer.threads = kernel.launch.needs.threads;
  answer.static_shared_bytes = kernel.binary.shared_bytes;
  answer.dynamic_shared_bytes = kernel.launch.needs.dynamic_shared_bytes;
  answer.cluster = kernel.launch.needs.cluster;
  answer.programmatic =
      kernel.launch.needs.programmatic && capability(kernel.binary.arch) >= kLeastProgrammatic ? 1 : 0;
  answer.grid_rows = kernel.launch.grid.rows;
  answer.grid_blocks = kernel.launch.grid.blocks;
  answer.grid_shortcut_blocks = kernel.launch.grid.shortcut_blocks;
  answer.arguments_bytes = kernel.launch.params_bytes;
  answer.field_count = static_cast<int32_t>(fields.size());
  answer.fields = fields.data();
  answer.launches = kernel.way.launches;
  return answer;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_visit_kernels(minuet_plan* plan, const char* arch,
                                        minuet_kernel_code_visitor visitor, void* user) {
  return guarded("minuet_plan_visit_kernels", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(const std::string known, read_arch(arch));
    MINUET_TRY(check_pointer(reinterpret_cast<const void*>(visitor), "visitor"));
    MINUET_ASSIGN(const PlanStore::Compiled compiled, plan->store->compiled_for(known));
    if (known.empty()) return llvm::Error::success();  // The CPU has no kernels.
    const auto tell = [&](const KernelCode& kernel) {
      std::vector<minuet_kernel_field> fields;
      for (const KernelCodeField& field : kernel.fields) fields.push_back(told(field));
      const minuet_kernel_code answer = told(kernel, fields);
      visitor(&answer, user);
    };
    return visit_kernel_code(plan->store->plan(), *compiled.plan, compiled.binaries, tell);
  });
}
}
