// Finds the tensors of the forward pass that the backward pass reads. Most of them are kept from the forward
// pass, and others are computed again.
#pragma once

#include "runtime/training/training_passes.h"

namespace minuet {

class KeptTensors {
 public:
  /// Appends to `pass` what it reads of the forward pass. Both must outlive this object.
  KeptTensors(TrainingPasses& passes, BackwardPass& pass);
  /// Returns the tensor of the backward pass that holds a tensor of the forward pass. If the tensor lies
  /// inside a segment that is computed again, the steps that compute it are appended to the pass.
  i32 get(i32 tensor);
  /// Returns the name of the layer or the input that computes a tensor of the forward pass.
  std::string name_of(i32 tensor) const;

 private:
  bool is_computed_again(i32 tensor) const;
  i32 keep(i32 tensor);
  i32 compute_again(i32 tensor);
  i32 add_norm(i32 number);
  i32 add_layer(i32 number);

  TrainingPasses& passes_;
  ForwardPass& forward_;
  BackwardPass& pass_;
  // Holds the backward pass's number of each storage of the forward pass that is kept, or -1.
  std::vector<i32> storages_;
  // Have an element for each tensor of the forward pass: the step that computes it, or -1, and the tensor of
  // the backward pass that is computed again, or -1.
  std::vector<i32> steps_, computed_;
};

}  // namespace minuet
