// C++ over gradient.h, in the manner of minuet.hpp.
#ifndef MINUET_GRADIENT_HPP_
#define MINUET_GRADIENT_HPP_

#include "minuet/gradient.h"
#include "minuet/minuet.hpp"

namespace minuet {

/// Computes the gradients of a convolution's weight and bias, or of an affine step's scale and shift. It may
/// be used from many threads at once.
class GradientOp {
 public:
  GradientOp(const Context& context, const minuet_convolution_options& convolution, minuet_gradient which) {
    minuet_gradient_op* op = nullptr;
    check(minuet_gradient_create(context.get(), &convolution, which, &op));
    owner_.reset(op);
  }
  GradientOp(const Context& context, const minuet_affine_gradient_options& affine, minuet_gradient which) {
    minuet_gradient_op* op = nullptr;
    check(minuet_gradient_create_affine(context.get(), &affine, which, &op));
    owner_.reset(op);
  }
  minuet_gradient_op* get() const noexcept { return owner_.get(); }

  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_gradient_op_load(get(), device.get())); }
  /// Bytes of the workspace.
  std::int64_t bytes(const std::string& arch, std::int64_t most_pairs, std::int64_t most_rows) const {
    std::int64_t bytes = 0;
    check(minuet_gradient_bytes(get(), arch.c_str(), most_pairs, most_rows, &bytes));
    return bytes;
  }
  void compute(const Device& device, const minuet_gradient_arguments& arguments,
               void* stream = nullptr) const {
    check(minuet_gradient_compute(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_gradient_op, minuet_gradient_op_destroy> owner_;
};

/// Creates a plan of the gradient of a pooling's input (minuet_plan_create_pooling_gradient).
inline Plan pooling_gradient(const Context& context, const minuet_pooling_options& options) {
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_pooling_gradient(context.get(), &options, &plan));
  return Plan::take(plan);
}

/// Lists the pairs of a kernel map in device memory.
inline void list_pairs(const KernelMap& map, std::int32_t* pairs, std::int64_t capacity, std::int32_t* count,
                       void* stream = nullptr) {
  check(minuet_kernel_map_list_pairs(map.get(), pairs, capacity, count, stream));
}

}  // namespace minuet

#endif  // MINUET_GRADIENT_HPP_
