// The convolution: its problem, the dataflows that may run it, and their Specs with the reasons for them.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"

namespace minuet {

/// The ways to run a convolution.
enum class Dataflow : i32 { GatherGemmScatter, Fused };
/// "gather-gemm-scatter", "fused"
const char* dataflow_name(Dataflow dataflow);

struct ConvolutionProblem : WindowProblem {
  static const OpKind kKind;

  i32 in_channels = 0;
  i32 out_channels = 0;
  i32 groups = 1;
  Columns input, output, residual_input;
  bool scale_shift = false;  // per output channel, fp32: batch norm or bias
  bool residual = false;     // added after scale and shift
  // True for the first layer of a residual block. A kernel may then compute the block's 1x1 shortcut too,
  // which has the same input, channels and scale_shift, and no activation.
  bool shortcut = false;
  Columns shortcut_output;
  Activation activation = Activation::None;
  float slope = 0;                   // of a leaky ReLU
  std::optional<Dataflow> dataflow;  // that the caller asks for; else the one that is expected to be fastest

  /// Sets both. A leaky ReLU of slope 0 is a ReLU, which makes 0 of minus infinity too, where the product
  /// would be NaN.
  void set_activation(Activation wanted, float wanted_slope) {
    const bool is_leaky = wanted == Activation::LeakyReLU && wanted_slope != 0;
    activation = is_leaky || wanted == Activation::None ? wanted : Activation::ReLU;
    slope = is_leaky ? wanted_slope : 0;
  }
};

/// Invalid sizes, impossible combinations and what is not built yet, each with its reason.
llvm::Error validate(const ConvolutionProblem& problem);

/// In a map of a set onto itself the centre covers every row, so its GEMM reads the features in place, unless
/// operands are rounded, which the gather does.
inline bool reads_center_in_place(bool onto_itself, DType dtype) {
  return onto_itself && !rounds_operands(dtype);
}

/// The offset whose GEMM reads in place, or -1.
i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry);

/// cuBLASLt's algorithm of a layer's GEMMs, by its place among those that cuBLASLt lists for each of them:
/// the first is the one that it expects to be fastest, and where there are fewer the last is taken.
struct GemmChoice {
  i32 algorithm = 0;
};
inline constexpr i32 kMostGemmAlgorithms = 8;
llvm::Error validate(const GemmChoice& gemm);

/// Kernels of one convolution: the gather-GEMM-scatter dataflow.
struct GmasChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  bool direct_center = false;  // the centre offset's GEMM reads the features in place
  GatherSpec gather;
  ScatterSpec scatter;
  PermuteWeightsSpec permute_weights;
  GemmChoice gemm;
  std::vector<std::string> reasons;  // one sentence a decision
};

/// The problem must be valid. `tuning`: what was measured (tuning_snapshot.h), or null. `rows`: about how
/// many rows the layer's output has, or 0 where that is not known. Where it is not known, and where nobody
/// measured this many rows, the measurement with the most rows is used.
GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning = nullptr,
                       i64 rows = 0);

struct FusedChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  FusedSpec fused;
  std::vector<std::string> reasons;  // one sentence a decision
};

/// Offsets whose masks shared memory holds easily.
inline constexpr i64 kMostFusedOffsets = 4096;

/// What a choice may use of an architecture that has it.
struct FusedMeans {
  bool warpgroups = true;    // wgmma
  bool programmatic = true;  // launches that overlap
};

/// For a valid problem of at most kMostFusedOffsets offsets and one group. The CPU, of architecture "", goes
/// by the problem alone. `rows`: about how many the output has; 0: not known.
FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedMeans means = {});

void add_sources(SourceList& list, const GmasChoice& choice);
void add_sources(SourceList& list, const FusedChoice& choice);

/// The dataflow of a convolution's choice; none of another op's.
std::optional<Dataflow> dataflow_of(const OpChoice& choice);

/// The fused one is faster on the CPU, and on a GPU with 16-bit types: measured on an H200, where both
/// shipped networks take 0.55 to 0.9 of the time, from 6e4 to 1e6 voxels. 32-bit types were not measured
/// there.
Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch);

/// choose_candidates() of a convolution. `wanted`: the dataflow of all, in the place of the problem's.
llvm::Expected<std::vector<Candidate>> convolution_candidates(const ConvolutionProblem& problem,
                                                              llvm::StringRef arch,
                                                              const TuningSnapshot* tuning,
                                                              std::optional<Dataflow> wanted = {},
                                                              FusedMeans means = {});

}  // namespace minuet
