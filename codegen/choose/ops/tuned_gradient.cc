// Checks the Specs of kernels for the gradient of a weight, and chooses among them by results of tuning.
#include <bit>
#include <utility>

#include "codegen/base/arch.h"
#include "codegen/choose/ops/parameter_gradient.h"
#include "codegen/choose/tuned_config.h"

namespace minuet {
namespace {

/// Every GPU from sm_80 on gives a block this much shared memory.
constexpr i32 kMostBlockBytes = 99 << 10;
constexpr i32 kLeastStages = 2, kMostStages = 8;
/// An output has fewer than 2^31 rows.
constexpr i64 kMostLog2Rows = 30;

/// Returns the candidate of a result, or nothing if the configuration cannot be read.
std::optional<WeightGradientCandidate> make_tuned(const ParameterGradientChoice& choice,
                                                  const TuningConfig& config) {
  const ConvolutionProblem& forward = choice.problem.forward;
  WeightGradientCandidate::Spec spec;
  if (llvm::errorToBool(read_gradient_config(weight_gradient_bucket(forward, 0), config, spec)))
    return std::nullopt;
  for (const WeightGradientCandidate& usual : choice.candidates) {
    if (usual.spec != spec) continue;
    // The number of parts stays the same, so that the bits are those of a program without tuning.
    WeightGradientCandidate candidate = usual;
    candidate.least_pairs = 0;
    return candidate;
  }
  if (const auto* const warpgroups = std::get_if<WarpgroupGradientSpec>(&spec))
    return make_candidate(forward, *warpgroups);
  return make_candidate(forward, std::get<WeightGradientSpec>(spec));
}

}  // namespace

llvm::Error validate_spec(const WeightGradientSpec& spec) {
  constexpr i32 kMostThreads = 512, kMostSums = 128;
  const i32 most_tile = dtype_bytes(spec.io) == 2 ? 128 : 64;
  const auto divides = [&](i32 tile, i32 warps) {
    return warps >= 1 && std::has_single_bit(static_cast<u32>(warps)) && tile >= 1 && tile <= most_tile &&
           tile % (16 * warps) == 0;
  };
  if (!divides(spec.tile_in, spec.warps_in) || !divides(spec.tile_out, spec.warps_out)) {
    return make_error(StatusCode::OutOfRange,
                      "the tile is {0} x {1} channels for {2} x {3} warps; each warp needs a multiple of 16, "
                      "the numbers of warps are powers of two, and a tile has at most {4} channels",
                      spec.tile_in, spec.tile_out, spec.warps_in, spec.warps_out, most_tile);
  }
  const i32 threads = weight_gradient_threads(spec);
  if (threads > kMostThreads || spec.tile_in * spec.tile_out > threads * kMostSums) {
    return make_error(StatusCode::OutOfRange,
                      "{0} threads have a tile of {1} x {2} channels; there may be at most {3} threads, and "
                      "{4} sums for each",
                      threads, spec.tile_in, spec.tile_out, kMostThreads, kMostSums);
  }
  if (spec.stages < kLeastStages || spec.stages > kMostStages ||
      gradient_shared_bytes(spec) > kMostBlockBytes) {
    return make_error(StatusCode::OutOfRange,
                      "stages is {0}, for which a block needs {1} bytes of shared memory; it must be {2} to "
                      "{3}, and the bytes at most {4}",
                      spec.stages, gradient_shared_bytes(spec), kLeastStages, kMostStages, kMostBlockBytes);
  }
  return llvm::Error::success();
}

llvm::Error validate_spec(const WarpgroupGradientSpec& spec) {
  // Are those of a multiprocessor. Each block takes 1 KiB of shared memory more than it uses.
  constexpr i32 kSharedBytes = 228 << 10, kBlockBytes = 1 << 10, kRegisters = 64 << 10;
  // A thread has the sums of a product of 64 rows, and registers for addresses.
  constexpr i32 kOtherRegisters = 40, kMostBlocks = 8, kMostCopiers = 1, kTileStep = 32;
  const auto is_tile = [](i32 tile, i32 most) { return tile >= 1 && tile <= most && tile % kTileStep == 0; };
  if (dtype_bytes(spec.io) != 2 || !is_tile(spec.tile_in, 128) || !is_tile(spec.tile_out, 256)) {
    return make_error(StatusCode::OutOfRange,
                      "the tile is {0} x {1} channels of {2} bytes; warpgroups multiply elements of 2 bytes, "
                      "and tiles of multiples of {3} up to 128 x 256 channels",
                      spec.tile_in, spec.tile_out, dtype_bytes(spec.io), kTileStep);
  }
  if (spec.copiers < 0 || spec.copiers > kMostCopiers || spec.stages < kLeastStages ||
      spec.stages > kMostStages || spec.blocks < 1 || spec.blocks > kMostBlocks) {
    return make_error(
        StatusCode::OutOfRange,
        "copiers is {0}, stages is {1} and blocks is {2}; they must be 0 to {3}, {4} to {5} and "
        "1 to {6}",
        spec.copiers, spec.stages, spec.blocks, kMostCopiers, kLeastStages, kMostStages, kMostBlocks);
  }
  const i32 bytes = spec.blocks * (gradient_shared_bytes(spec) + kBlockBytes);
  const i32 registers = spec.blocks * weight_gradient_threads(spec) * (spec.tile_out / 2 + kOtherRegisters);
  if (bytes <= kSharedBytes && registers <= kRegisters) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange,
                    "{0} blocks need {1} bytes of shared memory and {2} registers; a multiprocessor has {3} "
                    "and {4}",
                    spec.blocks, bytes, registers, kSharedBytes, kRegisters);
}

[[gnu::cold]] void add_tuned_candidates(ParameterGradientChoice& choice, const TuningSnapshot& tuning) {
  const ConvolutionProblem& forward = choice.problem.forward;
  const i32 measured_on = capability_number(tuning.environment().compute_capability);
  if (measured_on == 0) return;
  std::vector<WeightGradientCandidate> tuned;
  // Has, for each range of rows, the result that serves the lists with the next fewer pairs for each row.
  std::vector<const TunedResult*> sparser(kMostLog2Rows + 1);
  for (i64 log4 = 0; log4 <= log4_of(static_cast<double>(kernel_volume(forward))); ++log4) {
    std::vector<WeightGradientCandidate> added;
    for (i64 log2 = 0; log2 <= kMostLog2Rows; ++log2) {
      const i64 least = i64{1} << log2, most = 2 * least - 1;
      const TunedResult* const result =
          tuning.find_densest(weight_gradient_bucket(forward, least, least_density_of(log4)));
      const TunedResult* const before = std::exchange(sparser[log2], result);
      // A default that won needs a candidate only in front of a result for sparser lists.
      if (result == before || (before == nullptr && result->best.is_default)) continue;
      std::optional<WeightGradientCandidate> candidate = make_tuned(choice, result->best.config);
      if (!candidate) continue;
      if (!added.empty() && added.back().spec == candidate->spec && added.back().most_rows == least - 1) {
        added.back().most_rows = most;
        continue;
      }
      candidate->least_rows = least;
      candidate->most_rows = most;
      candidate->least_density = least_density_of(log4);
      candidate->capability = measured_on;
      added.push_back(*candidate);
    }
    tuned.insert(tuned.begin(), added.begin(), added.end());
  }
  choice.candidates.insert(choice.candidates.begin(), tuned.begin(), tuned.end());
}

}  // namespace minuet
