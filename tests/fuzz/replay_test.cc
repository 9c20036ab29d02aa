// Runs a fuzz target over its corpus with the ordinary compiler: what a fuzzer once found stays found.
#include <gtest/gtest.h>

#include "tests/codegen/fakes.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

TEST(FuzzReplay, TheCorpusRunsThrough) {
  int whole = 0;
  for (const std::string& path : files_below(MINUET_CORPUS)) {
    SCOPED_TRACE(path);
    const std::string input = read_text(path);
    const bool taken = fuzz_one(input);
    // Where the format changed, the whole ones are none any more: make the corpus again (README.md).
    if (path.find("/whole") != std::string::npos) {
      EXPECT_TRUE(taken);
      ++whole;
    }
    for (std::size_t size = 0; size < input.size(); size += 1 + input.size() / 50) {
      fuzz_one(llvm::StringRef(input).take_front(size));
    }
  }
  EXPECT_GE(whole, 2) << "no corpus in " << MINUET_CORPUS;
}

}  // namespace
}  // namespace minuet
