// Implements the Map step (Minuet paper, section 5.1) on the GPU: it builds coordinate sets, kernel maps and
// views of kernel maps.
//
// Every operation only enqueues work. Counts stay in device memory, so grids are sized for capacities. One
// launch before the first sort or scan of a Map step initialises the states of all its sorts and scans.
//
// map_step.cc builds sets and maps by sorting keys. map_step_index.cc builds them by an index of voxels
// (index_sets, search_index). map_step_listed.cc searches maps whose offsets are a list. map_step_views.cc
// makes views (make_views).
#pragma once

#include <optional>
#include <vector>

#include "runtime/cuda/launcher.h"
#include "runtime/cuda/map_workspace.h"
#include "runtime/cuda/sort.h"
#include "runtime/engine/map_operations.h"

namespace minuet {

/// Holds the loaded kernels of the Map step for one key width.
struct MapKernels {
  MapChoice choice;
#define MINUET_MAP_KERNEL(Spec, member) Kernel<KernelRow<Spec>::Params> member;
#define MINUET_MAP_SORT_KERNEL(Spec, member) BySortSize<Kernel<KernelRow<Spec>::Params>> member;
#include "codegen/choose/map_kernels.inc"

  static llvm::Expected<MapKernels> create(CudaDevice& device, const MapChoice& choice);
  /// Returns the kernels that sort up to `capacity` keys. If `rows` is true, they move the caller's row
  /// numbers along with the keys.
  SortKernels sort(bool rows, i64 capacity) const;
  /// Returns the kernels that sort up to `capacity` queries by the ranks of their masks (MaskRanks).
  SortKernels rank_sort(i64 capacity) const;
};

class MapStep final : public MapOperations {
 public:
  static llvm::Expected<std::unique_ptr<MapStep>> create(Launcher& launcher, const EngineChoice& choice);
  /// Return the kernels for keys of 32 and of 64 bits.
  const MapKernels& kernels32() const { return map32_; }
  const MapKernels& kernels64() const { return map64_; }

  llvm::Error find_layout(const LayoutRequest& request) override;
  i64 workspace_bytes(const MapLimits& limits) const override;
  llvm::Error begin(const MapLimits& limits, void* workspace) override;
  llvm::Error build_coords(const BuildCoordsRequest& request) override;
  llvm::Error downsample(const DownsampleRequest& request) override;
  llvm::Error search(const SearchRequest& request) override;
  llvm::Error find_bounds(const i32* coordinates, i64 count, const CloudState& cloud) override;
  bool looks_up_rows() const override { return true; }
  llvm::Error index_sets(const IndexSetsRequest& request) override;
  llvm::Error search_index(llvm::ArrayRef<IndexedSearch> searches) override;
  llvm::Error count_pairs(const Coords& queries, const MapView& map) override;
  llvm::Error make_masks(const Coords& queries, i32 volume, const NeighbourView& view, i32* counts) override;
  i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const override;
  llvm::Error make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) override;
  llvm::Error unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) override;
  llvm::Error void_failed(const u32* status, i32* words, i64 counts) override;
  llvm::Error join_words(llvm::ArrayRef<JoinedWord> words) override;
  llvm::Error compact_pairs(llvm::ArrayRef<PairsRequest> requests) override;

 private:
  /// Describes keys that are to be sorted and made unique. They are in MapWorkspace::keys[0]. If `rows` is
  /// true, MapWorkspace::rows[0] holds the caller's row of each key.
  struct SortJob {
    const i32* count = nullptr;
    i64 capacity = 0;
    bool rows = false;
  };

  MapStep(Launcher& launcher, const MapKernels& map32, const MapKernels& map64)
      : launcher_(launcher), map32_(map32), map64_(map64) {}
  const MapKernels& kernels(KeyType key) const { return key == KeyType::U32 ? map32_ : map64_; }
  /// Initialises the memory of all sorts and scans that follow begin(). Only the first call after begin()
  /// does so. This is not part of begin(), because sets and maps that are made with an index need no
  /// sorts, and need scans only if pairs are counted.
  llvm::Error prepare_sorts_and_scans();
  llvm::Error check_sort(i64 capacity) const;
  /// Sorts the keys of the job. The result is in MapWorkspace::keys[half] and MapWorkspace::rows[half],
  /// where `half` receives 0 or 1.
  llvm::Error sort(const SortJob& job, i32& half);
  llvm::Error reach(const DownsampleRequest& request);
  llvm::Error make_unique(const SortJob& job, i32 half, UniqueParams unique);
  llvm::Error scan(const Kernel<ScanParams>& kernel, const ScanSpec& spec, i64 most_items, ScanParams params);
  llvm::Error find_pieces(const SearchRequest& request);
  llvm::Error search_pieces(const SearchRequest& request);
  llvm::Error search_listed_keys(const SearchRequest& request);
  llvm::Error search_listed_voxels(const IndexedSearch& search);
  llvm::Error reach_level(const IndexSetsRequest& request, i32 level, IndexParams params);
  llvm::Error search_batch(llvm::ArrayRef<IndexedSearch> searches, const Kernel<SearchVoxelsParams>& kernel);
  llvm::Error make_batch(llvm::ArrayRef<ViewRequest> batch, char* workspace);

  Launcher& launcher_;
  MapKernels map32_, map64_;
  // Holds the kernel once it was used. Only plans of several stages have it.
  std::optional<Kernel<JoinWordsParams>> join_words_;
  MapLimits limits_;
  MapWorkspace work_;
  i32 next_sort_ = 0, next_scan_ = 0;
  bool is_prepared_ = false;  // This is true if prepare_sorts_and_scans() was called since begin().
};

}  // namespace minuet
