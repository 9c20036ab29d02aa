#include "tests/runtime/abi/abi_point_structs.h"

#include <cmath>

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

using PointOp = Handle<minuet_point_op>;

constexpr int64_t kPoints = 8;

minuet_voxelize_options plain_voxelize() {
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  options.channels = 4;
  for (int axis = 0; axis < 3; ++axis) options.voxel_size[axis] = 1;
  return options;
}

}  // namespace

void check_voxelize_options(Machine& machine) {
  minuet_voxelize_options given = plain_voxelize();
  given.dtype = MINUET_F16, given.first_column = 1, given.feature = MINUET_POINT_FEATURE_SUM;
  given.has_range = 1;
  for (int axis = 0; axis < 3; ++axis) given.low[axis] = -1, given.high[axis] = 2;
  given.batch_size = 2, given.most_points_per_voxel = 3, given.most_voxels = -1;  // refused
  check_options<minuet_voxelize_options>(given, MINUET_VOXELIZE_OPTIONS_INIT, [&](const auto* options) {
    minuet_point_op* made = nullptr;
    const minuet_status status = minuet_voxelize_create(machine.context(), options, &made);
    minuet_point_op_destroy(made);
    return status;
  });
}

void check_devoxelize_options(Machine& machine) {
  minuet_devoxelize_options given = MINUET_DEVOXELIZE_OPTIONS_INIT;
  given.dtype = MINUET_F16, given.channels = 2, given.blend = MINUET_BLEND_CORNERS;
  for (int axis = 0; axis < 3; ++axis) given.low[axis] = given.voxel_size[axis] = 1;
  given.tensor_stride[0] = given.tensor_stride[1] = 1, given.tensor_stride[2] = -1;  // refused
  check_options<minuet_devoxelize_options>(given, MINUET_DEVOXELIZE_OPTIONS_INIT, [&](const auto* options) {
    minuet_point_op* made = nullptr;
    const minuet_status status = minuet_devoxelize_create(machine.context(), options, &made);
    minuet_point_op_destroy(made);
    return status;
  });
}

void check_voxelize_arguments(Machine& machine) {
  const minuet_voxelize_options options = plain_voxelize();
  minuet_point_op* made = nullptr;
  check(minuet_voxelize_create(machine.context(), &options, &made));
  const PointOp op(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_voxelize_bytes(made, machine.arch().c_str(), kPoints, &bytes));
  const Buffer points(machine, std::vector<float>(kPoints * 4)),
      batch(machine, std::vector<int32_t>(kPoints)), count(machine, std::vector<int32_t>{kPoints}),
      workspace(machine, bytes), coordinates(machine, kPoints * 16), features(machine, kPoints * 16),
      words(machine, 128);
  minuet_voxelize_arguments given = MINUET_VOXELIZE_ARGUMENTS_INIT;
  given.points = static_cast<const float*>(points.data()), given.points_ld = 4, given.most = kPoints;
  given.batch = batch.integers(), given.count = count.integers();
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  given.capacity = kPoints;
  given.coordinates = static_cast<int32_t*>(coordinates.data()), given.features = features.data();
  auto* const word = static_cast<int32_t*>(words.data());
  given.voxel_points = word, given.point_rows = word + 8, given.counts = word + 16;
  given.status = reinterpret_cast<uint32_t*>(word + 16);  // refused beside these counts
  check_options<minuet_voxelize_arguments>(given, MINUET_VOXELIZE_ARGUMENTS_INIT, [&](const auto* arguments) {
    return minuet_voxelize(op.get(), machine.device(), arguments, nullptr);
  });
}

void check_devoxelize_arguments(Machine& machine) {
  minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
  options.channels = 4, options.blend = MINUET_BLEND_CENTRES;
  for (int axis = 0; axis < 3; ++axis) options.voxel_size[axis] = 1;
  minuet_point_op* made = nullptr;
  check(minuet_devoxelize_create(machine.context(), &options, &made));
  const PointOp op(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_devoxelize_bytes(made, machine.arch().c_str(), kPoints, kPoints, &bytes));
  const Buffer points(machine, std::vector<float>(kPoints * 4)),
      words(machine, std::vector<int32_t>(kPoints * 4)), count(machine, std::vector<int32_t>{1}),
      workspace(machine, bytes), output(machine, kPoints * 16);
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.points = static_cast<const float*>(points.data()), given.points_ld = 4, given.most = kPoints;
  given.batch = words.integers(), given.count = given.row_count = count.integers();
  given.point_rows = words.integers();  // refused with this blend
  given.coordinates = words.integers(), given.most_rows = kPoints;
  given.features = points.data(), given.output = output.data();
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check_options<minuet_devoxelize_arguments>(
      given, MINUET_DEVOXELIZE_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_devoxelize(op.get(), machine.device(), arguments, nullptr);
      });
}

std::vector<int32_t> voxels_with(Machine& machine, const minuet_voxelize_options* options) {
  minuet_point_op* made = nullptr;
  check(minuet_voxelize_create(machine.context(), options, &made));
  const PointOp op(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_voxelize_bytes(made, machine.arch().c_str(), 3, &bytes));
  const Buffer points(machine, std::vector<float>{1, 2, 3, -1.5f, 0.25f, NAN, -0.25f, 0, 7}),
      workspace(machine, bytes), coordinates(machine, 3 * 16), features(machine, 3 * 4);
  minuet_voxelize_arguments given = MINUET_VOXELIZE_ARGUMENTS_INIT;
  given.points = static_cast<const float*>(points.data()), given.points_ld = 3;
  given.most = given.capacity = 3;
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  given.coordinates = static_cast<int32_t*>(coordinates.data()), given.features = features.data();
  check(minuet_voxelize(made, machine.device(), &given, nullptr));
  std::vector<int32_t> seen = coordinates.read<int32_t>();
  for (const int32_t word : features.read<int32_t>()) seen.push_back(word);
  seen.push_back(static_cast<int32_t>(bytes));
  return seen;
}

std::vector<int32_t> features_with(Machine& machine, const minuet_devoxelize_options* options) {
  minuet_point_op* made = nullptr;
  check(minuet_devoxelize_create(machine.context(), options, &made));
  const PointOp op(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine.device()));
  const Buffer features(machine, std::vector<float>{1, 2}), rows(machine, std::vector<int32_t>{1, -1, 0}),
      output(machine, 3 * 4);
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.most = 3, given.most_rows = 2, given.point_rows = rows.integers();
  given.features = features.data(), given.output = output.data();
  check(minuet_devoxelize(made, machine.device(), &given, nullptr));
  return output.read<int32_t>();
}

}  // namespace minuet::abi
