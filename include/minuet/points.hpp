// C++ over points.h, in the manner of minuet.hpp.
#ifndef MINUET_POINTS_HPP_
#define MINUET_POINTS_HPP_

#include <array>

#include "minuet/minuet.hpp"
#include "minuet/points.h"

namespace minuet {

/// Makes voxels of points, or gives the features of voxels back to points. It may be used from many threads
/// at once.
class PointOp {
 public:
  PointOp(const Context& context, const minuet_voxelize_options& options) {
    minuet_point_op* op = nullptr;
    check(minuet_voxelize_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  PointOp(const Context& context, const minuet_devoxelize_options& options) {
    minuet_point_op* op = nullptr;
    check(minuet_devoxelize_create(context.get(), &options, &op));
    owner_.reset(op);
  }
  minuet_point_op* get() const noexcept { return owner_.get(); }

  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_point_op_load(get(), device.get())); }
  /// Bytes of the workspace of an op that voxelizes.
  std::int64_t bytes(const std::string& arch, std::int64_t most) const {
    std::int64_t bytes = 0;
    check(minuet_voxelize_bytes(get(), arch.c_str(), most, &bytes));
    return bytes;
  }
  /// Bytes of the workspace of an op that devoxelizes.
  std::int64_t bytes(const std::string& arch, std::int64_t most, std::int64_t most_rows) const {
    std::int64_t bytes = 0;
    check(minuet_devoxelize_bytes(get(), arch.c_str(), most, most_rows, &bytes));
    return bytes;
  }
  void run(const Device& device, const minuet_voxelize_arguments& arguments, void* stream = nullptr) const {
    check(minuet_voxelize(get(), device.get(), &arguments, stream));
  }
  void run(const Device& device, const minuet_devoxelize_arguments& arguments, void* stream = nullptr) const {
    check(minuet_devoxelize(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_point_op, minuet_point_op_destroy> owner_;
};

/// Reads the counts of the points of the last run of a network whose first op is voxelize
/// (MINUET_VOXELIZE_VOXELS and so on). Waits for the run.
inline std::array<std::int32_t, MINUET_VOXELIZE_COUNTS> read_points(const Execution& execution,
                                                                    void* stream = nullptr) {
  std::array<std::int32_t, MINUET_VOXELIZE_COUNTS> counts{};
  check(minuet_execution_read_points(execution.get(), counts.data(), MINUET_VOXELIZE_COUNTS, stream));
  return counts;
}

}  // namespace minuet

#endif  // MINUET_POINTS_HPP_
