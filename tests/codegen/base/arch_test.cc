#include "codegen/base/arch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The one of `contents` that serves `target`, "" where none does.
std::string best(const std::string& target, const std::vector<std::string>& contents, bool ptx = false) {
  for (const std::string& arch : runnable_archs(target, ptx)) {
    if (std::find(contents.begin(), contents.end(), arch) != contents.end()) return arch;
  }
  return "";
}

TEST(Arch, R23_NamesAreReadAndWritten) {
  for (const char* name : {"sm_75", "sm_80", "sm_90a", "sm_100f", "sm_121a", "compute_90"}) {
    ASSERT_TRUE(parse_arch(name)) << name;
    EXPECT_EQ(format_arch(*parse_arch(name)), name);
  }
  EXPECT_EQ(*parse_arch("sm_100f"), (Arch{100, 'f', false}));
  EXPECT_EQ(*parse_arch("compute_90a"), (Arch{90, 'a', true}));
  for (const char* name :
       {"", "sm_", "sm_9", "sm_090", "sm_90b", "sm_90aa", "sm_+90", "sm_-90", "SM_90", "90", "sm_1000",
        "sm_99999999999999999999", "sm_ 90", "sm_90 ", "compute_", "sm_0x50"}) {
    EXPECT_FALSE(parse_arch(name)) << name;
    EXPECT_EQ(sm_number(name), 0) << name;
  }
  EXPECT_EQ(sm_number("sm_90a"), 90);
  EXPECT_EQ(sm_number("sm_120"), 120);
  EXPECT_EQ(sm_number("compute_90"), 0);  // PTX is no code of an SM
  EXPECT_EQ(capability("compute_90a"), 90);
  EXPECT_EQ(capability("sm_120"), 120);
  EXPECT_EQ(capability("compute_9"), 0);
  EXPECT_EQ(capability_number("9.0"), 90);
  EXPECT_EQ(capability_number("12.1"), 121);
  for (const char* const none : {"", ".", "90", "9.", ".90", "1.00", "9.0a"}) {
    EXPECT_EQ(capability_number(none), 0) << none;
  }
  EXPECT_TRUE(is_ptx("compute_90"));
  EXPECT_FALSE(is_ptx("sm_90"));
}

TEST(Arch, R23_TheOrderIsExactFamilyLowerMinor) {
  EXPECT_THAT(runnable_archs("sm_90a"), ElementsAre("sm_90a", "sm_90"));
  EXPECT_THAT(runnable_archs("sm_103a"),
              ElementsAre("sm_103a", "sm_103", "sm_103f", "sm_102f", "sm_100f", "sm_102", "sm_100"));
  EXPECT_THAT(runnable_archs("sm_103f"),
              ElementsAre("sm_103f", "sm_103", "sm_102f", "sm_100f", "sm_102", "sm_100"));
  EXPECT_THAT(runnable_archs("sm_110a"), ElementsAre("sm_110a", "sm_110", "sm_110f"));
  EXPECT_THAT(runnable_archs("compute_90"), IsEmpty());
  EXPECT_THAT(runnable_archs("nonsense"), IsEmpty());
}

struct Row {
  std::string target;
  std::vector<std::string> contents;
  std::string best;
};

TEST(Arch, R23_WhatABundleOffersToEachTarget) {
  const std::vector<Row> rows = {
      // Each with the code of its own capability.
      {"sm_75", {"sm_75", "sm_80"}, "sm_75"},
      {"sm_80", {"sm_75", "sm_80", "sm_86"}, "sm_80"},
      {"sm_86", {"sm_80", "sm_86", "sm_89"}, "sm_86"},
      {"sm_89", {"sm_80", "sm_86", "sm_89"}, "sm_89"},
      {"sm_90", {"sm_89", "sm_90", "sm_90a"}, "sm_90"},
      {"sm_90a", {"sm_90", "sm_90a"}, "sm_90a"},
      {"sm_100a", {"sm_100", "sm_100a", "sm_100f"}, "sm_100a"},
      {"sm_103a", {"sm_100", "sm_100a", "sm_100f", "sm_103a"}, "sm_103a"},
      {"sm_120a", {"sm_120", "sm_120f"}, "sm_120"},
      {"sm_121a", {"sm_120", "sm_121"}, "sm_121"},
      {"sm_87", {"sm_80", "sm_86", "sm_87"}, "sm_87"},
      {"sm_110a", {"sm_100f", "sm_110"}, "sm_110"},
      // A lower minor of the same major, the nearest; never a higher one or another major.
      {"sm_86", {"sm_80"}, "sm_80"},
      {"sm_89", {"sm_80", "sm_86"}, "sm_86"},
      {"sm_80", {"sm_86", "sm_89"}, ""},
      {"sm_75", {"sm_80"}, ""},
      {"sm_80", {"sm_75"}, ""},
      {"sm_90a", {"sm_80", "sm_89"}, ""},
      {"sm_120a", {"sm_90", "sm_100", "sm_103"}, ""},
      {"sm_100a", {"sm_90", "sm_90a", "sm_120"}, ""},
      {"sm_121a", {"sm_120"}, "sm_120"},
      // Code with 'a' for its capability alone, and only for who asks for it.
      {"sm_90", {"sm_90a"}, ""},
      {"sm_100", {"sm_100a"}, ""},
      {"sm_103a", {"sm_100a"}, ""},
      {"sm_121a", {"sm_120a"}, ""},
      {"sm_103f", {"sm_103a"}, ""},
      // A family from its own minor on.
      {"sm_103a", {"sm_100", "sm_100f"}, "sm_100f"},
      {"sm_100a", {"sm_100f"}, "sm_100f"},
      {"sm_100a", {"sm_103f"}, ""},
      {"sm_120a", {"sm_120f"}, "sm_120f"},
      {"sm_121a", {"sm_120f", "sm_120"}, "sm_120f"},
      {"sm_120a", {"sm_121f"}, ""},
      {"sm_120a", {"sm_100f"}, ""},
      {"sm_100", {"sm_100f"}, "sm_100f"},
      // Tegra, in both directions.
      {"sm_87", {"sm_80", "sm_86"}, ""},
      {"sm_89", {"sm_87", "sm_88"}, ""},
      {"sm_89", {"sm_80", "sm_87"}, "sm_80"},
      {"sm_75", {"sm_72"}, ""},
      {"sm_72", {"sm_70"}, ""},
      {"sm_103a", {"sm_101", "sm_101f"}, ""},
      {"sm_101a", {"sm_100", "sm_100f"}, ""},
      {"sm_110a", {"sm_100", "sm_100f", "sm_101f"}, ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(best(row.target, row.contents), row.best)
        << row.target << " from " << testing::PrintToString(row.contents);
  }
}

TEST(Arch, R23_PtxIsLastAndForWhoOptedIn) {
  const std::vector<Row> rows = {
      {"sm_90a", {"compute_80", "compute_90", "sm_90"}, "sm_90"},
      {"sm_89", {"compute_89", "sm_80"}, "sm_80"},
      {"sm_90a", {"compute_80", "compute_90", "compute_90a"}, "compute_90a"},
      {"sm_90a", {"compute_75", "compute_80", "compute_86"}, "compute_86"},
      // A later capability than its own, also of another major; never an earlier one.
      {"sm_120a", {"compute_80", "sm_90", "sm_90a", "compute_121"}, "compute_80"},
      {"sm_120a", {"compute_80", "compute_90"}, "compute_90"},
      {"sm_86", {"compute_89", "compute_90"}, ""},
      // With 'a' for its own capability alone, with 'f' for its family's.
      {"sm_100a", {"compute_90a"}, ""},
      {"sm_103a", {"compute_100a"}, ""},
      {"sm_90", {"compute_90a"}, ""},
      {"sm_103a", {"compute_100f", "compute_100"}, "compute_100f"},
      {"sm_120a", {"compute_100f"}, ""},
      {"sm_120a", {"compute_121f"}, ""},
      {"sm_110a", {"compute_100f", "compute_101f"}, ""},
      // Tegra runs what its driver compiles, and PTX made for it is PTX.
      {"sm_87", {"compute_80", "sm_80"}, "compute_80"},
      {"sm_90a", {"compute_87"}, "compute_87"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(best(row.target, row.contents, /*ptx=*/true), row.best)
        << row.target << " from " << testing::PrintToString(row.contents);
    EXPECT_EQ(best(row.target, row.contents).find("compute"), std::string::npos) << row.target;
  }
  for (int target : {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
    const std::string name = "sm_" + std::to_string(target) + "a";
    std::vector<std::string> with = runnable_archs(name, /*ptx=*/true), without = runnable_archs(name);
    const auto first =
        std::find_if(with.begin(), with.end(), [](const std::string& arch) { return is_ptx(arch); });
    EXPECT_EQ(std::vector<std::string>(with.begin(), first), without) << name;
    for (auto ptx = first; ptx != with.end(); ++ptx) {
      const Arch arch = *parse_arch(*ptx);
      EXPECT_TRUE(arch.is_virtual && arch.number <= target) << *ptx << " for " << name;
      EXPECT_TRUE(arch.suffix != 'a' || arch.number == target) << *ptx << " for " << name;
      EXPECT_TRUE(ptx == first || parse_arch(ptx[-1])->number >= arch.number) << *ptx << " for " << name;
    }
  }
}

TEST(Arch, R23_NothingRunsOnAnotherMajorAndNoSuffixOnAnotherCapability) {
  for (int target : {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121}) {
    for (const char* suffix : {"", "a", "f"}) {
      const std::string name = "sm_" + std::to_string(target) + suffix;
      for (const std::string& text : runnable_archs(name)) {
        const Arch code = *parse_arch(text);
        EXPECT_EQ(code.major(), target / 10) << text << " for " << name;
        EXPECT_LE(code.number, target) << text << " for " << name;
        EXPECT_TRUE(code.suffix != 'a' || text == name) << text << " for " << name;
        const bool is_tegra = target == 87 || target == 110;
        EXPECT_TRUE(!is_tegra || code.number == target) << text << " for " << name;
      }
    }
  }
}

}  // namespace
}  // namespace minuet
