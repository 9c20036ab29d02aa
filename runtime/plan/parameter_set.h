// Holds one set of values of a plan's parameters on one device. The caller sets them, and executions run with
// them in place of the plan's own.
//
// The set stores each weight in the type in which kernels read it, in the order [volume, in_channels,
// out_channels], and each vector in fp32. From these stored values it computes the scales and shifts of
// convolutions (batch norms are folded) and the images of weights (WeightImage) of those candidates that an
// execution has selected.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/plan/compiled_plan.h"
#include "runtime/weights/given_array.h"
#include "runtime/weights/weight_image.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

struct ParameterSetOptions {
  /// Says whether the set also keeps the fp32 numbers of weights, before they are rounded.
  bool keeps_master = false;
  /// Says whether every run sets all parameters before it uses them, so that a graph that captured a set()
  /// never uses images that it does not write.
  bool is_set_by_each_run = false;
};

/// Gives a new value to one parameter.
struct ParameterValue {
  i32 parameter = 0;
  GivenArray array;
};

/// All functions are thread-safe. The work of set(), get() and of executions that use the set must be ordered
/// on the device by the caller.
class ParameterSet {
 public:
  static llvm::Expected<std::shared_ptr<ParameterSet>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                              const ParameterSetOptions& options);

  const LoadedPlan& loaded() const { return *loaded_; }
  /// Returns the plan's parameters (Plan::parameter_list()).
  llvm::ArrayRef<PlanParameter> parameters() const { return parameters_; }

  /// Enqueues the work that sets the values. Weights are in `order`. If an array is in host memory, the call
  /// waits for the work, and must not be captured. Nothing changes if an argument is refused.
  llvm::Error set(llvm::ArrayRef<ParameterValue> values, WeightsOrder order, void* stream);
  /// Enqueues a copy of the stored value to `array`, which is contiguous and has the parameter's shape. If it
  /// is in host memory, the call waits for the copy, and must not be captured.
  llvm::Error get(i32 parameter, const GivenArray& array, void* stream);
  /// Returns FailedPrecondition with the names of parameters that have no value yet, if there are any.
  llvm::Error check_complete() const;

  /// Names a candidate that an execution has selected.
  struct Selection {
    std::size_t layer = 0, candidate = 0;
  };
  /// Returns, for each selection, pointers to the parameters that its kernels read, in the order of
  /// parameter_images(). They stay valid and the same as long as the set lives. Makes images that no
  /// execution has selected before, and waits for them. That is FailedPrecondition after a captured set(),
  /// which would not write them.
  llvm::Expected<std::vector<std::vector<const void*>>> select(llvm::ArrayRef<Selection> selections);

 private:
  /// Describes the stored value of a parameter.
  struct Stored {
    i64 offset = 0;
    i64 master_offset = -1;  // It is -1 if the stored numbers are the master ones.
    bool is_set = false;
  };
  /// Holds the places of a layer's parameters, or -1 where the layer has none.
  struct Layer {
    i32 first = -1, end = -1;  // The layer's parameters are [first, end) of parameters_.
    i64 scale = -1, shift = -1;
    bool is_folded = false;  // Says whether scale and shift are computed from other parameters.
  };
  struct Image {
    std::size_t layer = 0;
    FusedImage layout;
    DeviceMemory memory;
  };

  ParameterSet(std::shared_ptr<const LoadedPlan> loaded, const ParameterSetOptions& options);
  llvm::Error allocate();
  DType dtype_of(const PlanParameter& parameter) const;
  DType storage_of(const PlanParameter& parameter) const;
  char* at(i64 offset) const { return offset < 0 ? nullptr : memory_.data() + offset; }
  const ProgramLayer& layer_of(const PlanParameter& parameter) const;
  const char* weight_of(std::size_t layer) const;
  llvm::Expected<ParameterCopy> copy_of(const ParameterValue& value, WeightsOrder order) const;
  llvm::Error check_values(llvm::ArrayRef<ParameterValue> values) const;
  BatchNormFold fold_of(std::size_t layer) const;
  WeightImageJob job_of(const Image& image) const;
  llvm::Error stage(llvm::ArrayRef<ParameterValue> values, llvm::MutableArrayRef<ParameterCopy> copies,
                    void* stream, DeviceMemory& staged);
  llvm::Error refuse_capture(void* stream);
  llvm::Error enqueue(llvm::ArrayRef<ParameterCopy> copies, llvm::ArrayRef<ParameterValue> values);
  llvm::Expected<const char*> image_of(std::size_t layer, const FusedImage& layout,
                                       std::vector<Image>& made) const;
  llvm::Error keep(std::vector<Image> made);
  /// Runs `work` in a call of the engine on `stream`.
  llvm::Error call(void* stream, llvm::function_ref<llvm::Error()> work);

  const std::shared_ptr<const LoadedPlan> loaded_;
  const ParameterSetOptions options_;
  const DType weight_type_;
  const std::vector<PlanParameter> parameters_;
  std::vector<Layer> layers_;
  std::vector<Stored> stored_;
  DeviceMemory memory_;
  /// Guards all members below, and the engine's calls.
  mutable std::mutex mutex_;
  std::vector<Image> images_;
  std::atomic<i32> unset_ = 0;  // Counts the parameters that have no value yet.
  bool was_captured_ = false;   // Says whether a set() was captured.
  // The engine is destroyed first, because its destructor waits for the work that uses the memory.
  std::unique_ptr<Engine> engine_;
};

}  // namespace minuet
