// What is measured next and what is kept, on a fake clock and a fake meter.
#include "codegen/tuning/tuner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr i64 kDefaultNs = 100000;

/// Knows how long each tile takes, and how noisy the device is. A round takes a second.
class FakeMeter : public TuningMeter {
 public:
  double seconds() override { return clock_; }
  void announce(const TuningConfigs& round) override { announced.push_back(round); }
  llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) override {
    clock_ += 1;
    if (static_cast<int>(measured.size()) == stop_after)
      return make_error(StatusCode::Cancelled, "tuning was stopped");
    if (lost) return make_error(StatusCode::Internal, "the device is gone");
    for (const auto& [bucket, config] : round) {
      if (config != broken) continue;
      lost = breaks_device;
      return make_error(StatusCode::Internal, "it does not compile");
    }
    if (!round.empty()) measured.push_back(round);
    std::map<TuningBucket, TuningSamples> samples;
    for (const auto& [bucket, config] : round) {
      for (int i = 0; i < 15; ++i) {
        const double drift = 1 + 0.01 * static_cast<double>(measured.size());  // of the clock, on both
        samples[bucket].fallback.push_back(noisy(kDefaultNs * drift));
        samples[bucket].trial.push_back(noisy(static_cast<double>(time_of(config)) * drift));
      }
      if (config == wins_once) wins_once.clear(), times[config] = kDefaultNs;
    }
    return samples;
  }

  i64 time_of(const TuningConfig& config) const {
    if (!wins_once.empty() && config == wins_once) return kDefaultNs / 2;
    const auto found = times.find(config);
    return found == times.end() ? kDefaultNs : found->second;
  }

  std::map<TuningConfig, i64> times;
  double noise = 0.001;
  TuningConfig broken, wins_once;
  bool breaks_device = false, lost = false;
  int stop_after = -1;
  std::vector<TuningConfigs> announced, measured;

 private:
  i64 noisy(double nanoseconds) {
    return static_cast<i64>(nanoseconds *
                            (1 + noise * (2 * std::generate_canonical<double, 53>(random_) - 1)));
  }
  double clock_ = 1000;
  std::mt19937_64 random_{7};
};

TuningTask tile_task(std::vector<i32> tiles, i64 rows = kExampleRows) {
  TuningTask task{gather_bucket(DType::F16, 64, 27, rows), tile_config(8), {}};
  for (const i32 tile : tiles) task.candidates.push_back(tile_config(tile));
  return task;
}

TunerOptions in_time() {
  TunerOptions options;
  options.deadline = 1e9;
  return options;
}

TuningDecision decision_of(const TuningOutcome& outcome) {
  EXPECT_THAT(outcome.decisions, SizeIs(1));
  return outcome.decisions.empty() ? TuningDecision{} : outcome.decisions[0];
}

TEST(Tuner, ACandidateThatIsAlwaysFivePercentFasterWins) {
  FakeMeter meter;
  meter.times[tile_config(16)] = kDefaultNs * 95 / 100;
  const TuningDecision decision = decision_of(search_configs({tile_task({4, 16, 32})}, meter, in_time()));
  ASSERT_TRUE(decision.winner);
  EXPECT_EQ(decision.winner->config, tile_config(16));
  EXPECT_NEAR(
      static_cast<double>(decision.winner->median_ns) / static_cast<double>(decision.fallback.median_ns),
      0.95, 0.002);
  EXPECT_THAT(meter.measured, SizeIs(4)) << "each once, and the best once more";
  const TuningEntry entry = entry_of(example_environment(), decision);
  EXPECT_EQ(entry.measurements.front().config, tile_config(16));
  const TuningSnapshot snapshot(example_environment(), {{"user", {entry}}});
  EXPECT_EQ(snapshot.find(entry.bucket)->best.config, tile_config(16));
}

TEST(Tuner, NoiseOfFivePercentWinsNothing) {
  FakeMeter meter;
  meter.noise = 0.05;
  std::vector<i32> tiles(30);
  for (int i = 0; i < 30; ++i) tiles[i] = 100 + i;
  const TuningDecision decision = decision_of(search_configs({tile_task(tiles)}, meter, in_time()));
  EXPECT_FALSE(decision.winner);
  // What was lucky is not kept either: the default stays the first of its entry.
  const TuningEntry entry = entry_of(example_environment(), decision);
  EXPECT_TRUE(entry.measurements.front().is_default);
}

TEST(Tuner, TwoRunsAgree) {
  TuningConfig winners[2];
  for (int run = 0; run < 2; ++run) {
    FakeMeter meter;
    meter.noise = 0.02 + 0.005 * run;
    meter.times = {{tile_config(16), 90000}, {tile_config(32), 80000}, {tile_config(4), 130000}};
    const TuningDecision decision =
        decision_of(search_configs({tile_task({16, 4, 32, 2})}, meter, in_time()));
    ASSERT_TRUE(decision.winner);
    winners[run] = decision.winner->config;
  }
  EXPECT_EQ(winners[0], tile_config(32));
  EXPECT_EQ(winners[0], winners[1]);
}

/// Its reason is told, and those of its round are measured all the same.
TEST(Tuner, ACandidateThatDoesNotRunIsSkipped) {
  FakeMeter meter;
  meter.broken = tile_config(16);
  meter.times[tile_config(32)] = meter.times[tile_config(4)] = kDefaultNs / 2;
  std::vector<std::string> reasons;
  TunerOptions options = in_time();
  options.skipped = [&](const TuningBucket& bucket, const TuningConfig& config, const std::string& reason) {
    EXPECT_EQ(config, tile_config(16));
    EXPECT_EQ(bucket.log2_rows, 16);
    reasons.push_back(reason);
  };
  const TuningOutcome outcome = search_configs(
      {tile_task({16, 32}), tile_task({4}, 10), tile_task({2}, 1000), tile_task({4}, 9000)}, meter, options);
  EXPECT_THAT(reasons, ElementsAre("it does not compile"));
  EXPECT_EQ(outcome.skipped, 1);
  EXPECT_EQ(outcome.tried, 4);
  EXPECT_FALSE(outcome.failure);
  i64 won = 0;
  for (const TuningDecision& decision : outcome.decisions) won += decision.winner ? 1 : 0;
  EXPECT_EQ(won, 3);
}

TEST(Tuner, WhatTakesTheDeviceWithItEndsTheSearch) {
  FakeMeter meter;
  meter.times[tile_config(32)] = kDefaultNs / 2;
  meter.broken = tile_config(16);
  meter.breaks_device = true;
  const TuningOutcome outcome = search_configs({tile_task({32, 16, 4})}, meter, in_time());
  ASSERT_TRUE(outcome.failure);
  EXPECT_THAT(outcome.failure->message(), HasSubstr("the default configuration no longer runs"));
  EXPECT_EQ(decision_of(outcome).winner->config, tile_config(32)) << "what was measured before is kept";
}

TEST(Tuner, NoRoundBeginsThatWouldEndAfterTheBudget) {
  FakeMeter meter;
  meter.times[tile_config(2)] = kDefaultNs / 2;
  TunerOptions options;
  options.deadline = meter.seconds() + 4.5;
  std::vector<TuningProgress> progress;
  options.progress = [&](const TuningProgress& now) { progress.push_back(now); };
  const TuningOutcome outcome = search_configs({tile_task({4, 16, 32, 2, 64})}, meter, options);
  EXPECT_EQ(outcome.tried, 3);
  EXPECT_FALSE(decision_of(outcome).winner) << "there was no time for it";
  ASSERT_THAT(progress, SizeIs(3));
  EXPECT_EQ(progress[0].rounds, 1);
  EXPECT_EQ(progress[0].most_rounds, 6);
  EXPECT_EQ(progress[0].seconds_left, 3.5);
  options.round_seconds = 2.5;
  options.deadline = meter.seconds() + 4.5;
  EXPECT_EQ(search_configs({tile_task({4, 16, 32, 2, 64})}, meter, options).tried, 0);
  options.most_tried = 2;
  options.deadline = 1e9;
  EXPECT_EQ(search_configs({tile_task({4, 16, 32, 2, 64})}, meter, options).tried, 2);
}

TEST(Tuner, WhatWonIsConfirmedWithinTheBudget) {
  FakeMeter meter;
  meter.times[tile_config(4)] = kDefaultNs / 2;
  TunerOptions options;
  options.deadline = meter.seconds() + 3.5;
  const TuningOutcome outcome = search_configs({tile_task({4, 16, 32, 2, 64})}, meter, options);
  EXPECT_EQ(outcome.tried, 2);
  EXPECT_EQ(decision_of(outcome).winner->config, tile_config(4));
  EXPECT_LE(meter.seconds(), options.deadline);
  // Another one that would have won has no time to show it a second time.
  FakeMeter lucky;
  lucky.wins_once = tile_config(16);
  lucky.times[tile_config(4)] = kDefaultNs * 9 / 10;
  options.deadline = lucky.seconds() + 3.5;
  const TuningOutcome none = search_configs({tile_task({4, 16})}, lucky, options);
  EXPECT_EQ(none.tried, 2);
  EXPECT_FALSE(decision_of(none).winner);
  EXPECT_LE(lucky.seconds(), options.deadline);
}

TEST(Tuner, AStopKeepsWhatIsDone) {
  FakeMeter meter;
  meter.times[tile_config(4)] = kDefaultNs / 2;
  meter.stop_after = 2;
  const TuningOutcome outcome = search_configs({tile_task({4, 16, 32, 2, 64})}, meter, in_time());
  EXPECT_TRUE(outcome.stopped);
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(outcome.tried, 2);
  EXPECT_EQ(decision_of(outcome).winner->config, tile_config(4));
  FakeMeter at_once;
  at_once.stop_after = 0;
  EXPECT_THAT(search_configs({tile_task({4})}, at_once, in_time()).decisions, IsEmpty());
}

/// All tasks take part in each round; each goes on from what is best so far, one round behind, for the next
/// round is compiled while one is measured.
TEST(Tuner, ExpectedGainDecidesTheOrder) {
  FakeMeter meter;
  const auto config = [](i64 step, i64 warps) { return TuningConfig{{"step", step}, {"warps", warps}}; };
  TuningTask task{gather_bucket(DType::F16, 64, 27, 5), config(1, 1), {}};
  task.candidates = {config(3, 3), config(2, 2), config(1, 2), config(2, 1), config(2, 3)};
  meter.times[config(1, 2)] = 90000;
  meter.times[config(2, 2)] = 80000;
  const TuningOutcome outcome = search_configs({task, tile_task({4})}, meter, in_time());
  std::vector<TuningConfig> order;
  for (const TuningConfigs& round : meter.measured) {
    if (round.count(task.bucket) != 0) order.push_back(round.at(task.bucket));
  }
  EXPECT_THAT(
      order, ElementsAre(config(1, 2), config(2, 1), config(2, 2), config(3, 3), config(2, 3), config(2, 2)));
  EXPECT_THAT(meter.measured[0], SizeIs(2));
  EXPECT_THAT(meter.announced, SizeIs(6));
  EXPECT_THAT(meter.announced[5], IsEmpty()) << "nothing is compiled beside what confirms";
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(meter.announced[i], meter.measured[i]);
  EXPECT_THAT(outcome.decisions, SizeIs(2));
}

TEST(Tuner, WhatWonBeforeIsTriedFirst) {
  FakeMeter meter;
  TuningTask task = tile_task({64, 4, 16, 32});
  task.has_favourite = true;
  TunerOptions options = in_time();
  options.most_tried = 1;
  search_configs({task}, meter, options);
  ASSERT_THAT(meter.measured, SizeIs(1));
  EXPECT_EQ(meter.measured[0].begin()->second, tile_config(64));
}

TEST(Tuner, AnotherOutputIsNotTheDefaults) {
  const float infinity = std::numeric_limits<float>::infinity(), nothing = std::nanf("");
  EXPECT_TRUE(agrees({}, {}));
  EXPECT_TRUE(agrees({32, 0.9f}, {32, 0}));
  EXPECT_FALSE(agrees({32, 1.1f}, {32, 0}));
  EXPECT_FALSE(agrees({0.1f}, {0}));
  EXPECT_FALSE(agrees({32, nothing}, {32, 0}));
  EXPECT_FALSE(agrees({32, 0}, {32, infinity}));
  EXPECT_TRUE(agrees({32, nothing}, {32, infinity}));
  EXPECT_FALSE(agrees({32}, {32, 0}));
}

TEST(Tuner, GainsAreTakenPairByPair) {
  EXPECT_FALSE(beats({}));
  EXPECT_FALSE(beats({{1, 1}, {100, 100}})) << "too few to know their spread";
  EXPECT_TRUE(beats({{95, 190, 950}, {100, 200, 1000}})) << "the clock drifts, the gain stays";
  EXPECT_FALSE(beats({{1000, 1000, 1000}, {1005, 1005, 1005}})) << "half a hundredth";
  EXPECT_FALSE(beats({{100, 100, 100}, {95, 95, 95}}));
}

}  // namespace
}  // namespace minuet
