// The custom calls that make voxels of points, and that give rows their part of the gradient of their group.
#include <algorithm>

#include "minuet/points.hpp"
#include "minuet/row_gradient.hpp"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

// Reads one number for each axis.
void read_axes(const XlaAttributes& attributes, const char* name, std::int32_t ndim, float* axes) {
  const std::span<const float> given = attributes.floats(name);
  if (static_cast<std::int64_t>(given.size()) != ndim) {
    refuse(std::string("the attribute ") + name + " has " + std::to_string(given.size()) +
           " numbers, and voxel_size has " + std::to_string(ndim));
  }
  std::copy(given.begin(), given.end(), axes);
}

minuet_voxelize_options voxelize_options(const XlaAttributes& attributes) {
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  const std::size_t ndim = attributes.floats("voxel_size").size();
  if (ndim < 1 || ndim > MINUET_MAX_DIM) {
    refuse("the attribute voxel_size has " + std::to_string(ndim) + " numbers, and 1 to " +
           std::to_string(MINUET_MAX_DIM) + " are supported: one for each axis");
  }
  options.ndim = static_cast<std::int32_t>(ndim);
  read_axes(attributes, "voxel_size", options.ndim, options.voxel_size);
  read_axes(attributes, "low", options.ndim, options.low);
  if (attributes.has("high")) {
    options.has_range = 1;
    read_axes(attributes, "high", options.ndim, options.high);
  }
  options.dtype = attributes.integer32("dtype");
  options.first_column = attributes.integer32("first_column");
  options.channels = attributes.integer32("channels");
  options.feature = attributes.integer32("feature");
  options.batch_size = attributes.integer("batch_size");
  options.most_points_per_voxel = attributes.integer("most_points_per_voxel");
  options.most_voxels = attributes.integer("most_voxels");
  return options;
}

// Throws unless an array is [rows, channels] of a dtype.
minuet_tensor require_features(const XlaArray& array, minuet_dtype dtype, std::int32_t channels) {
  const minuet_tensor tensor = array.tensor();
  if (tensor.dtype != dtype || tensor.channels != channels) {
    refuse("features are of minuet_dtype " + std::to_string(tensor.dtype) + " with " +
           std::to_string(tensor.channels) + " channels, and the attributes say " + std::to_string(dtype) +
           " with " + std::to_string(channels));
  }
  return tensor;
}

class VoxelizeOperation final : public XlaOperation {
 public:
  explicit VoxelizeOperation(const XlaAttributes& attributes)
      : options_(voxelize_options(attributes)), op_(shared_context(), options_) {}
  void load(const XlaPlace& place) override {
    once_(place, [&] { op_.load(place.device); });
  }

  void run(const XlaPlace& place, const XlaCall& call) override {
    CallReader reader(call);
    minuet_voxelize_arguments arguments = MINUET_VOXELIZE_ARGUMENTS_INIT;
    const XlaArray points = reader.operand();
    arguments.points = points.of<float>(XLA_FFI_DataType_F32, 2);
    arguments.most = points.shape()[0];
    arguments.points_ld = points.shape()[1];
    const std::int64_t columns =
        std::max<std::int64_t>(options_.ndim, std::int64_t{options_.first_column} + options_.channels);
    if (arguments.points_ld < columns) {
      refuse("points have " + std::to_string(arguments.points_ld) + " columns, and " +
             std::to_string(columns) + " are needed for the position and the features");
    }
    arguments.count = reader.count();
    if (call.operands() > 2) arguments.batch = reader.numbers_in(arguments.most);
    const minuet_tensor features = require_features(reader.result(), options_.dtype, options_.channels);
    arguments.features = features.data;
    arguments.capacity = features.rows;
    arguments.coordinates = reader.numbers_out(features.rows * (1 + options_.ndim));
    arguments.voxel_points = reader.numbers_out(features.rows);
    arguments.point_rows = reader.numbers_out(arguments.most);
    arguments.counts = reader.numbers_out(MINUET_VOXELIZE_COUNTS);
    arguments.status = reader.result().of<std::uint32_t>(XLA_FFI_DataType_U32, -1, 1);
    reader.finish();
    const XlaWorkspace workspace(call, [&] { return op_.bytes(place.arch, arguments.most); });
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    op_.run(place.device, arguments, call.stream());
  }

 private:
  const minuet_voxelize_options options_;
  const minuet::PointOp op_;
  OnceByPlace once_;
};

minuet_group_gradient_options group_options(const XlaAttributes& attributes) {
  minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  options.dtype = attributes.integer32("dtype");
  options.channels = attributes.integer32("channels");
  options.feature = attributes.integer32("feature");
  return options;
}

class GroupGradientOperation final : public XlaOperation {
 public:
  explicit GroupGradientOperation(const XlaAttributes& attributes)
      : options_(group_options(attributes)), op_(shared_context(), options_) {}
  void load(const XlaPlace& place) override {
    once_(place, [&] { op_.load(place.device); });
  }

  void run(const XlaPlace& place, const XlaCall& call) override {
    CallReader reader(call);
    minuet_group_gradient_arguments arguments = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
    const minuet_tensor gradient = features(reader.operand());
    arguments.out_gradient = gradient.data;
    arguments.most_groups = gradient.rows;
    const XlaArray groups = reader.operand();
    arguments.groups = groups.of<std::int32_t>(XLA_FFI_DataType_S32, 2);
    arguments.most_rows = groups.shape()[0];
    arguments.groups_ld = groups.shape()[1];
    arguments.row_count = reader.count();
    if (options_.feature == MINUET_POINT_FEATURE_MAX) {
      const minuet_tensor input = features(reader.operand(), arguments.most_rows);
      arguments.input = input.data;
      arguments.input_ld = options_.channels;
    } else if (call.operands() > 3) {
      arguments.group_sizes = reader.numbers_in(arguments.most_groups);
    }
    arguments.input_gradient = features(reader.result(), arguments.most_rows).data;
    reader.finish();
    const XlaWorkspace workspace(call, [&] { return op_.bytes(place.arch, arguments.most_groups); });
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    op_.run(place.device, arguments, call.stream());
  }

 private:
  // Throws unless an array has the dtype and the channels of the options, and as many rows; -1: any number.
  minuet_tensor features(const XlaArray& array, std::int64_t rows = -1) const {
    const minuet_tensor tensor = require_features(array, options_.dtype, options_.channels);
    if (rows >= 0 && tensor.rows != rows) {
      refuse("a matrix has " + std::to_string(tensor.rows) + " rows, and groups are given for " +
             std::to_string(rows));
    }
    return tensor;
  }

  const minuet_group_gradient_options options_;
  const minuet::RowGradientOp op_;
  OnceByPlace once_;
};

}  // namespace

std::unique_ptr<XlaOperation> make_voxelize(const XlaAttributes& attributes) {
  return std::make_unique<VoxelizeOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_group_gradient(const XlaAttributes& attributes) {
  return std::make_unique<GroupGradientOperation>(attributes);
}

}  // namespace minuet_xla
