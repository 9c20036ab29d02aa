// A zeroed struct of options asks for the same as one that its _INIT macro made: with the fields that must be
// given, both make what has the same infos, and the same bits come out of a run.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "include/minuet/generate.h"
#include "include/minuet/gradient.h"
#include "include/minuet/pointwise.h"
#include "include/minuet/pyramid.h"
#include "include/minuet/space.h"
#include "include/minuet/tuning.h"
#include "tests/runtime/abi/abi_batch_norm_structs.h"
#include "tests/runtime/abi/abi_gradient_structs.h"
#include "tests/runtime/abi/abi_headers.h"
#include "tests/runtime/abi/abi_index_structs.h"
#include "tests/runtime/abi/abi_point_structs.h"
#include "tests/runtime/abi/abi_row_gradient_structs.h"
#include "tests/runtime/abi/abi_seen.h"
#include "tests/runtime/abi/abi_select_structs.h"
#include "tests/runtime/abi/abi_training_structs.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

constexpr const char* kLeakyBlock =
    R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "activation": "leaky_relu"}]})";
const std::vector<int32_t> kCloud{0, 0, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, 1, 1, 0, /**/ 2, -5, 3, 1};
constexpr int64_t kRows = 4;

class AbiDefaults : public testing::Test {
 public:  // one for each struct of options
  void context_options(), device_options(), coordinates_options(), reach_options(), generate_options();
  void kernel_map_options(), convolution_options(), pooling_options(), pointwise_options(), space_options();
  void network_options(), precompile_options(), parameters_options(), execution_options(), tuning_options();
  void pyramid_options(), index_options();
  void voxelize_options(), devoxelize_options(), select_options();
  void batch_norm_options(), group_gradient_options(), affine_gradient_options(), training_options();

 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  /// `given` is zeroed and then as the macro has it, with the fields that `require` sets. Gives what is seen.
  template <class Options>
  Seen compare(const Options& defaults, const std::function<void(Options&)>& require,
               const std::function<Seen(const Options*)>& see) {
    Options zeroed, initialized = defaults;
    std::memset(&zeroed, 0, sizeof(zeroed));
    zeroed.struct_size = sizeof(zeroed);
    require(zeroed), require(initialized);
    const Seen seen = see(&zeroed);
    if (testing::Test::IsSkipped()) return seen;
    EXPECT_EQ(see(&initialized), seen);
    EXPECT_FALSE(seen.facts.empty());
    return seen;
  }
  /// The same for a single op, of which see(machine, options) gives the results.
  template <class Options, class See>
  void compare_results(const Options& defaults, const std::function<void(Options&)>& require,
                       const See& see) {
    compare<Options>(defaults, require, [&](const auto* options) {
      Seen seen = seen_of(MINUET_OK);
      seen.add(see(*cpu_, options));
      return seen;
    });
  }

  void add_run(Seen& seen, const NetworkRun& run) {
    seen.add(run.rows), seen.add(run.channels), seen.add(run.bytes), seen.add(run.coordinates);
    EXPECT_NE(run.bytes, std::vector<char>(run.bytes.size(), '\0'));
  }
  std::vector<char> features() const {
    return encode(DType::F32, {1, -2, 3, 4, -5, 6, 7, 8, -9, 1, 2, 3, 4, 5, -6, 7});
  }
  void add_network(Seen& seen, minuet_plan* plan, minuet_device* device,
                   const minuet_execution_options* options = nullptr) {
    add_plan(seen, plan);
    check(minuet_plan_compile(plan, "cpu", nullptr, nullptr));
    check(minuet_plan_load(plan, device));
    minuet_execution* made = nullptr;
    check(minuet_execution_create(plan, device, options, &made));
    const Execution execution(made, {minuet_execution_destroy});
    add_run(seen, run_network(*cpu_, made, kCloud, features(), DType::F32));
    add_execution(seen, plan, made);
  }
  Plan tiny_network(minuet_context* context) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = kLeakyBlock;
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_network(context, &options, &plan));
    return {plan, {minuet_plan_destroy}};
  }

  Machine* cpu_ = nullptr;
};

void AbiDefaults::context_options() {
  compare<minuet_context_options>(
      MINUET_CONTEXT_OPTIONS_INIT, [](auto&) {},
      [&](const auto* options) {
        minuet_context* context = nullptr;
        Seen seen = seen_of(minuet_context_create(options, &context));
        const Handle<minuet_context> owner(context, {minuet_context_destroy});
        std::string folder(minuet_context_cache_directory(context, nullptr, 0), '\0');
        minuet_context_cache_directory(context, folder.data(), folder.size());
        seen.add_text(folder.c_str());
        minuet_device* device = nullptr;
        check(minuet_device_open(context, "cpu", nullptr, &device));
        const Handle<minuet_device> of_device(device, {minuet_device_destroy});
        seen.add(
            asked<minuet_device_info>([&](auto* answer) { return minuet_device_query(device, answer); }));
        add_network(seen, tiny_network(context).get(), device);
        seen.add(asked<minuet_kernel_counters>(
            [&](auto* answer) { return minuet_context_kernel_counters(context, answer); }));
        return seen;
      });
}

void AbiDefaults::device_options() {
  const Seen seen = compare<minuet_device_options>(
      MINUET_DEVICE_OPTIONS_INIT, [](auto&) {},
      [&](const auto* options) {
        minuet_device* device = nullptr;
        Seen seen = seen_of(minuet_device_open(cpu_->context(), "cpu", options, &device));
        const Handle<minuet_device> owner(device, {minuet_device_destroy});
        add_network(seen, tiny_network(cpu_->context()).get(), device);
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::coordinates_options() {
  const Seen seen = compare<minuet_coordinates_options>(
      MINUET_COORDINATES_OPTIONS_INIT, [](auto&) {},
      [&](const auto* options) {
        minuet_coordinates* made = nullptr;
        Seen seen =
            seen_of(minuet_coordinates_create(cpu_->device(), options, kCloud.data(), kRows, nullptr, &made));
        const Coordinates set(made, {minuet_coordinates_destroy});
        seen.add(minuet_coordinates_count(made)), seen.add(minuet_coordinates_rows(made));
        seen.add(coordinates_of(*cpu_, made, 3));
        const int32_t stride[] = {2, 2, 2, 1};
        minuet_coordinates* coarse = nullptr;
        check(minuet_coordinates_downsample(made, stride, nullptr, &coarse));
        const Coordinates of_coarse(coarse, {minuet_coordinates_destroy});
        seen.add(coordinates_of(*cpu_, coarse, 3));
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::reach_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  const Seen seen = compare<minuet_reach_options>(
      MINUET_REACH_OPTIONS_INIT, [](auto& options) { options.kernel_size[0] = options.kernel_size[1] = 3; },
      [&](const auto* options) {
        minuet_coordinates* made = nullptr;
        Seen seen = seen_of(minuet_coordinates_reach(set.get(), options, nullptr, &made));
        const Coordinates reached(made, {minuet_coordinates_destroy});
        seen.add(coordinates_of(*cpu_, made, 3));
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::generate_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  const Seen seen = compare<minuet_generate_options>(
      MINUET_GENERATE_OPTIONS_INIT,
      [](auto& options) { options.kernel_size[0] = options.kernel_size[1] = 3; },
      [&](const auto* options) {
        minuet_coordinates* made = nullptr;
        Seen seen = seen_of(minuet_coordinates_generate(set.get(), options, nullptr, &made));
        const Coordinates generated(made, {minuet_coordinates_destroy});
        seen.add(coordinates_of(*cpu_, made, 3));
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::kernel_map_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  const Seen seen = compare<minuet_kernel_map_options>(
      MINUET_KERNEL_MAP_OPTIONS_INIT,
      [](auto& options) { options.kernel_size[0] = options.kernel_size[1] = 3; },
      [&](const auto* options) {
        minuet_kernel_map* made = nullptr;
        Seen seen = seen_of(minuet_kernel_map_create(set.get(), set.get(), options, nullptr, &made));
        const KernelMap map(made, {minuet_kernel_map_destroy});
        seen.add(minuet_kernel_map_volume(made));
        std::vector<int32_t> pairs(static_cast<size_t>(pair_count(made)) * 3);
        check(minuet_kernel_map_export(made, pairs.data(), nullptr));
        seen.add(pairs);
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::convolution_options() {
  const Coordinates set = make_set(*cpu_, 3, kCloud, {1, 1, 1, 0});
  minuet_kernel_map_options threes = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::fill_n(threes.kernel_size, 3, 3);
  minuet_kernel_map* made_map = nullptr;
  check(minuet_kernel_map_create(set.get(), set.get(), &threes, nullptr, &made_map));
  const KernelMap map(made_map, {minuet_kernel_map_destroy});
  std::vector<float> weight(27 * 4 * 8);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 11) - 5;
  const Seen seen = compare<minuet_convolution_options>(
      MINUET_CONVOLUTION_OPTIONS_INIT,
      [&](auto& options) {
        options.in_channels = 4, options.out_channels = 8;
        std::fill_n(options.kernel_size, 3, 3);
        options.weight = weight.data(), options.weight_count = static_cast<int64_t>(weight.size());
      },
      [&](const auto* options) {
        minuet_plan* made = nullptr;
        Seen seen = seen_of(minuet_plan_create_convolution(cpu_->context(), options, &made));
        const Plan plan(made, {minuet_plan_destroy});
        add_plan(seen, made);
        check(minuet_plan_compile(made, "cpu", nullptr, nullptr));
        check(minuet_plan_load(made, cpu_->device()));
        const Execution execution = make_execution(*cpu_, made);
        check(prepare_map(execution.get(), map.get()));
        const Buffer input(*cpu_, features()), output(*cpu_, kRows * 8 * 4);
        check(run_tensors(execution.get(), {tensor(input, kRows, 4, DType::F32)},
                          tensor(output, kRows, 8, DType::F32)));
        const std::vector<float> values = output.read<float>();
        EXPECT_LT(*std::min_element(values.begin(), values.end()), 0) << "no activation";
        seen.add(values);
        add_execution(seen, made, execution.get());
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::pooling_options() {
  const Seen seen = compare<minuet_pooling_options>(
      MINUET_POOLING_OPTIONS_INIT, [](auto& options) { options.channels = 4; },
      [&](const auto* options) {
        minuet_plan* made = nullptr;
        Seen one = seen_of(minuet_plan_create_pooling(cpu_->context(), options, &made));
        const Plan plan(made, {minuet_plan_destroy});
        if (made) add_plan(one, made);
        return one;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::space_options() {
  const Seen seen = compare<minuet_space_options>(
      MINUET_SPACE_OPTIONS_INIT, [](auto& options) { options.channels = 3, options.stride[0] = 2; },
      [&](const auto* options) {
        minuet_plan* made = nullptr;
        Seen one = seen_of(minuet_plan_create_space_to_channel(cpu_->context(), options, &made));
        const Plan plan(made, {minuet_plan_destroy});
        const minuet_plan_info info = info_of(made);
        one.add(info.ndim), one.add(info.dtype);
        return one;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::pointwise_options() {
  const minuet_pointwise_step step{MINUET_POINTWISE_TANH, 0, nullptr, nullptr};
  const Seen seen = compare<minuet_pointwise_options>(
      MINUET_POINTWISE_OPTIONS_INIT,
      [&](auto& options) { options.channels = 4, options.steps = &step, options.step_count = 1; },
      [&](const auto* options) {
        minuet_plan* made = nullptr;
        Seen one = seen_of(minuet_plan_create_pointwise(cpu_->context(), options, &made));
        const Plan plan(made, {minuet_plan_destroy});
        if (made) add_plan(one, made);
        return one;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::network_options() {
  const Seen seen = compare<minuet_network_options>(
      MINUET_NETWORK_OPTIONS_INIT, [](auto& options) { options.description = kLeakyBlock; },
      [&](const auto* options) {
        minuet_plan* made = nullptr;
        Seen seen = seen_of(minuet_plan_create_network(cpu_->context(), options, &made));
        const Plan plan(made, {minuet_plan_destroy});
        add_network(seen, made, cpu_->device());
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

/// The list of kernels is empty, so that nothing is compiled.
void AbiDefaults::precompile_options() {
  const TemporaryPath list("requests"), folder("bundles");
  std::ofstream(list.path()).close();
  const char* const archs[] = {"sm_90a"};
  compare<minuet_precompile_options>(
      MINUET_PRECOMPILE_OPTIONS_INIT,
      [&](auto& options) {
        options.requests_path = list.path().c_str();
        options.archs = archs, options.arch_count = 1;
        options.output_directory = folder.path().c_str();
      },
      [&](const auto* options) {
        Seen seen;
        minuet_precompile_result result{};
        result.struct_size = sizeof(result);
        seen = seen_of(minuet_precompile(cpu_->context(), options, &result));
        result.seconds = 0;
        seen.add(result);
        std::vector<std::string> files;
        if (std::filesystem::exists(folder.path())) {
          for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
            files.push_back(entry.path().filename().string() + contents(entry.path().string()));
        }
        std::sort(files.begin(), files.end());
        for (const std::string& file : files) seen.facts.push_back(file);
        std::filesystem::remove_all(folder.path());
        return seen;
      });
}

/// Without `master`, a weight comes back as it was rounded.
void AbiDefaults::parameters_options() {
  const Plan plan = tiny_network(cpu_->context());
  check(minuet_plan_compile(plan.get(), "cpu", nullptr, nullptr));
  check(minuet_plan_load(plan.get(), cpu_->device()));
  const Seen seen = compare<minuet_parameters_options>(
      MINUET_PARAMETERS_OPTIONS_INIT, [](auto&) {},
      [&](const auto* options) {
        minuet_parameters* made = nullptr;
        Seen seen = seen_of(minuet_parameters_create(plan.get(), cpu_->device(), options, &made));
        const Handle<minuet_parameters> parameters{made, {minuet_parameters_destroy}};
        std::vector<float> values(27 * 4 * 8, 1.0009F);
        minuet_array array = {};
        array.data = values.data();
        array.rank = 3;
        array.shape[0] = 27, array.shape[1] = 4, array.shape[2] = 8;
        check(minuet_parameters_set(made, nullptr, &array, 1, MINUET_WEIGHTS_MINUET, nullptr));
        check(minuet_parameters_get(made, 0, &array, nullptr));
        seen.add(values);
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::execution_options() {
  const Plan plan = tiny_network(cpu_->context());
  const Seen seen = compare<minuet_execution_options>(
      MINUET_EXECUTION_OPTIONS_INIT, [](auto&) {},
      [&](const auto* options) {
        Seen seen;
        add_network(seen, plan.get(), cpu_->device(), options);
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

/// The call is stopped at once.
void AbiDefaults::tuning_options() {
  const TemporaryPath folder("results");
  const Plan plan = tiny_network(cpu_->context());
  const minuet_tuning_cloud cloud{kCloud.data(), kRows};
  const Seen seen = compare<minuet_tuning_options>(
      MINUET_TUNING_OPTIONS_INIT,
      [&](auto& options) {
        options.clouds = &cloud, options.cloud_count = 1;
        options.directory = folder.path().c_str();
        options.cancelled = [](void*) { return int32_t{1}; };
      },
      [&](const auto* options) {
        minuet_tuning_result result{};
        result.struct_size = sizeof(result);
        Seen seen = seen_of(minuet_tune(cpu_->context(), plan.get(), cpu_->device(), options, &result));
        result.seconds = 0;
        seen.add(result);
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_CANCELLED);
}

/// Shows the bytes, the coordinates of a cloud, and that duplicates are refused.
void AbiDefaults::pyramid_options() {
  const Seen seen = compare<minuet_pyramid_options>(
      MINUET_PYRAMID_OPTIONS_INIT,
      [](auto& options) {
        static constexpr minuet_pyramid_level kLevel{kRows, -1, {}, 0, {}, {}, {}, {}, 0};
        options.levels = &kLevel, options.level_count = 1;
        options.keep_coordinates = 1;
      },
      [&](const auto* options) {
        minuet_pyramid* made = nullptr;
        Seen seen = seen_of(minuet_pyramid_create(cpu_->context(), options, &made));
        const Handle<minuet_pyramid> pyramid(made, {minuet_pyramid_destroy});
        int64_t bytes = 0, workspace_bytes = 0;
        check(minuet_pyramid_bytes(made, "cpu", &bytes, &workspace_bytes));
        seen.add(bytes), seen.add(workspace_bytes);
        check(minuet_pyramid_load(made, cpu_->device()));
        const Buffer buffer(*cpu_, bytes), workspace(*cpu_, workspace_bytes), status(*cpu_, 4);
        const Buffer coordinates(*cpu_, kRows * 4 * 4);
        minuet_pyramid_arguments arguments = MINUET_PYRAMID_ARGUMENTS_INIT;
        arguments.buffer = buffer.data(), arguments.buffer_bytes = bytes;
        arguments.workspace = workspace.data(), arguments.workspace_bytes = workspace_bytes;
        std::vector<int32_t> twice = kCloud;
        for (const bool is_doubled : {false, true}) {
          if (is_doubled) std::copy_n(twice.begin(), 4, twice.begin() + 4);
          arguments.coordinates = twice.data(), arguments.most = kRows;
          arguments.status = static_cast<uint32_t*>(status.data());
          check(minuet_pyramid_build(made, cpu_->device(), &arguments, nullptr));
          check(minuet_pyramid_coordinates(made, cpu_->device(), buffer.data(), bytes, 0,
                                           static_cast<int32_t*>(coordinates.data()), nullptr));
          EXPECT_EQ(status.read<uint32_t>().front(), is_doubled ? uint32_t{MINUET_CLOUD_DUPLICATE} : 0u);
          seen.add(coordinates.read<int32_t>());
        }
        return seen;
      });
  EXPECT_EQ(seen.status, MINUET_OK);
}

void AbiDefaults::index_options() {
  compare_results<minuet_index_options>(MINUET_INDEX_OPTIONS_INIT, set_index_levels, index_numbers_with);
}

void AbiDefaults::voxelize_options() {
  const auto require = [](auto& options) {
    options.channels = 1;
    for (int axis = 0; axis < 3; ++axis) options.voxel_size[axis] = 0.5f;
  };
  compare_results<minuet_voxelize_options>(MINUET_VOXELIZE_OPTIONS_INIT, require, voxels_with);
}

void AbiDefaults::devoxelize_options() {
  compare_results<minuet_devoxelize_options>(
      MINUET_DEVOXELIZE_OPTIONS_INIT, [](auto& options) { options.channels = 1; }, features_with);
}

void AbiDefaults::select_options() {
  compare_results<minuet_select_options>(
      MINUET_SELECT_OPTIONS_INIT, [](auto&) {}, selected_with);
}

void AbiDefaults::affine_gradient_options() {
  compare_results<minuet_affine_gradient_options>(
      MINUET_AFFINE_GRADIENT_OPTIONS_INIT, [](auto& options) { options.channels = 2; }, affine_gradient_with);
}

void AbiDefaults::batch_norm_options() {
  compare_results<minuet_batch_norm_options>(
      MINUET_BATCH_NORM_OPTIONS_INIT, [](auto& options) { options.channels = 1; }, normalized_with);
}

void AbiDefaults::group_gradient_options() {
  compare_results<minuet_group_gradient_options>(
      MINUET_GROUP_GRADIENT_OPTIONS_INIT, [](auto& options) { options.channels = 2; }, group_gradient_with);
}

void AbiDefaults::training_options() {
  compare_results<minuet_training_options>(
      MINUET_TRAINING_OPTIONS_INIT, [](auto&) {}, step_with);
}

TEST_F(AbiDefaults, AZeroedStructAsksForTheDefaults) {
  const std::pair<const char*, void (AbiDefaults::*)()> rows[] = {
#define MINUET_ROW(name) {"minuet_" #name, &AbiDefaults::name},
      MINUET_ROW(context_options) MINUET_ROW(device_options) MINUET_ROW(coordinates_options)
          MINUET_ROW(reach_options) MINUET_ROW(generate_options) MINUET_ROW(kernel_map_options)
              MINUET_ROW(convolution_options) MINUET_ROW(pooling_options) MINUET_ROW(pointwise_options)
                  MINUET_ROW(space_options) MINUET_ROW(network_options) MINUET_ROW(precompile_options)
                      MINUET_ROW(parameters_options) MINUET_ROW(execution_options) MINUET_ROW(tuning_options)
                          MINUET_ROW(pyramid_options) MINUET_ROW(index_options) MINUET_ROW(voxelize_options)
                              MINUET_ROW(devoxelize_options) MINUET_ROW(select_options)
                                  MINUET_ROW(affine_gradient_options) MINUET_ROW(batch_norm_options)
                                      MINUET_ROW(group_gradient_options) MINUET_ROW(training_options)
#undef MINUET_ROW
  };
  std::set<std::string> known;
  for (const auto& [name, row] : rows) {
    SCOPED_TRACE(name);
    known.insert(name);
    (this->*row)();
  }
  EXPECT_EQ(known, declared_structs(MINUET_SOURCE_DIR, "_options"));
}

}  // namespace
}  // namespace minuet::abi
