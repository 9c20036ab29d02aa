#include "codegen/source/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels_templates/test_kernels.h"

namespace minuet {
namespace {

using testing::HasSubstr;

TEST(Emit, SourceOfAScatter) {
  ScatterSpec spec;
  spec.io = DType::BF16;
  spec.residual = true;
  spec.activation = Activation::None;
  const KernelSource source = emit(spec);
  EXPECT_EQ(source.display_name, "scatter-bf16-c64-t8-v16-s1-r1-none-second0-thennone-n128");
  EXPECT_EQ(
      source.name_expression,
      "minuet::scatter<minuet::ScatterSpec{.io = minuet::DType::BF16, .channels = 64, .tile = 8, "
      ".vector_bytes = 16, .scale_shift = true, .residual = true, .activation = "
      "minuet::Activation::None, .second_output = false, .second_activation = minuet::Activation::None, "
      ".threads = 128}>");
  EXPECT_THAT(source.text, HasSubstr("#include \"kernels_templates/gmas/scatter.h\"\n"));
  EXPECT_THAT(source.text, HasSubstr("static_assert(sizeof(minuet::ScatterParams) == " +
                                     std::to_string(sizeof(ScatterParams))));
  EXPECT_EQ(source.least_sm, 80);
}

/// Any two Specs of one type with different fields have different names and expressions.
template <class Spec>
void expect_distinct(const std::vector<Spec>& specs) {
  std::set<std::string> names, expressions;
  for (const Spec& spec : specs) {
    const KernelSource source = emit(spec);
    EXPECT_TRUE(names.insert(source.display_name).second) << source.display_name;
    EXPECT_TRUE(expressions.insert(source.name_expression).second) << source.name_expression;
  }
}

TEST(Emit, DisplayNameTellsEveryFieldApart) {
  expect_distinct<GatherSpec>({{},
                               {.io = DType::TF32},
                               {.channels = 6},
                               {.channels = 648},
                               {.tile = 4},
                               {.vector_bytes = 8},
                               {.threads = 64}});
  expect_distinct<ScanSpec>({{},
                             {.input = ScanInput::Heads32},
                             {.input = ScanInput::Heads64},
                             {.input = ScanInput::Hits},
                             {.threads = 64},
                             {.items_per_thread = 8}});
  expect_distinct<RadixPassSpec>(
      {{}, {.key = KeyType::U64}, {.values = false}, {.threads = 128}, {.raking_scan = false}});
  expect_distinct<ScatterSpec>({{},
                                {.activation = Activation::None},
                                {.activation = Activation::LeakyReLU},
                                {.activation = Activation::GeluTanh},
                                {.second_output = true},
                                {.second_output = true, .second_activation = Activation::Tanh},
                                {.scale_shift = false}});
  expect_distinct<SearchKernelMapSpec>({{}, {.ndim = 4}, {.source_block = 512}, {.query_block = 256}});
}

TEST(Emit, DisplayNamesAreFileNames) {
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) \
  EXPECT_THAT(display_name(Spec{}), testing::MatchesRegex("[a-z0-9_]+(-[a-z0-9]+)+"));
#include "kernels_templates/kernels.inc"
}

TEST(Emit, EveryRowHasThreadsAndOptionsThatAKernelMayAskFor) {
  const auto check = [](const KernelSource& source, const KernelNeeds& needs) {
    EXPECT_GT(needs.threads, 0) << source.display_name;
    EXPECT_GE(needs.cluster, 1) << source.display_name;
    for (const std::string& option : source.options) EXPECT_TRUE(is_kernel_option(option)) << option;
  };
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) check(emit(Spec{}), kernel_needs(Spec{}));
#include "kernels_templates/kernels.inc"
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) check(emit(Spec{}), kernel_needs(Spec{}));
#include "tests/kernels_templates/device/kernels.inc"
}

TEST(Emit, ARowMaySayMoreThanTheLeastArchitecture) {
  constexpr KernelNeeds kPlain = kernel_needs(GatherSpec{.threads = 96});
  static_assert(kPlain.threads == 96 && kPlain.cluster == 1 && kPlain.dynamic_shared_bytes == 0);
  EXPECT_EQ(emit(GatherSpec{}).exact_arch, "");
  EXPECT_THAT(emit(GatherSpec{}).options, testing::IsEmpty());

  constexpr ClusterGemmSpec kGemm{.warps = 4, .columns = 64, .step_words = 64, .stages = 4, .cluster = 4};
  constexpr KernelNeeds kNeeds = kernel_needs(kGemm);
  static_assert(kNeeds.threads == 128 && kNeeds.cluster == 4 && !kNeeds.programmatic);
  static_assert(kNeeds.dynamic_shared_bytes == gemm_shared_bytes(kGemm));
  EXPECT_EQ(emit(kGemm).least_sm, 90);

  static_assert(kernel_needs(RelaySpec{.threads = 32}).programmatic);
  const KernelSource relay = emit(RelaySpec{});
  EXPECT_EQ(relay.exact_arch, "sm_90a");
  EXPECT_THAT(relay.options, testing::ElementsAre("--define-macro=MINUET_RELAY_STEP=3", "--maxrregcount=64"));
}

TEST(Emit, WhichArchitecturesAKernelIsFor) {
  KernelSource source = emit(GatherSpec{});
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "compute_90"})
    EXPECT_EQ(missing_arch(source, arch), "");
  EXPECT_EQ(missing_arch(source, "sm_75"), "sm_80 or newer");
  EXPECT_EQ(missing_arch(source, "nothing"), "sm_80 or newer");
  source.exact_arch = "sm_90a";
  EXPECT_EQ(missing_arch(source, "sm_90a"), "");
  for (const char* arch : {"sm_90", "sm_100a", "sm_120", "compute_90a"})
    EXPECT_EQ(missing_arch(source, arch), "sm_90a and no other") << arch;
}

/// A list of requests may be anybody's: what reads or writes a file is not an option of a kernel.
TEST(Emit, WhatAKernelMayAskOfTheCompiler) {
  for (const char* option : {"--maxrregcount=64", "--define-macro=X", "--use_fast_math",
                             "--ptxas-options=--register-usage-level=10"})
    EXPECT_TRUE(is_kernel_option(option)) << option;
  for (const char* option : {"", "-I/etc", "--include-path=/etc", "-include=/etc/passwd", "--pch",
                             "--pch-dir=/tmp", "--fdevice-time-trace=/tmp/x", "--gpu-architecture=sm_80",
                             "-arch=sm_80", "--fmad=true", "--use_fast_math2", "--maxrregcount"})
    EXPECT_FALSE(is_kernel_option(option)) << option;
}

TEST(Emit, AnUnknownFieldShowsItsWholeName) {
  EXPECT_EQ(spec_field("stage_count", 3).tag, "stagecount3");
  EXPECT_EQ(spec_field("stage_count", -3).tag, "stagecountm3");
  EXPECT_EQ(spec_field("is_wide", true).tag, "iswide1");
}

}  // namespace
}  // namespace minuet
