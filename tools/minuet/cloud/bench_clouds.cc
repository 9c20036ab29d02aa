#include "tools/minuet/cloud/bench_clouds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <utility>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "tests/support/clouds.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/readers/scalar.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {
namespace {

struct KnownCloud {
  const char* name;
  /// Names the cloud's file in the data folder, or is null if the cloud does not come from a file.
  const char* file;
  int columns;
  /// Names the generator of the cloud (lidar, room or object), or is null if no generator makes it.
  const char* synthetic;
  int64_t random_voxels;
  double voxel_size;
};

constexpr KnownCloud kKnownClouds[] = {
    {"os1_0.1", "ouster_os1_128_f1795.bin", 4, nullptr, 0, 0.1},
    {"os1_0.05", "ouster_os1_128_f1795.bin", 4, nullptr, 0, 0.05},
    {"office_0.01", "pcl_office_rgbd.bin", 3, nullptr, 0, 0.01},
    {"room_scan_0.02", "pcl_room_scan1.bin", 3, nullptr, 0, 0.02},
    {"random_1e5", nullptr, 0, nullptr, 100000, 0.1},
    {"random_1e6", nullptr, 0, nullptr, 1000000, 0.1},
    {"lidar_0.1", nullptr, 0, "lidar", 0, 0.1},
    {"room_0.02", nullptr, 0, "room", 0, 0.02},
    {"object_0.01", nullptr, 0, "object", 0, 0.01},
};

/// Moves random voxels to the corner of a grid and drops those outside.
std::vector<int32_t> voxels_in(const Grid& grid, const std::vector<int32_t>& voxels, int32_t least) {
  std::vector<int32_t> inside;
  for (size_t i = 0; i < voxels.size(); i += 4) {
    int32_t voxel[3];
    bool is_inside = true;
    for (size_t axis = 0; axis < 3; ++axis) {
      voxel[axis] = voxels[i + 1 + axis] - least;
      is_inside &= voxel[axis] < grid.cells[axis];
    }
    if (is_inside) inside.insert(inside.end(), {voxels[i], voxel[0], voxel[1], voxel[2]});
  }
  return inside;
}

llvm::Expected<VoxelCloud> random_variant(const BenchCloud& cloud, int variant) {
  VoxelOptions options;
  options.count = cloud.random_voxels;
  options.least = -200;
  options.extent = 400;
  options.seed = 1000 + static_cast<uint64_t>(variant);
  Cloud voxels;
  voxels.is_voxels = true;
  voxels.voxels = make_voxels(options);
  if (cloud.own_voxels)
    return point_input(centres_of(voxels, cloud.voxel_size), cloud.channels, /*skip_invalid=*/true, {});
  if (!cloud.grid) return features_from_centres(voxels, cloud.voxel_size);
  const Grid& grid = *cloud.grid;
  voxels.voxels = voxels_in(grid, voxels.voxels, static_cast<int32_t>(options.least));
  VoxelCloud inside =
      features_from_centres(voxels, grid.voxel_size, {-grid.low[0], -grid.low[1], -grid.low[2]});
  add_zero_channels(inside, cloud.channels);
  return inside;
}

const KnownCloud* find_known(llvm::StringRef name) {
  for (const KnownCloud& known : kKnownClouds) {
    if (name == known.name) return &known;
  }
  return nullptr;
}

bool is_file_name(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(extension_of(name))
             .Cases(".bin", ".ply", ".pcd", ".npy", true)
             .Default(false) ||
         llvm::sys::fs::exists(name);
}

/// Returns an error if a name is neither a known cloud nor a file, or if flags for files are given but no
/// name is a file.
llvm::Error check_names(const std::vector<std::string>& names, const BenchFiles& files) {
  bool any_file = false;
  for (const std::string& name : names) {
    if (find_known(name)) continue;
    any_file = true;
    if (is_file_name(name)) continue;
    std::string all;
    for (const KnownCloud& known : kKnownClouds) all += (all.empty() ? "" : ", ") + std::string(known.name);
    return bad_input("the cloud '{0}' is not one of {1}, and there is no such file", name, all);
  }
  const bool is_for_files = !files.voxel_size.empty() && !files.has_range;
  if (any_file || (!is_for_files && !files.columns.any())) return llvm::Error::success();
  return bad_input(
      "--voxel-size, --columns, --intensity-column and --intensity-field are for files, but no cloud is a "
      "file: omit them, or name a file");
}

llvm::Expected<BenchCloud> open_known(const KnownCloud& known, const BenchFiles& files) {
  BenchCloud cloud;
  cloud.name = known.name;
  cloud.voxel_size = cubic(known.voxel_size);
  cloud.random_voxels = known.random_voxels;
  cloud.origin = known.file ? known.file : known.synthetic ? known.synthetic : "uniform in 400^3";
  if (known.file) {
    const std::string path = files.data + "/" + known.file;
    cloud.is_missing = !llvm::sys::fs::exists(path);
    if (cloud.is_missing) {
      cloud.notes.push_back(
          llvm::formatv("the cloud {0} is skipped, because its file {1} is not in '{2}' (--data)", known.name,
                        known.file, files.data));
      return cloud;
    }
    MINUET_ASSIGN(Cloud read, read_cloud(path, {known.columns, {}}));
    cloud.points = std::move(read.points);
  } else if (known.synthetic) {
    InputOptions options;
    options.synthetic = known.synthetic;
    MINUET_ASSIGN(cloud.points, synthetic_points(options));
  }
  return cloud;
}

llvm::Expected<BenchCloud> open_file(const std::string& path, const BenchFiles& files) {
  BenchCloud cloud;
  cloud.name = cloud.origin = path;
  if (!files.voxel_size.empty()) {
    MINUET_ASSIGN(cloud.voxel_size, parse_voxel_size(files.voxel_size));
  }
  MINUET_ASSIGN(Cloud read, read_cloud(path, files.columns));
  if (read.is_voxels) {
    return bad_input(
        "'{0}' holds voxels, but this command needs points, which it rotates: name a cloud of points", path);
  }
  cloud.notes = std::move(read.warnings);
  if (!read.no_intensity.empty()) cloud.notes.push_back(std::move(read.no_intensity));
  cloud.points = std::move(read.points);
  const size_t all = cloud.points.size();
  llvm::erase_if(cloud.points, [](const Point& point) {
    return !llvm::all_of(point, [](auto value) { return std::isfinite(value); });
  });
  if (cloud.points.empty())
    return bad_input("every point of '{0}' has a NaN or infinite number: name a cloud with finite points",
                     path);
  if (cloud.points.size() < all) {
    const size_t dropped = all - cloud.points.size();
    cloud.notes.push_back(llvm::formatv("{0} of '{1}' with NaN or infinite numbers {2} dropped",
                                        counted(static_cast<int64_t>(dropped), "point"), path,
                                        dropped == 1 ? "was" : "were"));
  }
  MINUET_ASSIGN(const Frame frame, in_file(path, choose_frame(cloud.points, read.position_types, std::nullopt,
                                                              cloud.voxel_size)));
  for (Point& point : cloud.points) {
    for (size_t axis = 0; axis < 3; ++axis) point[axis] -= frame.origin[axis];
  }
  return cloud;
}

}  // namespace

std::string bench_data_folder(const std::string& flag) {
  if (!flag.empty()) return flag;
  const char* const shared = std::getenv("MINUET_SHARED");
  return std::string(shared ? shared : "../shared") + "/data";
}

llvm::Expected<std::vector<BenchCloud>> open_bench_clouds(const std::vector<std::string>& names,
                                                          const BenchFiles& files) {
  MINUET_TRY(check_names(names, files));
  std::vector<BenchCloud> clouds;
  const auto add = [&](llvm::Expected<BenchCloud> cloud) -> llvm::Error {
    if (!cloud) return cloud.takeError();
    clouds.push_back(std::move(*cloud));
    return llvm::Error::success();
  };
  for (const std::string& name : names) {
    const KnownCloud* const known = find_known(name);
    MINUET_TRY(add(known ? open_known(*known, files) : open_file(name, files)));
    if (!clouds.back().is_missing) continue;
    return bad_input("the cloud '{0}' needs the file {1}, which is not in '{2}': name its folder with --data",
                     name, known->file, files.data);
  }
  if (!names.empty()) return clouds;
  for (const KnownCloud& known : kKnownClouds) MINUET_TRY(add(open_known(known, files)));
  return clouds;
}

/// Makes the voxels of points in the grid of the cloud, if it has one.
static llvm::Expected<VoxelCloud> make_voxels(const BenchCloud& cloud, const std::vector<Point>& points,
                                              const Voxelizer& voxelizer) {
  if (cloud.own_voxels) return point_input(points, cloud.channels, /*skip_invalid=*/true, {});
  if (!cloud.grid) return voxelize(points, cloud.voxel_size, /*skip_invalid=*/true, voxelizer);
  MINUET_ASSIGN(VoxelCloud voxels, voxelize_in(points, *cloud.grid, {}, /*skip_invalid=*/true, voxelizer));
  add_zero_channels(voxels, cloud.channels);
  return voxels;
}

llvm::Expected<VoxelCloud> make_unturned(const BenchCloud& cloud, const Voxelizer& voxelizer) {
  if (cloud.random_voxels > 0) return random_variant(cloud, /*variant=*/0);
  return make_voxels(cloud, cloud.points, voxelizer);
}

llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin,
                                        const Voxelizer& voxelizer) {
  if (cloud.random_voxels > 0) return random_variant(cloud, variant);
  // Multiples of the golden angle give every variant a different rotation.
  const double angle = 2.39996322972865332 * (variant + 1);
  const double cosine = std::cos(angle), sine = std::sin(angle);
  std::mt19937_64 random(static_cast<uint64_t>(variant) + 1);
  const uint64_t kept_of_100 = 95 + static_cast<uint64_t>(variant) % 5;
  std::vector<Point> points;
  points.reserve(cloud.points.size());
  for (const Point& point : cloud.points) {
    // The last point is kept if all others were dropped, so that every variant has at least one point.
    const bool is_last_resort = points.empty() && &point == &cloud.points.back();
    if (thin && random() % 100 >= kept_of_100 && !is_last_resort) continue;
    const auto& [x, y, z, intensity] = point;
    // The turned positions are rounded to float32, because scanners output float32.
    const auto turned_x = static_cast<float>(cosine * x - sine * y);
    const auto turned_y = static_cast<float>(sine * x + cosine * y);
    points.push_back({turned_x, turned_y, z, intensity});
  }
  return make_voxels(cloud, points, voxelizer);
}

std::vector<BenchCloud> clouds_in(const std::vector<BenchCloud>& clouds, const std::optional<Grid>& grid,
                                  int channels, const std::optional<OwnVoxels>& own) {
  std::vector<BenchCloud> moved = clouds;
  for (BenchCloud& cloud : moved) {
    if (own) {
      cloud.own_voxels = own;
      cloud.voxel_size = own->voxel_size;
      cloud.channels = channels;
    }
    if (!grid) continue;
    cloud.grid = grid;
    cloud.voxel_size = grid->voxel_size;
    cloud.channels = channels;
  }
  return moved;
}

}  // namespace minuet::tool
