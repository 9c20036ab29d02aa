// Checks choices against the asserts of the kernels. An invalid choice gives an error, because configurations
// may come from outside the library, for example from a file of tuning results.
#include "codegen/base/arch.h"
#include "codegen/choose/ops/convolution_fused.h"
#include "codegen/choose/ops/fused_limits.h"

namespace minuet {
namespace {

constexpr i32 kWarp = 32;
constexpr i32 kMostThreads = 1024;  // A thread block has at most this many threads.
// A gather or scatter of a wider tile spills registers and takes seconds to compile.
constexpr i32 kWidestTile = 256;
// A block of source keys of the search takes at most this many bytes of shared memory, of the 48 KiB that a
// thread block may have.
constexpr i32 kMostSharedBytes = 40 << 10;
constexpr i32 kMostBlock = 1 << 20;
constexpr double kMostPadding = 16;  // A group of GEMMs has at most this many padding rows per useful row.

llvm::Error check_threads(i32 threads) {
  if (threads >= kWarp && threads <= kMostThreads && threads % kWarp == 0) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "threads is {0}; it must be a multiple of {1} up to {2}", threads,
                    kWarp, kMostThreads);
}

llvm::Error check_tile(DType io, i32 channels, i32 tile, i32 vector_bytes) {
  if (channels < 1 || tile < 1 || channels % tile != 0) {
    return make_error(StatusCode::OutOfRange, "tile {0} does not divide {1} channels", tile, channels);
  }
  if (tile > kWidestTile) {
    return make_error(StatusCode::OutOfRange, "tile {0} is wider than {1}, the most that registers hold",
                      tile, kWidestTile);
  }
  const bool is_access = vector_bytes == 2 || vector_bytes == 4 || vector_bytes == 8 || vector_bytes == 16;
  if (!is_access || vector_bytes < dtype_bytes(io) || tile * dtype_bytes(io) % vector_bytes != 0) {
    return make_error(StatusCode::OutOfRange, "accesses of {0} bytes do not divide a tile of {1} elements",
                      vector_bytes, tile);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error validate_spec(const GatherSpec& spec) {
  MINUET_TRY(check_threads(spec.threads));
  return check_tile(spec.io, spec.channels, spec.tile, spec.vector_bytes);
}

llvm::Error validate_spec(const ScatterSpec& spec) {
  MINUET_TRY(check_threads(spec.threads));
  return check_tile(spec.io, spec.channels, spec.tile, spec.vector_bytes);
}

namespace {

/// Checks the numbers of warps, blocks and prefetched steps, the cluster size, and the requirements of
/// warpgroups.
llvm::Error check_fused_warps(const FusedSpec& spec) {
  constexpr i32 kMostTiles = 8, kMostPrefetch = 4, kMostBlocks = 16, kMostCluster = 8;
  constexpr i32 kResidentThreads = 2048;  // A multiprocessor runs at most this many threads at once.
  const bool counts_fit = spec.row_tiles >= 1 && spec.row_tiles <= kMostTiles && spec.warps >= 1 &&
                          spec.warps <= kWarp && spec.split >= 1 && spec.split <= kWarp &&
                          spec.prefetch >= 1 && spec.prefetch <= kMostPrefetch && spec.blocks >= 1 &&
                          spec.blocks <= kMostBlocks && spec.cluster >= 1 && spec.cluster <= kMostCluster;
  if (!counts_fit || fused_threads(spec) > kMostThreads ||
      fused_threads(spec) * spec.blocks > kResidentThreads) {
    return make_error(
        StatusCode::OutOfRange,
        "the configuration (blocks {0}, warps {1}, split {2}, row_tiles {3}, prefetch {4}, cluster {5}) is "
        "outside the limits of a multiprocessor or the kernel",
        spec.blocks, spec.warps, spec.split, spec.row_tiles, spec.prefetch, spec.cluster);
  }
  if (spec.unit == MmaUnit::Warpgroup) {
    if (spec.row_tiles != 2 || spec.warps % 4 != 0 || spec.split != 1 || !fused_copies_bulk(spec) ||
        spec.io == DType::F32 || folds_offsets(spec.io, spec.in_channels)) {
      return make_error(
          StatusCode::OutOfRange,
          "the configuration does not suit warpgroups, which need row_tiles 2, a multiple of 4 warps, split "
          "1, weights by bulk copies, elements of one or two bytes and input rows of more than 16 bytes");
    }
  }
  if (kPositionGroup % fused_unit_rows(spec) != 0) {
    return make_error(StatusCode::OutOfRange, "row_tiles is {0}; it must be a power of two", spec.row_tiles);
  }
  return llvm::Error::success();
}

/// Checks the members `step`, `columns`, `shortcut` and `stages`, which is the length of the ring buffer of
/// weights.
llvm::Error check_fused_shape(const FusedSpec& spec) {
  constexpr i32 kMostStep = 512, kMostColumns = 256, kWarpgroupColumns = 128, kMostStages = 16;
  const bool is_warpgroup = spec.unit == MmaUnit::Warpgroup;
  const bool folds = folds_offsets(spec.io, spec.in_channels);
  const i32 granule = folds ? 2 * fused_granule(spec.io) : step_granule(spec);
  if (spec.step < 1 || spec.step > kMostStep || spec.step % granule != 0) {
    return make_error(StatusCode::OutOfRange, "step is {0}; it must be a multiple of {1} up to {2}",
                      spec.step, granule, kMostStep);
  }
  const i32 most_columns = is_warpgroup ? kWarpgroupColumns : kMostColumns;
  if (spec.columns < 1 || spec.columns % 16 != 0 || spec.columns > most_columns) {
    return make_error(StatusCode::OutOfRange, "columns is {0}; it must be a multiple of 16 up to {1}",
                      spec.columns, most_columns);
  }
  if (spec.shortcut && (folds || spec.volume % 2 == 0 || spec.residual || spec.second_output)) {
    return make_error(
        StatusCode::OutOfRange,
        "the kernel cannot compute a shortcut, which needs an odd number of offsets, input rows of more than "
        "16 bytes, no residual, and no second output");
  }
  const bool is_ring = spec.weights != WeightRoad::Cached && spec.weights != WeightRoad::Resident;
  const i32 least_stages = is_ring ? 2 * spec.split : 1;
  if (spec.stages < least_stages || spec.stages > kMostStages || spec.stages % spec.split != 0) {
    return make_error(StatusCode::OutOfRange, "stages is {0}; it must be a multiple of {1} from {2} to {3}",
                      spec.stages, spec.split, least_stages, kMostStages);
  }
  return llvm::Error::success();
}

/// Returns true if a multiprocessor has the registers for the blocks of a persistent kernel. A warp holds the
/// residual and the first input rows of the next tile at once. The number of registers for everything else
/// (kOthers) was observed in compiled kernels.
bool has_persistent_registers(const FusedSpec& spec) {
  constexpr i32 kOthers = 32, kLaneRegisters = 512;  // A quarter of a multiprocessor has 512 for each lane.
  const i32 registers = kLaneRegisters / ((spec.blocks * spec.warps + 3) / 4) / 8 * 8;
  const i32 residual = spec.residual ? spec.columns * dtype_bytes(fused_residual_type(spec)) / 8 : 0;
  const i32 inputs = spec.prefetch * spec.step * dtype_bytes(spec.io) / 4;
  return spec.columns / 2 + inputs + residual + kOthers <= registers;
}

/// Checks what a persistent kernel needs. The caller must have called check_fused_shape() before.
llvm::Error check_fused_persistent(const FusedSpec& spec) {
  const bool is_resident = spec.weights == WeightRoad::Resident;
  if (is_resident && (!spec.persistent || fused_column_blocks(spec) > 1 || spec.shortcut)) {
    return make_error(
        StatusCode::OutOfRange,
        "'weights' is Resident, which needs a persistent kernel whose blocks compute all output "
        "channels and no shortcut");
  }
  if (!spec.persistent) return llvm::Error::success();
  const bool has_road = is_resident || (spec.weights == WeightRoad::BulkRefill && spec.warps == 4);
  if (spec.unit == MmaUnit::Warpgroup && has_road && fused_stages_rows(spec) &&
      mask_words(spec.volume) == 1 && spec.cluster == 1 && fits_multiprocessor(spec) &&
      has_persistent_registers(spec)) {
    return llvm::Error::success();
  }
  return make_error(StatusCode::OutOfRange,
                    "the kernel cannot be persistent, which needs warpgroups, 'weights' Resident, or "
                    "BulkRefill and 4 warps, staged row numbers, 2 to 32 offsets, cluster 1, and shared "
                    "memory and registers for {0} blocks on a multiprocessor",
                    spec.blocks);
}

/// Checks the cluster size. The caller must have called check_fused_shape() before.
llvm::Error check_fused_cluster(const FusedSpec& spec) {
  if (spec.cluster == 1) return llvm::Error::success();
  const i32 groups = fused_column_group(spec, spec.columns / fused_tile(spec) - 1).number + 1;
  if (spec.weights != WeightRoad::Cached && !folds_offsets(spec.io, spec.in_channels) &&
      (spec.cluster & (spec.cluster - 1)) == 0 && spec.cluster <= groups) {
    return llvm::Error::success();
  }
  return make_error(
      StatusCode::OutOfRange,
      "cluster is {0}; it must be 1, or a power of two up to {1} if 'weights' is not Cached and "
      "input rows have more than 16 bytes",
      spec.cluster, groups);
}

}  // namespace

llvm::Error validate_spec(const FusedSpec& spec) {
  constexpr i32 kMostDynamicBytes = 227 << 10;  // A block on sm_90 may use this much shared memory.
  MINUET_TRY(check_fused_warps(spec));
  MINUET_TRY(check_fused_shape(spec));
  MINUET_TRY(check_fused_cluster(spec));
  MINUET_TRY(check_fused_persistent(spec));
  if (spec.volume > kMostFusedOffsets || fused_shared_bytes(spec) > kMostDynamicBytes) {
    return make_error(StatusCode::OutOfRange,
                      "{0} offsets and {1} bytes of shared memory are too many; the limits are {2} and {3}",
                      spec.volume, fused_shared_bytes(spec), kMostFusedOffsets, kMostDynamicBytes);
  }
  return llvm::Error::success();
}

bool runs_on(const FusedSpec& spec, llvm::StringRef arch) {
  /// A block may use this much shared memory on any architecture.
  constexpr i32 kLeastDynamicBytes = 99 << 10;
  const llvm::StringRef exact = fused_exact_arch(spec);
  return fused_least_sm(spec) <= capability(arch) && (exact.empty() || exact == arch) &&
         (capability(arch) == 90 || fused_shared_bytes(spec) <= kLeastDynamicBytes);
}

llvm::Error validate(const SearchChoice& search, KeyType key) {
  MINUET_TRY(check_threads(search.threads));
  if (search.source_block < 1 || search.source_block > kMostBlock || search.query_block < 1 ||
      search.query_block > kMostBlock) {
    return make_error(StatusCode::OutOfRange,
                      "source_block is {0} and query_block is {1}; both must be 1 to {2}",
                      search.source_block, search.query_block, kMostBlock);
  }
  // The kernel rounds the number of keys of a source block up to a power of two.
  i64 bytes = key_bytes(key);
  while (bytes < i64{search.source_block} * key_bytes(key)) bytes *= 2;
  if (bytes > kMostSharedBytes) {
    return make_error(StatusCode::OutOfRange,
                      "a source block of {0} keys takes {1} bytes of shared memory; the limit is {2}",
                      search.source_block, bytes, kMostSharedBytes);
  }
  return llvm::Error::success();
}

llvm::Error validate(const GemmChoice& gemm) {
  if (gemm.algorithm >= 0 && gemm.algorithm < kMostGemmAlgorithms) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "cuBLASLt's algorithm is {0}; it must be 0 to {1}",
                    gemm.algorithm, kMostGemmAlgorithms - 1);
}

llvm::Error validate(const GroupingChoice& grouping) {
  const bool padding_fits = grouping.padding_threshold >= 0 && grouping.padding_threshold <= kMostPadding;
  const bool streams_fit = grouping.streams >= 1 && grouping.streams <= kMostGemmStreams;
  if (padding_fits && streams_fit && grouping.height_step >= 1 && grouping.height_step <= kMostBlock) {
    return llvm::Error::success();
  }
  return make_error(
      StatusCode::OutOfRange,
      "padding_threshold is {0}, height_step is {1} and streams is {2}; they must be 0 to {3}, 1 to {4} and "
      "1 to {5}",
      grouping.padding_threshold, grouping.height_step, grouping.streams, kMostPadding, kMostBlock,
      kMostGemmStreams);
}

}  // namespace minuet
