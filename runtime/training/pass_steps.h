// Does the work of the two passes that no op does (RunSteps): batch norms, lists of pairs, and the gradients
// of parameters.
#pragma once

#include "runtime/training/pass_parameters.h"

namespace minuet {

/// Holds what the caller gives to both passes.
struct PassArguments {
  llvm::ArrayRef<GivenArray> parameters;  // Has an array for each parameter of the network.
  WeightsOrder order = WeightsOrder::Minuet;
};

struct ForwardArguments : PassArguments {
  // Has an array for each parameter, which receives the new running statistics, or is empty. Arrays that are
  // no statistics have no data.
  llvm::ArrayRef<GivenArray> new_statistics;
  // Point to the number of batches before this one, and to that number plus 1. Both may be null.
  const i64* batches = nullptr;
  i64* new_batches = nullptr;
};

struct BackwardArguments : PassArguments {
  // Has an array for each parameter. A gradient whose array has no data is not computed.
  llvm::ArrayRef<GivenArray> gradients;
  bool adds = false;  // Says whether the gradients are added to what is there.
};

/// Keeps what both passes have in common.
class PassSteps : public RunSteps {
 public:
  llvm::ArrayRef<const void*> parameters(i32 layer) const override { return parameters_.of(layer); }
  llvm::Error before_layer(i32 layer) override;

 protected:
  PassSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes, llvm::ArrayRef<LayerUse> uses,
            const std::vector<PassStep>& steps, std::vector<KeptImage> kept, bool is_forward);
  virtual llvm::Error run(const PassStep& step) = 0;
  /// Begins, resumes, ends or joins a branch.
  llvm::Error run_branch(StepKind kind);

  /// Places the statistics of batch norms, which the forward pass keeps, and a workspace that all batch norms
  /// of a pass share. If some of them are in branches (`norms_branch`), those share another one.
  void place_norms(Placement& parts, Placement& kept, bool norms_branch);
  /// Places the moments that stand for running statistics, which enqueue_parameters() makes.
  void place_moments(Placement& parts);
  llvm::Error enqueue_parameters();
  llvm::Error take_parameters(const PassArguments& given);
  NormShape shape_of(i32 tensor) const;
  NormRows rows_of(i32 tensor) const;
  NormWorkspace norm_workspace(const NormShape& shape) const;
  const float* vector_of(i32 parameter) const { return parameter < 0 ? nullptr : vectors_[parameter]; }
  const PlanExecution::Level& level_of(i32 tensor) const;

  Execution& execution_;
  const std::shared_ptr<const TrainingPasses> passes_;
  PassParameters parameters_;
  std::vector<float*> saved_;  // Holds the saved statistics of each batch norm.
  // Holds the moments of each batch norm, if constant statistics take their place or if the norm is computed
  // again.
  std::vector<float*> moments_;

 private:
  const std::vector<PassStep>& steps_;
  std::size_t next_ = 0;  // Is the next element of steps_.
  bool is_in_branch_ = false;
  void *norm_workspace_ = nullptr, *branch_workspace_ = nullptr;
  // Holds the address of each parameter that a batch norm reads, and is null for others.
  std::vector<float*> vectors_;
};

class ForwardSteps final : public PassSteps {
 public:
  /// `kept` is find_kept_images().
  ForwardSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes,
               std::vector<KeptImage> kept);
  void place(Placement& parts, Placement& kept) override;
  /// Takes the arguments of the next run. They must stay valid until it is enqueued.
  llvm::Error take(const ForwardArguments& given);
  llvm::Error start() override;
  std::string input_name(std::size_t number) const override;
  std::string output_name(std::size_t number) const override;

 private:
  llvm::Error run(const PassStep& step) override;
  llvm::Error run_norm(const NormUse& norm, std::size_t number);
  llvm::Error take_statistics();
  RunningStatistics statistics_of(const NormUse& norm) const;

  const ForwardArguments* given_ = nullptr;
  // Holds the address of the new statistic of each parameter, and is null for others.
  std::vector<float*> new_vectors_;
};

class BackwardSteps final : public PassSteps {
 public:
  BackwardSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes,
                std::vector<KeptImage> kept);
  void place(Placement& parts, Placement& kept) override;
  llvm::Error take(const BackwardArguments& given);
  llvm::Error start() override;
  std::string input_name(std::size_t number) const override;
  std::string output_name(std::size_t number) const override;

 private:
  /// Describes the pairs of a kernel map.
  struct Pairs {
    bool is_needed = false;
    i32* pairs = nullptr;
    i32* count = nullptr;
    i64 most = 0;
    i32* steps = nullptr;  // Points to what GradientOperations::list_steps() finds.
  };
  llvm::Error run(const PassStep& step) override;
  llvm::Error run_norm(const NormGradientUse& use);
  llvm::Error run_again(const RecomputedNormUse& use);
  /// Computes a gradient of BackwardPass::parameters, by whose number it is timed.
  llvm::Error run_parameter(i32 number);
  llvm::Error run_affine(const AffineGradientUse& use);
  llvm::Error run_groups(const GroupGradientUse& use);
  llvm::Error list_pairs();
  PairsRequest pairs_request(i32 map);
  llvm::Error list_steps();
  llvm::Error clear(i32 parameter);
  /// Return the bytes that the gradients of parameters, and those of poolings of whole batch items, need.
  i64 parameter_bytes() const;
  i64 group_bytes() const;
  i64 volume_of(std::size_t map) const { return pass_.program.maps[map].volume(); }
  /// Returns the address of the gradient of a parameter, or null if it is not wanted.
  float* gradient_of(i32 parameter) const { return parameter < 0 ? nullptr : gradients_[parameter]; }

  const BackwardPass& pass_;
  const BackwardArguments* given_ = nullptr;
  std::vector<float*> gradients_;     // Holds the address of the gradient of each parameter, or null.
  std::vector<FoundWeight> weights_;  // Describes, for each element of pass_.parameters, where a weight's
                                      // gradient is.
  std::vector<Pairs> pairs_;          // Has an element for each map of the program.
  void *parameter_workspace_ = nullptr, *group_workspace_ = nullptr;
  float* saved_again_ = nullptr;  // Receives the statistics of a batch norm that is computed again.
  // Receives the gradient of a scale or a shift that the caller does not want beside that of the other one.
  float* unwanted_ = nullptr;
};

}  // namespace minuet
