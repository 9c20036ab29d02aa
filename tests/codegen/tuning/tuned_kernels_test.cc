// Which edits of the library orphan tuning results, and which do not.
#include "codegen/tuning/tuned_kernels.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

/// An edit that orphans all results is seen here. Where that is meant, the new digest goes here too. An edit
/// of a comment in a kernel's header changes the kernel's own key, and not this.
TEST(TunedKernels, R33_GoldenDigest) {
  EXPECT_EQ(kernels_digest(tuned_families(), tuned_examples()),
            "b6e8e6f0ae1d512ae2d48db2ab124685c251d72982a03e6f0beb1348ebcb9af3");
}

TEST(TunedKernels, R33_AChangeOfWhatThereIsToChooseAmongIsAnotherDigest) {
  const std::vector<TunedFamily> families = tuned_families();
  const std::vector<TuningTask> tasks = tuned_examples();
  std::set<std::string> digests{kernels_digest(families, tasks)};
  const auto expect_another = [&](const std::vector<TunedFamily>& some,
                                  const std::vector<TuningTask>& others) {
    EXPECT_TRUE(digests.insert(kernels_digest(some, others)).second);
  };
  for (std::size_t i = 0; i < families.size(); ++i) {
    std::vector<TunedFamily> changed = families;
    ++changed[i].version;
    expect_another(changed, tasks);
    changed = families;
    changed[i].spec += " .another_field = 1";
    expect_another(changed, tasks);
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    expect_another(changed, tasks);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::vector<TuningTask> changed = tasks;
    changed[i].default_config["another_field"] = 1;
    expect_another(families, changed);
    if (tasks[i].candidates.empty()) continue;
    changed = tasks;
    changed[i].candidates.pop_back();
    expect_another(families, changed);
    changed[i].candidates.push_back({{"another_field", 1}});
    expect_another(families, changed);
  }
}

TEST(TunedKernels, R33_TheExamplesUseEveryOperation) {
  std::set<Operation> operations;
  for (const TuningTask& task : tuned_examples()) operations.insert(task.bucket.operation);
  EXPECT_EQ(operations.size(), 8u);
}

TEST(TunedKernels, R33_ThisBuildsEnvironment) {
  const TuningEnvironment now = with_kernels_of_this_build(example_environment());
  EXPECT_EQ(now.gpu, example_environment().gpu);
  EXPECT_EQ(now.toolkit, "13.0");
  EXPECT_EQ(now.kernels, kernels_digest(tuned_families(), tuned_examples()));
}

}  // namespace
}  // namespace minuet
