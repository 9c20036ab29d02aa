// Tuning results and the C ABI: into bundles with the kernels that they choose (R20, R35).
#include <set>

#include "codegen/bundle/bundle.h"
#include "codegen/bundle/bundle_writer.h"
#include "tests/codegen/tuning/examples.h"
#include "tests/runtime/caches_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

TEST_F(Caches, R35_ABundleGetsResultsAndTheKernelsThatTheyChoose) {
  const auto farm = context("farm");
  minuet_system_info system{};
  system.struct_size = sizeof(system);
  check(minuet_query_system(&system));
  TuningEnvironment environment = as_of_this_build(example_environment());
  environment.toolkit = system.nvrtc;
  const auto entry_of = [&](i64 rows, i32 tile) {
    return make_entry(environment, gather_bucket(DType::F16, 4, 3, rows), measured(tile_config(4), 900),
                      {measured(tile_config(tile), 800)});
  };
  const TuningEntry entry = entry_of(kExampleRows, 2), fewer = entry_of(1000, 1);
  std::filesystem::create_directory(path("tuning"));
  llvm::cantFail(store_in(path("tuning")).publish(entry));
  llvm::cantFail(store_in(path("tuning")).publish(fewer));

  const Plan layer = convolution(farm.get());
  minuet_plan* const layers[] = {layer.get()};
  const std::string output = path("out"), results = path("tuning");
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.plans = layers;
  options.plan_count = 1;
  options.archs = &kArch;
  options.arch_count = 1;
  options.output_directory = output.c_str();
  options.tuning_directory = results.c_str();
  ASSERT_EQ(minuet_precompile(farm.get(), &options, nullptr), MINUET_OK) << last_error();
  const auto gathers = [&] {
    std::set<std::string> names;
    for (const Entry& kernel :
         llvm::cantFail(llvm::cantFail(Bundle::open(path("out/minuet-sm_90a.bundle")))->read_all())) {
      if (kernel.binary.display_name.rfind("gather-", 0) == 0) names.insert(kernel.binary.display_name);
    }
    return names;
  };
  const auto tuning = [&] {
    return llvm::cantFail(llvm::cantFail(Bundle::open(path("out/minuet-sm_90a.bundle")))->tuning());
  };
  EXPECT_EQ(tuning(), write_tuning_section({entry, fewer}));
  EXPECT_THAT(gathers(),
              testing::UnorderedElementsAre(HasSubstr("c4-t4"), HasSubstr("c4-t2"), HasSubstr("c4-t1")))
      << "the untuned one's, and those of every row count";

  // Added to without results: they stay, and what is added gets its kernels by them.
  std::filesystem::remove_all(path("out/minuet-sm_90a.bundle"));
  llvm::cantFail(write_bundle(path("out/minuet-sm_90a.bundle"), kArch, {}, write_tuning_section({entry})));
  options.tuning_directory = nullptr;
  ASSERT_EQ(minuet_precompile(farm.get(), &options, nullptr), MINUET_OK) << last_error();
  EXPECT_EQ(tuning(), write_tuning_section({entry}));
  EXPECT_EQ(gathers().size(), 2u);

  const std::string none = path("none");
  options.tuning_directory = none.c_str();
  EXPECT_EQ(minuet_precompile(farm.get(), &options, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("is no folder of tuning results"));
  options.tuning_directory = results.c_str();
  options.output_directory = nullptr;
  EXPECT_EQ(minuet_precompile(farm.get(), &options, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("give output_directory"));
}

TEST_F(Caches, R35_TheCpuHasNothingToTune) {
  const auto context = this->context("cache");
  minuet_device* device = nullptr;
  check(minuet_device_open(context.get(), "cpu", &device));
  EXPECT_EQ(minuet_context_load_tuning(context.get(), device, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("cpu compiles no kernels"));
  minuet_device_destroy(device);
}

}  // namespace
}  // namespace minuet::abi
