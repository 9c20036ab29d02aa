// C++ over row_gradient.h, in the manner of minuet.hpp.
#ifndef MINUET_ROW_GRADIENT_HPP_
#define MINUET_ROW_GRADIENT_HPP_

#include "minuet/minuet.hpp"
#include "minuet/row_gradient.h"

namespace minuet {

/// Computes the gradient of the features that a minuet_devoxelize reads, or of the rows of groups. It may be
/// used from many threads at once.
class RowGradientOp {
 public:
  RowGradientOp(const Context& context, const minuet_devoxelize_options& options) {
    minuet_point_op* op = nullptr;
    check(minuet_devoxelize_gradient_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  RowGradientOp(const Context& context, const minuet_group_gradient_options& options) {
    minuet_point_op* op = nullptr;
    check(minuet_group_gradient_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  minuet_point_op* get() const noexcept { return owner_.get(); }

  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_point_op_load(get(), device.get())); }
  /// Bytes of the workspace of the gradient of devoxelizing.
  std::int64_t bytes(const std::string& arch, std::int64_t most, std::int64_t most_rows) const {
    std::int64_t bytes = 0;
    check(minuet_devoxelize_gradient_bytes(get(), arch.c_str(), most, most_rows, &bytes));
    return bytes;
  }
  /// Bytes of the workspace of the gradient of groups.
  std::int64_t bytes(const std::string& arch, std::int64_t most_groups) const {
    std::int64_t bytes = 0;
    check(minuet_group_gradient_bytes(get(), arch.c_str(), most_groups, &bytes));
    return bytes;
  }
  void run(const Device& device, const minuet_devoxelize_arguments& arguments, void* stream = nullptr) const {
    check(minuet_devoxelize_gradient(get(), device.get(), &arguments, stream));
  }
  void run(const Device& device, const minuet_group_gradient_arguments& arguments,
           void* stream = nullptr) const {
    check(minuet_group_gradient(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_point_op, minuet_point_op_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_ROW_GRADIENT_HPP_
