#include "tools/minuet/commands/bench_clouds.h"

#include <cmath>
#include <random>

#include "llvm/Support/FileSystem.h"
#include "tests/support/clouds.h"
#include "tools/minuet/error.h"
#include "tools/minuet/input.h"
#include "tools/minuet/readers/cloud.h"
#include "tools/minuet/voxelize.h"

namespace minuet::tool {
namespace {

struct KnownCloud {
  const char* name;
  const char* file;  ///< of the data folder, or null
  int columns;
  const char* synthetic;  ///< a kind of --synthetic, or null
  int64_t random_voxels;
  float voxel_size;
};

constexpr KnownCloud kKnownClouds[] = {
    {"os1_0.1", "ouster_os1_128_f1795.bin", 4, nullptr, 0, 0.1f},
    {"os1_0.05", "ouster_os1_128_f1795.bin", 4, nullptr, 0, 0.05f},
    {"office_0.01", "pcl_office_rgbd.bin", 3, nullptr, 0, 0.01f},
    {"room_scan_0.02", "pcl_room_scan1.bin", 3, nullptr, 0, 0.02f},
    {"random_1e5", nullptr, 0, nullptr, 100000, 0.1f},
    {"random_1e6", nullptr, 0, nullptr, 1000000, 0.1f},
    {"lidar_0.1", nullptr, 0, "lidar", 0, 0.1f},
    {"room_0.02", nullptr, 0, "room", 0, 0.02f},
    {"object_0.01", nullptr, 0, "object", 0, 0.01f},
};

VoxelCloud random_variant(const BenchCloud& cloud, int variant) {
  VoxelOptions options;
  options.count = cloud.random_voxels;
  options.least = -200;
  options.extent = 400;
  options.seed = 1000 + static_cast<uint64_t>(variant);
  Cloud voxels;
  voxels.is_voxels = true;
  voxels.voxels = make_voxels(options);
  return features_from_centres(voxels, cloud.voxel_size);
}

}  // namespace

std::vector<std::string> bench_cloud_names() {
  std::vector<std::string> names;
  for (const KnownCloud& cloud : kKnownClouds) names.push_back(cloud.name);
  return names;
}

llvm::Error check_bench_cloud(const std::string& name) {
  std::string names;
  for (const std::string& known : bench_cloud_names()) {
    if (name == known) return llvm::Error::success();
    names += (names.empty() ? "" : ", ") + known;
  }
  return bad_input("the cloud '{0}' is none of {1}", name, names);
}

llvm::Expected<BenchCloud> open_bench_cloud(const std::string& name, const std::string& data) {
  for (const KnownCloud& known : kKnownClouds) {
    if (name != known.name) continue;
    BenchCloud cloud;
    cloud.name = name;
    cloud.voxel_size = known.voxel_size;
    cloud.random_voxels = known.random_voxels;
    cloud.origin = known.file ? known.file : known.synthetic ? known.synthetic : "uniform in 400^3";
    if (known.file && llvm::sys::fs::exists(data + "/" + known.file)) {
      MINUET_ASSIGN(Cloud read, read_cloud(data + "/" + known.file, {known.columns, {}}));
      cloud.points = std::move(read.points);
    } else if (known.synthetic) {
      InputOptions options;
      options.synthetic = known.synthetic;
      MINUET_ASSIGN(cloud.points, synthetic_points(options));
    }
    return cloud;
  }
  return check_bench_cloud(name);
}

llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin) {
  if (cloud.random_voxels > 0) return random_variant(cloud, variant);
  // The golden angle: no two variants are turned alike, however many there are.
  const double angle = 2.39996322972865332 * (variant + 1);
  const double cosine = std::cos(angle), sine = std::sin(angle);
  std::mt19937_64 random(static_cast<uint64_t>(variant) + 1);
  const uint64_t kept_of_100 = 95 + static_cast<uint64_t>(variant) % 5;
  std::vector<Point> points;
  points.reserve(cloud.points.size());
  for (const Point& point : cloud.points) {
    if (thin && random() % 100 >= kept_of_100) continue;
    const double x = point[0], y = point[1];
    points.push_back({static_cast<double>(static_cast<float>(cosine * x - sine * y)),
                      static_cast<double>(static_cast<float>(sine * x + cosine * y)), point[2], point[3]});
  }
  return voxelize(points, cloud.voxel_size, /*skip_invalid=*/true);
}

}  // namespace minuet::tool
