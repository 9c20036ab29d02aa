// Runs each fuzz target over its corpus with the ordinary compiler: what a fuzzer once found stays found.
#include <gtest/gtest.h>

#include "tests/codegen/fakes.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

class FuzzReplay : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzReplay, TheCorpusRunsThrough) {
  const std::string corpus = std::string(MINUET_CORPUS "/") + GetParam().name;
  int whole = 0;
  for (const std::string& path : files_below(corpus)) {
    SCOPED_TRACE(path);
    const std::string input = contents(path);
    const bool taken = GetParam().run(input);
    // Where the format changed, the whole ones are none any more: make the corpus again (README.md).
    if (path.find("/whole") != std::string::npos) {
      EXPECT_TRUE(taken);
      ++whole;
    }
    for (std::size_t size = 0; size < input.size(); size += 1 + input.size() / 50) {
      GetParam().run(llvm::StringRef(input).take_front(size));
    }
  }
  EXPECT_GE(whole, 2) << "no corpus in " << corpus;
}

INSTANTIATE_TEST_SUITE_P(All, FuzzReplay, testing::ValuesIn(kFuzzTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace minuet
