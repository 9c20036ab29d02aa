// Tests the size of a workspace, which follows from the plan, the architecture and the capacities. Nothing is
// compiled here, so the shipped networks can be measured at full width for GPUs that are not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/base/arch.h"
#include "runtime/execution/execution.h"
#include "runtime/network/shipped_network.h"

namespace minuet {
namespace {

std::shared_ptr<const Plan> shipped(const char* name, std::optional<Dataflow> dataflow, DType dtype) {
  NetworkProblem problem;
  problem.description = llvm::cantFail(parse_network(llvm::cantFail(shipped_network(name))));
  problem.dtype = dtype;
  problem.dataflow = dataflow;
  return llvm::cantFail(Plan::create(problem, ParameterSource::without_values()));
}

std::shared_ptr<const LoadedPlan> measured(std::shared_ptr<const Plan> plan, const std::string& arch) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->compiled = llvm::cantFail(CompiledPlan::create(*plan, arch));
  loaded->plan = std::move(plan);
  loaded->device = arch.empty() ? llvm::cantFail(open_cpu_device(2)) : measured_gpu(arch);
  return loaded;
}

i64 bytes_within(const std::shared_ptr<const LoadedPlan>& plan, std::vector<i64> capacities,
                 MapMethod method = MapMethod::Indexed) {
  ExecutionOptions options;
  options.cloud.level_capacity = std::move(capacities);
  options.cloud.key_bits = 64;
  options.cloud.method = method;
  return llvm::cantFail(Execution::workspace_within_capacities(plan, options));
}

i64 bytes_of_clouds(const std::shared_ptr<const LoadedPlan>& plan, i64 points, double neighbours,
                    MapMethod method = MapMethod::Indexed) {
  ExecutionOptions options;
  options.cloud.method = method;
  return llvm::cantFail(Execution::workspace_bound(plan, options, points, neighbours));
}

constexpr MapMethod kMethods[] = {MapMethod::Sorted, MapMethod::Indexed};

/// Calls `work` with each network, for the CPU and for two architectures of GPUs.
template <class Work>
void with_networks(std::optional<Dataflow> dataflow, const Work& work) {
  for (const char* const name : {"minkunet42", "sparseresnet21d"}) {
    const auto plan = shipped(name, dataflow, DType::F16);
    for (const std::string arch : {"", "sm_80", "sm_90a"}) {
      SCOPED_TRACE(std::string(name) + " for " + arch_name(arch).str());
      work(measured(plan, arch));
    }
  }
}

/// The capacities reach from one row to numbers for which other kernels are selected and sorts have other
/// tiles.
TEST(ExecutionWorkspace, GrowsWithEachCapacity) {
  with_networks(Dataflow::Fused, [](const std::shared_ptr<const LoadedPlan>& plan) {
    const std::size_t levels = plan->plan->program.levels.size();
    for (const MapMethod method : kMethods) {
      i64 of_all = 0;
      for (const i64 rows : {1, 255, 256, 257, 1000, 4097, 20000, 65536, 131073, 1000000}) {
        std::vector<i64> capacities(levels, rows);
        const i64 bytes = bytes_within(plan, capacities, method);
        EXPECT_GE(bytes, of_all) << rows;
        of_all = bytes;
      }
      for (std::size_t level = 0; level < levels; ++level) {
        i64 least = 0;
        for (const i64 rows : {1, 200, 300, 3000, 9000, 20000, 70000, 140000, 300000}) {
          std::vector<i64> capacities(levels, 20000);
          capacities[level] = rows;
          const i64 bytes = bytes_within(plan, capacities, method);
          EXPECT_GE(bytes, least) << "level " << level << " has " << rows;
          least = bytes;
        }
      }
    }
  });
}

TEST(ExecutionWorkspace, GrowsWithPointsAndNeighbours) {
  for (const auto dataflow : {Dataflow::GatherGemmScatter, Dataflow::Fused}) {
    with_networks(dataflow, [](const std::shared_ptr<const LoadedPlan>& plan) {
      for (const MapMethod method : kMethods) {
        i64 least = 0;
        for (const i64 points : {0, 1, 255, 257, 5000, 20000, 131073, 1000000}) {
          const i64 bytes = bytes_of_clouds(plan, points, 5, method);
          EXPECT_GE(bytes, least) << points;
          least = bytes;
        }
        for (const double neighbours : {1.0, 1.5, 6.0, 16.0, 27.0, 100.0}) {
          EXPECT_LE(bytes_of_clouds(plan, 20000, std::min(neighbours, 6.0), method),
                    bytes_of_clouds(plan, 20000, std::max(neighbours, 6.0), method))
              << neighbours;
        }
      }
    });
  }
}

/// A candidate that needs counts on the host cannot run in capacity mode, and must not cost memory there.
TEST(ExecutionWorkspace, CandidatesThatCannotRunNeedNothing) {
  const auto fused = measured(shipped("sparseresnet21d", Dataflow::Fused, DType::F16), "sm_90a");
  const auto gmas = measured(shipped("sparseresnet21d", Dataflow::GatherGemmScatter, DType::F16), "sm_90a");
  auto both = std::make_shared<CompiledPlan>(*fused->compiled);
  std::size_t added = 0;
  for (std::size_t i = 0; i < both->candidates.size(); ++i) {
    if (both->candidates[i].empty()) continue;
    Candidate never = gmas->compiled->candidates[i].front();
    ASSERT_FALSE(never.needs_counts.empty());
    never.least_rows = i64{1} << 40;
    both->candidates[i].push_back(std::move(never));
    ++added;
  }
  ASSERT_GT(added, 10u);
  auto loaded = std::make_shared<LoadedPlan>(LoadedPlan{fused->plan, both, fused->device, {}, {}, {}, {}});
  const std::vector<i64> capacities(fused->plan->program.levels.size(), 3000);
  for (const MapMethod method : kMethods) {
    EXPECT_EQ(bytes_within(loaded, capacities, method), bytes_within(fused, capacities, method));
  }
  ExecutionOptions options;
  options.cloud.level_capacity = capacities;
  options.cloud.key_bits = 64;
  llvm::Expected<i64> refused = Execution::workspace_within_capacities(gmas, options);
  ASSERT_FALSE(static_cast<bool>(refused));
  const StatusError error = take_status(refused.takeError());
  EXPECT_EQ(error.code(), StatusCode::FailedPrecondition) << error.message();
  EXPECT_THAT(error.message(), testing::HasSubstr("layer "));
}

/// The options count as they do in the execution that they are for.
TEST(ExecutionWorkspace, HonoursTheOptions) {
  const auto gmas = measured(shipped("minkunet42", Dataflow::GatherGemmScatter, DType::F16), "sm_90a");
  const auto bytes_of = [&](const ExecutionOptions& options) {
    return llvm::cantFail(Execution::workspace_bound(gmas, options, 20000, 6));
  };
  const ExecutionOptions plain;
  ExecutionOptions changed;
  changed.scratch_bytes = 1;
  EXPECT_LT(bytes_of(changed), bytes_of(plain));
  changed = {};
  changed.max_points = 20000;
  EXPECT_EQ(bytes_of(changed), bytes_of(plain));
  changed.max_points = 40000;
  EXPECT_GT(bytes_of(changed), bytes_of(plain));
  changed = {};
  changed.parameter_inputs = true;
  EXPECT_EQ(bytes_of(changed), bytes_of(plain)) << "parameters lie elsewhere";
}

/// A measured GPU answers Internal where a real one would allocate, so the other tests show that measuring
/// allocates nothing.
TEST(ExecutionWorkspace, AMeasuredGpuHasNoMemory) {
  const std::shared_ptr<Device> gpu = measured_gpu("sm_90a");
  EXPECT_EQ(gpu->info().arch, "sm_90a");
  llvm::Expected<void*> memory = gpu->allocate(256);
  ASSERT_FALSE(static_cast<bool>(memory));
  EXPECT_EQ(take_status(memory.takeError()).code(), StatusCode::Internal);
  const auto plan = measured(shipped("minkunet42", Dataflow::Fused, DType::F16), "sm_90a");
  ExecutionOptions options;
  options.parameter_inputs = true;
  auto made = Execution::create(plan, options);
  ASSERT_FALSE(static_cast<bool>(made));
  EXPECT_EQ(take_status(made.takeError()).code(), StatusCode::Internal);
}

}  // namespace
}  // namespace minuet
