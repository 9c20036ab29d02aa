// Wraps kernels.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_KERNELS_HPP_
#define MINUET_KERNELS_HPP_

#include <exception>
#include <functional>

#include "minuet/kernels.h"
#include "minuet/minuet.hpp"

namespace minuet {

/// Calls `visitor` for each kernel that minuet_plan_visit_kernels visits. If the visitor throws, it is not
/// called for the remaining kernels, and this function throws the same exception.
inline void visit_kernels(const Plan& plan, const std::string& arch,
                          const std::function<void(const minuet_kernel_code&)>& visitor) {
  struct Call {
    const std::function<void(const minuet_kernel_code&)>& visitor;
    std::exception_ptr failure;
  } call{visitor, nullptr};
  check(minuet_plan_visit_kernels(
      plan.get(), arch.c_str(),
      [](const minuet_kernel_code* kernel, void* user) {
        Call& own = *static_cast<Call*>(user);
        if (own.failure) return;
        try {
          own.visitor(*kernel);
        } catch (...) {
          own.failure = std::current_exception();
        }
      },
      &call));
  if (call.failure) std::rethrow_exception(call.failure);
}

}  // namespace minuet

#endif  // MINUET_KERNELS_HPP_
