// How a random problem is run, and what is said where it fails.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "tests/cases/random_cases.h"
#include "tests/cases/shrink.h"
#include "tests/support/expect.h"

namespace minuet {

inline constexpr int kMostShrinkingRuns = 1000;

/// The number of cases of a random test: MINUET_TEST_CASES, else `longest` with MINUET_LONG_TESTS=1, else
/// `usual`. A number of MINUET_TEST_CASES that is none fails the test.
inline int case_count(int usual, int longest) {
  const char* const given = std::getenv("MINUET_TEST_CASES");
  if (given == nullptr || *given == 0) return long_tests_wanted() ? longest : usual;
  int count = 0;
  const char* const end = given + std::strlen(given);
  const auto read = std::from_chars(given, end, count);
  EXPECT_TRUE(read.ec == std::errc() && read.ptr == end && count > 0)
      << "MINUET_TEST_CASES is '" << given << "', which is no number of cases";
  return count;
}

/// The seed of this process, printed with the way to have it again.
inline uint64_t announce_seed(int cases) {
  static const uint64_t seed = run_seed();
  const char* const given = std::getenv("MINUET_TEST_CASES");
  std::string environment = long_tests_wanted() ? " MINUET_LONG_TESTS=1" : "";
  if (given != nullptr && *given != 0) environment = " MINUET_TEST_CASES=" + std::string(given);
  std::printf("seed %llu: MINUET_TEST_SEED=%llu%s repeats these %d cases; MINUET_TEST_TRACE=1 prints each\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed),
              environment.c_str(), cases);
  std::fflush(stdout);  // also where a case crashes
  testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

/// What GoogleTest says of `run`; empty where it passes.
inline std::string failure_of(const std::function<void()>& run) {
  testing::TestPartResultArray results;
  std::string text;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    try {
      run();
    } catch (const std::exception& error) {
      text = error.what();
    }
  }
  for (int i = 0; i < results.size(); ++i) {
    text += (text.empty() ? "" : "\n") + std::string(results.GetTestPartResult(i).message());
  }
  return text.substr(0, 2000);
}

/// True where the case passes. Else fails with what it shrinks to; `plain` is a case that fails only where
/// the device is lost.
template <class Case>
bool passes_or_shrinks(const Case& test, const std::function<void(const Case&)>& run,
                       const std::function<std::vector<Case>(const Case&)>& simpler, const Case& plain) {
  auto failure = [&](const Case& candidate) { return failure_of([&] { run(candidate); }); };
  static const bool trace = std::getenv("MINUET_TEST_TRACE") != nullptr;
  if (trace) std::printf("%s\n", as_initializer(test).c_str()), std::fflush(stdout);
  const std::string first = failure(test);
  if (first.empty()) return true;
  std::string last = first;
  int runs = 0;
  auto fails = [&](const Case& candidate) {
    ++runs;
    const std::string again = failure(candidate);
    if (!again.empty()) last = again;
    return !again.empty();
  };
  const Case least = shrink<Case>(test, simpler, fails, kMostShrinkingRuns);
  ADD_FAILURE() << as_initializer(test) << "\nfails:\n"
                << first << "\n\nFor the regressions in tests/cases, after " << runs
                << " runs of simpler ones:\n"
                << as_initializer(least) << ",\nfails:\n"
                << last;
  if (!failure(plain).empty()) {
    ADD_FAILURE() << "The device fails at the plainest case now: what it was shrunk to means nothing.";
  }
  return false;
}

}  // namespace minuet
