// What we compile beside the candidates of ops, and why: a Spec for every kernel of the Map step, and for
// what brings rows in and out. Pure; no GPU is asked.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"

namespace minuet {

class TuningSnapshot;

/// B, C and thread count of the double-traversed binary search (paper 5.1.3).
struct SearchChoice {
  i32 source_block = 256;  // B
  i32 query_block = 512;   // C
  i32 threads = 128;
  bool operator==(const SearchChoice&) const = default;
};

/// Keys from which a sort takes larger tiles.
inline constexpr i64 kLargeSort = 1 << 19;

/// One for small sorts and one for large ones: both are compiled, and the cloud decides.
template <class T>
struct BySortSize {
  T small, large;
  const T& of(i64 capacity) const { return capacity < kLargeSort ? small : large; }
};
using RadixPassChoice = BySortSize<RadixPassSpec>;

/// Kernels that build coordinate sets and kernel maps, for one key width and dimension.
struct MapChoice {
  KeyType key = KeyType::U32;
  BeginCloudSpec begin_cloud;
  FindBoundsSpec find_bounds;
  MakeLayoutSpec make_layout;
  PackSpec pack;
  UnpackSpec unpack;
  RadixHistogramSpec radix_histogram;
  RadixBinsSpec radix_bins;
  RadixPassChoice radix_pass_rows;  // carries the caller's rows
  RadixPassChoice radix_pass_keys;
  PrepareScansSpec prepare_scans;
  ScanSpec scan_heads, scan_hits, scan_values, scan_bits;
  UniqueSpec unique_rows, unique_keys;
  DownsampleSpec downsample;
  VoidFailedSpec void_failed;
  ClearCellsSpec clear_cells;
  IndexCellsSpec index_runs, index_cells, index_rows;
  SearchCellsSpec search_cells;
  CountPairsSpec count_pairs;
  CompactPairsSpec compact_pairs;
  MakeTablesSpec make_tables;
  MakeMasksSpec make_masks;
  PresetRowsSpec preset_rows;
  TransposeRowsSpec transpose_rows;
  RankMasksSpec rank_masks;
  OrderRowsSpec order_rows;
  OrderCellsSpec order_cells;
  OrderBlocksSpec order_blocks;
  RadixHistogramSpec rank_histogram;  // of masks' ranks, whatever the keys are
  RadixPassChoice rank_pass;
  std::vector<FindQueryBordersSpec> find_query_borders;  // one an entry of `searches`
  std::vector<SearchKernelMapSpec> search_kernel_map;
  std::vector<std::string> reasons;  // where something was tuned, one sentence a search
};

/// Each kernel of the Map step: visitor(spec, what `kernels` has under the same name). That is `choice`
/// itself, or what is loaded of it, with as many searches.
template <class Kernels, class Visitor>
void visit_map_kernels(const MapChoice& choice, Kernels& kernels, const Visitor& visitor) {
  visitor(choice.begin_cloud, kernels.begin_cloud);
  visitor(choice.find_bounds, kernels.find_bounds);
  visitor(choice.make_layout, kernels.make_layout);
  visitor(choice.pack, kernels.pack);
  visitor(choice.unpack, kernels.unpack);
  visitor(choice.radix_histogram, kernels.radix_histogram);
  visitor(choice.radix_bins, kernels.radix_bins);
  visitor(choice.radix_pass_rows.small, kernels.radix_pass_rows.small);
  visitor(choice.radix_pass_rows.large, kernels.radix_pass_rows.large);
  visitor(choice.radix_pass_keys.small, kernels.radix_pass_keys.small);
  visitor(choice.radix_pass_keys.large, kernels.radix_pass_keys.large);
  visitor(choice.prepare_scans, kernels.prepare_scans);
  visitor(choice.scan_heads, kernels.scan_heads);
  visitor(choice.scan_hits, kernels.scan_hits);
  visitor(choice.scan_values, kernels.scan_values);
  visitor(choice.scan_bits, kernels.scan_bits);
  visitor(choice.unique_rows, kernels.unique_rows);
  visitor(choice.unique_keys, kernels.unique_keys);
  visitor(choice.downsample, kernels.downsample);
  visitor(choice.void_failed, kernels.void_failed);
  visitor(choice.clear_cells, kernels.clear_cells);
  visitor(choice.index_runs, kernels.index_runs);
  visitor(choice.index_cells, kernels.index_cells);
  visitor(choice.index_rows, kernels.index_rows);
  visitor(choice.search_cells, kernels.search_cells);
  visitor(choice.count_pairs, kernels.count_pairs);
  visitor(choice.compact_pairs, kernels.compact_pairs);
  visitor(choice.make_tables, kernels.make_tables);
  visitor(choice.make_masks, kernels.make_masks);
  visitor(choice.preset_rows, kernels.preset_rows);
  visitor(choice.transpose_rows, kernels.transpose_rows);
  visitor(choice.rank_masks, kernels.rank_masks);
  visitor(choice.order_rows, kernels.order_rows);
  visitor(choice.order_cells, kernels.order_cells);
  visitor(choice.order_blocks, kernels.order_blocks);
  visitor(choice.rank_histogram, kernels.rank_histogram);
  visitor(choice.rank_pass.small, kernels.rank_pass.small);
  visitor(choice.rank_pass.large, kernels.rank_pass.large);
  for (std::size_t i = 0; i < choice.search_kernel_map.size(); ++i) {
    visitor(choice.find_query_borders[i], kernels.find_query_borders[i]);
    visitor(choice.search_kernel_map[i], kernels.search_kernel_map[i]);
  }
}

MapChoice choose_map(KeyType key, i32 ndim, const std::vector<SearchChoice>& searches);

/// The kernel maps that one search is chosen for.
struct SearchProblem {
  i64 volume = 27;
  i64 rows = 0;  // about how many the map's sources are; 0: not known
};
/// A search of its own for each of the problems, measured where `tuning` (which may be null) knows it.
MapChoice choose_map(KeyType key, i32 ndim, const std::vector<SearchProblem>& searches,
                     const TuningSnapshot* tuning);

/// The caller's included. More fill the GPU no better with a layer's eight GEMMs or so, and each costs four
/// calls a layer: measured slower.
inline constexpr i32 kMostGemmStreams = 2;

/// How GEMMs of one kernel map are grouped (paper 5.2.2), and run beside each other.
struct GroupingChoice {
  double padding_threshold = 0.25;  // padding rows per useful row that a group may reach
  i32 height_step = 64;             // GEMM heights are rounded up to a multiple of this
  i32 streams = kMostGemmStreams;   // that a layer's GEMMs are spread over, where the caller's allows
  bool operator==(const GroupingChoice&) const = default;
};

/// For the maps of a problem; what was measured, and why, goes to `reasons`.
GroupingChoice choose_grouping(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                               std::vector<std::string>& reasons);

/// What the kernels assert, and what their registers and shared memory hold. Every choice passes.
llvm::Error validate_spec(const GatherSpec& spec);
llvm::Error validate_spec(const ScatterSpec& spec);
llvm::Error validate_spec(const FusedSpec& spec);
/// Whether GPUs of `arch` run it.
bool runs_on(const FusedSpec& spec, llvm::StringRef arch);
llvm::Error validate(const SearchChoice& search, KeyType key);
llvm::Error validate(const GroupingChoice& grouping);

/// In which order the fused dataflow's kernels take the rows of a network's maps.
enum class RowOrder : i32 {
  AsTheyCome,  // nothing is sorted, and no rows are copied
  ByMask,      // those of like offsets near each other
  ByBlock,     // and blocks that have most to do first
};
struct OrderChoice {
  RowOrder order = RowOrder::ByBlock;
};

/// As choose_grouping() does.
OrderChoice choose_order(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                         std::vector<std::string>& reasons);

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output);
/// Rows of 1 + ndim coordinates, moved as 32-bit words.
PermuteRowsSpec choose_permute_coordinates(i32 ndim);

inline constexpr i32 kWidestAccess = 16;  // bytes of one load or store
/// Widest access (bytes, a power of two up to that) that divides a tile and every row's start.
i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands);

/// Every kernel of the Map step.
void add_sources(SourceList& list, const MapChoice& choice);

/// The kernels of the Map step that an engine loads. Both key widths are there, because the cloud decides
/// which is used.
struct EngineChoice {
  i32 ndim = 3;
  MapChoice map32, map64;
};

/// Chooses one search for all maps of a program whose largest kernel has `volume` offsets.
EngineChoice choose_engine(i32 ndim, i64 volume = 0, const TuningSnapshot* tuning = nullptr);

}  // namespace minuet
