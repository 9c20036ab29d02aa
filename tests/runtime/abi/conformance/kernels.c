/* Rows of kernels.h. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void count_kernel(const minuet_kernel_code* kernel, void* user) {
  EXPECT(kernel->struct_size == sizeof(*kernel) && kernel->field_count > 0 && kernel->image_bytes > 0);
  ++*(int*)user;
}

void call_kernels(world* world) {
  minuet_plan* const plan = world->convolution;
  const char* const arch = world->arch;
  int kernels = 0;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_visit_kernels(NULL, arch, count_kernel, &kernels));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_plan_visit_kernels(plan, NULL, count_kernel, &kernels));
  REFUSED(INVALID_ARGUMENT, "visitor is null", minuet_plan_visit_kernels(plan, arch, NULL, &kernels));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_visit_kernels(world->uncompiled, arch, count_kernel, &kernels));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_visit_kernels(plan, "sm_75", count_kernel, &kernels));
  EXPECT(kernels == 0);
  ACCEPTED(minuet_plan_visit_kernels(plan, arch, count_kernel, &kernels));
  EXPECT((kernels == 0) == (strcmp(arch, "cpu") == 0));
}
