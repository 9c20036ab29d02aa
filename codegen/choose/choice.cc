#include "codegen/choose/choice.h"

#include <algorithm>

#include "codegen/base/number_text.h"
#include "codegen/choose/tuned_config.h"

namespace minuet {
i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands) {
  i32 bytes = kWidestAccess;
  // The product needs 64 bits, because a file of tuning results may name more channels than any kernel has.
  auto fits = [&](i64 elements) { return elements * element_bytes % bytes == 0; };
  auto all_fit = [&] {
    return fits(tile) && std::all_of(operands.begin(), operands.end(), [&](const Columns& operand) {
             return fits(operand.ld) && fits(operand.column);
           });
  };
  while (bytes > element_bytes && !all_fit()) bytes /= 2;
  return bytes;
}

namespace {

/// Returns the numbers of threads and of items per thread that were fastest on an H200 from 10^5 to 2^28 keys
/// (tools/bench/results). Small tiles keep more multiprocessors busy. With large tiles, a kernel looks back
/// at the sums of preceding tiles less often.
RadixPassChoice choose_radix_pass(KeyType key, bool values) {
  if (key == KeyType::U64) return {{key, values, 384, 12, false}, {key, values, 384, 12, false}};
  const RadixPassSpec small{key, values, 512, 6, false};
  if (!values) return {small, {key, values, 384, 15, false}};
  return {small, {key, values, 512, 17, true}};
}

}  // namespace

MapChoice choose_map(KeyType key, i32 ndim, const SearchChoice& search) {
  MapChoice choice;
  choice.key = key;
  choice.find_bounds.ndim = choice.make_layout.ndim = ndim;
  choice.pack.key = choice.unpack.key = choice.downsample.key = choice.reach_keys.key = key;
  choice.pack.ndim = choice.unpack.ndim = choice.downsample.ndim = choice.reach_keys.ndim = ndim;
  choice.radix_histogram.key = key;
  choice.radix_pass_rows = choose_radix_pass(key, /*values=*/true);
  choice.radix_pass_keys = choose_radix_pass(key, /*values=*/false);
  choice.rank_pass = choose_radix_pass(KeyType::U32, /*values=*/true);
  choice.scan_heads.input = key == KeyType::U32 ? ScanInput::Heads32 : ScanInput::Heads64;
  choice.scan_hits.input = ScanInput::Hits;
  choice.scan_values.input = ScanInput::Values;
  choice.unique_rows.key = choice.unique_keys.key = key;
  choice.unique_keys.rows = false;
  choice.mark_blocks.ndim = choice.number_blocks.ndim = choice.mark_voxels.ndim = ndim;
  choice.reach_blocks.ndim = choice.reach_voxels.ndim = ndim;
  choice.list_voxels.ndim = choice.search_masks.ndim = choice.search_rows.ndim = ndim;
  choice.search_rows.rows = true;
  choice.rank_masks.ndim = choice.order_voxels.ndim = ndim;
  choice.find_query_borders = {key, ndim, search.source_block, search.query_block, search.threads};
  choice.search_kernel_map = {key, ndim, search.source_block, search.query_block, search.threads};
  choice.search_listed_keys.key = key;
  choice.search_listed_keys.ndim = choice.search_listed_voxels.ndim = ndim;
  return choice;
}

[[gnu::cold]] GroupingChoice choose_grouping(const WindowProblem& problem, const TuningSnapshot* tuning,
                                             i64 rows, std::vector<std::string>& reasons) {
  GroupingChoice grouping;
  const auto* const tuned =
      find_tuned(tuning, grouping_bucket(problem.dtype, kernel_volume(problem), rows), grouping);
  if (tuned) {
    reasons.push_back(llvm::formatv("GEMMs are grouped up to {0:f2} padding rows per useful row, with "
                                    "heights in multiples of {1}, on {2} streams{3}",
                                    real(grouping.padding_threshold), grouping.height_step, grouping.streams,
                                    tuned->reason())
                          .str());
  }
  return grouping;
}

[[gnu::cold]] OrderChoice choose_order(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                                       std::vector<std::string>& reasons) {
  static constexpr const char* kOrders[] = {
      "are not sorted", "are sorted by the offsets of their neighbours",
      "are sorted by the offsets of their neighbours, and blocks with the most work start first"};
  OrderChoice order;
  const auto* const tuned =
      find_tuned(tuning, order_bucket(problem.dtype, kernel_volume(problem), rows), order);
  if (tuned) {
    reasons.push_back(
        llvm::formatv("output rows {0}{1}", kOrders[static_cast<i32>(order.order)], tuned->reason()).str());
  }
  return order;
}

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output) {
  PermuteRowsSpec spec;
  spec.io = io;
  spec.channels = channels;
  spec.vector_bytes = widest_vector(dtype_bytes(io), channels, {input, output});
  return spec;
}

PermuteRowsSpec choose_permute_coordinates(i32 ndim) {
  PermuteRowsSpec spec;
  spec.io = DType::F32;
  spec.channels = 1 + ndim;
  spec.vector_bytes = 4;  // The caller aligns coordinates to 4 bytes only.
  return spec;
}

void add_sources(SourceList& list, const MapChoice& choice) {
  visit_map_kernels(choice, choice, [&](const auto& spec, const auto&) { list.add(spec); });
}

EngineChoice choose_engine(i32 ndim, i64 volume, const TuningSnapshot* tuning) {
  const auto map = [&](KeyType key) {
    SearchChoice search;
    find_tuned(tuning, search_bucket(key, ndim, volume, /*rows=*/0), search);
    return choose_map(key, ndim, search);
  };
  return {ndim, map(KeyType::U32), map(KeyType::U64)};
}

}  // namespace minuet
