#include "codegen/tuning/tuned_kernels.h"

#include <iterator>

#include "codegen/base/sha256.h"
#include "codegen/source/emit.h"

namespace minuet {
namespace {

void add_config(FieldHasher& hasher, const char* what, const TuningConfig& config) {
  std::string text;
  for (const auto& [name, value] : config) text += name + "=" + std::to_string(value) + " ";
  hasher.add(what, text);
}

}  // namespace

[[gnu::cold]] std::string kernels_digest(llvm::ArrayRef<TunedFamily> families,
                                         llvm::ArrayRef<TuningTask> tasks) {
  FieldHasher hasher;
  for (const TunedFamily& family : families)
    hasher.add("family", family.name).add("version", std::to_string(family.version)).add("spec", family.spec);
  for (const TuningTask& task : tasks) {
    hasher.add("task", bucket_hash(task.bucket));
    add_config(hasher, "default", task.default_config);
    for (const TuningConfig& config : task.candidates) add_config(hasher, "candidate", config);
  }
  return hasher.hex();
}

std::vector<TunedFamily> tuned_families() {
  return {{"gather", 1, emit(GatherSpec{}).name_expression},
          {"scatter", 1, emit(ScatterSpec{}).name_expression},
          {"fused_convolution", 1, emit(FusedSpec{}).name_expression},
          {"find_query_borders", 1, emit(FindQueryBordersSpec{}).name_expression},
          {"search_kernel_map", 1, emit(SearchKernelMapSpec{}).name_expression},
          {"gemm", 1, ""},         // cuBLASLt's GEMMs and their grouping
          {"order_rows", 1, ""}};  // the kernels that order rows for the fused dataflow
}

[[gnu::cold]] std::vector<TuningTask> tuned_examples() {
  constexpr i64 kRows = 100000;
  ConvolutionProblem problem;
  problem.kernel_size = {3, 3, 3, 1};
  std::vector<TuningTask> tasks{search_task(KeyType::U32, 3, 27, kRows),
                                search_task(KeyType::U64, 3, 27, kRows), grouping_task(problem, kRows),
                                order_task(problem, kRows)};
  for (const char* const arch : {"sm_80", "sm_90a"}) {
    for (const DType dtype : {DType::F16, DType::F32}) {
      for (const i32 channels : {4, 64}) {
        problem.dtype = dtype;
        problem.in_channels = channels;
        problem.out_channels = 96;
        problem.input = {channels, 0};
        problem.output = problem.residual_input = {96, 0};
        tasks.push_back(dataflow_task(problem, arch, kRows));
        for (const Dataflow dataflow : {Dataflow::GatherGemmScatter, Dataflow::Fused}) {
          std::vector<TuningTask> more = kernel_tasks(problem, arch, dataflow, kRows);
          std::move(more.begin(), more.end(), std::back_inserter(tasks));
        }
      }
    }
  }
  return tasks;
}

[[gnu::cold]] TuningEnvironment with_kernels_of_this_build(TuningEnvironment environment) {
  static const std::string kernels = kernels_digest(tuned_families(), tuned_examples());
  environment.kernels = kernels;
  return environment;
}

}  // namespace minuet
