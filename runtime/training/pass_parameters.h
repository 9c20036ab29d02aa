// Brings the parameters that a caller gives to one pass into the forms that kernels read, in the workspace of
// the pass.
#pragma once

#include "runtime/execution/execution.h"
#include "runtime/training/training_passes.h"
#include "runtime/weights/given_weight.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Returns the address of a vector of fp32 numbers, one for each channel. Returns InvalidArgument if the
/// array is not such a vector, or if its elements are not side by side.
llvm::Expected<float*> vector_in(const GivenArray& array, WeightsOrder order, const PlanParameter& parameter);

/// Says where the elements of a weight are in the array of the last call. The usual caller gives arrays of
/// the same shapes in each call, so that find() need not search again.
struct FoundWeight {
  /// Returns InvalidArgument if the array does not fit the weight of the convolution that `problem` returns.
  llvm::Error find(const GivenArray& array, WeightsOrder order,
                   llvm::function_ref<ConvolutionProblem()> problem, const PlanParameter& parameter);

  GivenWeight place;

 private:
  WeightsOrder order_ = WeightsOrder::Minuet;
  llvm::SmallVector<i64, kMaxArrayAxes> shape_, strides_;
};

/// Describes an image of a weight that the forward pass makes for the backward pass, so that a step reads the
/// caller's weight once. The forward pass keeps it, unless the backward pass computes layers again so that
/// little is kept.
struct KeptImage {
  i32 weight = 0;              // Is a number in the list of the network's parameters.
  ConvolutionProblem problem;  // Is the op of the backward pass that reads the image.
  FusedImage layout;
};
/// Returns the images that the forward pass keeps for the backward pass, in the order of their memory. `plan`
/// is the backward pass's plan, and `forward` runs the forward pass on the same pyramid.
std::vector<KeptImage> find_kept_images(const CompiledPlan& plan, const TrainingPasses& passes,
                                        const Execution& forward);

class PassParameters {
 public:
  /// `uses` has an element for each layer of the program that `execution` runs. `to_keep` is
  /// find_kept_images() in the forward pass, and empty in the backward pass.
  PassParameters(const Execution& execution, llvm::ArrayRef<LayerUse> uses, const TrainingPasses& passes,
                 std::vector<KeptImage> to_keep);
  void place(Placement& parts, Placement& kept);
  /// Takes the arrays of all parameters. They are read by enqueue().
  llvm::Error take(llvm::ArrayRef<GivenArray> values, WeightsOrder order);
  /// Adds a copy of fp32 numbers to the work of enqueue(). Call it after take().
  void copy_floats(const float* source, float* target, i64 count);
  llvm::Error enqueue();
  /// Returns pointers to the parameters of a layer, in the order of parameter_images().
  llvm::ArrayRef<const void*> of(i32 layer) const { return layers_[layer].pointers; }
  /// Returns the address of as many numbers 1 as any vector has. The next enqueue() writes them.
  const float* ones() {
    reads_ones_ = true;
    return ones_;
  }

 private:
  struct Layer {
    LayerUse use;
    std::vector<ParameterImage> images;
    FoundWeight given_weight;
    // Is the size of the stored weight, whose elements are in Minuet's order. It is 0 if nothing reads it,
    // because all images are made from the array of the caller.
    i64 weight_bytes = 0;
    char* weight = nullptr;
    struct Image {
      FusedImage layout;
      char* memory = nullptr;
    };
    llvm::SmallVector<Image, 1> fused;
    bool reads_kept = false;            // Says whether the forward pass has made the images.
    llvm::SmallVector<i32, 1> to_keep;  // Lists the elements of to_keep_ of the layer's weight.
    float *scale = nullptr, *shift = nullptr;
    std::vector<const void*> pointers;
  };

  llvm::Error take_vector(Layer& layer, ParameterPart part, i32 number, float* memory,
                          llvm::ArrayRef<GivenArray> values, WeightsOrder order);

  const Execution& execution_;
  const llvm::ArrayRef<PlanParameter> parameters_;
  const DType dtype_, weight_type_;
  std::vector<Layer> layers_;
  const std::vector<KeptImage> to_keep_;
  std::vector<char*> kept_memory_;  // Has an element for each of to_keep_.
  i64 most_channels_ = 1;
  float *ones_ = nullptr, *zeros_ = nullptr;
  bool reads_ones_ = false, reads_zeros_ = false;  // Say whether anything reads these numbers.
  std::vector<ParameterCopy> copies_;
  std::vector<WeightImageJob> jobs_;
};

}  // namespace minuet
