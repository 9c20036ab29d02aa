// Clouds: PLY, PCD and NPY files. What is read has as many points as bytes can hold, is the same when read
// once more, and is written and read again as the same.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/fuzz/fuzz_target.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/pcd.h"
#include "tools/minuet/cloud/readers/ply.h"
#include "tools/minuet/cloud/writers/npy.h"
#include "tools/minuet/cloud/writers/ply.h"

namespace minuet {
namespace {

using tool::Cloud;
using tool::Point;

template <class T>
bool is_same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

bool is_same(const Cloud& a, const Cloud& b) {
  return a.is_voxels == b.is_voxels && a.ndim == b.ndim && a.voxels == b.voxels &&
         std::equal(a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
                    [](const Point& p, const Point& q) {
                      return std::equal(p.begin(), p.end(), q.begin(),
                                        [](double x, double y) { return is_same(x, y); });
                    });
}

/// What float32 makes of the points.
Cloud rounded(Cloud cloud) {
  for (Point& point : cloud.points) {
    for (double& value : point) value = static_cast<double>(static_cast<float>(value));
  }
  return cloud;
}

std::string as_npy(const Cloud& cloud) {
  if (cloud.is_voxels) return tool::npy_bytes(cloud.voxels, {cloud.count(), 1 + cloud.ndim});
  std::vector<float> values;
  for (const Point& point : cloud.points) {
    for (const double value : point) values.push_back(static_cast<float>(value));
  }
  return tool::npy_bytes(values, {cloud.count(), 4});
}

std::string as_ply(const Cloud& cloud) {
  tool::PlyTable table;
  for (const Point& point : cloud.points) table.positions.push_back({point[0], point[1], point[2]});
  table.wide = true;
  table.attributes = cloud.attributes;
  return tool::ply_bytes(table);
}

bool check_cloud(llvm::StringRef input, llvm::Expected<Cloud> (*read)(llvm::StringRef),
                 std::size_t most_points) {
  llvm::Expected<Cloud> cloud = read(input);
  if (!cloud) {
    require(!llvm::toString(cloud.takeError()).empty());
    return false;
  }
  require(cloud->is_voxels ? cloud->points.empty() : cloud->voxels.empty());
  require(static_cast<std::size_t>(cloud->count()) <= most_points);
  require(is_same(llvm::cantFail(read(input)), *cloud));
  require(is_same(llvm::cantFail(tool::read_npy(as_npy(*cloud))), rounded(*cloud)));
  if (cloud->is_voxels) return true;
  require(is_same(llvm::cantFail(tool::read_ply(as_ply(*cloud))), *cloud));
  return true;
}

}  // namespace

bool fuzz_ply(llvm::StringRef input) { return check_cloud(input, tool::read_ply, input.size() / 3); }

// LZF turns 3 bytes into 264, as many points of three bytes.
bool fuzz_pcd(llvm::StringRef input) { return check_cloud(input, tool::read_pcd, 30 * input.size()); }

bool fuzz_npy(llvm::StringRef input) {
  std::int64_t rows = 0, columns = 0;
  llvm::Expected<std::vector<float>> matrix = tool::read_npy_matrix(input, rows, columns);
  const bool is_matrix = static_cast<bool>(matrix);
  if (matrix) {
    require(static_cast<std::int64_t>(matrix->size()) == rows * columns && columns > 0);
    const std::string bytes = tool::npy_bytes(*matrix, {rows, columns});
    std::int64_t rows_again = 0, columns_again = 0;
    const std::vector<float> again = llvm::cantFail(tool::read_npy_matrix(bytes, rows_again, columns_again));
    require(rows_again == rows && columns_again == columns);
    require(std::equal(again.begin(), again.end(), matrix->begin(), matrix->end(),
                       [](float a, float b) { return is_same(a, b); }));
  } else {
    llvm::consumeError(matrix.takeError());
  }
  const bool is_cloud = check_cloud(input, tool::read_npy, input.size() / 3);
  require(is_matrix || !is_cloud);
  return is_cloud;
}

}  // namespace minuet
