// Makes and runs chains of pointwise steps as single ops (pointwise.h).
#pragma once

#include <algorithm>

#include "include/minuet/pointwise.h"
#include "tests/runtime/execution/pointwise_fixture.h"

namespace minuet::abi {

class PointwiseOp : public PointwiseTest {
 protected:
  static minuet_pointwise_kind kind_of(const std::string& op) {
    const auto* const found = std::find(std::begin(oracle::kStepNames), std::end(oracle::kStepNames), op);
    return static_cast<minuet_pointwise_kind>(found - std::begin(oracle::kStepNames));
  }
  minuet_plan* create(const Chain& chain, bool without_values = false) {
    std::vector<minuet_pointwise_step> steps;
    for (const oracle::ChainStep& step : chain.steps) {
      const bool has_values = !without_values && !step.scale.empty();
      steps.push_back({kind_of(step.op), static_cast<float>(step.number),
                       has_values ? step.scale.data() : nullptr, has_values ? step.shift.data() : nullptr});
    }
    minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = chain.channels;
    options.steps = steps.data(), options.step_count = static_cast<int32_t>(steps.size());
    options.without_values = without_values ? 1 : 0;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pointwise(machine().context(), &options, &made));
    return made;
  }
  Plan loaded(minuet_plan* made) {
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }
  Coordinates set_of(int64_t rows) { return make_set(machine(), 3, coordinates_of(rows), {1, 1, 1, 1}); }
  /// Returns the map of one offset from the set to itself.
  static KernelMap map_of(minuet_coordinates* set) {
    const minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set, set, &options, nullptr, &map));
    return {map, {minuet_kernel_map_destroy}};
  }
  ChainRun run_op(minuet_plan* plan, const Chain& chain, int64_t rows, const std::vector<float>& x,
                  const minuet_execution_options* options = nullptr) {
    const Coordinates set = set_of(rows);
    const KernelMap map = map_of(set.get());
    const Execution execution = make_execution(machine(), plan, options);
    check(prepare_map(execution.get(), map.get()));
    return run_prepared(plan, execution.get(), rows, chain.inputs(x))[0];
  }
};

}  // namespace minuet::abi
