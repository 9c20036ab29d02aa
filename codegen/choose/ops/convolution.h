// The convolution: its problem, the dataflows that may run it, and their Specs with the reasons for them. All
// functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"

namespace minuet {

/// The ways to run a convolution.
enum class Dataflow : i32 { GatherGemmScatter, Fused };
/// Returns "gather-gemm-scatter" or "fused".
const char* dataflow_name(Dataflow dataflow);

struct ConvolutionProblem : WindowProblem {
  static const OpKind kKind;

  i32 in_channels = 0;
  i32 out_channels = 0;
  i32 groups = 1;
  Columns input, output, residual_input;
  bool scale_shift = false;  // applied per output channel in fp32, for batch norm or bias
  bool residual = false;     // added after scale and shift
  // True for the first layer of a residual block. A kernel may then compute the block's 1x1 shortcut too,
  // which has the same input, channels and scale_shift, and no activation.
  bool shortcut = false;
  Columns shortcut_output;
  Activation activation = Activation::None;
  float slope = 0;                   // of a leaky ReLU
  std::optional<Dataflow> dataflow;  // requested by the caller; empty: the one expected to be fastest

  /// Sets activation and slope. A leaky ReLU of slope 0 becomes a ReLU, because multiplying minus infinity by
  /// 0 would give NaN instead of 0.
  void set_activation(Activation wanted, float wanted_slope) {
    const bool is_leaky = wanted == Activation::LeakyReLU && wanted_slope != 0;
    activation = wanted == Activation::LeakyReLU && !is_leaky ? Activation::ReLU : wanted;
    slope = is_leaky ? wanted_slope : 0;
  }
};

/// Returns an error with the reason for invalid sizes, impossible combinations and features that are not
/// implemented.
llvm::Error validate(const ConvolutionProblem& problem);

/// Returns true if the GEMM of the centre offset reads the features in place. In a map of a set onto itself
/// the centre covers every row; types whose operands the gather must round cannot be read in place.
inline bool reads_center_in_place(bool onto_itself, DType dtype) {
  return onto_itself && !rounds_operands(dtype);
}

/// Returns the offset whose GEMM reads the features in place, or -1.
i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry);

/// Returns the channels that a thread of gather or scatter moves at once without tuning: those of one widest
/// access, reduced until they divide the row.
i32 default_tile(i32 element_bytes, i32 channels);

/// The cuBLASLt algorithm for a layer's GEMMs, as an index into the list that cuBLASLt returns for each GEMM.
/// cuBLASLt expects the first one to be fastest. If a list is shorter, its last algorithm is used.
struct GemmChoice {
  i32 algorithm = 0;
};
inline constexpr i32 kMostGemmAlgorithms = 8;
llvm::Error validate(const GemmChoice& gemm);

/// The kernels of one convolution in the gather-GEMM-scatter dataflow.
struct GmasChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  bool direct_center = false;  // true if the GEMM of the centre offset reads the features in place
  GatherSpec gather;
  ScatterSpec scatter;
  PermuteWeightsSpec permute_weights;
  GemmChoice gemm;
  std::vector<std::string> reasons;  // one sentence per decision
};

/// Chooses the kernels of a valid problem. `tuning` may be null. `rows` is the approximate number of output
/// rows, or 0 if it is unknown. If it is unknown or was not measured, the measurement with the most rows is
/// used.
GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning = nullptr,
                       i64 rows = 0);

struct FusedChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  FusedSpec fused;
  std::vector<std::string> reasons;  // one sentence per decision
};

/// The most offsets of the fused dataflow, whose masks are held in shared memory.
inline constexpr i64 kMostFusedOffsets = 4096;

/// The features of an architecture that a choice may use if the architecture has them.
struct FusedFeatures {
  bool warpgroups = true;    // wgmma
  bool programmatic = true;  // programmatic dependent launch, in which launches overlap
};

/// Chooses the kernel of a valid problem of at most kMostFusedOffsets offsets and one group. `rows` is the
/// approximate number of output rows, or 0 if it is unknown. For the CPU, whose `arch` is empty, only the
/// problem matters.
FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedFeatures means = {});

void add_sources(SourceList& list, const GmasChoice& choice);
void add_sources(SourceList& list, const FusedChoice& choice);

/// Returns the dataflow of a convolution's choice, or nothing for the choice of another op.
std::optional<Dataflow> dataflow_of(const OpChoice& choice);

/// Returns the dataflow that is expected to be faster: the fused one on the CPU, and with 16-bit types on a
/// GPU, where it measured faster on an H200. 32-bit types were not measured.
Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch);

/// Returns the candidates of a convolution, as choose_candidates() does. `wanted` is the dataflow of all
/// candidates and replaces the problem's.
llvm::Expected<std::vector<Candidate>> convolution_candidates(const ConvolutionProblem& problem,
                                                              llvm::StringRef arch,
                                                              const TuningSnapshot* tuning,
                                                              std::optional<Dataflow> wanted = {},
                                                              FusedFeatures means = {});

}  // namespace minuet
