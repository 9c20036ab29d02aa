// Entries for tests of codegen/tuning, and choices as text.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuned_config.h"
#include "codegen/choose/tuning_entry.h"
#include "codegen/choose/tuning_snapshot.h"
#include "codegen/tuning/tuned_kernels.h"
#include "codegen/tuning/tuning_store.h"
#include "tests/codegen/fakes.h"

namespace minuet {

inline TuningEnvironment example_environment() { return {"NVIDIA H200", "9.0", 132, 52428800, "13.0"}; }

inline TuningMeasurement measured(TuningConfig config, i64 median_ns) {
  TuningMeasurement measurement;
  measurement.config = std::move(config);
  measurement.median_ns = median_ns;
  measurement.least_ns = median_ns - median_ns / 10;
  measurement.spread_ns = median_ns / 20;
  measurement.driver = "580.65";
  return measurement;
}

inline constexpr i64 kExampleRows = 100000;

/// A gather of 64 fp16 channels: tile 16 beats the default's 8.
inline TuningEntry example_entry(const TuningEnvironment& environment = example_environment()) {
  return with_kernels_of_this_build(make_entry(
      environment, gather_bucket(DType::F16, 64, 27, kExampleRows), measured(tile_config(8), 14000),
      {measured(tile_config(32), 15000), measured(tile_config(16), 12000)}));
}

inline std::string print_entry(const TuningEntry& entry) { return write_tuning({entry}); }

/// The one entry of that text, or why it is none.
inline llvm::Expected<TuningEntry> parse_entry(llvm::StringRef text) {
  std::vector<std::string> skipped;
  MINUET_ASSIGN(const std::vector<TuningEntry> entries, read_tuning(text, &skipped));
  if (entries.size() == 1) return entries[0];
  return make_error(StatusCode::InvalidArgument, "{0}", skipped.empty() ? "nothing" : skipped[0]);
}

inline TuningStore store_in(const std::string& directory, FileSystem& system = real_file_system()) {
  return {directory, "", process_policy(make_environment({})), system};
}

inline ConvolutionProblem example_problem(i32 in = 64, i32 out = 64, DType dtype = DType::F16) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.in_channels = in;
  problem.out_channels = out;
  problem.kernel_size = {3, 3, 3, 1};
  problem.input = {in, 0};
  problem.output = problem.residual_input = {out, 0};
  return problem;
}

/// The problem, asking for a dataflow.
inline ConvolutionProblem by(ConvolutionProblem problem, std::optional<Dataflow> dataflow) {
  problem.dataflow = dataflow;
  return problem;
}

/// Every kernel and every reason of the choices that a snapshot leads to.
inline std::string choices_text(const TuningSnapshot* tuning, i64 rows = kExampleRows) {
  std::string text;
  auto add = [&](const std::vector<KernelSource>& sources, const std::vector<std::string>& reasons) {
    for (const KernelSource& source : sources) text += source.display_name + "\n" + source.text;
    for (const std::string& reason : reasons) text += reason + "\n";
  };
  for (const DType dtype : kDTypes) {
    for (const i32 channels : {3, 32, 64, 96, 256}) {
      const ConvolutionProblem problem = example_problem(channels, 2 * channels, dtype);
      const GmasChoice choice = choose_gmas(problem, tuning, rows);
      std::vector<std::string> reasons = choice.reasons;
      const GroupingChoice grouping = choose_grouping(problem, tuning, rows, reasons);
      add(sources_of(choice), reasons);
      text += std::to_string(grouping.padding_threshold) + " " + std::to_string(grouping.height_step) + "\n";
    }
  }
  const EngineChoice engine = choose_engine(3, 27, tuning);
  for (const MapChoice* const map : {&engine.map32, &engine.map64}) add(sources_of(*map), {});
  return text;
}

/// Runs `work` in processes of their own; each has to end well.
inline void in_processes(int count, const std::function<bool(int)>& work) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(work(i) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "process " << child;
  }
}

}  // namespace minuet
