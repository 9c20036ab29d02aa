// Results for bundles: whose they are, and what joins what is there (R20, R35).
#include "codegen/tuning/tuning_ahead.h"

#include <gmock/gmock.h>

#include "tests/codegen/tuning/examples.h"

namespace minuet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TuningEnvironment this_build(const std::string& gpu, const std::string& capability) {
  TuningEnvironment environment = as_of_this_build(example_environment());
  environment.gpu = gpu;
  environment.compute_capability = capability;
  return environment;
}

class TuningAhead : public testing::Test {
 protected:
  ArchTuning read(const std::vector<std::string>& archs) {
    return llvm::cantFail(read_tuning_for(folder_.path(), archs, "13.0", process_policy(make_environment({})),
                                          [this](const std::string& text) { warnings_.push_back(text); }));
  }

  TemporaryFolder folder_;
  TuningStore store_ = store_in(folder_.path());
  std::vector<std::string> warnings_;
};

TEST_F(TuningAhead, R35_AnArchitectureGetsTheResultsOfItsGpus) {
  const TuningEntry h200 = example_entry(this_build("NVIDIA H200", "9.0")),
                    h100 = example_entry(this_build("NVIDIA H100", "9.0")),
                    rtx = example_entry(this_build("NVIDIA RTX 5090", "12.0"));
  const TuningEntry b300 = example_entry(this_build("NVIDIA B300", "10.3"));
  for (const TuningEntry& entry : {h200, h100, rtx, b300}) llvm::cantFail(store_.publish(entry));
  const ArchTuning tuning = read({"sm_90a", "sm_120", "sm_80", "sm_100f"});
  EXPECT_EQ(tuning.at("sm_90a").size(), 2u);
  EXPECT_THAT(tuning.at("sm_120"), ElementsAre(rtx));
  EXPECT_THAT(tuning.at("sm_100f"), ElementsAre(b300));
  EXPECT_THAT(tuning.at("sm_80"), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no tuning result of this version and toolkit for sm_80")));
}

TEST_F(TuningAhead, R33_AnotherVersionOrToolkitIsLeftOut) {
  TuningEnvironment older = this_build("NVIDIA H200", "9.0"), other = older;
  older.library = "0.0.9";
  other.toolkit = "12.9";
  llvm::cantFail(store_.publish(example_entry(older)));
  llvm::cantFail(store_.publish(example_entry(other)));
  EXPECT_THAT(read({"sm_90a"}).at("sm_90a"), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("minuet tune migrate")));
}

TEST_F(TuningAhead, NoFolderIsAnError) {
  const auto failure = [&](const std::string& path) {
    return take_status(read_tuning_for(path, {"sm_90a"}, "13.0", process_policy(make_environment({})),
                                       [](const std::string&) {})
                           .takeError());
  };
  EXPECT_EQ(failure(folder_ / "none").code(), StatusCode::InvalidArgument);
  EXPECT_THAT(failure(folder_ / "none").message(), HasSubstr("is no folder of tuning results"));
  EXPECT_THAT(failure(folder_.path()).message(), HasSubstr("has no tuning results in it"));
}

TEST_F(TuningAhead, R20_ASectionKeepsWhatItHas) {
  const TuningEntry first = example_entry(this_build("NVIDIA H200", "9.0")),
                    second = example_entry(this_build("NVIDIA H100", "9.0"));
  const std::string section = join_tuning("", {first});
  EXPECT_EQ(section, write_tuning_section({first}));
  EXPECT_EQ(join_tuning(section, {}), section);
  EXPECT_EQ(join_tuning(section, {second}), write_tuning_section({second, first}));
  EXPECT_EQ(join_tuning(section, {first}), section);
  EXPECT_EQ(join_tuning("damaged", {second}), write_tuning_section({second}));
}

}  // namespace
}  // namespace minuet
