// parameters_bench NETWORK COMMIT: how long it takes on the GPU to set all parameters of a network by one
// call, from device memory, with batch norms folded and with the images of the candidates that one execution
// has selected. Prints JSON for tools/bench/results. A graph holds kInTurn calls, whose arrays lie in turn in
// kCopies places, so that the cache does not hold what is read; the time is that of a launch by its share.
#include <cstdio>

#include "tests/runtime/execution/bench_times.h"
#include "tests/runtime/execution/parameters_fixture.h"

namespace minuet::abi {
namespace {

constexpr int kCopies = 4, kInTurn = 12, kTimed = 40, kWarm = 10;
constexpr int64_t kVoxels = 100'000;

/// Values of every parameter of the plan, of which only the number matters.
Values values_of(minuet_plan* plan) {
  Values values;
  for (int32_t i = 0; i < info_of(plan).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(plan, i, &info));
    FileTensor& tensor = values[info.name];
    tensor.shape.assign(info.shape, info.shape + info.rank);
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    tensor.values.assign(static_cast<size_t>(count), 0.5F);
  }
  return values;
}

llvm::json::Object measure(Machine& machine, minuet_plan* plan, minuet_element element) {
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(plan, machine.device(), nullptr, &made));
  const Parameters parameters{made, {minuet_parameters_destroy}};
  const Values values = values_of(plan);
  std::deque<DeviceArrays> copies;
  for (int i = 0; i < kCopies; ++i) copies.emplace_back(machine, plan, values, element);
  const Stream stream(machine);
  const auto set = [&](DeviceArrays& arrays) {
    check(minuet_parameters_set(made, nullptr, arrays.arrays().data(), arrays.count(), MINUET_WEIGHTS_MINUET,
                                stream.get()));
  };
  set(copies.front());
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameters = made;
  const Execution execution = make_execution(machine, plan, &options);
  check(prepare(machine, execution.get(), make_scene(kVoxels, 1)));
  const CapturedGraph graph(stream.get(), [&] {
    for (int i = 0; i < kInTurn; ++i) set(copies[static_cast<size_t>(i % kCopies)]);
  });
  std::vector<double> times;
  for (int i = -kWarm; i < kTimed; ++i) {
    const double time = time_by_events(machine, stream, graph) / kInTurn;
    if (i >= 0) times.push_back(time);
  }
  llvm::json::Object result{{"element", element == MINUET_ELEMENT_F16 ? "f16" : "f32"},
                            {"set", summary(times)}};
  std::fprintf(stderr, "%s: %.4f ms\n", result.getString("element")->str().c_str(),
               *result.getObject("set")->getNumber("median_ms"));
  return result;
}

void bench(const std::string& network, const std::string& commit) {
  Machine& machine = open_gpu();
  NetworkSpec spec{network, {}, DType::F16, "", 0};
  spec.without_values = true;
  const Plan plan = make_network(machine, spec);
  llvm::json::Array sets;
  for (const minuet_element element : {MINUET_ELEMENT_F16, MINUET_ELEMENT_F32})
    sets.push_back(measure(machine, plan.get(), element));
  print_results(machine, commit,
                llvm::json::Object{{"network", network},
                                   {"dtype", "fp16"},
                                   {"parameters", info_of(plan.get()).parameters},
                                   {"tensors", info_of(plan.get()).parameter_tensors},
                                   {"sets_in_turn", kInTurn},
                                   {"sets", std::move(sets)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: parameters_bench NETWORK COMMIT\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] { minuet::abi::bench(arguments[1], arguments[2]); });
}
