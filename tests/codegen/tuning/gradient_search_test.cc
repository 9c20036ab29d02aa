// Tests which kernels the tuner tries for the gradient of a weight, and that its results are chosen.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "codegen/tuning/search_space.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::HasSubstr;

constexpr i64 kManyPairs = 20 * kExampleRows;

TuningTask gradient_task(i32 in, i32 out, DType dtype = DType::F16, const char* arch = "sm_90a",
                         i64 pairs = kManyPairs) {
  return weight_gradient_task(example_problem(in, out, dtype), arch, kExampleRows, pairs);
}

ParameterGradientChoice gradient_choice(const ConvolutionProblem& forward, const TuningSnapshot* tuning) {
  return choose_parameter_gradient({.forward = forward, .weight = true, .bias = false}, tuning);
}

WeightGradientCandidate::Spec spec_of(const TuningBucket& bucket, const TuningConfig& config) {
  WeightGradientCandidate::Spec spec;
  llvm::cantFail(read_gradient_config(bucket, config, spec));
  return spec;
}

TEST(GradientSearch, BucketsHaveTheChannelsOfAGroup) {
  ConvolutionProblem problem = example_problem(64, 96);
  const TuningBucket one = weight_gradient_bucket(problem, 1000, 9);
  EXPECT_EQ(one.operation, Operation::WeightGradient);
  EXPECT_EQ(std::pair(one.channels, one.out_channels), (std::pair<i64, i64>(64, 96)));
  EXPECT_EQ(std::pair(one.log2_rows, one.log4_density), (std::pair<i64, i64>(9, 1)));
  EXPECT_EQ(one.volume, 27);
  problem.groups = 2;
  const TuningBucket two = weight_gradient_bucket(problem, 1000, 9);
  EXPECT_EQ(std::pair(two.channels, two.out_channels), (std::pair<i64, i64>(32, 48)));
  // Forward layers have others, and the gradients of inputs too.
  problem.groups = 1;
  const ConvolutionProblem of_input = input_gradient_of(problem);
  ConvolutionProblem transposed = of_input;
  transposed.gradient_of.reset();
  const std::set<std::string> hashes{bucket_hash(one), bucket_hash(two),
                                     bucket_hash(layer_bucket(Operation::Fused, problem, 1000, 9)),
                                     bucket_hash(layer_bucket(Operation::Fused, of_input, 1000, 9)),
                                     bucket_hash(layer_bucket(Operation::Fused, transposed, 1000, 9))};
  EXPECT_EQ(hashes.size(), 5u);
  EXPECT_EQ(layer_bucket(Operation::Fused, of_input, 1000, 9).log4_density, kAnyDensity) << "never known";
}

/// Every candidate is another kernel that the GPU can run and that validate_config lets through.
TEST(GradientSearch, SpecsFitTheProblemAndTheArchitecture) {
  for (const DType dtype : {DType::F16, DType::BF16, DType::TF32, DType::F32}) {
    for (const auto& [in, out] : {std::pair{4, 32}, {16, 16}, {32, 32}, {64, 64}, {96, 96}, {256, 256}}) {
      for (const char* const arch : {"sm_80", "sm_90a", "sm_120"}) {
        const TuningTask task = gradient_task(in, out, dtype, arch);
        SCOPED_TRACE(std::to_string(in) + " " + std::to_string(out) + " " + arch);
        EXPECT_EQ(task.bucket, weight_gradient_bucket(example_problem(in, out, dtype), kExampleRows));
        EXPECT_GE(task.candidates.size(), 4u);
        std::set<TuningConfig> known{task.default_config};
        for (const TuningConfig& config : task.candidates) {
          EXPECT_TRUE(known.insert(config).second) << "twice";
          EXPECT_FALSE(llvm::errorToBool(validate_config(task.bucket, config)));
          WeightGradientCandidate candidate;
          candidate.spec = spec_of(task.bucket, config);
          EXPECT_TRUE(candidate.runs_on(arch));
          EXPECT_EQ(gradient_config(candidate.spec), config);
        }
      }
    }
  }
}

/// The default is what is chosen without tuning, and depends on the capacity of the list.
TEST(GradientSearch, TheDefaultIsTheHeuristic) {
  const TuningTask many = gradient_task(256, 256), few = gradient_task(256, 256, DType::F16, "sm_90a", 1000);
  EXPECT_EQ(many.default_config.at("tile_out"), 256);
  EXPECT_EQ(few.default_config.at("tile_out"), 128);
  const auto unit = [](const TuningTask& task) { return task.default_config.at("unit"); };
  EXPECT_EQ(unit(many), static_cast<i64>(MmaUnit::Warpgroup));
  EXPECT_EQ(unit(gradient_task(256, 256, DType::F16, "sm_80")), static_cast<i64>(MmaUnit::Warp));
  // Both units are tried where there are both.
  std::set<i64> units;
  for (const TuningConfig& config : many.candidates) units.insert(config.at("unit"));
  EXPECT_EQ(units.size(), 2u);
  EXPECT_FALSE(is_gradient_tunable(example_problem(3, 7))) << "no tensor cores";
  ConvolutionProblem narrow = example_problem(64, 64);
  narrow.groups = 8;
  EXPECT_FALSE(is_gradient_tunable(narrow));
}

TEST(GradientSearch, ConfigsOutsideTheLimitsAreRefused) {
  const TuningBucket bucket = weight_gradient_bucket(example_problem(64, 64), kExampleRows);
  const TuningConfig good = gradient_task(64, 64).default_config;
  ASSERT_FALSE(llvm::errorToBool(validate_config(bucket, good)));
  const auto expect = [&](const TuningBucket& of, const char* field, i64 value, const char* reason) {
    TuningConfig config = good;
    config[field] = value;
    EXPECT_THAT(llvm::toString(validate_config(of, config)), HasSubstr(reason)) << field;
  };
  expect(bucket, "tile_in", 48, "multiples of 32");
  expect(bucket, "tile_in", 256, "128 x 256");
  expect(bucket, "stages", 1, "stages is 1");
  expect(bucket, "copiers", 2, "copiers is 2");
  expect(bucket, "blocks", 0, "blocks is 0");
  expect(bucket, "blocks", 8, "8 blocks need");
  expect(bucket, "warps_in", 1, "warps_in and warps_out");
  expect(bucket, "unit", 0, "blocks is 3");
  expect(bucket, "unit", 2, "unit is 2");
  expect(bucket, "colour", 1, "fields");
  expect(weight_gradient_bucket(example_problem(64, 64, DType::TF32), 1), "unit", 1, "do not suit");
  expect(weight_gradient_bucket(example_problem(16, 64), 1), "unit", 1, "do not suit");
  TuningConfig mma = gradient_task(64, 64, DType::F16, "sm_80").default_config;
  ASSERT_FALSE(llvm::errorToBool(validate_config(bucket, mma)));
  mma["warps_in"] = 3;
  EXPECT_THAT(llvm::toString(validate_config(bucket, mma)), HasSubstr("powers of two"));
  // Sixteen times such a number is 0 in 32 bits, which must not become a divisor.
  for (const char* const field : {"warps_in", "warps_out"}) {
    for (i32 bits = 3; bits <= 30; ++bits) {
      TuningConfig many = mma;
      many[field] = i64{1} << bits;
      EXPECT_THAT(llvm::toString(validate_config(bucket, many)), HasSubstr("powers of two"));
    }
  }
  mma["warps_in"] = 2;
  for (const i64 stages : {0, 1, 9, 1 << 30, std::numeric_limits<i32>::max()}) {
    TuningConfig other = mma;
    other["stages"] = stages;
    EXPECT_THAT(llvm::toString(validate_config(bucket, other)), HasSubstr("it must be 2 to 8"));
  }
  mma["stages"] = 8, mma["tile_in"] = 128;
  EXPECT_THAT(llvm::toString(validate_config(bucket, mma)), HasSubstr("shared memory"));
  EXPECT_FALSE(default_config_of(bucket, false).has_value()) << "it depends on the pairs";
}

/// A result serves its own range of rows and the neighbouring ones, on GPUs with the same compute capability.
TEST(GradientSearch, ResultsAreChosenByRows) {
  const ConvolutionProblem forward = example_problem(64, 64);
  const TuningTask task = weight_gradient_task(forward, "sm_90a", 1000, 27'000, 9);
  const TuningConfig& wanted = task.candidates.front();
  const auto tuning = [&](const TuningConfig& best) {
    return TuningSnapshot(example_environment(),
                          {{"user",
                            {with_kernels_of_this_build(make_entry(
                                example_environment(), task.bucket, measured(task.default_config, 9),
                                best == task.default_config ? std::vector<TuningMeasurement>{}
                                                            : std::vector{measured(best, 8)}))}}});
  };
  const TuningSnapshot snapshot = tuning(wanted);
  const ParameterGradientChoice choice = gradient_choice(forward, &snapshot),
                                usual = gradient_choice(forward, nullptr);
  ASSERT_EQ(choice.candidates.size(), usual.candidates.size() + 1);
  const WeightGradientCandidate::Spec spec = spec_of(task.bucket, wanted),
                                      before = usual.candidate("sm_90a", kManyPairs).spec;
  ASSERT_NE(spec, before);
  for (const i64 rows : {256, 1000, 2047}) EXPECT_EQ(choice.candidate("sm_90a", 27 * rows, rows).spec, spec);
  for (const i64 rows : {0, 1, 255, 2048, 1 << 30}) {
    EXPECT_EQ(choice.candidate("sm_90a", 27 * rows, rows).spec, before) << rows;
  }
  for (const char* const other : {"sm_80", "sm_90", "sm_100"}) {
    EXPECT_EQ(choice.candidate(other, 27'000, 1000).spec, usual.candidate(other, 27'000, 1000).spec);
  }
  // Both are compiled, because the rows are known only when the gradient is computed.
  const auto kernels = [](const ParameterGradientChoice& of, const char* arch) {
    SourceList list;
    add_sources(list, of, arch);
    return list.take().size();
  };
  EXPECT_EQ(kernels(choice, "sm_90a"), kernels(usual, "sm_90a") + 1);
  EXPECT_EQ(kernels(choice, "sm_80"), kernels(usual, "sm_80"));
  // A default that was the fastest changes nothing.
  const TuningSnapshot same = tuning(task.default_config);
  EXPECT_EQ(gradient_choice(forward, &same).candidates.size(), usual.candidates.size());
  // Other layers have other results.
  ConvolutionProblem other = forward;
  other.kind = ConvolutionKind::GivenOutputs;
  EXPECT_EQ(gradient_choice(other, &snapshot).candidates.size(), usual.candidates.size());
}

/// The density is not known when a gradient is computed, but a list without room for it has another one.
TEST(GradientSearch, AListGetsTheResultOfTheGreatestDensityThatItHasRoomFor) {
  const ConvolutionProblem forward = example_problem(64, 64);
  const TuningTask task = weight_gradient_task(forward, "sm_90a", 1000, 27'000, 9);
  std::vector<TuningEntry> entries;
  const auto add = [&](i64 rows, double density, std::optional<std::size_t> best) {
    entries.push_back(with_kernels_of_this_build(make_entry(
        example_environment(), weight_gradient_bucket(forward, rows, density),
        measured(task.default_config, 200),
        best ? std::vector{measured(task.candidates[*best], 100)} : std::vector<TuningMeasurement>{})));
  };
  add(1000, 2, 0), add(1000, 20, 1);
  add(16'000, 2, 2), add(16'000, 9, std::nullopt);
  add(32'000, 20, 3);
  const TuningSnapshot snapshot(example_environment(), {{"user", entries}});
  const ParameterGradientChoice choice = gradient_choice(forward, &snapshot);
  const auto expect = [&](i64 rows, i64 density, const TuningConfig& config) {
    EXPECT_EQ(choice.candidate("sm_90a", density * rows, rows).spec, spec_of(task.bucket, config))
        << rows << " " << density;
  };
  for (const i64 density : {1, 15}) expect(1000, density, task.candidates[0]);
  for (const i64 density : {16, 27}) expect(1000, density, task.candidates[1]);
  // The default that won for denser lists stays in front of the result for sparser ones. Results for the same
  // rows come before those for others.
  for (const i64 density : {1, 3}) expect(16'000, density, task.candidates[2]);
  for (const i64 density : {4, 27}) expect(16'000, density, task.default_config);
  for (const i64 density : {16, 27}) expect(32'000, density, task.candidates[3]);
  // A program that allocates for the largest list and output can compute with smaller ones.
  const auto bytes = [&](i64 pairs, i64 rows) {
    i64 most = 0;
    for (const WeightGradientCandidate& candidate : choice.candidates) {
      if (candidate.may_serve(pairs, rows)) most = std::max(most, candidate.most_parts(pairs, 27));
    }
    return most;
  };
  for (const i64 rows : {1000, 2047, 16'000, 40'000}) {
    for (const i64 density : {1, 4, 16, 27}) {
      const i64 parts = choice.candidate("sm_90a", density * rows, rows).most_parts(density * rows, 27);
      EXPECT_LE(parts, bytes(density * rows, rows));
      EXPECT_LE(parts, bytes(27 * i64{40'000}, 40'000));
    }
  }
}

/// A round tries a configuration of each range of rows, whatever their densities are.
TEST(GradientSearch, ATrialOfSeveralRangesHasTheConfigurationOfEach) {
  const ConvolutionProblem forward = example_problem(64, 64), of_input = input_gradient_of(forward);
  TuningConfigs round;
  std::vector<std::pair<i64, TuningConfig>> weights, inputs;
  for (const auto& [rows, density] : {std::pair<i64, double>(1500, 20), {3000, 2}, {6000, 9}}) {
    const std::size_t number = weights.size();
    const TuningTask weight = weight_gradient_task(forward, "sm_90a", rows, 27 * rows, density);
    round[weight.bucket] = weight.candidates[number];
    weights.emplace_back(rows, weight.candidates[number]);
    const TuningTask input = kernel_tasks(of_input, "sm_90a", Dataflow::Fused, rows, density).front();
    EXPECT_EQ(input.bucket.log4_density, kAnyDensity);
    round[input.bucket] = input.candidates[number];
    inputs.emplace_back(rows, input.candidates[number]);
  }
  const TuningSnapshot snapshot(example_environment(), round);
  const ParameterGradientChoice choice = gradient_choice(forward, &snapshot);
  for (const auto& [rows, config] : weights) {
    EXPECT_EQ(choice.candidate("sm_90a", 27 * rows, rows).spec,
              spec_of(weight_gradient_bucket(forward, rows), config));
  }
  const std::vector<Candidate> kernels =
      llvm::cantFail(choose_candidates(by(of_input, Dataflow::Fused), {"sm_90a", &snapshot}));
  for (const auto& [rows, config] : inputs) {
    EXPECT_EQ(config_of(select(kernels, rows, {}).choice.get<FusedChoice>().fused), config);
  }
}

/// A configuration of the default has the default's number of parts, and so its bits.
TEST(GradientSearch, TheDefaultOnTrialHasTheSameParts) {
  const ConvolutionProblem forward = example_problem(256, 256);
  const TuningTask task = weight_gradient_task(forward, "sm_90a", kExampleRows, kManyPairs, 20);
  const TuningSnapshot snapshot(example_environment(), TuningConfigs{{task.bucket, task.default_config}});
  const WeightGradientCandidate usual = gradient_choice(forward, nullptr).candidate("sm_90a", kManyPairs);
  const ParameterGradientChoice choice = gradient_choice(forward, &snapshot);
  const WeightGradientCandidate& tried = choice.candidate("sm_90a", kManyPairs, kExampleRows);
  EXPECT_EQ(tried.least_rows, 1 << 15) << "one range below that of the result";
  EXPECT_EQ(tried.spec, usual.spec);
  EXPECT_EQ(tried.wanted_parts, usual.wanted_parts);
  EXPECT_EQ(tried.least_pairs, 0);
}

}  // namespace
}  // namespace minuet
