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
/// Gives the greatest number of jobs of one launch of this kernel and of fold_batch_norms.
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

/// Names how make_weight_images reads a weight. Only `Elements` suits every weight.
enum class ImageRead : i32 {
  Elements,  // Reads one element at a time.
  Outputs,   // Reads two neighbouring output channels at once.
  Inputs     // Reads neighbouring input channels at once.
};

/// Says how the threads of make_weight_images share an image. If the weight is read by elements, a thread
/// writes the same vector of kImageStages consecutive stages, and the other fields are 0. Otherwise, an
/// offset has whole steps, and the stage of a step has pieces of 64 bytes of the depth, of which the last one
/// may have 32. A thread writes its share of kImagePieces consecutive pieces.
struct ImageShares {
  ImageRead read;
  bool ends_with_half;  // Says whether the last piece of a stage has 32 bytes.
  i32 pieces;           // Gives the number of pieces of a stage.
  i32 parts;            // Gives the number of parts of kImagePieces pieces of a stage.
  i32 offset_steps;     // Gives the number of steps of an offset.
};
constexpr i32 kImageStages = 4, kImagePieces = 2;

/// Describes one image of weights (FusedImage) that make_weight_images writes.
struct WeightImageJob {
  const void* weight;
  void* image;  // Receives fused_image_bytes(layout) bytes and is aligned to 16 bytes.
  FusedImage layout;
  FusedImageShape shape;  // Holds fused_image_shape(layout).
  // The strides count elements of the weight. An offset is a place in the axes of the kernel, of which the
  // last one is the fastest.
  i32 kernel_rank;  // Gives the number of axes of the kernel. It must be at least 1.
  i32 kernel_shape[kMaxDim];
  i64 kernel_strides[kMaxDim];
  i64 in_stride;       // Applies to the input channels of a group.
  i64 out_stride;      // Applies to the output channels, which all launches number together.
  DType stored;        // Gives the type of the weight's elements: F32, or storage_type(layout.io).
  ImageShares shares;  // Holds image_shares() of the other fields.
};

/// Returns the fastest way to read the weight of the job.
MINUET_HD ImageRead image_read(const WeightImageJob& job) {
  const FusedImage& layout = job.layout;
  const bool has_offsets = job.shape.offset_bits < 0 && layout.groups == 1 && layout.launches == 1;
  if (!has_offsets || layout.out_channels % 2 != 0) return ImageRead::Elements;
  const i64 bytes = dtype_bytes(job.stored), per_word = 4 / dtype_bytes(layout.io), most = 0x7fffffff;
  i64 places = reinterpret_cast<i64>(job.weight);
  for (i32 axis = 0; axis < job.kernel_rank; ++axis) {
    if (job.kernel_shape[axis] > 1) places |= job.kernel_strides[axis] * bytes;
  }
  // Distances within an offset are computed in 32 bits.
  const i64 row = job.in_stride * bytes, column = job.out_stride * bytes;
  const bool is_narrow = row <= most / layout.in_channels && column <= most / layout.out_channels;
  if (!is_narrow) return ImageRead::Elements;
  if (job.out_stride == 1 && (places | row) % (2 * bytes) == 0) return ImageRead::Outputs;
  // Two words of the image are read at once.
  const bool has_words = job.in_stride == 1 && job.stored == DType::F32 &&
                         layout.in_channels % (2 * per_word) == 0 && (places | column) % (8 * per_word) == 0;
  return has_words ? ImageRead::Inputs : ImageRead::Elements;
}

MINUET_HD ImageShares image_shares(const WeightImageJob& job) {
  const ImageRead read = image_read(job);
  if (read == ImageRead::Elements) return {read, false, 0, 0, 0};
  const i32 step_bytes = job.layout.step * dtype_bytes(job.layout.io), pieces = (step_bytes + 63) / 64;
  return {read, step_bytes % 64 != 0, pieces, (pieces + kImagePieces - 1) / kImagePieces,
          job.shape.offset_depth / job.layout.step};
}

/// Returns the job that makes an image of a weight in the storage type of the image, whose elements lie side
/// by side in the order [volume][in_channels / groups][launches * out_channels].
MINUET_HD WeightImageJob stored_image_job(const FusedImage& layout, const void* weight, void* image) {
  WeightImageJob job = {};
  job.weight = weight, job.image = image;
  job.layout = layout, job.shape = fused_image_shape(layout);
  job.out_stride = 1;
  job.in_stride = static_cast<i64>(layout.launches) * layout.out_channels;
  job.kernel_rank = 1;
  job.kernel_shape[0] = layout.volume;
  job.kernel_strides[0] = fused_group_inputs(layout) * job.in_stride;
  job.stored = storage_type(layout.io);
  job.shares = image_shares(job);
  return job;
}

/// Counts the threads of the job, which are a multiple of a warp. Unless single elements are read, four lanes
/// share two output channels of a part.
MINUET_HD constexpr i64 image_items(const WeightImageJob& job) {
  const i64 stages = job.shape.stages;
  if (job.shares.read == ImageRead::Elements) {
    return (stages + kImageStages - 1) / kImageStages * job.shape.stage_vectors;
  }
  return stages * job.shares.parts * job.layout.columns * 2;
}

struct MakeWeightImagesSpec {
  i32 element_bytes = 2;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("element_bytes", element_bytes), visitor("threads", threads);
  }
};
constexpr i32 kMostImageJobs = 185;

struct MakeWeightImagesParams {
  WeightImageJob jobs[kMostImageJobs];
  i64 starts[kMostImageJobs + 1];  // Counts image_items().
  i32 count;
};
static_assert(sizeof(MakeWeightImagesParams) <= kMostParameterParams);

}  // namespace minuet
