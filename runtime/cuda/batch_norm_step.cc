#include "runtime/cuda/batch_norm_step.h"

namespace minuet {
namespace {

/// Finds the kernel of `spec` and launches it with `items` items, each of which takes all threads of a block.
/// The kernels write sums, statistics, gradients of weight and bias, and rows of features. A fused
/// convolution reads none of these early (FusedParams::reads_early).
template <class Spec, class Params>
llvm::Error launch_items(Launcher& launcher, FoundKernels<Spec>& kernels, const Spec& spec, i64 items,
                         const Params& params) {
  MINUET_ASSIGN(const Kernel<Params> kernel, kernels.find(launcher, spec));
  MINUET_TRY(launcher.launch_stride(kernel, items * spec.threads, params));
  launcher.allow_early_reads();
  return llvm::Error::success();
}

/// Returns the largest number of items of a kernel that sums pieces.
template <class Spec>
i64 piece_items(const Spec& spec, const NormShape& shape) {
  return most_norm_pieces(shape.rows) * norm_groups(spec, shape.channels);
}
/// Returns the number of items of a kernel that normalizes all rows.
template <class Spec>
i64 row_items(const Spec& spec, const NormShape& shape) {
  return norm_blocks(spec, shape.rows) * norm_groups(spec, shape.channels);
}

}  // namespace

llvm::Error BatchNormStep::forward(const BatchNormChoice& choice, NormSteps steps,
                                   const BatchNormParams& params) {
  MINUET_TRY(launcher_.mark(Stage::Gather));
  const NormShape& shape = params.shape;
  if (steps != NormSteps::Apply)
    MINUET_TRY(launch_items(launcher_, sum_, choice.sum, piece_items(choice.sum, shape), params));
  MINUET_TRY(
      launch_items(launcher_, finish_, choice.finish, ceil_div(shape.channels, kFinishedChannels), params));
  if (steps == NormSteps::Sum) return llvm::Error::success();
  // The kernel counts the batch even if there are no rows.
  return launch_items(launcher_, normalize_, choice.normalize, row_items(choice.normalize, shape), params);
}

llvm::Error BatchNormStep::backward(const BatchNormChoice& choice, NormSteps steps,
                                    const BatchNormGradientParams& params) {
  MINUET_TRY(launcher_.mark(Stage::Gather));
  const NormShape& shape = params.shape;
  if (steps != NormSteps::Apply) {
    MINUET_TRY(launch_items(launcher_, sum_gradients_, choice.sum_gradients,
                            piece_items(choice.sum_gradients, shape), params));
    MINUET_TRY(launch_items(launcher_, finish_gradients_, choice.finish_gradients,
                            ceil_div(shape.channels, kFinishedChannels), params));
  }
  if (steps == NormSteps::Sum || shape.rows == 0) return llvm::Error::success();
  BatchNormGradientParams masked = params;
  masked.is_first = steps == NormSteps::Apply ? 1 : 0;
  if (choice.problem.mask() == ReluMask::Output) masked.out_gradient = params.residual_gradient;
  return launch_items(launcher_, normalize_gradients_, choice.normalize_gradients,
                      row_items(choice.normalize_gradients, shape), masked);
}

}  // namespace minuet
