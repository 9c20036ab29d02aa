// Structs of callers of other ages: what lies behind a struct_size is neither read nor written. Every struct
// of the public headers is in a table here; a test reads the headers and names those that are not.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "include/minuet/generate.h"
#include "include/minuet/kernels.h"
#include "include/minuet/pointwise.h"
#include "include/minuet/pyramid.h"
#include "include/minuet/space.h"
#include "include/minuet/tuning.h"
#include "tests/runtime/abi/abi_batch_norm_structs.h"
#include "tests/runtime/abi/abi_checks.h"
#include "tests/runtime/abi/abi_gradient_structs.h"
#include "tests/runtime/abi/abi_headers.h"
#include "tests/runtime/abi/abi_index_structs.h"
#include "tests/runtime/abi/abi_point_structs.h"
#include "tests/runtime/abi/abi_pyramid_structs.h"
#include "tests/runtime/abi/abi_row_gradient_structs.h"
#include "tests/runtime/abi/abi_select_structs.h"
#include "tests/runtime/abi/abi_told.h"
#include "tests/runtime/abi/abi_training_structs.h"
#include "tests/runtime/abi/abi_tuning.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

/// What the library hands to a callback has its size in it, each time.
template <class Told>
void check_told(void (*meet)(Sizes& sizes)) {
  static_assert(offsetof(Told, struct_size) == 0);
  static_assert(std::is_same_v<decltype(Told::struct_size), size_t>);
  Sizes sizes;
  meet(sizes);
  if (testing::Test::IsSkipped()) return;
  EXPECT_FALSE(sizes.empty()) << "the callback is called";
  EXPECT_EQ(sizes, Sizes(sizes.size(), sizeof(Told)));
}

constexpr const char* kTiny = R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";

/// One small network on the CPU device, prepared for a cloud and profiled.
class Structs {
 public:
  Structs() {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    if (cpu_ == nullptr) throw std::runtime_error(reason);
    NetworkSpec spec;
    spec.description = kTiny;
    network_ = make_network(*cpu_, spec);
    execution_ = make_execution(*cpu_, network_.get());
    check(minuet_execution_set_profiling(execution_.get(), 1));
    run_network(*cpu_, execution_.get(), kCloud, std::vector<char>(2 * 4 * 4), DType::F32);
  }

  void context_options();
  void device_options();
  void coordinates_options();
  void reach_options();
  void generate_options();
  void kernel_map_options();
  void convolution_options();
  void pooling_options();
  void pointwise_options();
  void space_options();
  void network_options(), precompile_options(), parameters_options(), execution_options(), tuning_options();
  Machine& cpu() { return *cpu_; }
  void gradient_arguments() { check_gradient_arguments(*cpu_); }
  void pointwise_steps() { check_pointwise_steps(*cpu_); }
  void pyramid_elements(int array) { check_pyramid_elements(*cpu_, array); }
  void pyramid_arguments() { check_pyramid_arguments(*cpu_, network_.get()); }
  void run_arguments() { check_run_arguments(*cpu_, network_.get()); }
  void kernel_counters() {
    check_info<minuet_kernel_counters>(
        [&](auto* info) { return minuet_context_kernel_counters(cpu_->context(), info); });
  }
  void system_info() { check_info<minuet_system_info>(minuet_query_system); }
  void shipped_network_info() {
    check_info<minuet_shipped_network_info>([](auto* info) { return minuet_query_shipped_network(2, info); });
  }
  void device_info() {
    check_info<minuet_device_info>([&](auto* info) { return minuet_device_query(cpu_->device(), info); });
  }
  void plan_info() {
    check_info<minuet_plan_info>([&](auto* info) { return minuet_plan_query(network_.get(), info); });
  }
  void parameter_info() {
    check_info<minuet_parameter_info>(
        [&](auto* info) { return minuet_plan_query_parameter(network_.get(), 0, info); });
  }
  void tensor_info() {
    check_info<minuet_tensor_info>(
        [&](auto* info) { return minuet_plan_query_output(network_.get(), 0, info); });
  }
  void execution_info() {
    check_info<minuet_execution_info>(
        [&](auto* info) { return minuet_execution_query(execution_.get(), info); });
  }
  void execution_counters() {
    check_info<minuet_execution_counters>(
        [&](auto* info) { return minuet_execution_query_counters(execution_.get(), info); });
  }
  void stage_times() {
    check_info<minuet_stage_times>(
        [&](auto* info) { return minuet_execution_query_stages(execution_.get(), info); });
  }
  void level_info() {
    check_info<minuet_level_info>(
        [&](auto* info) { return minuet_execution_query_level(execution_.get(), 0, info); });
  }
  void layer_info() {
    check_info<minuet_layer_info>(
        [&](auto* info) { return minuet_execution_query_layer(execution_.get(), 0, info); });
  }
  void precompile_result();
  void tuning_result();

 private:
  static inline const std::vector<int32_t> kCloud{0, 0, 0, 0, /**/ 0, 1, 0, 0};

  Machine* cpu_ = nullptr;
  Plan network_{nullptr, {minuet_plan_destroy}};
  Execution execution_{nullptr, {minuet_execution_destroy}};
};

void Structs::context_options() {
  minuet_context_options given = MINUET_CONTEXT_OPTIONS_INIT;
  const TemporaryPath folder("structs");
  given.cache_directory = folder.path().c_str();
  given.disable_disk_cache = 1;
  given.jit = MINUET_JIT_OFF;
  given.bundle_path = "";
  given.record_path = "";
  given.cpu_threads = 5000;  // refused, by the last field
  check_options<minuet_context_options>(given, MINUET_CONTEXT_OPTIONS_INIT, [](const auto* options) {
    minuet_context* made = nullptr;
    const minuet_status status = minuet_context_create(options, &made);
    minuet_context_destroy(made);
    return status;
  });
}

void Structs::device_options() {
  minuet_device_options given = MINUET_DEVICE_OPTIONS_INIT;
  given.allocate = [](int64_t, void*, void*) { return static_cast<void*>(nullptr); };  // refused without free
  given.free = [](void*, int64_t, void*, void*) {};
  given.user = &given;
  check_options<minuet_device_options>(given, MINUET_DEVICE_OPTIONS_INIT, [&](const auto* options) {
    minuet_device* made = nullptr;
    const minuet_status status = minuet_device_open(cpu_->context(), "cpu", options, &made);
    minuet_device_destroy(made);
    return status;
  });
}

void Structs::coordinates_options() {
  minuet_coordinates_options given = MINUET_COORDINATES_OPTIONS_INIT;
  given.ndim = 2;
  given.tensor_stride[1] = 3;
  given.keep_first_duplicate = 1;
  given.has_bounds = 1;
  given.greatest[0] = given.greatest[1] = given.greatest[2] = 9;
  const int32_t coordinates[] = {0, 3, 3, /**/ 0, 3, 3, /**/ 0, 6, 3};
  check_options<minuet_coordinates_options>(given, MINUET_COORDINATES_OPTIONS_INIT, [&](const auto* options) {
    minuet_coordinates* made = nullptr;
    const minuet_status status =
        minuet_coordinates_create(cpu_->device(), options, coordinates, 2, nullptr, &made);
    minuet_coordinates_destroy(made);
    return status;
  });
}

void Structs::reach_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  minuet_reach_options given = MINUET_REACH_OPTIONS_INIT;
  given.kernel_size[0] = given.kernel_size[1] = 3;
  given.stride[2] = 2;
  given.dilation[0] = 2;
  given.padding[1] = 1;
  given.shape[0] = 4;  // refused: the other axes have none
  check_options<minuet_reach_options>(given, MINUET_REACH_OPTIONS_INIT, [&](const auto* options) {
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_reach(set.get(), options, nullptr, &made);
    minuet_coordinates_destroy(made);
    return status;
  });
}

void Structs::generate_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  minuet_generate_options given = MINUET_GENERATE_OPTIONS_INIT;
  given.kernel_size[0] = given.kernel_size[1] = 3;
  given.stride[2] = 2;  // refused: the set has tensor stride 1
  given.dilation[0] = 2;
  given.dense_offsets = 1;
  given.padding[1] = 1;
  given.shape[0] = 4;  // refused: the other axes have none
  check_options<minuet_generate_options>(given, MINUET_GENERATE_OPTIONS_INIT, [&](const auto* options) {
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_generate(set.get(), options, nullptr, &made);
    minuet_coordinates_destroy(made);
    return status;
  });
}

void Structs::kernel_map_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  minuet_kernel_map_options given = MINUET_KERNEL_MAP_OPTIONS_INIT;
  given.kernel_size[0] = given.kernel_size[1] = 3;
  given.dilation[0] = 2;
  given.dilation[2] = 1 << 25;  // refused
  given.transposed = 1;
  given.padding[0] = 1;    // refused without dense_offsets
  given.kernel_shape = 5;  // refused
  check_options<minuet_kernel_map_options>(given, MINUET_KERNEL_MAP_OPTIONS_INIT, [&](const auto* options) {
    minuet_kernel_map* made = nullptr;
    const minuet_status status = minuet_kernel_map_create(set.get(), set.get(), options, nullptr, &made);
    minuet_kernel_map_destroy(made);
    return status;
  });
}

void Structs::convolution_options() {
  const std::vector<float> weight(9, 1.0f), scale(1, 1.0f);
  minuet_convolution_options given = MINUET_CONVOLUTION_OPTIONS_INIT;
  given.ndim = 2;
  given.dtype = MINUET_BF16;
  given.in_channels = given.out_channels = 1;
  given.kernel_size[0] = given.kernel_size[1] = 3;
  given.activation = MINUET_ACTIVATION_RELU;
  given.weight = weight.data();
  given.scale = scale.data();
  given.dataflow = MINUET_DATAFLOW_FUSED;
  given.weight_count = 9;
  given.scale_count = 1;
  given.shift_count = 1;     // refused: shift is null
  given.without_values = 1;  // refused for another reason
  given.padding[0] = 1;      // refused without dense_offsets
  given.kernel_shape = 5;    // refused
  check_options<minuet_convolution_options>(given, MINUET_CONVOLUTION_OPTIONS_INIT, [&](const auto* options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_convolution(cpu_->context(), options, &made);
    minuet_plan_destroy(made);
    return status;
  });
}

void Structs::pooling_options() {
  minuet_pooling_options given = MINUET_POOLING_OPTIONS_INIT;
  given.ndim = 2;
  given.channels = 4;
  given.kernel_size[0] = 2;
  given.stride[0] = 2;
  given.reduction = 7;  // refused
  given.winners = 1;
  check_options<minuet_pooling_options>(given, MINUET_POOLING_OPTIONS_INIT, [&](const auto* options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_pooling(cpu_->context(), options, &made);
    minuet_plan_destroy(made);
    return status;
  });
}

void Structs::space_options() {
  minuet_space_options given = MINUET_SPACE_OPTIONS_INIT;
  given.ndim = 2;
  given.dtype = MINUET_F16;
  given.channels = 6;
  given.stride[0] = 2;
  given.stride[3] = 2;  // refused: there are two axes
  check_options<minuet_space_options>(given, MINUET_SPACE_OPTIONS_INIT, [&](const auto* options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_space_to_channel(cpu_->context(), options, &made);
    minuet_plan_destroy(made);
    return status;
  });
}

void Structs::pointwise_options() {
  const minuet_pointwise_step step{MINUET_POINTWISE_RELU, 0, nullptr, nullptr};
  minuet_pointwise_options given = MINUET_POINTWISE_OPTIONS_INIT;
  given.ndim = 2;
  given.channels = 4;
  given.steps = &step, given.step_count = 1;
  given.without_values = 1;
  given.allow_non_finite_parameters = 7;  // refused
  given.step_bytes = 4;                   // refused: smaller than any step
  check_options<minuet_pointwise_options>(given, MINUET_POINTWISE_OPTIONS_INIT, [&](const auto* options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_pointwise(cpu_->context(), options, &made);
    minuet_plan_destroy(made);
    return status;
  });
}

void Structs::network_options() {
  const int32_t channels[] = {8};
  minuet_network_options given = MINUET_NETWORK_OPTIONS_INIT;
  given.description = kTiny;
  given.dtype = MINUET_F16;
  given.channels = channels;
  given.channel_count = 1;
  given.ndim = 3;
  given.weights_path = "/nowhere/weights.safetensors";
  given.allow_unused = 1;
  given.dataflow = 9;  // refused
  given.without_values = 1;
  const int32_t cells[] = {8, 8, 8};
  given.shape = cells;
  given.shape_count = 3;
  given.in_channels = 5;
  given.weights_key = "model_state";
  check_options<minuet_network_options>(given, MINUET_NETWORK_OPTIONS_INIT, [&](const auto* options) {
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_network(cpu_->context(), options, &made);
    minuet_plan_destroy(made);
    return status;
  });
}

void Structs::precompile_options() {
  const char* const archs[] = {"sm_90a"};
  minuet_precompile_options given = MINUET_PRECOMPILE_OPTIONS_INIT;
  given.requests_path = "/nowhere/requests";
  given.archs = archs;
  given.arch_count = 1;
  given.output_directory = "/nowhere/bundles";
  check_options<minuet_precompile_options>(given, MINUET_PRECOMPILE_OPTIONS_INIT, [&](const auto* options) {
    return minuet_precompile(cpu_->context(), options, nullptr);
  });
}

void Structs::parameters_options() {
  minuet_parameters_options given = MINUET_PARAMETERS_OPTIONS_INIT;
  given.master = 7;  // refused
  check_options<minuet_parameters_options>(given, MINUET_PARAMETERS_OPTIONS_INIT, [&](const auto* options) {
    minuet_parameters* made = nullptr;
    const minuet_status status = minuet_parameters_create(network_.get(), cpu_->device(), options, &made);
    minuet_parameters_destroy(made);
    return status;
  });
}

void Structs::execution_options() {
  const int64_t capacities[] = {300};
  minuet_execution_options given = MINUET_EXECUTION_OPTIONS_INIT;
  given.keep_first_duplicate = 1;
  given.has_bounds = 1;
  for (int f = 0; f < 4; ++f) given.greatest[f] = 10;
  given.scratch_bytes = 1 << 20;
  given.level_capacity = capacities;
  given.level_count = 1;
  given.level_slots = capacities;
  given.map_method = 9;  // refused
  given.parameter_inputs = 1;
  given.batch_size = 20;
  check_options<minuet_execution_options>(given, MINUET_EXECUTION_OPTIONS_INIT, [&](const auto* options) {
    minuet_execution* made = nullptr;
    const minuet_status status = minuet_execution_create(network_.get(), cpu_->device(), options, &made);
    minuet_execution_destroy(made);
    return status;
  });
}

/// Puts 0 in place of as much of a time as was filled in.
template <class Result>
void forget_seconds(Result* result) {
  constexpr size_t kPlace = offsetof(Result, seconds);
  if (result->struct_size > kPlace)
    std::memset(reinterpret_cast<char*>(result) + kPlace, 0, result->struct_size - kPlace);
}

void Structs::tuning_options() {
  const TemporaryPath folder("structs");
  TinyTuning tiny(kCloud, folder.path());
  tiny.options.repeats = 2;  // refused
  check_options<minuet_tuning_options>(tiny.options, MINUET_TUNING_OPTIONS_INIT, [&](const auto* options) {
    return minuet_tune(cpu_->context(), network_.get(), cpu_->device(), options, nullptr);
  });
}

void Structs::tuning_result() {
  const TemporaryPath folder("structs");
  const TinyTuning tiny(kCloud, folder.path());
  check_info<minuet_tuning_result>([&](auto* info) {
    const minuet_status status =
        minuet_tune(cpu_->context(), network_.get(), cpu_->device(), &tiny.options, info);
    if (status != MINUET_CANCELLED) return status;
    forget_seconds(info);
    return MINUET_OK;
  });
}

/// Nothing is compiled: the list of kernels is empty.
void Structs::precompile_result() {
  const TemporaryPath list("requests"), folder("bundles");
  std::ofstream(list.path()).close();
  const char* const archs[] = {"sm_90a"};
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.requests_path = list.path().c_str();
  options.archs = archs;
  options.arch_count = 1;
  options.output_directory = folder.path().c_str();
  if (minuet_precompile(cpu_->context(), &options, nullptr) == MINUET_UNAVAILABLE)
    MINUET_SKIP_OR_FAIL("nvrtc", "kernels cannot be compiled, for there is no libnvrtc: " + last_error());
  check_info<minuet_precompile_result>([&](auto* info) {
    const minuet_status status = minuet_precompile(cpu_->context(), &options, info);
    if (status == MINUET_OK) forget_seconds(info);
    return status;
  });
}

/// Every struct of the headers, by its name.
const std::map<std::string, std::function<void(Structs&)>>& table() {
  static const std::map<std::string, std::function<void(Structs&)>> rows{
#define MINUET_ROW(name) {"minuet_" #name, [](Structs& structs) { structs.name(); }},
      // Options, which a caller fills in.
      MINUET_ROW(context_options) MINUET_ROW(device_options) MINUET_ROW(coordinates_options)
          MINUET_ROW(reach_options) MINUET_ROW(generate_options) MINUET_ROW(kernel_map_options)
              MINUET_ROW(convolution_options) MINUET_ROW(pooling_options) MINUET_ROW(pointwise_options)
                  MINUET_ROW(space_options) MINUET_ROW(network_options) MINUET_ROW(precompile_options)
                      MINUET_ROW(parameters_options) MINUET_ROW(execution_options) MINUET_ROW(tuning_options)
                          MINUET_ROW(pyramid_arguments) MINUET_ROW(run_arguments)
                              MINUET_ROW(gradient_arguments)
      // Answers, which the library fills in.
      MINUET_ROW(kernel_counters) MINUET_ROW(system_info) MINUET_ROW(shipped_network_info) MINUET_ROW(
          device_info) MINUET_ROW(plan_info) MINUET_ROW(parameter_info) MINUET_ROW(tensor_info)
          MINUET_ROW(execution_info) MINUET_ROW(execution_counters) MINUET_ROW(stage_times) MINUET_ROW(
              level_info) MINUET_ROW(layer_info) MINUET_ROW(precompile_result) MINUET_ROW(tuning_result)
#undef MINUET_ROW
#define MINUET_CHECK(name) {"minuet_" #name, [](Structs& structs) { check_##name(structs.cpu()); }},
              MINUET_CHECK(voxelize_options) MINUET_CHECK(devoxelize_options) MINUET_CHECK(voxelize_arguments)
                  MINUET_CHECK(select_options) MINUET_CHECK(select_arguments)
                      MINUET_CHECK(devoxelize_arguments) MINUET_CHECK(group_gradient_options)
                          MINUET_CHECK(group_gradient_arguments) MINUET_CHECK(batch_norm_options)
                              MINUET_CHECK(batch_norm_arguments) MINUET_CHECK(batch_norm_gradient_arguments)
                                  MINUET_CHECK(affine_gradient_options) MINUET_CHECK(pyramid_options)
                                      MINUET_CHECK(training_options) MINUET_CHECK(training_forward_arguments)
                                          MINUET_CHECK(training_backward_arguments) MINUET_CHECK(kept_info)
                                              MINUET_CHECK(training_sizes) MINUET_CHECK(index_options)
                                                  MINUET_CHECK(index_sizes)
#undef MINUET_CHECK
#define MINUET_TOLD(name) {"minuet_" #name, [](Structs&) { check_told<minuet_##name>(meet_##name); }},
      // Those that callbacks are handed.
      MINUET_TOLD(kernel_info) MINUET_TOLD(kernel_code) MINUET_TOLD(precompile_step) MINUET_TOLD(bundle_info)
          MINUET_TOLD(tuning_progress) MINUET_TOLD(tuning_skip) MINUET_TOLD(tuned_choice)
#undef MINUET_TOLD
      // The elements of arrays, whose sizes the options have.
      {"minuet_pyramid_level", [](Structs& structs) { structs.pyramid_elements(0); }},
      {"minuet_pyramid_map", [](Structs& structs) { structs.pyramid_elements(1); }},
      // These never grow.
      {"minuet_kernel_field", [](Structs&) { EXPECT_EQ(sizeof(minuet_kernel_field), 40u); }},
      {"minuet_pointwise_step", [](Structs& structs) { structs.pointwise_steps(); }},
      {"minuet_array", [](Structs&) { EXPECT_EQ(sizeof(minuet_array), 120u); }},
      {"minuet_tensor", [](Structs&) { EXPECT_EQ(sizeof(minuet_tensor), 32u); }},
      {"minuet_tuning_cloud", [](Structs&) { EXPECT_EQ(sizeof(minuet_tuning_cloud), 16u); }},
  };
  return rows;
}

/// A struct that is new in a header needs a row in the table.
TEST(AbiStructs, TheTableHasEveryStructOfTheHeaders) {
  const std::set<std::string> declared = declared_structs(MINUET_SOURCE_DIR);
  std::set<std::string> known;
  for (const auto& row : table()) known.insert(row.first);
  EXPECT_GE(declared.size(), 33u);
  EXPECT_EQ(known, declared);
}

class AbiStructTest : public testing::TestWithParam<std::string> {};

TEST_P(AbiStructTest, OfCallersOfEveryAge) {
  static Structs structs;
  table().at(GetParam())(structs);
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& row : table()) names.push_back(row.first);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Structs, AbiStructTest, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace minuet::abi
