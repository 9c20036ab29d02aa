// C++ over select.h, in the manner of minuet.hpp.
#ifndef MINUET_SELECT_HPP_
#define MINUET_SELECT_HPP_

#include "minuet/minuet.hpp"
#include "minuet/select.h"

namespace minuet {

/// Lists the rows, children or cells that a rule keeps. It may be used from many threads at once.
class SelectOp {
 public:
  SelectOp(const Context& context, const minuet_select_options& options) {
    minuet_select_op* op = nullptr;
    check(minuet_select_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  minuet_select_op* get() const noexcept { return owner_.get(); }

  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_select_op_load(get(), device.get())); }
  /// Bytes of the workspace.
  std::int64_t bytes(const std::string& arch, std::int64_t most_rows = 0) const {
    std::int64_t bytes = 0;
    check(minuet_select_bytes(get(), arch.c_str(), most_rows, &bytes));
    return bytes;
  }
  void run(const Device& device, const minuet_select_arguments& arguments, void* stream = nullptr) const {
    check(minuet_select(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_select_op, minuet_select_op_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_SELECT_HPP_
