// Computes the gradients of the parameters of affine steps (gradient_step.h).
#include <algorithm>

#include "runtime/cuda/gradient_step.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Divides the workspace.
struct AffinePlaces {
  float *measures = nullptr, *products = nullptr, *sums = nullptr;
  i64 bytes = 0;

  AffinePlaces(const AffineGradientProblem& problem, i64 most_rows, char* base) {
    // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
    Placement places(base, /*idle=*/false);
    const i64 numbers = row_pieces(most_rows) * problem.channels;
    if (problem.scale && problem.normalizes()) measures = places.take<float>(2 * most_rows);
    if (problem.scale) products = places.take<float>(numbers);
    sums = places.take<float>(numbers);
    bytes = places.bytes();
  }
};

}  // namespace

i64 affine_gradient_bytes(const AffineGradientChoice& choice, i64 most_rows) {
  return AffinePlaces(choice.problem, most_rows, nullptr).bytes;
}

llvm::Error GradientStep::add_sums(const AffineGradientRequest& request, float* sums, float* gradient) {
  const AffineGradientChoice& choice = *request.choice;
  MINUET_ASSIGN(const Kernel<SumRowsParams> kernel, row_sums_.find(launcher_, choice.row_sums));
  SumRowsParams params = {};
  params.rows = request.rows;
  params.count = request.row_count;
  params.channels = choice.problem.channels;
  params.sums = sums;
  params.bias_gradient = gradient;
  params.adds = request.adds ? 1 : 0;
  return launcher_.launch_stride(kernel, i64{params.channels} * choice.row_sums.threads, params);
}

llvm::Error GradientStep::compute(const AffineGradientRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  const AffineGradientChoice& choice = *request.choice;
  const AffineGradientProblem& problem = choice.problem;
  const AffinePlaces places(problem, request.rows, static_cast<char*>(request.workspace));
  const i64 items = row_pieces(request.rows) * ceil_div(problem.channels, choice.rows.columns);
  if (!problem.scale) {
    MINUET_ASSIGN(const Kernel<SumRowsParams> kernel, rows_.find(launcher_, choice.rows));
    SumRowsParams params = {};
    params.gradient = request.gradient;
    params.rows = request.rows, params.ld = request.gradient_ld;
    params.count = request.row_count;
    params.channels = problem.channels;
    params.sums = places.sums;
    MINUET_TRY(launcher_.launch_stride(kernel, items * choice.rows.threads, params));
    return add_sums(request, places.sums, request.shift_gradient);
  }
  SumProductsParams params = {};
  params.input = request.input, params.input_ld = request.input_ld;
  params.gradient = request.gradient, params.gradient_ld = request.gradient_ld;
  params.rows = request.rows;
  params.count = request.row_count;
  params.channels = problem.channels;
  params.epsilon = problem.epsilon;
  params.measures = places.measures;
  params.products = places.products, params.sums = places.sums;
  if (problem.normalizes()) {
    MINUET_ASSIGN(const Kernel<SumProductsParams> measure, measure_.find(launcher_, choice.measure));
    MINUET_TRY(launcher_.launch_stride(measure, request.rows * 32, params));
  }
  MINUET_ASSIGN(const Kernel<SumProductsParams> kernel, products_.find(launcher_, choice.products));
  MINUET_TRY(launcher_.launch_stride(kernel, items * choice.products.threads, params));
  MINUET_TRY(add_sums(request, places.products, request.scale_gradient));
  return problem.shift ? add_sums(request, places.sums, request.shift_gradient) : llvm::Error::success();
}

}  // namespace minuet
