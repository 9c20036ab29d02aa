// The choice of the kernels that compute the gradients of weights and biases.
#include "codegen/choose/ops/parameter_gradient.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

ParameterGradientChoice gradient_choice(i32 in, i32 out, i32 groups, DType dtype) {
  ParameterGradientProblem problem;
  problem.forward = example_problem(in, out, dtype);
  problem.forward.groups = groups;
  problem.weight = true;
  return choose_parameter_gradient(problem);
}

void expect_whole_tiles(const WeightGradientSpec& spec, i32 row_bytes) {
  EXPECT_EQ(spec.tile_in % (16 * spec.warps_in), 0);
  EXPECT_EQ(spec.tile_out % (16 * spec.warps_out), 0);
  EXPECT_GE(spec.stages, 2);
  EXPECT_LE(gradient_shared_bytes(spec), 99 * 1024);
  EXPECT_EQ(row_bytes % spec.vector_bytes, 0);
}
void expect_whole_tiles(const WarpgroupGradientSpec& spec, i32 row_bytes) {
  EXPECT_EQ(spec.tile_in % 32, 0);
  EXPECT_EQ(spec.tile_out % 32, 0);
  EXPECT_LE(spec.tile_out, 256);
  EXPECT_GE(spec.stages, 2);
  // An H100 has 228 KiB of shared memory, of which each block takes 1 KiB more than it uses, and 65,536
  // registers, of which the sums of a thread take tile_out / 2.
  EXPECT_LE(spec.blocks * (gradient_shared_bytes(spec) + 1024), 228 * 1024);
  EXPECT_LE(spec.blocks * weight_gradient_threads(spec) * (spec.tile_out / 2 + 40), 65536);
  EXPECT_EQ(row_bytes % 16, 0);
}
void expect_whole_tiles(const WeightGradientScalarSpec&, i32) {}

/// The tiles of the gradients of weights cover all channels, divide among the warps, and fit into the shared
/// memory of every GPU; a long list has as many parts as are wanted.
TEST(ParameterGradientChoice, TilesCoverTheChannels) {
  for (const DType dtype : kDTypes) {
    for (const auto& [in, out, groups] : std::vector<std::array<i32, 3>>{{1, 1, 1},
                                                                         {3, 7, 1},
                                                                         {4, 32, 1},
                                                                         {64, 64, 1},
                                                                         {96, 192, 1},
                                                                         {256, 256, 1},
                                                                         {130, 1000, 1},
                                                                         {64, 64, 2},
                                                                         {64, 64, 64},
                                                                         {24, 48, 12}}) {
      const ParameterGradientChoice choice = gradient_choice(in, out, groups, dtype);
      ASSERT_FALSE(choice.candidates.empty());
      EXPECT_EQ(choice.candidates.back().least_pairs, 0);
      EXPECT_TRUE(choice.candidates.back().runs_on("sm_80"));
      for (const WeightGradientCandidate& candidate : choice.candidates) {
        EXPECT_GE(candidate.layout.rows, in / groups);
        EXPECT_GE(candidate.layout.columns, candidate.layout.outputs);
        EXPECT_LT(candidate.layout.rows, in / groups + 128);
        EXPECT_GE(candidate.layout.elements, i64{in / groups} * out);
        EXPECT_GE(candidate.wanted_parts, 1);
        EXPECT_EQ(candidate.most_parts(i64{100} << 20, 27), candidate.wanted_parts);
        EXPECT_LE(candidate.most_parts(2 * kStepPairs, 1), 2);
        EXPECT_EQ(candidate.layout.outputs % candidate.add.vector, 0);
        const i32 row_bytes = in / groups * dtype_bytes(dtype);
        std::visit([&](const auto& spec) { expect_whole_tiles(spec, row_bytes); }, candidate.spec);
      }
    }
  }
  ParameterGradientProblem large;
  large.forward = example_problem();
  large.forward.kernel_size = {17, 17, 17, 1};
  large.bias = true;
  EXPECT_FALSE(llvm::errorToBool(validate(large)));
  large.weight = true;
  const std::string refused = llvm::toString(validate(large));
  EXPECT_NE(refused.find("at most 4096 offsets, and the kernel has 4913"), std::string::npos) << refused;
}

/// Each architecture and capacity has a candidate, those by warpgroups have one for all pairs of tiles, and
/// the number of parts, on which the bits of the result depend, does not depend on the capacity.
TEST(ParameterGradientChoice, ByArchitectureChannelsAndCapacity) {
  const auto tiles_of = [](const WeightGradientCandidate& candidate) {
    const auto* const spec = std::get_if<WarpgroupGradientSpec>(&candidate.spec);
    return spec ? std::pair(spec->tile_in, spec->tile_out) : std::pair(0, 0);
  };
  for (const i32 in : {8, 16, 24, 32, 40, 64, 96, 128, 192, 256, 512}) {
    for (const i32 out : {16, 32, 64, 96, 128, 160, 256, 384, 512}) {
      const ParameterGradientChoice choice = gradient_choice(in, out, 1, DType::F16);
      const WeightGradientCandidate &few = choice.candidate("sm_90a", 1000),
                                    &many = choice.candidate("sm_90a", i64{1} << 30);
      EXPECT_EQ(tiles_of(few).first > 0, in > 16 && out > 16) << in << " " << out;
      EXPECT_EQ(tiles_of(many).first > 0, in > 16 && out > 16) << in << " " << out;
      EXPECT_EQ(few.wanted_parts, many.wanted_parts);
      EXPECT_EQ(few.add, many.add);
      EXPECT_EQ(tiles_of(choice.candidate("sm_80", i64{1} << 30)).first, 0);
      EXPECT_EQ(tiles_of(choice.candidate("sm_100", i64{1} << 30)).first, 0);
    }
  }
  const ParameterGradientChoice wide = gradient_choice(256, 256, 1, DType::BF16);
  EXPECT_EQ(tiles_of(wide.candidate("sm_90a", 199'999)), std::pair(128, 128));
  EXPECT_EQ(tiles_of(wide.candidate("sm_90a", 200'000)), std::pair(128, 256));
  EXPECT_EQ(tiles_of(gradient_choice(256, 384, 1, DType::F16).candidate("sm_90a", i64{1} << 30)),
            std::pair(128, 128));
  ParameterGradientProblem few_offsets;
  few_offsets.forward = example_problem(256, 96, DType::F16);
  few_offsets.forward.kernel_size = {2, 2, 2, 1};
  EXPECT_EQ(tiles_of(choose_parameter_gradient(few_offsets).candidate("sm_90a", i64{1} << 30)),
            std::pair(64, 96));
  EXPECT_EQ(tiles_of(gradient_choice(64, 64, 1, DType::TF32).candidate("sm_90a", 1000)).first, 0);
  EXPECT_EQ(tiles_of(gradient_choice(36, 64, 1, DType::F16).candidate("sm_90a", 1000)).first, 0);
  // Only what an architecture may run is compiled for it.
  const auto sources = [&](llvm::StringRef arch) {
    SourceList list;
    add_sources(list, wide, arch);
    return list.take().size();
  };
  EXPECT_EQ(sources("sm_90a"), 4u);
  EXPECT_EQ(sources("sm_89"), 3u);
}

}  // namespace
}  // namespace minuet
