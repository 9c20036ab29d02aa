#include "codegen/choice.h"

#include <algorithm>
#include <numeric>

#include "codegen/tuning/tuned_config.h"
#include "codegen/tuning/tuning_snapshot.h"

namespace minuet {
namespace {

constexpr i32 kWidestAccess = 16;  // bytes of one load or store

/// Enough consecutive channels for one widest access, where they divide the row.
i32 default_tile(i32 element_bytes, i32 channels) {
  return std::gcd(channels, kWidestAccess / element_bytes);
}

}  // namespace

i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands) {
  i32 bytes = kWidestAccess;
  auto fits = [&](i32 elements) { return elements * element_bytes % bytes == 0; };
  auto all_fit = [&] {
    return fits(tile) && std::all_of(operands.begin(), operands.end(), [&](const Columns& operand) {
             return fits(operand.ld) && fits(operand.column);
           });
  };
  while (bytes > element_bytes && !all_fit()) bytes /= 2;
  return bytes;
}

namespace {

/// What was measured for the bucket, if anything; `choice` becomes it.
template <class Choice>
const TunedResult* find_tuned(const TuningSnapshot* tuning, const TuningBucket& bucket, Choice& choice) {
  const TunedResult* const result = tuning != nullptr ? tuning->find(bucket) : nullptr;
  if (!result) return nullptr;
  Choice tuned{};
  // A snapshot holds valid results only; were one not, the default stays.
  if (llvm::errorToBool(read_config(result->best.config, tuned))) return nullptr;
  choice = tuned;
  return result;
}

/// Threads and items of a tile, measured on an H200 against cub::DeviceRadixSort from 10^5 to 2^28 keys
/// (tools/bench/results, R37). Small tiles keep more multiprocessors busy, large ones look back less.
RadixPassChoice choose_radix_pass(KeyType key, bool values) {
  if (key == KeyType::U64) return {{key, values, 384, 12, false}, {key, values, 384, 12, false}};
  const RadixPassSpec small{key, values, 256, 12, false};
  if (!values) return {small, {key, values, 384, 15, false}};
  return {small, {key, values, 512, 17, true}};
}

}  // namespace

MapChoice choose_map(KeyType key, i32 ndim, const std::vector<SearchChoice>& searches) {
  MapChoice choice;
  choice.key = key;
  choice.find_bounds.ndim = choice.make_layout.ndim = ndim;
  choice.pack.key = choice.unpack.key = choice.downsample.key = key;
  choice.pack.ndim = choice.unpack.ndim = choice.downsample.ndim = ndim;
  choice.radix_histogram.key = key;
  choice.radix_pass_rows = choose_radix_pass(key, /*values=*/true);
  choice.radix_pass_keys = choose_radix_pass(key, /*values=*/false);
  choice.rank_pass = choose_radix_pass(KeyType::U32, /*values=*/true);
  choice.scan_heads.input = key == KeyType::U32 ? ScanInput::Heads32 : ScanInput::Heads64;
  choice.scan_hits.input = ScanInput::Hits;
  choice.scan_values.input = ScanInput::Values;
  choice.scan_bits.input = ScanInput::Bits;
  choice.unique_rows.key = choice.unique_keys.key = key;
  choice.unique_keys.rows = false;
  choice.clear_cells.ndim = ndim;
  choice.index_runs = {IndexStep::Runs, KeyType::U32, ndim};
  choice.index_cells = {IndexStep::Cells, KeyType::U32, ndim};
  choice.index_rows = {IndexStep::Rows, key, ndim};
  choice.search_cells = {key, ndim};
  for (const SearchChoice& search : searches) {
    choice.find_query_borders.push_back({key, ndim, search.source_block, search.query_block, search.threads});
    choice.search_kernel_map.push_back({key, ndim, search.source_block, search.query_block, search.threads});
  }
  return choice;
}

MapChoice choose_map(KeyType key, i32 ndim, const std::vector<SearchProblem>& searches,
                     const TuningSnapshot* tuning) {
  std::vector<SearchChoice> chosen;
  std::vector<std::string> reasons;
  for (const SearchProblem& problem : searches) {
    SearchChoice search;
    const auto* const tuned =
        find_tuned(tuning, search_bucket(key, ndim, problem.volume, problem.rows), search);
    chosen.push_back(search);
    if (!tuned) continue;
    reasons.push_back(llvm::formatv("search B {0}, C {1}, {2} threads{3}", search.source_block,
                                    search.query_block, search.threads, tuned->reason())
                          .str());
  }
  MapChoice choice = choose_map(key, ndim, chosen);
  choice.reasons = std::move(reasons);
  return choice;
}

GroupingChoice choose_grouping(const ConvolutionProblem& problem, const TuningSnapshot* tuning, i64 rows,
                               std::vector<std::string>& reasons) {
  GroupingChoice grouping;
  const auto* const tuned =
      find_tuned(tuning, grouping_bucket(problem.dtype, kernel_volume(problem), rows), grouping);
  if (tuned) {
    reasons.push_back(llvm::formatv("grouping padding {0:f2}, height step {1}{2}", grouping.padding_threshold,
                                    grouping.height_step, tuned->reason())
                          .str());
  }
  return grouping;
}

namespace {

/// The measured tile of the bucket, or one widest access a thread.
i32 choose_tile(const TuningSnapshot* tuning, const TuningBucket& bucket, std::vector<std::string>& reasons) {
  i32 tile = default_tile(dtype_bytes(bucket.dtype), static_cast<i32>(bucket.channels));
  const auto* const tuned = find_tuned(tuning, bucket, tile);
  const char* const what = operation_name(bucket.operation);
  reasons.push_back(tuned ? llvm::formatv("{0} tile {1}{2}", what, tile, tuned->reason()).str()
                          : llvm::formatv("{0} tile {1} of {2} channels: one widest access a thread", what,
                                          tile, bucket.channels)
                                .str());
  return tile;
}

GatherSpec choose_gather(const ConvolutionProblem& problem, i32 tile) {
  GatherSpec gather;
  gather.io = problem.dtype;
  gather.channels = problem.in_channels;
  gather.tile = tile;
  gather.vector_bytes =
      widest_vector(dtype_bytes(gather.io), tile, {problem.input, {problem.in_channels, 0}});
  return gather;
}

ScatterSpec choose_scatter(const ConvolutionProblem& problem, i32 tile) {
  ScatterSpec scatter;
  scatter.io = problem.dtype;
  scatter.channels = problem.out_channels;
  scatter.tile = tile;
  std::vector<Columns> outputs{problem.output, {problem.out_channels, 0}};
  if (problem.residual) outputs.push_back(problem.residual_input);
  scatter.vector_bytes = widest_vector(dtype_bytes(scatter.io), tile, outputs);
  scatter.scale_shift = problem.scale_shift;
  scatter.residual = problem.residual;
  scatter.activation = problem.activation;
  return scatter;
}

}  // namespace

GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning, i64 rows) {
  GmasChoice choice;
  choice.problem = problem;

  choice.direct_center = reads_center_in_place(problem.kind == ConvolutionKind::Submanifold, problem.dtype);
  choice.reasons.push_back(
      choice.direct_center ? "the centre offset of a submanifold layer covers every row: its GEMM reads the "
                             "features in place"
      : rounds_operands(problem.dtype)
          ? kDTypeNames[static_cast<int>(problem.dtype)] +
                std::string(" operands are rounded by the gather, so every offset is gathered")
          : "no offset covers every row, so every offset is gathered");

  const i64 volume = kernel_volume(problem);
  const TuningBucket gather = gather_bucket(problem.dtype, problem.in_channels, volume, rows);
  const TuningBucket scatter = scatter_bucket(problem.dtype, problem.out_channels, volume, rows);
  choice.gather = choose_gather(problem, choose_tile(tuning, gather, choice.reasons));
  choice.scatter = choose_scatter(problem, choose_tile(tuning, scatter, choice.reasons));

  const i64 slice = i64{problem.in_channels} * problem.out_channels * dtype_bytes(problem.dtype);
  choice.permute_weights.vector_bytes = static_cast<i32>(std::gcd(slice, static_cast<i64>(kWidestAccess)));
  return choice;
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
  spec.vector_bytes = 4;  // coordinates come and go at any int32's address
  return spec;
}

std::vector<KernelSource> sources_of(const MapChoice& choice) {
  std::vector<KernelSource> sources;
  visit_map_kernels(choice, choice, [&](const auto& spec, const auto&) {
    KernelSource source = emit(spec);
    // Small sorts and large ones may take the same.
    for (const KernelSource& other : sources) {
      if (other.display_name == source.display_name) return;
    }
    sources.push_back(std::move(source));
  });
  return sources;
}

std::vector<KernelSource> sources_of(const GmasChoice& choice) {
  return {emit(choice.gather), emit(choice.scatter), emit(choice.permute_weights)};
}

}  // namespace minuet
