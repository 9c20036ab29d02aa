// A GPU's stored results reach what is created after minuet_context_load_tuning (R35).
#include <gmock/gmock.h>

#include "runtime/context.h"
#include "tests/codegen/tuning/examples.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/abi.h"

namespace minuet::abi {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class TunedPlanTest : public GpuTest {
 protected:
  /// Kernels of a layer of 64 fp16 channels, compiled and loaded.
  std::vector<std::string> kernels(minuet_context* context, minuet_device* device) {
    const std::vector<float> weight(size_t{27} * 64 * 64, 0.01f);
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.ndim = 3;
    options.dtype = MINUET_F16;
    options.in_channels = options.out_channels = 64;
    std::fill_n(options.kernel_size, 3, 3);
    options.submanifold = 1;
    options.weight = weight.data();
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(context, &options, &made));
    const Plan convolution(made, {minuet_plan_destroy});
    std::vector<std::string> names;
    const auto note = [](const minuet_kernel_info* kernel, void* user) {
      static_cast<std::vector<std::string>*>(user)->push_back(kernel->name);
    };
    check(minuet_plan_compile(made, Gpu::get().device->info().arch.c_str(), note, &names));
    check(minuet_plan_load(made, device));
    return names;
  }
};

TEST_F(TunedPlanTest, R35_StoredResultsAreTakenOnceTheyAreAskedFor) {
  const TemporaryFolder folder;
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.cache_directory = folder.path().c_str();
  minuet_context* made = nullptr;
  check(minuet_context_create(&options, &made));
  const Handle<minuet_context> context(made, {minuet_context_destroy});
  minuet_device* opened = nullptr;
  check(minuet_device_open(made, "cuda:0", &opened));
  const Handle<minuet_device> device(opened, {minuet_device_destroy});

  int64_t results = -1;
  check(minuet_context_load_tuning(made, opened, &results));
  EXPECT_EQ(results, 0);
  EXPECT_THAT(kernels(made, opened), Contains(HasSubstr("gather-f16-c64-t8")));

  minuet_system_info system{};
  system.struct_size = sizeof(system);
  check(minuet_query_system(&system));
  TuningEnvironment environment = tuning_environment(Gpu::get().device->info());
  environment.toolkit = system.nvrtc;
  TuningStore store(folder.path(), tuning_folder_of_cache(), process_policy(process_environment()),
                    real_file_system());
  llvm::cantFail(store.publish(example_entry(environment)));
  EXPECT_THAT(kernels(made, opened), Contains(HasSubstr("gather-f16-c64-t8")));
  check(minuet_context_load_tuning(made, opened, &results));
  EXPECT_EQ(results, 1);
  const std::vector<std::string> tuned = kernels(made, opened);
  EXPECT_THAT(tuned, Contains(HasSubstr("gather-f16-c64-t16")));
  EXPECT_THAT(tuned, Not(Contains(HasSubstr("gather-f16-c64-t8"))));
}

}  // namespace
}  // namespace minuet::abi
