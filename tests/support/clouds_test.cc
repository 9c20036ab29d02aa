// Generated clouds: the bits that benchmarks rest on, and an end of the work for whatever is asked.
#include "tests/support/clouds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

namespace minuet {
namespace {

constexpr CloudKind kKinds[] = {CloudKind::Lidar, CloudKind::Room, CloudKind::Object, CloudKind::Random};

/// FNV-1a of the words' bytes, the lowest first.
template <class T>
uint64_t digest(const std::vector<T>& values) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const T value : values) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    for (int i = 0; i < 4; ++i) hash = (hash ^ (word >> (8 * i) & 255)) * 0x100000001b3ull;
  }
  return hash;
}

CloudOptions cloud(CloudKind kind, int64_t points, double extent, uint64_t seed) {
  CloudOptions options;
  options.kind = kind, options.points = points, options.extent = extent, options.seed = seed;
  return options;
}

TEST(Clouds, BitsDoNotChange) {
  const uint64_t defaults[] = {0x64b318dca61ea447, 0x62c392122cfcf4f2, 0xdc8690476538d397,
                               0x1fbcca7e21780c43};
  const uint64_t others[] = {0x94c42c0b943b6cc8, 0xf2c9916b35268c8f, 0xd9f28559c7acf8b3, 0x75cb80eb914eeb4e};
  for (const CloudKind kind : kKinds) {
    const size_t i = static_cast<size_t>(kind);
    EXPECT_EQ(digest(make_cloud(cloud(kind, 0, 0, 1))), defaults[i]) << i;
    EXPECT_EQ(digest(make_cloud(cloud(kind, 3000, kind == CloudKind::Lidar ? 60 : 3, 7))), others[i]) << i;
  }
}

/// What `minuet run` advertises: any extent from 1e-3 to 1e6, any seed.
TEST(Clouds, EveryExtentAndSeedEnds) {
  const std::set<double> extents = {1e-3, 0.04, 0.0453, 0.1,    0.5, 1,    2,    5.4, 7,  8.4,
                                    8.6,  9.99, 10,     10.001, 33,  1000, 1001, 1e4, 1e6};
  const uint64_t seeds[] = {0, 1, 2, 77, 0x9e3779b97f4a7c15, std::numeric_limits<uint64_t>::max()};
  for (const CloudKind kind : kKinds) {
    const Extents range = extents_of(kind);
    for (const double extent : extents) {
      for (const uint64_t seed : seeds) {
        for (const int64_t points : {1, 13, 400}) {
          SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " extent " << extent
                                          << " seed " << seed << " points " << points);
          CloudWork work;
          const std::vector<float> made = make_cloud(cloud(kind, points, extent, seed), &work);
          const bool fits = extent >= range.least && extent <= range.greatest;
          EXPECT_EQ(made.size(), fits ? 4 * static_cast<size_t>(points) : 0u);
          EXPECT_LE(work.tries, 64 * points + 128);
          EXPECT_LE(work.things, 2000);
          for (const float value : made) EXPECT_TRUE(std::isfinite(value));
        }
      }
    }
  }
}

TEST(Clouds, TheSmallestStreetStopsManyRays) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CloudWork work;
    EXPECT_FALSE(make_cloud(cloud(CloudKind::Lidar, 1200, 10, seed), &work).empty());
    EXPECT_LE(work.tries, 128 * 100);  // twelve points in each turn of 128 beams
  }
}

TEST(Clouds, ExtentsThatAreNone) {
  for (const CloudKind kind : kKinds) {
    for (const double extent : {-1.0, std::nan(""), HUGE_VAL, 5e-324}) {
      EXPECT_TRUE(make_cloud(cloud(kind, 10, extent, 1)).empty()) << extent;
    }
  }
}

TEST(Voxels, BitsDoNotChange) {
  const uint64_t digests[] = {0xf8348db92d15b7e6, 0x60f3cce2cdd3a182, 0x33c2c676f34b23e4, 0x0a4c9318e87bf87a};
  for (int ndim = 1; ndim <= 4; ++ndim) {
    VoxelOptions options;
    options.ndim = ndim, options.count = 30, options.batches = 3, options.empty_batch = 1;
    options.tensor_stride = 2;
    EXPECT_EQ(digest(make_voxels(options)), digests[ndim - 1]) << ndim;
  }
}

TEST(Voxels, AFullBoxIsMadeAndAFullerOneRefused) {
  VoxelOptions options;
  options.extent = 5, options.batches = 3, options.empty_batch = 1;
  options.count = 2 * 125;
  EXPECT_EQ(make_voxels(options).size(), 4u * 250);
  options.count = 2 * 125 + 1;
  EXPECT_THROW(make_voxels(options), std::invalid_argument);
  options.count = 1, options.batches = 1, options.empty_batch = 0;
  EXPECT_THROW(make_voxels(options), std::invalid_argument);
  options.extent = -4, options.empty_batch = -1;
  EXPECT_THROW(make_voxels(options), std::invalid_argument);
  options.count = 0;
  EXPECT_TRUE(make_voxels(options).empty());
}

/// Every voxel of the cube asked, in ascending order.
std::vector<std::array<int32_t, 4>> asked_shell(int32_t resolution) {
  std::vector<std::array<int32_t, 4>> shell;
  const double middle = resolution / 2.0;
  for (int32_t x = 0; x < resolution; ++x) {
    for (int32_t y = 0; y < resolution; ++y) {
      for (int32_t z = 0; z < resolution; ++z) {
        const double distance = std::hypot(x + 0.5 - middle, y + 0.5 - middle, z + 0.5 - middle);
        if (distance >= middle - 1.25 && distance <= middle) shell.push_back({0, x, y, z});
      }
    }
  }
  return shell;
}

std::vector<std::array<int32_t, 4>> rows_of(const std::vector<int32_t>& voxels) {
  std::vector<std::array<int32_t, 4>> rows(voxels.size() / 4);
  for (size_t i = 0; i < voxels.size(); ++i) rows[i / 4][i % 4] = voxels[i];
  return rows;
}

TEST(Shells, HaveTheVoxelsOfTheirDefinition) {
  for (const int32_t resolution : {-1, 0, 1, 2, 3, 4, 5, 6, 17, 40}) {
    std::vector<std::array<int32_t, 4>> made = rows_of(make_shell(resolution, 1));
    std::sort(made.begin(), made.end());
    EXPECT_EQ(made, asked_shell(resolution)) << resolution;
  }
}

TEST(Shells, AreThoseThatPeersWereMeasuredOn) {
  EXPECT_EQ(make_shell(64, 1).size(), 4u * 15192);
  EXPECT_EQ(make_shell(128, 1).size(), 4u * 64160);
  EXPECT_EQ(make_shell(256, 1).size(), 4u * 252392);
}

TEST(Shells, LieInAnotherOrderByAnotherSeed) {
  EXPECT_EQ(digest(make_shell(10, 1)), 0xe2c72f43a026a145);
  EXPECT_NE(make_shell(10, 1), make_shell(10, 2));
}

}  // namespace
}  // namespace minuet
