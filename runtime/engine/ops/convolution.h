// Declares the request of gather-GEMM-scatter, and the parameters of a convolution in either dataflow.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/ops/convolution_groups.h"

namespace minuet {

/// Holds the view of a kernel map that gather-GEMM-scatter reads. A table entry is a buffer row, or -1.
struct GmasTables {
  i32* source_table = nullptr;  // The shape is [volume][sources].
  i32* query_table = nullptr;   // The shape is [volume][queries].
  GroupTables groups;           // Points to device copies of the host's grouping.
};

/// Requests one convolution by gather-GEMM-scatter.
struct GmasRequest : OpRequest {
  const GmasTables* tables = nullptr;
  /// Says whether prepare_op() fills the tables, for all ops that read them. The map must have positions.
  bool fills_tables = false;
  const GroupPlan* groups = nullptr;
  const GemmSlices* slices = nullptr;  // Divides `groups` into slices. The buffers fit the largest slice.
  void* gather_buffer = nullptr;       // The shape is [rows of a slice, in_channels].
  float* gemm_buffer = nullptr;        // Holds partial sums. The shape is [rows of a slice, out_channels].
  float* sums = nullptr;               // Holds [output_rows, out_channels] sums if needs_sums() is true.
};

/// Points to the parameters of one convolution on a device. The constructor takes them in the order of
/// parameter_images().
struct ConvolutionWeights {
  const void* weight = nullptr;  // Points to the image that the choice reads.
  const float* scale = nullptr;  // Points to [out_channels] numbers. Null means that there is no scale.
  const float* shift = nullptr;
  // The following parameters belong to the shortcut convolution, if the choice's kernel computes one too.
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
