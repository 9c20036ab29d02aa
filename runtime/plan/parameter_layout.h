// Says where the values of a plan's parameters lie in one block of device memory, and makes the jobs that
// bring the caller's arrays there.
//
// The block has each weight in the type in which kernels read it, in the order [volume, in_channels,
// out_channels], and each vector in fp32. It also has what is computed from them: the scales and shifts of
// convolutions, into which batch norms are folded. Images of weights (WeightImage) are not part of it.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/arena.h"
#include "runtime/plan/compiled_plan.h"
#include "runtime/weights/given_array.h"
#include "runtime/weights/given_weight.h"
#include "runtime/weights/weight_image.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Gives a new value to one parameter.
struct ParameterValue {
  i32 parameter = 0;
  GivenArray array;
};

inline bool is_weight(const PlanParameter& parameter) { return parameter.role == ParameterRole::Weight; }

/// Names a candidate that an execution has selected.
struct CandidateSelection {
  std::size_t layer = 0, candidate = 0;
};

/// Describes an image of the weight of a layer.
struct LayerImage {
  std::size_t layer = 0;
  FusedImage layout;

  bool operator==(const LayerImage&) const = default;
};

class ParameterLayout {
 public:
  /// Returns whether the block has the weight of a layer.
  using StoresWeight = llvm::function_ref<bool(std::size_t layer)>;
  /// If `keeps_master` is true, the block also has the fp32 numbers of weights, before they are rounded.
  ParameterLayout(const LoadedPlan& loaded, bool keeps_master, StoresWeight stores_weight);

  i64 bytes() const { return bytes_; }
  const Program& program() const { return loaded_.plan->program; }
  /// Returns the plan's parameters (Plan::parameter_list()).
  llvm::ArrayRef<PlanParameter> parameters() const { return parameters_; }
  std::size_t layers() const { return layers_.size(); }
  const ProgramLayer& layer_of(const PlanParameter& parameter) const;
  /// Returns the number of the parameter that is the layer's weight.
  i32 weight_number(std::size_t layer) const { return layers_[layer].first; }
  /// Returns the type in which the block has the parameter's numbers.
  DType storage_of(const PlanParameter& parameter) const;
  i64 master_offset(i32 parameter) const { return stored_[parameter].master_offset; }
  i64 offset(i32 parameter) const { return stored_[parameter].offset; }

  // In the next functions, `block` is the address of the block.

  /// Returns the address of a layer's weight, or null if the block does not have it.
  const char* weight_at(std::size_t layer, const char* block) const {
    return at(stored_[layers_[layer].first].offset, block);
  }
  /// Returns where the elements of a weight are in the array, in the axes of the convolution that the layer
  /// computes.
  llvm::Expected<GivenWeight> find_weight_in(const ParameterValue& value, WeightsOrder order) const;
  /// Returns the job that stores a value.
  llvm::Expected<ParameterCopy> copy_of(const ParameterValue& value, WeightsOrder order, char* block) const;
  /// Returns the jobs that compute what depends on the vectors of a layer.
  void add_folds(std::size_t layer, char* block, std::vector<BatchNormFold>& folds) const;

  /// Returns the images that the candidates read, each once.
  std::vector<LayerImage> images_of(llvm::ArrayRef<CandidateSelection> selections) const;
  /// Returns, for each selection, pointers to its parameters in the order of parameter_images(). `image_at`
  /// returns the address of an image.
  std::vector<std::vector<const void*>> pointers_of(
      llvm::ArrayRef<CandidateSelection> selections, const char* block,
      llvm::function_ref<const void*(const LayerImage&)> image_at) const;

 private:
  /// Describes the stored value of a parameter. An offset is -1 if the block does not have the numbers.
  /// Without master numbers, the stored ones serve as such.
  struct Stored {
    i64 offset = -1, master_offset = -1;
  };
  /// Holds the places of a layer's parameters, or -1 where the layer has none.
  struct Layer {
    i32 first = -1, end = -1;  // The layer's parameters are [first, end) of parameters_.
    i64 scale = -1, shift = -1;
    // Lists the parts of `scale` and `shift` that are computed from a batch norm. The parts of a chain are
    // its Affine steps. The scale and shift of a convolution are one part, with the number 0.
    std::vector<i32> folded;
  };

  static char* at(i64 offset, char* block) { return offset < 0 ? nullptr : block + offset; }
  static const char* at(i64 offset, const char* block) { return offset < 0 ? nullptr : block + offset; }
  DType dtype_of(const PlanParameter& parameter) const;
  void place_chain(std::size_t layer, ArenaLayout& layout);
  BatchNormFold fold_of(std::size_t layer, i32 affine, char* block) const;
  std::vector<ParameterImage> read_by(const CandidateSelection& selection) const;

  const LoadedPlan& loaded_;
  const DType weight_type_;
  const std::vector<PlanParameter> parameters_;
  std::vector<Layer> layers_;
  std::vector<Stored> stored_;
  i64 bytes_ = 0;
};

/// Returns where the elements of a parameter of this shape are if they lie one behind the other.
GivenWeight contiguous_weight(llvm::ArrayRef<int64_t> shape);

}  // namespace minuet
