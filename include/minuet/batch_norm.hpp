// Wraps batch_norm.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_BATCH_NORM_HPP_
#define MINUET_BATCH_NORM_HPP_

#include "minuet/batch_norm.h"
#include "minuet/minuet.hpp"

namespace minuet {

/// Normalizes batches in training, and computes the gradients. It may be used from many threads at once.
class BatchNormOp {
 public:
  BatchNormOp(const Context& context, const minuet_batch_norm_options& options) {
    minuet_batch_norm_op* op = nullptr;
    check(minuet_batch_norm_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  minuet_batch_norm_op* get() const noexcept { return owner_.get(); }

  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_batch_norm_load(get(), device.get())); }
  /// Bytes of the workspace.
  std::int64_t bytes(const std::string& arch, std::int64_t most_rows) const {
    std::int64_t bytes = 0;
    check(minuet_batch_norm_bytes(get(), arch.c_str(), most_rows, &bytes));
    return bytes;
  }
  void sum(const Device& device, const minuet_batch_norm_arguments& arguments, void* stream = nullptr) const {
    check(minuet_batch_norm_sum(get(), device.get(), &arguments, stream));
  }
  void apply(const Device& device, const minuet_batch_norm_arguments& arguments,
             void* stream = nullptr) const {
    check(minuet_batch_norm_apply(get(), device.get(), &arguments, stream));
  }
  void forward(const Device& device, const minuet_batch_norm_arguments& arguments,
               void* stream = nullptr) const {
    check(minuet_batch_norm_forward(get(), device.get(), &arguments, stream));
  }
  void sum_gradients(const Device& device, const minuet_batch_norm_gradient_arguments& arguments,
                     void* stream = nullptr) const {
    check(minuet_batch_norm_sum_gradients(get(), device.get(), &arguments, stream));
  }
  void apply_gradients(const Device& device, const minuet_batch_norm_gradient_arguments& arguments,
                       void* stream = nullptr) const {
    check(minuet_batch_norm_apply_gradients(get(), device.get(), &arguments, stream));
  }
  void backward(const Device& device, const minuet_batch_norm_gradient_arguments& arguments,
                void* stream = nullptr) const {
    check(minuet_batch_norm_backward(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_batch_norm_op, minuet_batch_norm_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_BATCH_NORM_HPP_
