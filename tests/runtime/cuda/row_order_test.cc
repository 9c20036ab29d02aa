// In whatever order the fused dataflow takes the rows of a network's maps, its output is the same.
#include "runtime/execution/execution.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"

namespace minuet {
namespace {

/// Two levels, there and back: maps of both directions, and one from a level onto itself on each.
constexpr const char* kNetwork = R"({"name": "small", "ndim": 3, "in_channels": 16, "channels": [32],
  "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "block", "name": "deep", "width": 0, "kernel_size": 3},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"}]})";

class RowOrderTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    NetworkProblem problem;
    problem.description = take(parse_network(kNetwork));
    problem.dtype = DType::F16;
    problem.dataflow = Dataflow::Fused;
    plan_ = take(Plan::create(problem, ParameterSource(uint64_t{1})));
    const i32 edge = on_software_device() ? 6 : 12;
    for (i32 x = 0; x < edge; ++x) {
      for (i32 y = 0; y < edge; ++y) {
        for (i32 z : {(x * 5 + y * 3) % 7, (x * y) % 7 + 8}) voxels_.insert(voxels_.end(), {0, x, y, z});
      }
    }
  }

  struct Inference {
    std::vector<char> output;
    i64 kernels = 0;  // launches
  };

  /// Prepared some times, so that maps are made as they will be for clouds like this one.
  Inference run(RowOrder order, MapMethod method, bool capacities = false) {
    const i64 rows = static_cast<i64>(voxels_.size()) / 4;
    auto compiled = std::make_shared<CompiledPlan>(*take(CompiledPlan::create(*plan_, device().info().arch)));
    compiled->order.order = order;
    std::vector<KernelSource> sources;
    for (const KernelRequest& request : compiled->requests()) sources.push_back(request.source);
    gpu().load(sources);
    const auto loaded = take(LoadedPlan::create(plan_, compiled, {}, gpu().device, nullptr, nullptr));
    ExecutionOptions options;
    options.cloud.method = method;
    if (capacities) options.cloud.level_capacity = {rows, rows}, options.cloud.key_bits = 32;
    const auto execution = take(Execution::create(loaded, options));
    const TestBuffer coordinates(device(), voxels_);
    const TestBuffer features(device(), encode(DType::F16, std::vector<float>(rows * 16, 0.25f)));
    TestBuffer output(device(), rows * 32 * 2);
    for (i32 i = 0; i <= KeyBits::kPatience; ++i) {
      execution->engine().reset_counters();
      take(execution->prepare(coordinates.as<i32>(), rows, nullptr));
    }
    take(execution->run({Tensor{features.as(), rows, 16, 16, DType::F16}},
                        {Tensor{output.as(), execution->output_rows(), 32, 32, DType::F16}}, nullptr));
    take(device().synchronize(nullptr));
    EXPECT_EQ(execution->find_map_method(), method);
    return {output.read<char>(), execution->engine().counters().kernels};
  }

  std::shared_ptr<const Plan> plan_;
  std::vector<i32> voxels_;
};

TEST_F(RowOrderTest, TheOutputIsTheSameInAny) {
  for (const MapMethod method : {MapMethod::Sorted, MapMethod::Indexed}) {
    const Inference by_block = run(RowOrder::ByBlock, method), by_mask = run(RowOrder::ByMask, method),
                    as_they_come = run(RowOrder::AsTheyCome, method);
    EXPECT_NE(by_block.output, std::vector<char>(by_block.output.size(), 0));
    EXPECT_EQ(by_mask.output, by_block.output);
    EXPECT_EQ(as_they_come.output, by_block.output);
    EXPECT_LT(as_they_come.kernels, by_block.kernels) << "nothing is sorted";
  }
}

/// There rows that come as they come would have columns of a width that the host does not know.
TEST_F(RowOrderTest, CapacityModeOrdersAlways) {
  const Inference exact = run(RowOrder::ByBlock, MapMethod::Sorted),
                  within = run(RowOrder::AsTheyCome, MapMethod::Sorted, /*capacities=*/true);
  EXPECT_EQ(within.output, exact.output);
}

}  // namespace
}  // namespace minuet
