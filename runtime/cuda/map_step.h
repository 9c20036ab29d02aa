// The Map step on the GPU (paper 5.1): coordinate sets, kernel maps, metadata tables.
//
// Every operation only enqueues. Counts stay in device memory, so grids are made for capacities; the
// state of every sort and scan of one pass is made ready at its start, in one fill and one launch.
#pragma once

#include <vector>

#include "runtime/cuda/launcher.h"
#include "runtime/cuda/map_workspace.h"
#include "runtime/cuda/sort.h"

namespace minuet {

/// The kernels of one MapChoice, loaded.
struct MapKernels {
  MapChoice choice;
  Kernel<FindBoundsParams> find_bounds;
  Kernel<PackParams> pack;
  Kernel<UnpackParams> unpack;
  Kernel<RadixHistogramParams> radix_histogram;
  Kernel<RadixBinsParams> radix_bins;
  BySortSize<Kernel<RadixPassParams>> radix_pass_rows, radix_pass_keys;
  Kernel<PrepareScansParams> prepare_scans;
  Kernel<ScanParams> scan_heads, scan_hits, scan_values;
  Kernel<UniqueParams> unique_rows, unique_keys;
  Kernel<DownsampleParams> downsample;
  Kernel<CountPairsParams> count_pairs;
  Kernel<CompactPairsParams> compact_pairs;
  Kernel<MakeTablesParams> make_tables;
  std::vector<Kernel<FindQueryBordersParams>> find_query_borders;
  std::vector<Kernel<SearchKernelMapParams>> search_kernel_map;

  static llvm::Expected<MapKernels> create(CudaDevice& device, const MapChoice& choice);
  /// Of up to `capacity` keys, with the caller's rows or without.
  SortKernels sort(bool rows, i64 capacity) const;
};

class MapStep {
 public:
  static llvm::Expected<std::unique_ptr<MapStep>> create(Launcher& launcher, const EngineChoice& choice);

  i64 workspace_bytes(const MapLimits& limits) const;
  llvm::Error begin(const MapLimits& limits, void* workspace);
  llvm::Error find_bounds(const i32* coordinates, i64 count, i32* bounds);
  llvm::Error build_coords(const BuildCoordsRequest& request);
  llvm::Error downsample(const DownsampleRequest& request);
  llvm::Error search(const SearchRequest& request);
  llvm::Error count_pairs(const Coords& queries, const MapView& map);
  llvm::Error unpack(const Coords& coords, const KeyLayout& layout, i32* coordinates);
  llvm::Error make_tables(const MapView& map, i32 direct_offset, const GmasTables& tables);
  llvm::Error compact_pairs(const MapView& map, i32* sources, i32* targets);

 private:
  /// Keys, with the caller's rows or without, in workspace half 0, to be sorted and made unique.
  struct SortJob {
    const i32* count = nullptr;
    i64 capacity = 0;
    i32 bits = 0;
    bool rows = false;
  };

  MapStep(Launcher& launcher, MapKernels map32, MapKernels map64)
      : launcher_(launcher), map32_(std::move(map32)), map64_(std::move(map64)) {}
  const MapKernels& kernels(KeyType key) const { return key == KeyType::U32 ? map32_ : map64_; }
  llvm::Error check_key(const KeyLayout& layout) const;
  /// Sorts; `half` is where the result lies.
  llvm::Error sort(const SortJob& job, i32& half);
  llvm::Error make_unique(const SortJob& job, i32 half, const Coords& coords, i32* source_row, i32* row_of);
  llvm::Error scan(const Kernel<ScanParams>& kernel, const ScanSpec& spec, i64 most_items, ScanParams params);
  llvm::Error find_pieces(const SearchRequest& request);
  llvm::Error search_pieces(const SearchRequest& request);

  Launcher& launcher_;
  MapKernels map32_, map64_;
  MapLimits limits_;
  MapWorkspace work_;
  i32 next_sort_ = 0, next_scan_ = 0;
};

}  // namespace minuet
