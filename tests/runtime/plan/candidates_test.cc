// Which of a layer's candidates a cloud runs. Candidates are made by hand here: one with a ReLU and one
// without, so that the output tells which of them ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/choose/tuned_config.h"
#include "runtime/execution/execution.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

using testing::Each;
using testing::Lt;

constexpr const char* kNetwork = R"({"name": "n", "ndim": 1, "in_channels": 1, "channels": [1], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";

class CandidatesOfACloud : public testing::Test {
 protected:
  CandidatesOfACloud() { use(Dataflow::GatherGemmScatter); }

  void use(Dataflow dataflow) {
    NetworkProblem problem;
    problem.description = llvm::cantFail(parse_network(kNetwork));
    problem.dtype = DType::F32;
    problem.dataflow = dataflow;
    plan_ = llvm::cantFail(Plan::create(problem, ParameterSource(uint64_t{1})));
    untuned_ = llvm::cantFail(CompiledPlan::create(*plan_, ""));
    relu_.emplace(with_activation(untuned_->candidates[0][0], Activation::ReLU));
    linear_.emplace(with_activation(untuned_->candidates[0][0], Activation::None));
  }

  static Candidate with_activation(Candidate candidate, Activation activation) {
    const auto change = [&](auto choice) {
      choice.problem.activation = activation;
      candidate.choice = std::move(choice);
    };
    if (const auto* const fused = candidate.choice.get_if<FusedChoice>()) {
      change(*fused);
    } else {
      change(candidate.choice.get<GmasChoice>());
    }
    return candidate;
  }

  /// Loaded with these candidates of its only layer, which sums up to three neighbours.
  std::shared_ptr<const LoadedPlan> load(std::vector<Candidate> candidates) {
    const std::vector<const void*> parameters{weight_.data(), weight_.data(), &shift_};
    const std::vector<std::vector<const void*>> of_each(candidates.size(), parameters);
    auto compiled = std::make_shared<CompiledPlan>(*untuned_);
    compiled->candidates[0] = std::move(candidates);
    auto loaded = std::make_shared<LoadedPlan>();
    loaded->plan = plan_;
    loaded->compiled = std::move(compiled);
    loaded->device = device_;
    loaded->weights = {of_each};
    return loaded;
  }

  /// The outputs of features that are all -1, on points `step` apart.
  static std::vector<float> run(Execution& execution, i64 rows, i32 step) {
    std::vector<i32> coordinates;
    for (i32 i = 0; i < rows; ++i) coordinates.insert(coordinates.end(), {0, i * step});
    std::vector<float> features(rows, -1), outputs(rows, 77);
    llvm::cantFail(execution.prepare(coordinates.data(), rows, nullptr));
    const auto tensor = [&](std::vector<float>& values) {
      return Tensor{values.data(), rows, 1, 1, DType::F32};
    };
    llvm::cantFail(execution.run({tensor(features)}, {tensor(outputs)}, nullptr));
    return outputs;
  }

  const std::vector<float> weight_{1, 1, 1};
  const float shift_ = 0;
  std::shared_ptr<Device> device_ = llvm::cantFail(open_cpu_device(1));
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const CompiledPlan> untuned_;
  std::optional<Candidate> relu_, linear_;
};

/// Wherever a plan is compiled: just in time, ahead, for the CPU.
TEST(CandidatesOfAPlan, AreOfTheDataflowThatWasAskedFor) {
  for (const Dataflow wanted : {Dataflow::GatherGemmScatter, Dataflow::Fused}) {
    NetworkProblem problem;
    problem.description = llvm::cantFail(parse_network(kNetwork));
    problem.dtype = DType::F32;
    problem.dataflow = wanted;
    const auto plan = llvm::cantFail(Plan::create(problem, ParameterSource(uint64_t{1})));
    for (const char* arch : {"", "sm_90a"}) {
      const auto compiled = llvm::cantFail(CompiledPlan::create(*plan, arch));
      for (const Candidate& candidate : compiled->candidates[0]) {
        EXPECT_EQ(dataflow_of(candidate.choice), wanted) << arch;
      }
    }
  }
}

TEST_F(CandidatesOfACloud, RowsSelect) {
  relu_->most_rows = 10;
  linear_->least_rows = 11;
  const auto execution = llvm::cantFail(Execution::create(load({*relu_, *linear_}), {}));
  for (const i64 rows : {5, 40, 10, 11, 10, 1}) {
    const std::vector<float> outputs = run(*execution, rows, 1);
    if (rows <= 10) {
      EXPECT_THAT(outputs, Each(0)) << rows;
    } else {
      EXPECT_THAT(outputs, Each(Lt(0))) << rows;
    }
  }
}

/// Neighbours give about three pairs a row, lone points one.
TEST_F(CandidatesOfACloud, DensitySelects) {
  relu_->most_density = linear_->least_density = 2;
  const auto execution = llvm::cantFail(Execution::create(load({*relu_, *linear_}), {}));
  EXPECT_THAT(run(*execution, 20, 1), Each(Lt(0)));
  EXPECT_THAT(run(*execution, 20, 9), Each(0));
  EXPECT_THAT(run(*execution, 20, 1), Each(Lt(0)));
}

/// Its GEMMs need counts on the host: said with what to do, and with what has chosen that dataflow.
TEST_F(CandidatesOfACloud, CapacityModeTakesNoGatherGemmScatter) {
  ExecutionOptions options;
  options.cloud.level_capacity = {20};
  options.cloud.key_bits = 64;
  const auto refusal = [&] {
    auto refused = Execution::create(load(untuned_->candidates[0]), options);
    return refused ? "" : take_status(refused.takeError()).message();
  };
  EXPECT_THAT(refusal(),
              testing::EndsWith("layer a runs by gather-gemm-scatter, whose GEMMs need counts on "
                                "the host: for capacity mode, make the plan with the fused dataflow"));
  Plan tuned = *plan_;
  tuned.program = with_dataflow(std::move(tuned.program), std::nullopt);
  tuned.tuning = std::make_shared<const TuningSnapshot>(
      TuningEnvironment(),
      TuningConfigs{{layer_bucket(Operation::Dataflow, *convolution_of(tuned.program.layers[0]), 20),
                     config_of(Dataflow::GatherGemmScatter)}});
  plan_ = std::make_shared<const Plan>(std::move(tuned));
  untuned_ = llvm::cantFail(CompiledPlan::create(*plan_, ""));
  EXPECT_THAT(refusal(),
              testing::AllOf(testing::HasSubstr("gather-gemm-scatter, chosen by tuning results, whose"),
                             testing::EndsWith("the fused dataflow, which overrides tuning results")));
}

/// Capacity mode does not know how many neighbours a cloud will have: the first that serves the rows.
TEST_F(CandidatesOfACloud, RowsAloneSelectInCapacityMode) {
  use(Dataflow::Fused);
  relu_->least_density = linear_->most_density = 2;
  ExecutionOptions options;
  options.cloud.level_capacity = {20};
  options.cloud.key_bits = 64;
  const auto relu_first = llvm::cantFail(Execution::create(load({*relu_, *linear_}), options));
  const auto linear_first = llvm::cantFail(Execution::create(load({*linear_, *relu_}), options));
  for (const i32 step : {1, 9}) {
    EXPECT_THAT(run(*relu_first, 20, step), Each(0)) << step;
    EXPECT_THAT(run(*linear_first, 20, step), Each(Lt(0))) << step;
  }
}

TEST_F(CandidatesOfACloud, AWorkspaceIsBoundedByTheLargest) {
  GmasChoice choice = linear_->choice.get<GmasChoice>();
  choice.problem.in_channels = choice.problem.input.ld = 64;
  Candidate wide = *linear_;
  wide.choice = choice;
  const auto bound = [&](std::vector<Candidate> candidates) {
    return llvm::cantFail(Execution::workspace_bound(load(std::move(candidates)), {}, 1000, 3));
  };
  EXPECT_GT(bound({wide}), bound({*linear_}));
  EXPECT_EQ(bound({*linear_, wide}), bound({wide}));
  EXPECT_EQ(bound({wide, *linear_}), bound({wide}));
}

}  // namespace
}  // namespace minuet
