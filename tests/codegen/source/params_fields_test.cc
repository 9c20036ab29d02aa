// Tests the lists of the fields of Params, and the rules for grids.
#include "codegen/source/params_fields.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace minuet {

/// A field in each place where one may be forgotten: before padding, in it, and behind it.
struct PaddedParams {
  const void* input;
  i32 rows;
  i32 in_padding;
  i64 last;
};
struct EndsInPaddingParams {
  const void* input;
  i32 rows;
  i32 in_padding;
};

#define MINUET_TEST_FIELD(name) visitor(#name, offsetof(P, name), std::type_identity<decltype(P::name)>());
template <>
struct FieldsOf<PaddedParams> {
  using P = PaddedParams;
  template <class Visitor>
  static constexpr void visit(Visitor&& visitor) {
    MINUET_TEST_FIELD(input) MINUET_TEST_FIELD(rows) MINUET_TEST_FIELD(last)
  }
};
template <>
struct FieldsOf<EndsInPaddingParams> {
  using P = EndsInPaddingParams;
  template <class Visitor>
  static constexpr void visit(Visitor&& visitor) {
    MINUET_TEST_FIELD(input) MINUET_TEST_FIELD(rows)
  }
};
#undef MINUET_TEST_FIELD

namespace {

TEST(ParamsFields, AForgottenFieldIsSeen) {
  static_assert(!params_fields_detail::lists_all_fields<PaddedParams>());
  static_assert(!params_fields_detail::lists_all_fields<EndsInPaddingParams>());
  static_assert(params_fields_detail::lists_all_fields<FusedParams>());
  static_assert(params_fields_detail::lists_all_fields<PointwiseParams>());
}

TEST(ParamsFields, FieldsOfMemberStructsAndArrays) {
  std::map<std::string, ParamsField> fields;
  for (const ParamsField& field : params_fields<FusedParams>()) fields[field.name] = field;
  EXPECT_EQ(fields.count("shortcut"), 0u);
  EXPECT_EQ(fields.at("shortcut.output").offset,
            static_cast<i32>(offsetof(FusedParams, shortcut) + offsetof(FusedShortcut, output)));
  EXPECT_EQ(fields.at("shortcut.output").kind, FieldKind::Pointer);
  EXPECT_EQ(fields.at("padded_rows").kind, FieldKind::I64);
  EXPECT_EQ(fields.at("overflow_mark").kind, FieldKind::U32);
  EXPECT_EQ(fields.at("slope").kind, FieldKind::F32);
  EXPECT_EQ(fields.at("slope").bytes, 4);
  for (const ParamsField& field : params_fields<PointwiseParams>()) fields[field.name] = field;
  EXPECT_EQ(fields.at("operands").count, kMostPointwiseSteps);
  EXPECT_EQ(fields.at("operands").bytes, 8 * kMostPointwiseSteps);
}

TEST(ParamsFields, TheRuleGivesTheGridOfTheLibrary) {
  std::mt19937 random(3);
  const auto draw = [&](std::initializer_list<i32> values) {
    return values.begin()[random() % values.size()];
  };
  for (int i = 0; i < 500; ++i) {
    FusedSpec spec;
    spec.out_channels = draw({1, 16, 40, 96, 256});
    spec.columns = draw({16, 32, 64, 96});
    spec.row_tiles = draw({1, 2}), spec.warps = draw({1, 2, 4, 8});
    spec.cluster = draw({1, 2, 4, 8});
    spec.shortcut = random() % 2 == 0;
    const i64 rows = 1 + static_cast<i64>(random() % 5000);
    const GridRule rule = grid_rule(spec);
    const i64 groups = (rows + rule.rows - 1) / rule.rows;
    EXPECT_EQ(groups * rule.blocks, fused_blocks(spec, rows));
    const i64 behind = groups * rule.shortcut_blocks;
    EXPECT_EQ(groups * rule.blocks + (behind + spec.cluster - 1) / spec.cluster * spec.cluster,
              fused_grid(spec, rows));
  }
  EXPECT_EQ(grid_rule(PoolSpec{}).rows, 0);
  EXPECT_EQ(grid_rule(StartItemRowsSpec{}).blocks, 1);  // at any number of rows
}

}  // namespace
}  // namespace minuet
