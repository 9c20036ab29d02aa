// This file declares the Spec (compile time) and Params (run time) of the kernels that take parameters from
// arrays of the caller, fold batch norms, and write the images of weights. All pointers are device pointers.
//
// Each launch processes many jobs, whose items are numbered one job after the other: starts[j] is the number
// of items of the jobs before j. The jobs are part of the Params, so that a CUDA graph that captures a launch
// holds them too. Params of up to 32,764 bytes need CUDA 12.1 and sm_70.
#pragma once

#include "kernels_templates/shared/fused_image.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Names the element types of a caller's array from which parameters may be taken. The values are those of
/// the ABI (minuet_element).
enum class ArrayElement : i32 { F32 = 0, F16 = 2, BF16 = 3, F64 = 4 };

constexpr i32 kMaxArrayAxes = 6;
/// A copy reads at most this many axes: those of a kernel, and the input of a group, the group and the output
/// of a group of a weight that is transposed.
constexpr i32 kMostCopyAxes = kMaxDim + 3;

/// A thread of copy_parameters handles this many consecutive elements of the target at once.
constexpr i32 kCopyPiece = 8;

/// Describes one parameter that copy_parameters converts and stores. The target is contiguous, and its last
/// axis is the fastest one.
struct ParameterCopy {
  const void* source;
  void* target;
  /// Receives the numbers in fp32 before they are rounded to `dtype`. It may be null.
  float* master;
  i64 elements;                // Gives the number of elements, which is the product of the extents.
  i64 strides[kMostCopyAxes];  // Holds the source's strides in elements, one for each axis of `shape`.
  i32 shape[kMostCopyAxes];    // Holds the extents, which must be at least 1.
  // Small fields are packed, so that more jobs fit into a launch.
  i32 rank : 8;              // Gives the number of axes in use. It must be at least 1.
  ArrayElement element : 8;  // Gives the type of the source's elements.
  DType dtype : 8;           // Numbers are rounded to this type,
  DType storage : 8;         // and stored in this one, which holds them exactly.
};

MINUET_HD constexpr i64 copy_pieces(const ParameterCopy& copy) {
  return (copy.elements + kCopyPiece - 1) / kCopyPiece;
}

struct CopyParametersSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
/// Gives the greatest number of jobs of one launch, here and below.
constexpr i32 kMostParameterJobs = 255;
constexpr i32 kMostParameterParams = 32764;

struct CopyParametersParams {
  ParameterCopy jobs[kMostParameterJobs];
  i64 starts[kMostParameterJobs + 1];  // Counts pieces of kCopyPiece elements.
  i32 count;
};
static_assert(sizeof(CopyParametersParams) <= kMostParameterParams);

/// Describes one batch norm that fold_batch_norms folds into the scale and shift of its convolution. Every
/// array has `channels` elements. A null pointer means that the batch norm or the convolution lacks the
/// parameter: the weight is then 1, and the other numbers are 0. Without a batch norm, `variance` is null.
/// The scale then becomes the weight, and the shift becomes the convolution's bias times the weight, plus the
/// bias.
struct BatchNormFold {
  const float* weight;
  const float* bias;
  const float* mean;
  const float* variance;
  const float* convolution_bias;
  float* scale;
  float* shift;
  double epsilon;
  i64 channels;
};

struct FoldBatchNormsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct FoldBatchNormsParams {
  BatchNormFold jobs[kMostParameterJobs];
  i64 starts[kMostParameterJobs + 1];  // Counts channels.
  i32 count;
};
static_assert(sizeof(FoldBatchNormsParams) <= kMostParameterParams);

/// Holds one channel's scale and shift, with the rounding of fp32 still to come.
struct FoldedChannel {
  double scale, shift;
};

/// Returns a * b, rounded once. A device compiler would otherwise fuse the product with a sum that follows.
MINUET_HD double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
MINUET_HD double square_root(double value) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(value);
#else
  return __builtin_sqrt(value);
#endif
}

/// Folds one channel of a batch norm. The convolution adds its own bias, `before`, ahead of the batch norm.
/// Therefore bn(sum + before) = sum * scale + (before - mean) * scale + bias. Hosts and devices return the
/// same bits, except those of NaN.
MINUET_HD FoldedChannel fold_channel(float weight, float bias, float mean, float variance, float before,
                                     double epsilon) {
  const double scale = weight / square_root(static_cast<double>(variance) + epsilon);
  return {scale, bias - rounded_product(static_cast<double>(mean) - before, scale)};
}

/// Computes the scale and shift of channel `c`.
MINUET_HD void fold_batch_norm(const BatchNormFold& fold, i64 c) {
  const float before = fold.convolution_bias != nullptr ? fold.convolution_bias[c] : 0.0f;
  const float weight = fold.weight != nullptr ? fold.weight[c] : 1.0f;
  const float bias = fold.bias != nullptr ? fold.bias[c] : 0.0f;
  // A variance of 1, a mean of 0 and an epsilon of 0 change nothing.
  const bool has_norm = fold.variance != nullptr;
  const FoldedChannel folded =
      fold_channel(weight, bias, has_norm ? fold.mean[c] : 0.0f, has_norm ? fold.variance[c] : 1.0f, before,
                   has_norm ? fold.epsilon : 0.0);
  fold.scale[c] = static_cast<float>(folded.scale);
  fold.shift[c] = static_cast<float>(folded.shift);
}

/// Describes one image of weights (FusedImage) that make_weight_images writes.
struct WeightImageJob {
  /// Has the shape [volume][in_channels / groups][launches * out_channels], in the type of the image.
  const void* weight;
  void* image;  // Receives fused_image_bytes(layout) bytes and is aligned to 16 bytes.
  FusedImage layout;
  FusedImageShape shape;  // Holds fused_image_shape(layout).
};

/// A thread of make_weight_images writes the same vector of this many consecutive stages.
constexpr i32 kImageStages = 4;
MINUET_HD constexpr i64 image_items(const WeightImageJob& job) {
  return static_cast<i64>((job.shape.stages + kImageStages - 1) / kImageStages) * job.shape.stage_vectors;
}

struct MakeWeightImagesSpec {
  i32 element_bytes = 2;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("element_bytes", element_bytes), visitor("threads", threads);
  }
};
struct MakeWeightImagesParams {
  WeightImageJob jobs[kMostParameterJobs];
  i64 starts[kMostParameterJobs + 1];  // Counts image_items().
  i32 count;
};
static_assert(sizeof(MakeWeightImagesParams) <= kMostParameterParams);

}  // namespace minuet
