// Describes the convolution: its problem, the dataflows that may run it, and the Specs (compile-time
// parameters) of their kernels with the reasons for them. All functions are pure.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"

namespace minuet {

/// Names the ways to run a convolution.
enum class Dataflow : i32 { GatherGemmScatter, Fused };
/// Returns "gather-gemm-scatter" or "fused".
const char* dataflow_name(Dataflow dataflow);

/// Returns the activation and the slope that stand for these. A leaky ReLU of slope 0 becomes a ReLU, because
/// multiplying minus infinity by 0 would give NaN instead of 0. Other activations get a slope of 0.
inline std::pair<Activation, float> settled_activation(Activation activation, float slope) {
  const bool is_leaky = activation == Activation::LeakyReLU && slope != 0;
  if (is_leaky) return {activation, slope};
  return {activation == Activation::LeakyReLU ? Activation::ReLU : activation, 0.0f};
}

struct ConvolutionProblem : WindowProblem {
  static const OpKind kKind;

  i32 in_channels = 0;
  i32 out_channels = 0;
  /// Counts the groups of channels. Output channel c reads the input channels of group c / (out_channels /
  /// groups), and the weights have the shape [volume, in_channels / groups, out_channels].
  i32 groups = 1;
  Columns input, output, residual_input;
  bool scale_shift = false;  // Scale and shift apply per output channel in fp32, for batch norm or bias.
  bool residual = false;     // The residual is added after scale and shift.
  // This is true for the first layer of a residual block. A kernel may then also compute the block's 1x1
  // shortcut, which has the same input, channels and scale_shift, and no activation.
  bool shortcut = false;
  Activation activation = Activation::None;
  float slope = 0;  // A leaky ReLU multiplies negative numbers by this slope.
  // This is true if the next op is a chain that computes second_activation(x * scale + shift) of the output
  // x. The kernel computes it too, and writes it as its second output. The convolution has no shortcut then.
  bool second_output = false;
  Activation second_activation = Activation::None;
  float second_slope = 0;
  // Holds the columns of the output of the next op if it is the shortcut or the chain.
  Columns covered_output;
  // The following members hold the types of the tensors whose elements are 8-bit integers (U8 or S8). The
  // others have the type `dtype`. The weights have 8 bits if the input has.
  std::optional<DType> input_type, output_type, residual_type, second_type;
  // Holds the type of the output of the shortcut. A kernel with an 8-bit input computes only a shortcut whose
  // output has 8 bits too.
  std::optional<DType> shortcut_type;
  // These factors scale the activated numbers to the integers of an 8-bit output and of an 8-bit second
  // output. They are 1 over the scale of that tensor. A kernel reads them only where scales_output() and
  // scales_second() are true. Elsewhere the parameters contain the factor.
  float output_factor = 1, second_factor = 1;
  /// Holds the dataflow that the caller requests. If it is empty, the library chooses the one that it expects
  /// to be fastest.
  std::optional<Dataflow> dataflow;
  /// If it has a value, the op computes the gradient of the input of a convolution of this kind, over the
  /// pairs of its map with input and output swapped. The caller gives the weight of that convolution
  /// (forward_of()), of which the weight of this op is the transpose.
  ///
  /// If it equals `kind`, the op reads the map in the same direction as that convolution (is_mirrored()).
  std::optional<ConvolutionKind> gradient_of;

  /// Sets activation and slope to what settled_activation() returns.
  void set_activation(Activation wanted, float wanted_slope) {
    std::tie(activation, slope) = settled_activation(wanted, wanted_slope);
  }
};

/// Returns an error with the reason if the problem has an invalid size, an impossible combination of fields,
/// or a feature that is not implemented.
llvm::Error validate(const ConvolutionProblem& problem);

// The following functions return the types of the elements of a convolution's tensors.
inline DType input_type_of(const ConvolutionProblem& problem) {
  return problem.input_type.value_or(problem.dtype);
}
inline DType output_type_of(const ConvolutionProblem& problem) {
  return problem.output_type.value_or(problem.dtype);
}
inline DType residual_type_of(const ConvolutionProblem& problem) {
  return problem.residual_type.value_or(problem.dtype);
}
inline DType second_type_of(const ConvolutionProblem& problem) {
  return problem.second_type.value_or(problem.dtype);
}
/// Returns true if a tensor of the convolution has 8-bit elements.
inline bool has_integers(const ConvolutionProblem& problem) {
  return problem.input_type || problem.output_type || problem.residual_type || problem.second_type ||
         problem.shortcut_type;
}

/// Returns true if the kernel multiplies the activated numbers by ConvolutionProblem::output_factor.
inline bool scales_output(const ConvolutionProblem& problem) {
  return problem.output_type && (!problem.input_type || !commutes_with_factors(problem.activation));
}
/// Returns true if the kernel multiplies the numbers of the second output by
/// ConvolutionProblem::second_factor.
inline bool scales_second(const ConvolutionProblem& problem) {
  return problem.second_type && !commutes_with_factors(problem.second_activation);
}

/// Returns the number of input channels of a group.
inline i32 group_inputs(const ConvolutionProblem& problem) { return problem.in_channels / problem.groups; }

/// Returns the convolution whose weight the caller gives. It is the problem itself, unless the problem is the
/// gradient of another one.
ConvolutionProblem forward_of(const ConvolutionProblem& problem);
/// Returns the gradient of the input of a convolution.
ConvolutionProblem input_gradient_of(const ConvolutionProblem& forward);
/// Returns the gradient of the input of a submanifold convolution whose set has no duplicates. If row q has
/// row p as its neighbour at an offset of a symmetric kernel, then p has q at the opposite offset. The
/// gradient is then a submanifold convolution with the weights of the opposite offsets (is_mirrored()), and
/// the view of the map that the convolution reads serves for it, too.
ConvolutionProblem input_gradient_within(const ConvolutionProblem& forward);
/// Returns true if the op computes a gradient by the weights of the opposite offsets.
inline bool is_mirrored(const ConvolutionProblem& problem) { return problem.gradient_of == problem.kind; }

/// Returns the number of weights.
inline i64 weight_numbers(const ConvolutionProblem& problem) {
  return kernel_volume(problem) * group_inputs(problem) * problem.out_channels;
}

/// Returns true if measurements choose the kernels of the problem. The buckets of measurements
/// (TuningBucket) do not know groups.
inline bool is_tunable(const ConvolutionProblem& problem) { return problem.groups == 1; }
/// Returns true if measurements choose the dataflow of the problem, too. Tensors with 8-bit elements need the
/// fused dataflow.
inline bool has_tunable_dataflow(const ConvolutionProblem& problem) {
  return is_tunable(problem) && !has_integers(problem);
}

/// Returns InvalidArgument unless the groups divide the input and the output channels.
llvm::Error check_groups(const ConvolutionProblem& problem);

/// Returns an error with the reason if the dataflow cannot run the problem.
llvm::Error check_dataflow(const ConvolutionProblem& problem, Dataflow dataflow);

/// Returns true if the GEMM of the centre offset reads the features in place, without a gather. This requires
/// a map of a coordinate set onto itself, whose centre offset pairs every row with itself, and a type whose
/// operands need no rounding, because the gather does the rounding.
inline bool reads_center_in_place(bool onto_itself, DType dtype) {
  return onto_itself && !rounds_operands(dtype);
}

/// Returns the number of the offset whose GEMM reads the features in place, or -1 if there is none. `offsets`
/// is that of WindowProblem.
i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry, const OffsetList& offsets);

/// Returns the number of channels that a thread of gather or scatter moves at once without tuning. It is the
/// greatest divisor of `channels` that also divides the number of elements in kWidestAccess bytes.
i32 default_tile(i32 element_bytes, i32 channels);

/// Holds the cuBLASLt algorithm for a layer's GEMMs, as an index into the list that cuBLASLt returns for each
/// GEMM. cuBLASLt expects the first algorithm of a list to be fastest. A GEMM with a shorter list uses the
/// last algorithm of its list.
struct GemmChoice {
  i32 algorithm = 0;
};
inline constexpr i32 kMostGemmAlgorithms = 8;
llvm::Error validate(const GemmChoice& gemm);

/// Describes the kernels of one convolution in the gather-GEMM-scatter dataflow.
struct GmasChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  bool direct_center = false;  // This is true if the GEMM of the centre offset reads the features in place.
  GatherSpec gather;
  ScatterSpec scatter;
  PermuteWeightsSpec permute_weights;
  GemmChoice gemm;
  std::vector<std::string> reasons;  // Gives the reason for each decision in a sentence.
};

/// Gives the reason for a second output in a choice.
inline constexpr const char* kSecondOutputReason =
    "the kernel also writes the result of the chain behind the convolution, as a second output";

/// Chooses the kernels of a valid problem. `tuning` may be null. `rows` is the approximate number of output
/// rows, or 0 if it is unknown. If the number is unknown or was not measured, the measurement with the most
/// rows is used.
GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning = nullptr,
                       i64 rows = 0);

struct FusedChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  FusedSpec fused;  // Describes one launch, which computes a part of the channels (launches_of()).
  std::vector<std::string> reasons;  // Gives the reason for each decision in a sentence.
};

/// Returns the number of launches that compute the layer. A launch computes one group of channels or several,
/// and the launches process consecutive channels. Without groups, there is one launch.
inline i32 launches_of(const FusedChoice& choice) {
  return choice.problem.out_channels / choice.fused.out_channels;
}

/// The fused dataflow runs kernels of at most this many offsets, because shared memory holds masks with a bit
/// for each offset.
inline constexpr i64 kMostFusedOffsets = 4096;

/// Says which features a choice may use if the architecture has them.
struct FusedFeatures {
  bool warpgroups = true;    // Warpgroups may compute products (wgmma).
  bool programmatic = true;  // Launches may overlap (programmatic dependent launch).
};

/// Chooses the kernel of a valid problem of at most kMostFusedOffsets offsets. `rows` is the
/// approximate number of output rows, or 0 if it is unknown. The CPU, whose `arch` is empty, uses only the
/// member `problem` of the result.
FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedFeatures means = {});

void add_sources(SourceList& list, const GmasChoice& choice);
void add_sources(SourceList& list, const FusedChoice& choice);

/// Returns the dataflow of a convolution's choice, or nothing for the choice of another op.
std::optional<Dataflow> dataflow_of(const OpChoice& choice);

/// Returns the dataflow that is expected to be faster. It is the fused one on the CPU, and on a GPU for
/// 16-bit types, for which it was faster in measurements on an H200. 32-bit types were not measured. The
/// fused dataflow is never chosen for more than kMostFusedOffsets offsets, and always for several groups and
/// for 8-bit tensors.
Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch);

/// Returns the candidates of a convolution, as choose_candidates() does. If `wanted` has a dataflow, all
/// candidates use it. The member problem.dataflow is not read.
llvm::Expected<std::vector<Candidate>> convolution_candidates(const ConvolutionProblem& problem,
                                                              llvm::StringRef arch,
                                                              const TuningSnapshot* tuning,
                                                              std::optional<Dataflow> wanted = {},
                                                              FusedFeatures means = {});

}  // namespace minuet
