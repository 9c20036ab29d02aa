// Implements pooling on the GPU, with one launch per layer.
#pragma once

#include "runtime/cuda/ops.h"
#include "runtime/engine/engine.h"

namespace minuet {

/// Returns the parameters that a pooling and its gradient have in common. Params is PoolParams or
/// PoolGradientParams.
template <class Params>
Params pool_params(const NeighbourRequest& request, i32 volume) {
  Params params = {};
  params.input = request.input;
  params.input_ld = request.input_ld;
  params.rows = request.view.rows;
  params.output_count = request.output_count;
  params.output_rows = request.output_rows;
  params.volume = volume;
  params.pads_output = request.pads_output ? 1 : 0;
  params.output = request.output;
  params.output_ld = request.output_ld;
  params.overflow = request.overflow;
  params.overflow_mark = request.overflow_mark;
  return params;
}

/// Makes the object that runs all ops with a PoolChoice.
std::unique_ptr<CudaOps> make_pooling(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
