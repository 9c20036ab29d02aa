// Holds one set of values of a plan's parameters on one device. The caller sets them, and executions run with
// them in place of the plan's own.
//
// The set has a block of memory with the values (ParameterLayout), and from them it makes the images of
// weights (WeightImage) of those candidates that an execution has selected.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "runtime/plan/parameter_layout.h"

namespace minuet {

struct ParameterSetOptions {
  /// Says whether the set also keeps the fp32 numbers of weights, before they are rounded.
  bool keeps_master = false;
  /// Says whether every run sets all parameters before it uses them, so that a graph that captured a set()
  /// never uses images that it does not write.
  bool is_set_by_each_run = false;
};

/// All functions are thread-safe. Calls of set() and get() are ordered among themselves on the device, except
/// captured ones. The caller orders them with the runs of executions that use the set.
class ParameterSet : public std::enable_shared_from_this<ParameterSet> {
 public:
  static llvm::Expected<std::shared_ptr<ParameterSet>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                              const ParameterSetOptions& options);

  const LoadedPlan& loaded() const { return *loaded_; }
  /// Returns the plan's parameters (Plan::parameter_list()).
  llvm::ArrayRef<PlanParameter> parameters() const { return layout_.parameters(); }

  /// Enqueues the work that sets the values. Weights are in `order`. If an array is in host memory, the call
  /// waits for the work, and must not be captured. Nothing changes if an argument is refused.
  llvm::Error set(llvm::ArrayRef<ParameterValue> values, WeightsOrder order, void* stream);
  /// Enqueues a copy of the stored value to `array`, which is contiguous and has the parameter's shape. If it
  /// is in host memory, the call waits for the copy, and must not be captured.
  llvm::Error get(i32 parameter, const GivenArray& array, void* stream);
  /// Returns FailedPrecondition with the names of parameters that have no value yet, if there are any. A
  /// captured set() counts, although only its replays give the parameters their values.
  llvm::Error check_complete() const;
  /// Allows new images again after a captured set(), and releases the images that only captured calls use.
  /// The graphs must not be replayed any more.
  void release_captures();

  using SharedImages = std::vector<std::shared_ptr<const void>>;
  /// Holds what the kernels of selected candidates read.
  struct Selected {
    /// Holds, for each selection, pointers to its parameters in the order of parameter_images().
    std::vector<std::vector<const void*>> pointers;
    /// Owns the images. The pointers are valid and the same as long as the set and these images live.
    SharedImages images;
  };
  /// If `is_captured` is true, the call that needs the images is captured, and the result is
  /// FailedPrecondition if an image must be made. Otherwise makes images that no live execution has selected
  /// before, and waits for them. That is FailedPrecondition for a weight that a captured set() sets, because
  /// its graph would not write the new image, unless every run sets the parameters (is_set_by_each_run).
  llvm::Expected<Selected> select(llvm::ArrayRef<CandidateSelection> selections, bool is_captured = false);
  /// Selects like select() for a run that keeps no state, so that the set keeps the images, and the result
  /// has none. The set keeps them until release_run_images(pyramid), and until release_captures() if the run
  /// is captured. Returns FailedPrecondition if the run is captured and an image must be made.
  llvm::Expected<Selected> select_for_run(llvm::ArrayRef<CandidateSelection> selections, const void* pyramid,
                                          bool is_captured);
  /// Releases the images that only runs on this pyramid use. These runs must be complete, except captured
  /// ones.
  void release_run_images(const void* pyramid);

 private:
  struct Image {
    std::size_t layer = 0;
    FusedImage layout;
    DeviceMemory memory;
  };
  using Images = std::vector<std::shared_ptr<Image>>;

  ParameterSet(std::shared_ptr<const LoadedPlan> loaded, const ParameterSetOptions& options);
  WeightImageJob job_of(const Image& image) const;
  llvm::Error stage(llvm::ArrayRef<ParameterValue> values, llvm::MutableArrayRef<ParameterCopy> copies,
                    void* stream, DeviceMemory& staged);
  llvm::Error refuse_capture(void* stream);
  llvm::Error enqueue(llvm::ArrayRef<ParameterCopy> copies, llvm::ArrayRef<ParameterValue> values,
                      const Images& live);
  void take_note(llvm::ArrayRef<ParameterValue> values, const Images& live);
  llvm::Expected<std::shared_ptr<Image>> new_image(const LayerImage& wanted);
  Images live_images() const;
  static std::shared_ptr<Image> find(const Images& images, const LayerImage& wanted);
  std::vector<std::vector<const void*>> pointers_of(llvm::ArrayRef<CandidateSelection> selections,
                                                    const Images& images) const;
  llvm::Error check_new(llvm::ArrayRef<LayerImage> missing) const;
  llvm::Error fill(const Images& images);
  /// Runs `work` in a call of the engine on `stream`. The mutex must be locked.
  llvm::Error call(void* stream, llvm::function_ref<llvm::Error()> work);

  const std::shared_ptr<const LoadedPlan> loaded_;
  const ParameterSetOptions options_;
  const ParameterLayout layout_;
  DeviceMemory memory_;
  /// Guards the members below. No memory is allocated, freed or waited for on a stream of the caller while it
  /// is locked.
  mutable std::mutex mutex_;
  std::vector<bool> is_set_;
  std::vector<std::weak_ptr<Image>> images_;
  // The graphs of captured calls of set() write these images, and set the weights of these layers.
  Images captured_images_;
  std::vector<bool> captured_layers_;
  // Holds, for each pyramid, the images that select_for_run() has selected for it, and those of captured
  // runs.
  llvm::DenseMap<const void*, SharedImages> run_images_;
  SharedImages captured_run_images_;
  std::atomic<i32> unset_ = 0;  // Counts the parameters that have no value yet.
  // The engine is destroyed first, because its destructor waits for the work that uses the memory.
  std::unique_ptr<Engine> engine_;
};

}  // namespace minuet
