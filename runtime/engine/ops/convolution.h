// Requests and parameters of convolutions, for each dataflow.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/ops/convolution_groups.h"

namespace minuet {

/// The view of a kernel map that gather-GEMM-scatter reads.
struct GmasTables {
  i32* source_table = nullptr;  // [volume][sources] buffer row or -1
  i32* query_table = nullptr;   // [volume][queries] buffer row or -1
  GroupTables groups;           // device copies of the host's grouping
};

/// The request of gather-GEMM-scatter.
struct GmasRequest : OpRequest {
  const GmasTables* tables = nullptr;
  bool fills_tables = false;  // prepare fills them, for all ops that read them; the map must have positions
  const GroupPlan* groups = nullptr;
  const GemmSlices* slices = nullptr;  // of `groups`; the buffers fit the largest slice
  void* gather_buffer = nullptr;       // [rows of a slice, in_channels]
  float* gemm_buffer = nullptr;        // [rows of a slice, out_channels] partial sums
  float* sums = nullptr;               // [output_rows, out_channels]; used only if needs_sums()
};

/// Parameters of one convolution on a device, in the order of parameter_images().
struct ConvolutionWeights {
  const void* weight = nullptr;  // in the image that the choice reads
  const float* scale = nullptr;  // [out_channels], or null if the problem has none
  const float* shift = nullptr;
  // Parameters of the shortcut convolution, if the choice's kernel computes one too.
  const void* shortcut_weight = nullptr;
  const float* shortcut_scale = nullptr;
  const float* shortcut_shift = nullptr;

  ConvolutionWeights() = default;
  explicit ConvolutionWeights(llvm::ArrayRef<const void*> parameters) {
    const auto at = [&](std::size_t i) { return i < parameters.size() ? parameters[i] : nullptr; };
    weight = at(0), shortcut_weight = at(3);
    scale = static_cast<const float*>(at(1)), shift = static_cast<const float*>(at(2));
    shortcut_scale = static_cast<const float*>(at(4)), shortcut_shift = static_cast<const float*>(at(5));
  }
};

}  // namespace minuet
