#include "codegen/tuning/tuned_kernels.h"

#include <iterator>

#include "codegen/base/sha256.h"
#include "codegen/choose/tuned_config.h"
#include "codegen/source/emit.h"

namespace minuet {
namespace {

void add_config(FieldHasher& hasher, const char* what, const TuningConfig& config) {
  std::string text;
  for (const auto& [name, value] : config) text += name + "=" + std::to_string(value) + " ";
  hasher.add(what, text);
}

/// Appends tasks that have the default FusedSpecs of several layers with the channels of `problem`, at
/// several numbers of rows. The layers are a plain one, one with a residual, one with a shortcut, one with a
/// single kernel offset, a strided one and a transposed one.
[[gnu::cold]] void add_fused_defaults(std::vector<TuningTask>& tasks, ConvolutionProblem problem,
                                      const char* arch) {
  const auto add = [&] {
    for (const i64 rows : {500, 2000, 8000, 30000, 100000, 1000000}) {
      const TuningBucket bucket = layer_bucket(Operation::Fused, problem, rows);
      tasks.push_back({bucket, config_of(choose_fused(problem, arch, rows).fused), {}});
    }
  };
  add();
  problem.residual = true;
  add();
  problem.residual = false;
  problem.shortcut = true;
  problem.covered_output = problem.output;
  add();
  problem.shortcut = false;
  problem.kernel_size = {1, 1, 1, 1};
  add();
  problem.kernel_size = problem.stride = {2, 2, 2, 1};
  problem.kind = ConvolutionKind::Strided;
  add();
  problem.kind = ConvolutionKind::Transposed;
  add();
}

/// Appends the task for the gradient of a convolution's input.
[[gnu::cold]] void add_input_gradient(std::vector<TuningTask>& tasks, const ConvolutionProblem& forward,
                                      const char* arch) {
  ConvolutionProblem problem = input_gradient_of(forward);
  problem.input = {problem.in_channels, 0};
  problem.output = problem.residual_input = {problem.out_channels, 0};
  std::vector<TuningTask> more = kernel_tasks(problem, arch, Dataflow::Fused, 100000);
  std::move(more.begin(), more.end(), std::back_inserter(tasks));
}

/// Appends tasks that have the default kernels for the gradient of the weight, for a short and a long list.
[[gnu::cold]] void add_gradient_defaults(std::vector<TuningTask>& tasks, const ConvolutionProblem& problem,
                                         const char* arch) {
  for (const i64 pairs : {1000, 1000000}) {
    TuningTask task = weight_gradient_task(problem, arch, pairs, pairs);
    task.candidates.clear();
    tasks.push_back(std::move(task));
  }
}

}  // namespace

[[gnu::cold]] KernelsDigests kernels_digests(llvm::ArrayRef<TunedFamily> families,
                                             llvm::ArrayRef<TuningTask> tasks) {
  std::map<Operation, FieldHasher> hashers;
  for (const TunedFamily& family : families) {
    hashers[family.operation]
        .add("family", family.name)
        .add("version", std::to_string(family.version))
        .add("spec", family.spec);
  }
  for (const TuningTask& task : tasks) {
    FieldHasher& hasher = hashers[task.bucket.operation];
    hasher.add("task", bucket_hash(task.bucket));
    add_config(hasher, "default", task.default_config);
    for (const TuningConfig& config : task.candidates) add_config(hasher, "candidate", config);
  }
  KernelsDigests digests;
  for (auto& [operation, hasher] : hashers) digests[operation] = hasher.hex();
  FieldHasher of_a_layer;
  for (const Operation operation :
       {Operation::Dataflow, Operation::Gather, Operation::Scatter, Operation::Gemm, Operation::Grouping,
        Operation::Fused, Operation::Order}) {
    of_a_layer.add(operation_name(operation), digests[operation]);
  }
  digests[Operation::Dataflow] = of_a_layer.hex();
  return digests;
}

std::vector<TunedFamily> tuned_families() {
  return {{"gather", Operation::Gather, 1, emit(GatherSpec{}).name_expression},
          {"scatter", Operation::Scatter, 1, emit(ScatterSpec{}).name_expression},
          {"fused_convolution", Operation::Fused, 1, emit(FusedSpec{}).name_expression},
          {"find_query_borders", Operation::Search, 1, emit(FindQueryBordersSpec{}).name_expression},
          {"search_kernel_map", Operation::Search, 1, emit(SearchKernelMapSpec{}).name_expression},
          {"gemm", Operation::Gemm, 1, ""},          // This TunedFamily consists of cuBLASLt's algorithms.
          {"grouping", Operation::Grouping, 1, ""},  // This TunedFamily consists of groupings of GEMMs.
          {"order_rows", Operation::Order, 2, ""},   // This TunedFamily consists of orders of rows.
          {"fused_convolution", Operation::InputGradient, 1, emit(FusedSpec{}).name_expression},
          {"weight_gradient", Operation::WeightGradient, 1, emit(WeightGradientSpec{}).name_expression},
          {"weight_gradient_warpgroups", Operation::WeightGradient, 1,
           emit(WarpgroupGradientSpec{}).name_expression}};
}

[[gnu::cold]] std::vector<TuningTask> tuned_examples() {
  constexpr i64 kRows = 100000;
  ConvolutionProblem problem;
  problem.kernel_size = {3, 3, 3, 1};
  std::vector<TuningTask> tasks{search_task(KeyType::U32, 3, 27, kRows),
                                search_task(KeyType::U64, 3, 27, kRows), grouping_task(problem, kRows),
                                order_task(problem, kRows)};
  const auto set_channels = [&](i32 in, i32 out) {
    problem.in_channels = in;
    problem.out_channels = out;
    problem.input = {in, 0};
    problem.output = problem.residual_input = {out, 0};
  };
  const auto add_kernels = [&](const char* arch, Dataflow dataflow) {
    std::vector<TuningTask> more = kernel_tasks(problem, arch, dataflow, kRows);
    std::move(more.begin(), more.end(), std::back_inserter(tasks));
  };
  for (const char* const arch : {"sm_80", "sm_90a"}) {
    for (const DType dtype : {DType::F16, DType::F32}) {
      problem.dtype = dtype;
      for (const i32 channels : {4, 64}) {
        set_channels(channels, 96);
        tasks.push_back(dataflow_task(problem, arch, kRows));
        add_kernels(arch, Dataflow::GatherGemmScatter);
        add_kernels(arch, Dataflow::Fused);
        tasks.push_back(weight_gradient_task(problem, arch, kRows, 27 * kRows));
        add_input_gradient(tasks, problem, arch);
      }
      for (const i32 channels : {4, 32, 64, 128, 256}) {
        for (const i32 outputs : {channels, 32}) {
          set_channels(channels, outputs);
          add_fused_defaults(tasks, problem, arch);
          add_gradient_defaults(tasks, problem, arch);
        }
      }
      for (const auto& [in, out] : {std::pair{32, 64}, {128, 96}}) {
        set_channels(in, out);
        add_fused_defaults(tasks, problem, arch);
      }
    }
    // Layers that multiply 8-bit numbers have candidates and defaults of their own.
    problem.dtype = DType::F16;
    problem.input_type = problem.output_type = DType::U8;
    for (const i32 channels : {16, 32, 64, 128, 256}) {
      for (const i32 outputs : {channels, 32, 96}) {
        set_channels(channels, outputs);
        add_fused_defaults(tasks, problem, arch);
      }
      add_kernels(arch, Dataflow::Fused);
    }
    problem.input_type = problem.output_type = std::nullopt;
  }
  return tasks;
}

namespace {

[[gnu::cold]] const std::string& digest_of_this_build(Operation operation) {
  static const KernelsDigests digests = kernels_digests(tuned_families(), tuned_examples());
  return digests.at(operation);
}

}  // namespace

TuningEntry with_kernels_of_this_build(TuningEntry entry) {
  entry.kernels = digest_of_this_build(entry.bucket.operation);
  return entry;
}

bool is_of_this_build(const TuningEntry& entry) {
  return entry.kernels == digest_of_this_build(entry.bucket.operation);
}

}  // namespace minuet
