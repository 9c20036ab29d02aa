// Brings the parameters that a caller gives to one pass into the forms that kernels read, in the workspace of
// the pass or in the memory that the forward pass keeps.
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

/// Describes an image of a weight that the forward pass makes and keeps for the backward pass, which then
/// does not read the caller's weight again.
struct KeptImage {
  i32 layer = 0;               // Is the layer of the backward pass that reads the image.
  i32 weight = 0;              // Is a number in the list of the network's parameters.
  ConvolutionProblem problem;  // Is the op of the layer.
  FusedImage layout;
  i64 bytes = 0;  // Suffices for the images of the kernels for fewer rows, too, so that it grows with them.
};
/// Returns the images that the forward pass keeps, in the order of their memory. `backward` is the plan of
/// the backward pass, and `execution` runs one of the passes on the pyramid. If the backward pass computes
/// any layer again, there are none: it then makes the images itself, so that less is kept.
std::vector<KeptImage> find_kept_images(const CompiledPlan& backward, const TrainingPasses& passes,
                                        const Execution& execution);
/// Returns Internal if the kernels that an execution of the backward pass has selected read other images.
llvm::Error check_kept_images(llvm::ArrayRef<KeptImage> kept, const Execution& backward);

class PassParameters {
 public:
  /// `uses` has an element for each layer of the program that `execution` runs. The forward pass makes the
  /// images `kept`, and the backward pass reads them.
  PassParameters(const Execution& execution, llvm::ArrayRef<LayerUse> uses, const TrainingPasses& passes,
                 std::vector<KeptImage> kept, bool is_forward);
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
    // Lists the elements of kept_ that the layer reads in the backward pass, or that are made of its weight
    // in the forward pass.
    llvm::SmallVector<i32, 1> kept;
    float *scale = nullptr, *shift = nullptr;
    std::vector<const void*> pointers;
  };

  llvm::Error take_vector(Layer& layer, ParameterPart part, i32 number, float* memory,
                          llvm::ArrayRef<GivenArray> values, WeightsOrder order);

  const Execution& execution_;
  const llvm::ArrayRef<PlanParameter> parameters_;
  const DType dtype_, weight_type_;
  std::vector<Layer> layers_;
  const std::vector<KeptImage> kept_;
  std::vector<char*> kept_memory_;  // Has an element for each of kept_.
  const bool is_forward_;
  i64 most_channels_ = 1;
  float *ones_ = nullptr, *zeros_ = nullptr;
  bool reads_ones_ = false, reads_zeros_ = false;  // Say whether anything reads these numbers.
  std::vector<ParameterCopy> copies_;
  std::vector<WeightImageJob> jobs_;
};

}  // namespace minuet
