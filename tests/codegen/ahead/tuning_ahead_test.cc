// Results for bundles: whose they are, and what joins what is there (R20, R35).
#include "codegen/ahead/tuning_ahead.h"

#include <gmock/gmock.h>

#include "codegen/tuning/search_space.h"
#include "codegen/tuning/tuned_kernels.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TuningEnvironment environment_of(const std::string& gpu, const std::string& capability) {
  TuningEnvironment environment = example_environment();
  environment.gpu = gpu;
  environment.compute_capability = capability;
  return environment;
}

class TuningAhead : public testing::Test {
 protected:
  llvm::Expected<ArchTuning> read(const std::vector<std::string>& archs, bool weight_gradients = false) {
    return read_tuning_for(store_, archs, "13.0", weight_gradients,
                           [this](const std::string& text) { warnings_.push_back(text); });
  }

  TemporaryFolder folder_;
  TuningStore store_ = store_in(folder_.path());
  std::vector<std::string> warnings_;
};

TEST_F(TuningAhead, R35_AnArchitectureGetsTheResultsOfItsGpus) {
  const TuningEntry h200 = example_entry(environment_of("NVIDIA H200", "9.0")),
                    h100 = example_entry(environment_of("NVIDIA H100", "9.0")),
                    rtx = example_entry(environment_of("NVIDIA RTX 5090", "12.0")),
                    cpu = example_entry(environment_of("a processor", ""));
  for (const TuningEntry& entry : {h200, h100, rtx, cpu}) llvm::cantFail(store_.publish(entry));
  const ArchTuning tuning = llvm::cantFail(read({"sm_90a", "sm_120", "sm_80"}));
  EXPECT_THAT(tuning.at("sm_90a"), SizeIs(2));
  EXPECT_THAT(environments_of(tuning.at("sm_90a")), SizeIs(2));
  EXPECT_THAT(tuning.at("sm_120"), ElementsAre(rtx));
  EXPECT_EQ(tuning.count("sm_80"), 0u);
  EXPECT_THAT(
      warnings_,
      ElementsAre(HasSubstr(
          "for sm_80 with this version's kernels and toolkit 13.0: measure them with `minuet tune run`")));
  const std::vector<TuningEntry> three{h200, h200, rtx};
  EXPECT_THAT(environments_of(three), ElementsAre(&three[0].environment, &three[2].environment));
}

TEST_F(TuningAhead, R33_ResultsOfOtherKernelsOrAnotherToolkitAreLeftOut) {
  TuningEntry older = example_entry(), other = older;
  older.kernels = std::string(64, '0');
  other.environment.toolkit = "12.9";
  llvm::cantFail(store_.publish(older));
  llvm::cantFail(store_.publish(other));
  const StatusError status = take_status(read({"sm_90a", "sm_80"}).takeError());
  EXPECT_EQ(status.code(), StatusCode::NotFound);
  EXPECT_THAT(status.message(), HasSubstr("tuning results for sm_90a, sm_80 with"));
  EXPECT_THAT(status.message(), HasSubstr("minuet tune run"));
  EXPECT_THAT(warnings_, IsEmpty());
}

/// The kernels of warpgroups run on sm_90a alone, and so do their results.
TEST_F(TuningAhead, ResultsForGradientsOfWeightsComeWithTheirKernels) {
  const TuningTask task = weight_gradient_task(example_problem(), "sm_90a", kExampleRows, 20 * kExampleRows);
  const TuningEntry entry = with_kernels_of_this_build(
      make_entry(example_environment(), task.bucket, measured(task.default_config, 14000),
                 {measured(task.candidates.front(), 12000), measured(task.candidates.back(), 13000)}));
  llvm::cantFail(store_.publish(entry));
  EXPECT_EQ(take_status(read({"sm_90a"}).takeError()).code(), StatusCode::NotFound);
  const ArchTuning tuning = llvm::cantFail(read({"sm_90a"}, /*weight_gradients=*/true));
  ASSERT_THAT(tuning.at("sm_90a"), ElementsAre(entry));
  WeightGradientCandidate::Spec spec;
  llvm::cantFail(read_gradient_config(task.bucket, task.candidates.front(), spec));
  const std::vector<KernelRequest> requests = weight_gradient_requests(tuning.at("sm_90a"), "sm_90a");
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].source.display_name, display_name(std::get<WarpgroupGradientSpec>(spec)));
  EXPECT_THAT(weight_gradient_requests(tuning.at("sm_90a"), "sm_90"), IsEmpty());
  EXPECT_THAT(weight_gradient_requests({example_entry()}, "sm_90a"), IsEmpty());
}

TEST_F(TuningAhead, R20_ASectionKeepsWhatItHasOfOtherBuckets) {
  const TuningEntry first = example_entry(environment_of("NVIDIA H200", "9.0")),
                    second = example_entry(environment_of("NVIDIA H100", "9.0"));
  const auto joined = [](llvm::StringRef to, const std::vector<TuningEntry>& entries) {
    return llvm::cantFail(join_tuning(to, entries));
  };
  const std::string section = joined("", {first});
  EXPECT_EQ(section, write_tuning({first}));
  EXPECT_EQ(joined(section, {second}), write_tuning({second, first}));
  EXPECT_EQ(joined(section, {first}), section);
  const TuningEntry again = with_kernels_of_this_build(
      make_entry(first.environment, first.bucket, measured(tile_config(8), 13000), {}));
  EXPECT_EQ(joined(section, {again}), write_tuning({again})) << "what won once did not win again";
  TuningEntry older = first;
  older.kernels = std::string(64, '0');
  EXPECT_EQ(joined(write_tuning({older}), {again}), write_tuning({again})) << "of other kernels";
  for (const char* const none : {"", "damaged"}) EXPECT_EQ(joined(none, {}), none);
  for (const char* const unknown : {"damaged", R"([{"schema": 1000}])"}) {
    llvm::Expected<std::string> lost = join_tuning(unknown, {second});
    ASSERT_FALSE(lost) << unknown;
    EXPECT_THAT(take_status(lost.takeError()).message(), HasSubstr("cannot read"));
  }
}

}  // namespace
}  // namespace minuet
