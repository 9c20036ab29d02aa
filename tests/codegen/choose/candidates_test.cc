#include "codegen/choose/ops/convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::Contains;
using testing::HasSubstr;

TuningEntry fastest(const TuningBucket& bucket, i32 tile) {
  return make_entry(example_environment(), bucket, measured(tile_config(8), 14000),
                    {measured(tile_config(tile), 9000)});
}

/// Gathers of 2^10 and 2^20 rows, scatters of 2^10, 2^12 and 2^14.
TuningSnapshot example_snapshot() {
  return TuningSnapshot(example_environment(),
                        {{"user",
                          {fastest(gather_bucket(DType::F16, 64, 27, 1500), 16),
                           fastest(gather_bucket(DType::F16, 64, 27, 1 << 20), 32),
                           fastest(scatter_bucket(DType::F16, 64, 27, 1024), 4),
                           fastest(scatter_bucket(DType::F16, 64, 27, 4096), 16),
                           fastest(scatter_bucket(DType::F16, 64, 27, (1 << 15) - 1), 64)}}});
}

std::vector<Candidate> candidates_of(const TuningSnapshot* tuning, llvm::StringRef arch = "sm_90a",
                                     Dataflow dataflow = Dataflow::GatherGemmScatter) {
  return llvm::cantFail(convolution_candidates(example_problem(), arch, tuning, dataflow));
}

const GmasChoice& gmas_of(const Candidate& candidate) { return candidate.choice.get<GmasChoice>(); }

/// Every power of two, what is beside it, and what is far away.
std::vector<i64> interesting_rows() {
  std::vector<i64> rows{0, std::numeric_limits<i64>::max()};
  for (i64 power = 1; power < i64{1} << 40; power *= 2) {
    for (const i64 near : {power - 1, power, power + 1}) rows.push_back(near);
  }
  return rows;
}

void expect_every_row_count_once(const std::vector<Candidate>& candidates) {
  ASSERT_FALSE(candidates.empty());
  EXPECT_EQ(candidates.front().least_rows, 0);
  EXPECT_EQ(candidates.back().most_rows, std::numeric_limits<i64>::max());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_LE(candidates[i].least_rows, candidates[i].most_rows);
    EXPECT_EQ(candidates[i].least_density, 0);
    EXPECT_EQ(candidates[i].most_density, std::numeric_limits<double>::infinity());
    if (i > 0) {
      EXPECT_EQ(candidates[i].least_rows, candidates[i - 1].most_rows + 1);
    }
  }
}

TEST(Candidates, WithoutTuningOneServesAll) {
  const std::vector<Candidate> candidates = candidates_of(nullptr);
  expect_every_row_count_once(candidates);
  ASSERT_EQ(candidates.size(), 1u);
  const GmasChoice choice = choose_gmas(example_problem());
  EXPECT_EQ(candidates[0].reasons, choice.reasons);
  EXPECT_EQ(emit(gmas_of(candidates[0]).gather).display_name, emit(choice.gather).display_name);
}

TEST(Candidates, NothingIsTunedForTheCpu) {
  const TuningSnapshot snapshot = example_snapshot();
  const std::vector<Candidate> candidates = candidates_of(&snapshot, "");
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(gmas_of(candidates[0]).gather.tile, 8);
}

TEST(Candidates, ResultsOfAnotherGpuAreNotUsed) {
  const TuningSnapshot snapshot = example_snapshot();
  EXPECT_GT(candidates_of(&snapshot, "sm_90a").size(), 1u);
  for (const char* arch : {"sm_80", "sm_89", "sm_100"})
    EXPECT_EQ(candidates_of(&snapshot, arch).size(), 1u) << arch;
}

TEST(Candidates, AllAreOfTheDataflowThatIsWanted) {
  const TuningSnapshot snapshot = example_snapshot();
  for (const Dataflow dataflow : {Dataflow::GatherGemmScatter, Dataflow::Fused}) {
    for (const char* arch : {"", "sm_80", "sm_90a"}) {
      const std::vector<Candidate> candidates = candidates_of(&snapshot, arch, dataflow);
      expect_every_row_count_once(candidates);
      for (const Candidate& candidate : candidates) {
        EXPECT_EQ(dataflow_of(candidate.choice), dataflow);
        const bool has_kernel = dataflow == Dataflow::Fused && arch[0] != '\0';
        EXPECT_EQ(candidate.kernel.empty(), !has_kernel);
      }
    }
  }
}

constexpr FusedFeatures kByWarps{.warpgroups = false};  // candidates_specs_test.cc has the others

/// Neighbouring ranges of rows have different kernels, each that of its rows.
void expect_kernels_by_rows(const std::vector<Candidate>& candidates, const ConvolutionProblem& problem) {
  expect_every_row_count_once(candidates);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(display_name(candidates[i].choice.get<FusedChoice>().fused), candidates[i].kernel);
    if (i > 0) {
      EXPECT_NE(candidates[i].kernel, candidates[i - 1].kernel);
    }
  }
  for (i64 rows = 1; rows < 4; ++rows) {
    const FusedChoice alone = choose_fused(problem, "sm_90a", rows, kByWarps);
    EXPECT_EQ(select(candidates, rows, 9.5).kernel, display_name(alone.fused)) << rows;
  }
  for (i64 rows = 4; rows < i64{1} << 30; rows *= 2) {
    const i64 half = rows + rows / 2;  // where the second of two ranges begins
    for (const auto& [first, last] : {std::pair(rows, half - 1), {half, 2 * rows - 1}}) {
      const FusedChoice middle = choose_fused(problem, "sm_90a", (first + last + 1) / 2, kByWarps);
      EXPECT_EQ(select(candidates, first, 9.5).kernel, display_name(middle.fused)) << first;
      EXPECT_EQ(select(candidates, last, 9.5).kernel, display_name(middle.fused)) << last;
    }
  }
}

TEST(Candidates, FusedKernelsGoByTheRows) {
  // Columns: so many that few rows are enough, and that one row is.
  for (const i32 columns : {8, 64, 1024, 65536}) {
    for (const i32 channels : {8, 16, 64, 1024}) {
      ConvolutionProblem problem = example_problem();
      problem.in_channels = problem.input.ld = channels;
      problem.out_channels = problem.output.ld = problem.residual_input.ld = columns;
      const std::vector<Candidate> candidates =
          llvm::cantFail(convolution_candidates(problem, "sm_90a", nullptr, Dataflow::Fused, kByWarps));
      expect_kernels_by_rows(candidates, problem);
      // There is a kernel for few rows, for many rows, for rows between them, and for very many rows.
      const bool has_between = columns >= 1024 || channels == 64 || (channels != 8 && columns >= 64);
      const bool has_very_many = channels == 16 && columns == 64;
      EXPECT_EQ(candidates.size(), columns == 65536 ? 1u
                                   : has_very_many  ? 4u
                                   : has_between    ? 3u
                                                    : 2u)
          << channels << " " << columns;
    }
  }
}

TEST(Candidates, KernelsOfTooManyOffsetsAreNotFused) {
  ConvolutionProblem problem = example_problem();
  problem.kernel_size = {17, 17, 17, 1};
  const auto all = llvm::cantFail(convolution_candidates(problem, "", nullptr));
  EXPECT_EQ(dataflow_of(all.front().choice), Dataflow::GatherGemmScatter);
  const StatusError refused =
      take_status(convolution_candidates(problem, "", nullptr, Dataflow::Fused).takeError());
  EXPECT_EQ(refused.code(), StatusCode::Unimplemented);
}

TEST(Candidates, OneBucketServesAllRows) {
  const TuningSnapshot snapshot(example_environment(), {{"user", {example_entry()}}});
  const std::vector<Candidate> candidates = candidates_of(&snapshot);
  expect_every_row_count_once(candidates);
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(gmas_of(candidates[0]).gather.tile, 16);
}

/// A bucket's own rows go by it, all others by that of most rows; gather and scatter each by its own.
TEST(Candidates, EveryRowCountGoesByWhatWasMeasuredForIt) {
  const TuningSnapshot snapshot = example_snapshot();
  const std::vector<Candidate> candidates = candidates_of(&snapshot);
  expect_every_row_count_once(candidates);
  EXPECT_EQ(candidates.size(), 5u) << "the buckets of 2^10 and of 2^12, and the rest, merged";
  for (const i64 rows : interesting_rows()) {
    const GmasChoice& choice = gmas_of(select(candidates, rows, 9.5));
    const bool is_first_bucket = rows >= 1024 && rows < 2048;
    EXPECT_EQ(choice.gather.tile, is_first_bucket ? 16 : 32) << rows;
    const bool is_second_bucket = rows >= 4096 && rows < 8192;
    EXPECT_EQ(choice.scatter.tile, is_first_bucket ? 4 : is_second_bucket ? 16 : 64) << rows;
    EXPECT_EQ(choice.scatter.vector_bytes, is_first_bucket ? 8 : 16) << rows;
  }
  EXPECT_THAT(candidates[1].reasons, Contains(HasSubstr("gather tile 16: tuned")));
  EXPECT_THAT(candidates[2].reasons, Contains(HasSubstr("gather tile 32: tuned")));
}

/// Which algorithm GEMMs take moves with the rows as tiles do.
TEST(Candidates, AGemmsAlgorithmGoesByTheRows) {
  const auto best = [](i64 rows, i32 algorithm) {
    return make_entry(example_environment(), gemm_bucket(DType::F16, 64, 64, 27, rows),
                      measured(config_of(GemmChoice{}), 14000),
                      {measured(config_of(GemmChoice{algorithm}), 9000)});
  };
  const TuningSnapshot snapshot(example_environment(), {{"user", {best(1500, 2), best(1 << 20, 5)}}});
  const std::vector<Candidate> candidates = candidates_of(&snapshot);
  expect_every_row_count_once(candidates);
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(gmas_of(select(candidates, 1500, {})).gemm.algorithm, 2);
  EXPECT_EQ(gmas_of(select(candidates, 5000, {})).gemm.algorithm, 5);
}

/// A file may hold any number.
TEST(Candidates, BucketsThatNoCloudFillsChangeNothing) {
  for (const i64 log2_rows : {i64{-7}, i64{62}, i64{63}, i64{64}, std::numeric_limits<i64>::max()}) {
    TuningEntry entry = example_entry();
    entry.bucket.log2_rows = log2_rows;
    const TuningSnapshot snapshot(example_environment(), {{"user", {entry}}});
    expect_every_row_count_once(candidates_of(&snapshot));
  }
}

TEST(Candidates, RowsAndDensityDecide) {
  std::vector<Candidate> candidates(3, Candidate{choose_gmas(example_problem())});
  candidates[0].most_rows = 99;
  candidates[1].least_rows = candidates[2].least_rows = 100;
  candidates[1].most_density = 4;
  candidates[2].least_density = 4;
  EXPECT_TRUE(needs_density(candidates));
  EXPECT_TRUE(needs_density({candidates[0], candidates[1]}));
  EXPECT_TRUE(needs_density({candidates[0], candidates[2]}));
  EXPECT_FALSE(needs_density({candidates[0]}));
  const auto selected = [&](i64 rows, double density) {
    return &select(candidates, rows, density) - candidates.data();
  };
  EXPECT_EQ(selected(0, 0), 0);
  EXPECT_EQ(selected(99, 20), 0);
  EXPECT_EQ(selected(100, 0), 1);
  EXPECT_EQ(selected(100, 3.9), 1);
  EXPECT_EQ(selected(1 << 30, 4.1), 2);
}

/// A density that is not known rules none out, and is not 0: the first that serves the rows.
TEST(Candidates, RowsAloneDecideWhereTheDensityIsNotKnown) {
  std::vector<Candidate> candidates(3, Candidate{choose_gmas(example_problem())});
  candidates[0].most_rows = 99;
  candidates[1].least_rows = candidates[2].least_rows = 100;
  candidates[1].least_density = 4;
  candidates[2].most_density = 4;
  const auto selected = [&](i64 rows) { return &select(candidates, rows, {}) - candidates.data(); };
  EXPECT_EQ(selected(99), 0);
  EXPECT_EQ(selected(100), 1);
  std::swap(candidates[1], candidates[2]);
  EXPECT_EQ(selected(100), 1);
}

}  // namespace
}  // namespace minuet
