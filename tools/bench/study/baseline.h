// Implements the two ways of finding kernel maps with which the Minuet paper compares its own: lookups in a
// hash table, and plain binary search of sorted keys. Only the studies use them. On the CPU device, they run
// on all cores.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tools/bench/study/bench.h"
#include "tools/bench/study/gpu.h"

namespace minuet::tool {

/// Holds the coordinates of one level (the voxels with one tensor stride) as keys, in the caller's order
/// (`keys`) and in ascending order (`sorted`), and memory for a hash table.
struct BaselineLevel {
  DeviceBuffer keys, sorted, table_keys, table_rows, claims;
  int64_t count = 0, slots = 0;
};

/// Holds, for each offset of one kernel map, the number that it adds to a key (`deltas`), and memory for the
/// map and for the number of pairs of each offset.
struct BaselineMap {
  DeviceBuffer deltas, map, counts;
  int32_t volume = 0;
  /// These are the indices of the levels that have the source and the query voxels.
  size_t sources = 0, queries = 0;
};

class Baseline {
 public:
  static llvm::Expected<std::unique_ptr<Baseline>> create(const StudyBench& bench);

  /// Makes a level of `coordinates`, which has the shape [count, 4]. Fails if a coordinate does not fit the
  /// 16 bits that a key has for it.
  llvm::Expected<BaselineLevel> make_level(const std::vector<int32_t>& coordinates) const;
  /// Makes an empty map for `queries` output voxels. `steps` is the tensor stride by which each offset is
  /// multiplied.
  llvm::Expected<BaselineMap> make_map(const std::array<int32_t, 3>& kernel_size,
                                       const std::array<int32_t, 3>& steps, int64_t queries) const;

  /// Fills the level's hash table. On a GPU, build() and query() enqueue work on the default stream; on the
  /// CPU the work is done when they return.
  llvm::Error build(const BaselineLevel& level) const;
  /// Fills the kernel map by lookups in the hash table or by plain binary search of the sorted keys.
  llvm::Error query(const BaselineMap& map, const BaselineLevel& sources, const BaselineLevel& queries,
                    bool by_hash) const;
  /// Calls `work`, which calls build() or query(), and returns how long it took. As in the library's profile,
  /// the time is that between two of a GPU's events, or the host's time on the CPU device.
  llvm::Expected<double> milliseconds(llvm::function_ref<llvm::Error()> work) const;
  /// Waits for the device and returns the number of pairs that the last query found.
  llvm::Expected<int64_t> pairs(const BaselineMap& map) const;

 private:
  explicit Baseline(const StudyBench& bench) : bench_(bench) {}
  llvm::Error compile();

  const StudyBench& bench_;
  std::unique_ptr<Gpu> gpu_;  ///< The pointer is null on the CPU device.
  GpuKernel insert_, query_hash_, query_sorted_;
};

}  // namespace minuet::tool
