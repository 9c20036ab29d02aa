// The Map step that the paper compares with, written for the studies: a hash table, and a binary search of
// sorted keys that is not double-traversed. On the CPU device its loops run on all cores.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tools/bench/study/bench.h"
#include "tools/bench/study/gpu.h"

namespace minuet::tool {

/// The coordinates of one level, as keys in the caller's order and in ascending order, and room for a table.
struct BaselineLevel {
  DeviceBuffer keys, sorted, table_keys, table_rows, claims;
  int64_t count = 0, slots = 0;
};

/// Room for the answers of one map.
struct BaselineMap {
  DeviceBuffer deltas, map, counts;
  int32_t volume = 0;
  size_t sources = 0, queries = 0;  ///< levels
};

class Baseline {
 public:
  static llvm::Expected<std::unique_ptr<Baseline>> create(const StudyBench& bench);

  /// int32 [count, 4]. An error where a coordinate does not fit a key's 16 bits.
  llvm::Expected<BaselineLevel> make_level(const std::vector<int32_t>& coordinates) const;
  /// `steps`: of an offset of 1 on each axis, in voxels.
  llvm::Expected<BaselineMap> make_map(const std::array<int32_t, 3>& kernel_size,
                                       const std::array<int32_t, 3>& steps, int64_t queries) const;

  /// Enqueued on the default stream; the CPU is done when they return.
  llvm::Error build(const BaselineLevel& level) const;
  /// By the hash table, or by plain binary search of the sorted keys.
  llvm::Error query(const BaselineMap& map, const BaselineLevel& sources, const BaselineLevel& queries,
                    bool by_hash) const;
  /// Pairs that the last query found.
  llvm::Expected<int64_t> pairs(const BaselineMap& map) const;

 private:
  explicit Baseline(const StudyBench& bench) : bench_(bench) {}
  llvm::Error compile();

  const StudyBench& bench_;
  std::unique_ptr<Gpu> gpu_;  ///< null on the CPU
  GpuKernel insert_, query_hash_, query_sorted_;
};

}  // namespace minuet::tool
