// The CUDA engine implements runtime/engine/engine.h with a Launcher, a MapStep and the op families of
// families.cc. The device's context is current between begin() and end().
#pragma once

#include <memory>

#include "runtime/cuda/batch_norm_step.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/gradient_step.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/map_step.h"
#include "runtime/cuda/ops.h"
#include "runtime/cuda/parameter_step.h"
#include "runtime/cuda/permute_step.h"
#include "runtime/cuda/point_step.h"
#include "runtime/cuda/readback_slots.h"
#include "runtime/cuda/select_step.h"

namespace minuet {

class CudaEngine final : public Engine {
 public:
  static llvm::Expected<std::unique_ptr<Engine>> create(std::shared_ptr<CudaDevice> device,
                                                        const EngineChoice& choice, CudaEngineOptions options,
                                                        std::shared_ptr<SideStreams> side);

  llvm::Expected<i32> add_op(const OpChoice& choice) override;
  llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) override;
  i64 workspace_bytes() const override;
  llvm::Error set_workspace(void* workspace) override;
  i64 scratch_bytes() const override;

  llvm::Error begin(void* stream) override { return launcher_->begin(static_cast<CUstream>(stream)); }
  llvm::Error end() override { return launcher_->end(); }
  llvm::Error follow_last_call() override { return launcher_->follow_last_call(); }
  llvm::Error wait_for_calls() override { return launcher_->wait_for_calls(); }
  bool can_be_captured() const override { return true; }
  bool was_captured() const override { return launcher_->was_captured(); }
  llvm::Error begin_branch() override { return launcher_->begin_branch(); }
  void resume_branch() override { launcher_->resume_branch(); }
  void end_branch() override { launcher_->end_branch(); }
  llvm::Error join_branch() override { return launcher_->join_branch(); }
  llvm::Error fill_words(void* target, u32 word, i64 words) override {
    return launcher_->fill(target, word, words);
  }
  llvm::Error copy(void* target, const void* source, i64 bytes) override {
    return launcher_->copy(target, source, bytes);
  }
  llvm::Error read_back(void* host, const void* source, i64 bytes) override {
    return launcher_->read_back(host, source, bytes);
  }
  llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32* source, i64 words) override;
  llvm::Error send(void* target, const void* host, i64 bytes) override;
  llvm::Error wait_for_sends() override { return launcher_->wait_for_copy(); }
  llvm::Error wait() override { return launcher_->wait(); }
  llvm::Expected<void*> allocate_pinned(i64 bytes) override { return launcher_->allocate_pinned(bytes); }

  MapOperations& maps() override { return *map_; }
  ParameterOperations& parameters() override { return parameters_; }
  PointOperations& points() override { return points_; }
  SelectOperations& selections() override { return selections_; }
  GradientOperations& gradients() override { return gradients_; }
  BatchNormOperations& batch_norms() override { return batch_norms_; }
  llvm::Error permute_rows(const PermuteRequest& request) override;
  llvm::Error prepare_op(const OpRequest& request) override;
  llvm::Error send_prepared() override;
  llvm::Error run_op(const OpRequest& request) override;

  const EngineCounters& counters() const override { return launcher_->counters(); }
  void reset_counters() override { launcher_->counters() = {}; }
  void set_profiling(bool on) override { launcher_->profiler().set(on); }
  void time_as(Timed call) override { launcher_->profiler().time_as(call); }
  llvm::Expected<PassTimes> pass_times() override;

 private:
  CudaEngine(std::unique_ptr<Launcher> launcher, std::unique_ptr<MapStep> map, CudaEngineOptions options)
      : launcher_(std::move(launcher)),
        map_(std::move(map)),
        permute_(*launcher_),
        parameters_(*launcher_),
        points_(*launcher_, map_->kernels32()),
        selections_(*launcher_, map_->kernels32(), map_->kernels64()),
        gradients_(*launcher_),
        batch_norms_(*launcher_),
        options_(options) {}
  /// Points to the object that runs an op, and holds the op's number within this object.
  struct Op {
    CudaOps* ops = nullptr;
    i32 number = 0;
  };
  struct Family {
    const OpFamily* family = nullptr;
    std::unique_ptr<CudaOps> ops;
  };
  ContextScope scope() const { return ContextScope(launcher_->driver(), launcher_->device().context()); }

  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<MapStep> map_;
  PermuteStep permute_;
  ParameterStep parameters_;
  PointStep points_;
  SelectStep selections_;
  GradientStep gradients_;
  BatchNormStep batch_norms_;
  const CudaEngineOptions options_;
  std::vector<Family> families_;              // Holds the op families of all added ops.
  std::shared_ptr<ReadbackSlots> readbacks_;  // It is null until the first start_readback().
  std::vector<Op> ops_;
};

}  // namespace minuet
