#include "tools/minuet/library/voxelizer.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "minuet/points.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

using PointOpHandle = std::unique_ptr<minuet_point_op, Release<minuet_point_op, minuet_point_op_destroy>>;

constexpr int32_t kNumbers = 4;

/// Holds the memory of one call on the device.
struct VoxelizeMemory {
  DeviceBuffer points, workspace, coordinates, features, rows, counts;
};

/// Returns the bytes of the rows of all points. It is never 0, because no memory has 0 bytes.
size_t row_bytes(size_t points) { return std::max<size_t>(points, 1) * sizeof(int32_t); }

llvm::Expected<VoxelizeMemory> allocate(minuet_device* device, const VoxelizeTask& task, int64_t workspace) {
  const size_t bytes = std::max<size_t>(task.points.size() * sizeof(float), sizeof(float));
  MINUET_ASSIGN(DeviceBuffer points, task.points.empty()
                                         ? DeviceBuffer::allocate(device, bytes)
                                         : DeviceBuffer::upload(device, task.points.data(), bytes));
  MINUET_ASSIGN(DeviceBuffer scratch, DeviceBuffer::allocate(device, static_cast<size_t>(workspace)));
  MINUET_ASSIGN(DeviceBuffer coordinates, DeviceBuffer::allocate(device, bytes));
  MINUET_ASSIGN(DeviceBuffer features, DeviceBuffer::allocate(device, bytes));
  MINUET_ASSIGN(DeviceBuffer rows, DeviceBuffer::allocate(device, row_bytes(task.points.size() / kNumbers)));
  MINUET_ASSIGN(DeviceBuffer counts,
                DeviceBuffer::allocate(device, sizeof(int32_t) * (MINUET_VOXELIZE_COUNTS + 1)));
  return VoxelizeMemory{std::move(points),   std::move(scratch), std::move(coordinates),
                        std::move(features), std::move(rows),    std::move(counts)};
}

llvm::Expected<PointOpHandle> create_op(minuet_context* context, const VoxelizeTask& task) {
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  options.channels = kNumbers;
  options.has_range = task.high ? 1 : 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    options.low[axis] = task.low[axis];
    options.high[axis] = task.high ? (*task.high)[axis] : 0;
    options.voxel_size[axis] = task.voxel_size[axis];
  }
  options.most_points_per_voxel = task.most_points;
  options.most_voxels = task.most_voxels;
  minuet_point_op* op = nullptr;
  MINUET_TRY(check(minuet_voxelize_create(context, &options, &op)));
  return PointOpHandle(op);
}

/// Copies the first `count` elements of device memory to the host.
template <class T>
llvm::Expected<std::vector<T>> first_of(const DeviceBuffer& memory, size_t bytes, size_t count) {
  std::vector<T> all(bytes / sizeof(T));
  MINUET_TRY(memory.download(all.data()));
  all.resize(count);
  return all;
}

llvm::Expected<VoxelCloud> fetch(const VoxelizeMemory& memory, int64_t points) {
  std::array<int32_t, MINUET_VOXELIZE_COUNTS + 1> counts;
  MINUET_TRY(memory.counts.download(counts.data()));
  if (counts[MINUET_VOXELIZE_COUNTS] != 0) {
    return broken("the voxels do not fit: status " + std::to_string(counts[MINUET_VOXELIZE_COUNTS]));
  }
  const auto all = static_cast<size_t>(points), rows = static_cast<size_t>(counts[MINUET_VOXELIZE_VOXELS]);
  const size_t bytes = std::max<size_t>(all * kNumbers * sizeof(float), sizeof(float));
  VoxelCloud cloud;
  cloud.points = points;
  MINUET_ASSIGN(cloud.coordinates, first_of<int32_t>(memory.coordinates, bytes, kNumbers * rows));
  MINUET_ASSIGN(cloud.features, first_of<float>(memory.features, bytes, kNumbers * rows));
  MINUET_ASSIGN(const std::vector<int32_t> row_of_point, first_of<int32_t>(memory.rows, row_bytes(all), all));
  cloud.row_of_point.assign(row_of_point.begin(), row_of_point.end());
  cloud.skipped = counts[MINUET_VOXELIZE_NOT_FINITE];
  cloud.outside = counts[MINUET_VOXELIZE_OUTSIDE];
  cloud.past_points = counts[MINUET_VOXELIZE_PAST_POINTS];
  cloud.past_voxels = counts[MINUET_VOXELIZE_PAST_VOXELS];
  return cloud;
}

llvm::Expected<VoxelCloud> voxelize_on(minuet_context* context, minuet_device* device,
                                       const std::string& arch, const VoxelizeTask& task) {
  const auto points = static_cast<int64_t>(task.points.size()) / kNumbers;
  MINUET_ASSIGN(const PointOpHandle op, create_op(context, task));
  const Clock::time_point start = Clock::now();
  MINUET_TRY(check(minuet_point_op_load(op.get(), device)));
  const double load_ms = milliseconds_since(start);
  minuet_voxelize_arguments arguments = MINUET_VOXELIZE_ARGUMENTS_INIT;
  MINUET_TRY(check(minuet_voxelize_bytes(op.get(), arch.c_str(), points, &arguments.workspace_bytes)));
  MINUET_ASSIGN(const VoxelizeMemory memory, allocate(device, task, arguments.workspace_bytes));
  arguments.points = static_cast<const float*>(memory.points.get());
  arguments.points_ld = kNumbers;
  arguments.most = arguments.capacity = points;
  arguments.workspace = memory.workspace.get();
  arguments.coordinates = static_cast<int32_t*>(memory.coordinates.get());
  arguments.features = memory.features.get();
  arguments.point_rows = static_cast<int32_t*>(memory.rows.get());
  arguments.counts = static_cast<int32_t*>(memory.counts.get());
  arguments.status = static_cast<uint32_t*>(memory.counts.get()) + MINUET_VOXELIZE_COUNTS;
  MINUET_TRY(check(minuet_voxelize(op.get(), device, &arguments, nullptr)));
  MINUET_TRY(check(minuet_device_synchronize(device, nullptr)));
  MINUET_ASSIGN(VoxelCloud cloud, fetch(memory, points));
  cloud.load_ms = load_ms;
  return cloud;
}

}  // namespace

const char kVoxelizerNetwork[] =
    R"({"name": "voxelizer", "ndim": 3, "inputs": [{"name": "points", "channels": 4}],
    "layers": [{"op": "voxelize", "voxel_size": [1, 1, 1]}]})";

Voxelizer voxelizer_of(const Session& session) {
  return [context = session.context.get(), device = session.device.get(), arch = session.facts.arch](
             const VoxelizeTask& task) { return voxelize_on(context, device, arch, task); };
}

llvm::Expected<Voxelizer> make_voxelizer() {
  MINUET_ASSIGN(Session opened, open_session({}, {"cpu", 0}));
  const auto session = std::make_shared<Session>(std::move(opened));
  return Voxelizer(
      [session, on_cpu = voxelizer_of(*session)](const VoxelizeTask& task) { return on_cpu(task); });
}

}  // namespace minuet::tool
