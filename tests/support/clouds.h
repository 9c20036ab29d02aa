// Generated point clouds and voxel sets: what the tests, the benchmarks and `minuet run --synthetic`
// use where no real cloud is at hand. The same on every platform for the same seed.
#pragma once

#include <cstdint>
#include <vector>

namespace minuet {

enum class CloudKind {
  Lidar,   // one sweep of a 128-beam LiDAR in a street: ground, houses, cars, trees, poles
  Room,    // one scan from the middle of a furnished room
  Object,  // the sampled surface of a ring with a ball in it
  Random,  // uniform in a cube
};

struct CloudOptions {
  CloudKind kind = CloudKind::Lidar;
  int64_t points = 0;  // 0: 120,000
  double extent = 0;   // metres across; 0: 200 (lidar), 8 (room), 1 (object), 40 (random)
  uint64_t seed = 1;
};

/// Metres across that a kind can be made with, both ends included.
struct Extents {
  double least, greatest;
};
Extents extents_of(CloudKind kind);

/// What a cloud took: rays or samples, of which some meet nothing, and things that each ray may meet.
struct CloudWork {
  int64_t tries = 0, things = 0;
};

/// float32 [points, 4]: x, y, z in metres (negative ones too), intensity in [0, 1]. Exactly
/// options.points rows after at most 64 tries a row and 128 more, or none where the extent is none of
/// extents_of(kind).
std::vector<float> make_cloud(const CloudOptions& options, CloudWork* work = nullptr);

/// int32 [n, 4] (0, x, y, z): unique floor(p / voxel_size) in float32 of float32 [points, 4], in the
/// order of first appearance.
std::vector<int32_t> voxelize_cloud(const std::vector<float>& points, float voxel_size);

struct VoxelOptions {
  int ndim = 3;
  int64_t count = 0;
  int32_t least = -20;  // each spatial coordinate lies in [least, least + extent)
  int32_t extent = 40;
  int32_t batches = 1;
  int32_t empty_batch = -1;   // an item that gets no voxel
  int32_t tensor_stride = 1;  // coordinates are multiples of it; least and extent count in multiples
  uint64_t seed = 1;
};

/// int32 [count, 1 + ndim], unique, in random order. Throws std::invalid_argument where so many do not fit
/// in the box times the batches in use.
std::vector<int32_t> make_voxels(const VoxelOptions& options);

/// int32 [n, 4] (0, x, y, z), in random order: of a cube of `resolution` voxels an edge those whose centres
/// lie between `resolution` / 2 - 1.25 and `resolution` / 2 voxels from its own.
std::vector<int32_t> make_shell(int32_t resolution, uint64_t seed);

/// Edge of the cube in which a 3^ndim kernel finds about `neighbours` of `count` voxels (1: itself only).
int32_t extent_for_neighbours(int ndim, int64_t count, double neighbours);

}  // namespace minuet
