#include "tests/runtime/abi/abi_told.h"

#include "include/minuet/kernels.h"
#include "include/minuet/tuning.h"
#include "tests/runtime/abi/planted_fixture.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

template <class Told>
void keep_size(const Told* told, void* user) {
  static_cast<Sizes*>(user)->push_back(told->struct_size);
}

/// The fixture's folder and kernels, for as long as this lives.
class Kernels : public Planted {
 public:
  Kernels() { make_folder(); }
  ~Kernels() override { TearDown(); }
  void TestBody() override {}
  using Planted::context;
  using Planted::convolution;
  using Planted::path;
  using Planted::plant;
  using Planted::record;

  Handle<minuet_context> context_of(const std::string& bundle) {
    return context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      options.bundle_path = bundle.c_str();
    });
  }
  /// A list of one small kernel.
  std::string record_one() {
    std::istringstream all(contents(record()));
    std::ofstream one(path("one.jsonl"));
    for (std::string line; std::getline(all, line);) {
      if (line.find("\"name\":\"gather-") == std::string::npos) continue;
      one << line << "\n";
      break;
    }
    return path("one.jsonl");
  }
};

struct ToldAhead {
  Sizes steps, bundles;
};

void keep_step(const minuet_precompile_step* step, void* user) {
  static_cast<ToldAhead*>(user)->steps.push_back(step->struct_size);
  ASSERT_NE(step->kernel, nullptr);
  EXPECT_EQ(step->kernel->struct_size, sizeof(minuet_kernel_info));
}

/// One kernel is compiled into one bundle.
void compile_ahead(ToldAhead& told) {
  Kernels kernels;
  const std::string list = kernels.record_one(), output = kernels.path("bundles");
  const auto farm = kernels.context("farm");
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.requests_path = list.c_str();
  options.output_directory = output.c_str();
  options.jobs = 1;
  options.step = keep_step;
  options.bundle = [](const minuet_bundle_info* bundle, void* user) {
    static_cast<ToldAhead*>(user)->bundles.push_back(bundle->struct_size);
  };
  options.user = &told;
  const minuet_status status = minuet_precompile(farm.get(), &options, nullptr);
  if (status == MINUET_UNAVAILABLE)
    MINUET_SKIP_OR_FAIL("nvrtc", "kernels cannot be compiled, for there is no libnvrtc: " + last_error());
  check(status);
}

constexpr const char* kTwoLayers =
    R"({"name": "two", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
  {"op": "block", "name": "b", "width": 0, "kernel_size": 1, "activation": "none"}]})";

/// The callbacks also see to it that one candidate cannot run: its cloud has a duplicate until it is skipped.
struct ToldTuning {
  Sizes progress, skipped, choices;
  std::vector<int32_t> coordinates{0, 0, 0, 0, /**/ 0, 1, 0, 0};
  int32_t& moved() { return coordinates[5]; }
};

void keep_progress(const minuet_tuning_progress* progress, void* user) {
  ToldTuning& told = *static_cast<ToldTuning*>(user);
  keep_size(progress, &told.progress);
  if (told.skipped.empty()) told.moved() = 0;
}

void keep_skip(const minuet_tuning_skip* skip, void* user) {
  ToldTuning& told = *static_cast<ToldTuning*>(user);
  keep_size(skip, &told.skipped);
  told.moved() = 1;
}

ToldTuning tune() {
  ToldTuning told;
  const TemporaryPath folder("told");
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  check(minuet_context_create(nullptr, &context));
  const Handle<minuet_context> of_context(context, {minuet_context_destroy});
  check(minuet_device_open(context, "cpu", nullptr, &device));
  const Handle<minuet_device> of_device(device, {minuet_device_destroy});
  const auto make_plan = [&] {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = kTwoLayers;
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_network(context, &options, &plan));
    return Plan(plan, {minuet_plan_destroy});
  };
  const minuet_tuning_cloud cloud{told.coordinates.data(), 2};
  minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;
  options.clouds = &cloud;
  options.cloud_count = 1;
  options.repeats = 3;
  options.directory = folder.path().c_str();
  options.progress = keep_progress;
  options.skipped = keep_skip;
  options.user = &told;
  check(minuet_tune(context, make_plan().get(), device, &options, nullptr));
  check(minuet_context_load_tuning(context, device, folder.path().c_str(), nullptr));
  check(minuet_plan_visit_tuning(make_plan().get(), keep_size<minuet_tuned_choice>, &told.choices));
  return told;
}

const ToldTuning& told_tuning() {
  static const ToldTuning told = tune();
  return told;
}

}  // namespace

void meet_kernel_info(Sizes& sizes) {
  Kernels kernels;
  const std::string bundle = kernels.path("kernels.bundle");
  kernels.plant(bundle, "nvrtc 13.0 a b");
  const auto context = kernels.context_of(bundle);
  check(minuet_plan_compile(kernels.convolution(context.get()).get(), kArch, keep_size<minuet_kernel_info>,
                            &sizes));
}

void meet_kernel_code(Sizes& sizes) {
  Kernels kernels;
  const std::string bundle = kernels.path("kernels.bundle");
  kernels.plant(bundle, "nvrtc 13.0 a b");
  const auto context = kernels.context_of(bundle);
  const auto plan = kernels.convolution(context.get());
  check(minuet_plan_compile(plan.get(), kArch, nullptr, nullptr));
  check(minuet_plan_visit_kernels(plan.get(), kArch, keep_size<minuet_kernel_code>, &sizes));
}

void meet_precompile_step(Sizes& sizes) {
  ToldAhead told;
  compile_ahead(told);
  sizes = told.steps;
}

void meet_bundle_info(Sizes& sizes) {
  ToldAhead told;
  compile_ahead(told);
  sizes = told.bundles;
}

void meet_tuning_progress(Sizes& sizes) { sizes = told_tuning().progress; }

void meet_tuning_skip(Sizes& sizes) { sizes = told_tuning().skipped; }

void meet_tuned_choice(Sizes& sizes) { sizes = told_tuning().choices; }

}  // namespace minuet::abi
