#include "codegen/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace minuet {
namespace {

using testing::HasSubstr;

TEST(Emit, SourceOfAScatter) {
  ScatterSpec spec;
  spec.io = DType::BF16;
  spec.partial = DType::F32;
  spec.residual = true;
  spec.activation = Activation::None;
  const KernelSource source = emit(spec);
  EXPECT_EQ(source.display_name, "scatter-bf16-pf32-c64-t8-v16-s1-r1-none-n128");
  EXPECT_EQ(source.name_expression,
            "minuet::scatter<minuet::ScatterSpec{.io = minuet::DType::BF16, .partial = minuet::DType::F32, "
            ".channels = "
            "64, .tile = 8, .vector_bytes = 16, .scale_shift = true, .residual = true, .activation = "
            "minuet::Activation::None, .threads = 128}>");
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
  expect_distinct<SearchKernelMapSpec>({{}, {.ndim = 4}, {.source_block = 512}, {.query_block = 256}});
}

TEST(Emit, DisplayNamesAreFileNames) {
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm) \
  EXPECT_THAT(display_name(Spec{}), testing::MatchesRegex("[a-z0-9_]+(-[a-z0-9]+)+"));
#include "kernels_templates/kernels.inc"
}

TEST(Emit, AnUnknownFieldShowsItsWholeName) {
  EXPECT_EQ(spec_field("stage_count", 3).tag, "stagecount3");
  EXPECT_EQ(spec_field("stage_count", -3).tag, "stagecountm3");
  EXPECT_EQ(spec_field("is_wide", true).tag, "iswide1");
}

}  // namespace
}  // namespace minuet
