// gradient_bench COMMIT [--candidates] [CLOUD...]: how long the gradients of a submanifold convolution of
// kernel 3^3 take on the GPU, as single ops in fp16: that of the weight, that of the input, both in one graph
// one after the other (backward) and beside each other (two branches, as in a training plan), that of the
// bias, the list of the pairs, and the convolution itself. The clouds are those of
// minuet bench, by default os1 and random_1e6. Prints JSON for tools/bench/results. Times are those of
// captured work by the GPU's clock. The gradient of the weight is compared with float64 for a few weights of
// each offset. With --candidates it compares ways to compute the gradient of the weight, on layers of 32 to
// 256 channels: what the library chooses, the tensor cores of warps, and warpgroups with many Specs.
// `empty_ms` is the time of the same launches for an empty list.
#include <cmath>
#include <cstdio>

#include "include/minuet/gradient.h"
#include "tests/runtime/cuda/gradient_candidates.h"
#include "tests/runtime/execution/bench_times.h"
#include "tests/runtime/execution/present_clouds.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kTimed = 40, kWarm = 10, kOffsets = 27, kCompared = 8;

double median_of(Machine& machine, const Stream& stream, const std::function<void()>& enqueue) {
  enqueue();
  check(minuet_device_synchronize(machine.device(), stream.get()));
  const CapturedGraph graph(stream.get(), enqueue);
  std::vector<double> times;
  for (int i = -kWarm; i < kTimed; ++i) {
    const double time = time_by_events(machine, stream, graph);
    if (i >= 0) times.push_back(time);
  }
  return *summary(times).getNumber("median_ms");
}

/// A layer of `channels` input and output channels, with random operands.
class Layer {
 public:
  Layer(Machine& machine, minuet_kernel_map* map, int64_t rows, int64_t pairs, int32_t channels)
      : machine_(machine),
        map_(map),
        rows_(rows),
        pairs_(pairs),
        channels_(channels),
        features_(random_values(rows * channels, 1)),
        out_gradient_(random_values(rows * channels, 2)),
        input_(machine, encode(DType::F16, features_)),
        gradient_(machine, encode(DType::F16, out_gradient_)),
        output_(machine, rows * channels * 2),
        list_(machine, pairs * 12),
        count_(machine, 4),
        weight_gradient_(machine, int64_t{kOffsets} * channels * channels * 4),
        bias_gradient_(machine, channels * 4) {
    options_.dtype = MINUET_F16;
    options_.in_channels = options_.out_channels = channels;
    for (int a = 0; a < 3; ++a) options_.kernel_size[a] = 3;
    options_.submanifold = 1;
    options_.dataflow = MINUET_DATAFLOW_FUSED;
    weight_.assign(static_cast<size_t>(kOffsets * channels * channels), 0.125f);
    options_.weight = weight_.data(), options_.weight_count = static_cast<int64_t>(weight_.size());
    list_pairs(nullptr);
  }

  llvm::json::Object measure(const Stream& stream, const Stream& branch) {
    const Handle<minuet_gradient_op> of_weight = op_of(MINUET_GRADIENT_WEIGHT),
                                     of_bias = op_of(MINUET_GRADIENT_BIAS);
    const std::unique_ptr<Buffer> workspace = workspace_of(of_weight.get());
    const std::unique_ptr<Buffer> bias_workspace = workspace_of(of_bias.get());
    const auto weight = [&](const Stream& on) { compute(of_weight.get(), *workspace, true, on); };
    const Plan forward = plan_of(false), input = plan_of(true);
    const Execution forward_run = make_execution(machine_, forward.get()),
                    input_run = make_execution(machine_, input.get());
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_transpose(map_, &made));
    const KernelMap swapped(made, {minuet_kernel_map_destroy});
    check(prepare_map(forward_run.get(), map_));
    check(prepare_map(input_run.get(), made));
    const auto run = [&](const Execution& execution, const Buffer& from) {
      check(run_tensors(execution.get(), {tensor(from, rows_, channels_, DType::F16)},
                        tensor(output_, rows_, channels_, DType::F16), stream.get()));
    };
    const double weight_ms = median_of(machine_, stream, [&] { weight(stream); });
    const double error = error_of_weight();
    const std::vector<uint32_t> first = weight_gradient_.read<uint32_t>();
    const double input_ms = median_of(machine_, stream, [&] { run(input_run, gradient_); });
    const double backward_ms =
        median_of(machine_, stream, [&] { run(input_run, gradient_), weight(stream); });
    const Event begun, branch_ended;
    const double branches_ms = median_of(machine_, stream, [&] {
      begun.record(stream.get()), begun.hold(branch.get());
      weight(branch), branch_ended.record(branch.get());
      run(input_run, gradient_), branch_ended.hold(stream.get());
    });
    const double forward_ms = median_of(machine_, stream, [&] { run(forward_run, input_); });
    const double bias_ms =
        median_of(machine_, stream, [&] { compute(of_bias.get(), *bias_workspace, false, stream); });
    std::fprintf(stderr,
                 "%d channels, %lld rows, %lld pairs: backward %.1f us (%.1f in two branches; weight %.1f, "
                 "input %.1f), "
                 "forward %.1f, bias %.1f, error %.1e\n",
                 channels_, static_cast<long long>(rows_), static_cast<long long>(pairs_), 1000 * backward_ms,
                 1000 * branches_ms, 1000 * weight_ms, 1000 * input_ms, 1000 * forward_ms, 1000 * bias_ms,
                 error);
    return llvm::json::Object{{"channels", channels_},
                              {"rows", rows_},
                              {"pairs", pairs_},
                              {"backward_ms", backward_ms},
                              {"backward_two_branches_ms", branches_ms},
                              {"weight_ms", weight_ms},
                              {"input_ms", input_ms},
                              {"bias_ms", bias_ms},
                              {"forward_ms", forward_ms},
                              {"workspace_bytes", workspace->bytes()},
                              {"weight_error", error},
                              {"has_equal_bits", weight_gradient_.read<uint32_t>() == first}};
  }

  /// Times each candidate for the gradient of the weight.
  llvm::json::Array compare(const Stream& stream) {
    llvm::json::Array results;
    for (const NamedCandidate& candidate : gradient_candidates(channels_)) {
      CandidateRun run(candidate.choice);
      CandidateLayer layer{
          {list_.integers(), count_.integers(), pairs_}, input_.data(), gradient_.data(), rows_, channels_,
          static_cast<float*>(weight_gradient_.data())};
      const Buffer workspace(machine_, run.workspace_bytes(layer));
      const auto compute = [&] { run.compute(layer, workspace.data(), stream.get()); };
      const double weight_ms = median_of(machine_, stream, compute);
      const double error = error_of_weight();
      const Buffer none(machine_, std::vector<int32_t>{0});
      layer.list.count = none.integers();
      const double empty_ms = median_of(machine_, stream, compute);
      std::fprintf(stderr, "%d channels, %lld pairs: %.1f us (%.1f empty), error %.1e: %s\n", channels_,
                   static_cast<long long>(pairs_), 1000 * weight_ms, 1000 * empty_ms, error,
                   candidate.name.c_str());
      results.push_back(llvm::json::Object{{"candidate", candidate.name},
                                           {"channels", channels_},
                                           {"rows", rows_},
                                           {"pairs", pairs_},
                                           {"weight_ms", weight_ms},
                                           {"empty_ms", empty_ms},
                                           {"workspace_bytes", workspace.bytes()},
                                           {"weight_error", error}});
    }
    return results;
  }

 private:
  static std::vector<float> random_values(int64_t count, uint64_t seed) {
    Random random(seed);
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(round_to(DType::F16, random.uniform(-1, 1)));
    return values;
  }
  void list_pairs(void* stream) {
    check(minuet_kernel_map_list_pairs(map_, static_cast<int32_t*>(list_.data()), pairs_,
                                       static_cast<int32_t*>(count_.data()), stream));
    check(minuet_device_synchronize(machine_.device(), stream));
  }
  Handle<minuet_gradient_op> op_of(minuet_gradient which) {
    minuet_gradient_op* made = nullptr;
    check(minuet_gradient_create(machine_.context(), &options_, which, &made));
    Handle<minuet_gradient_op> op(made, {minuet_gradient_op_destroy});
    check(minuet_gradient_op_load(made, machine_.device()));
    return op;
  }
  Plan plan_of(bool is_gradient) {
    minuet_plan* made = nullptr;
    check(is_gradient ? minuet_plan_create_convolution_gradient(machine_.context(), &options_,
                                                                MINUET_GRADIENT_INPUT, &made)
                      : minuet_plan_create_convolution(machine_.context(), &options_, &made));
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine_.arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine_.device()));
    return plan;
  }
  std::unique_ptr<Buffer> workspace_of(minuet_gradient_op* op) {
    int64_t bytes = 0;
    check(minuet_gradient_bytes(op, machine_.arch().c_str(), pairs_, rows_, &bytes));
    return std::make_unique<Buffer>(machine_, bytes);
  }
  void compute(minuet_gradient_op* op, const Buffer& workspace, bool is_weight, const Stream& stream) {
    const minuet_array array =
        array_of(weight_gradient_.data(), {kOffsets, channels_, channels_}, MINUET_ELEMENT_F32);
    minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
    given.out_gradient = tensor(gradient_, rows_, channels_, DType::F16);
    if (is_weight) {
      given.pairs = list_.integers(), given.most_pairs = pairs_, given.pair_count = count_.integers();
      given.input = tensor(input_, rows_, channels_, DType::F16);
      given.weight_gradient = &array;
    } else {
      given.bias_gradient = static_cast<float*>(bias_gradient_.data());
    }
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check(minuet_gradient_compute(op, machine_.device(), &given, stream.get()));
  }
  /// The relative error of the norm over kCompared weights of each offset.
  double error_of_weight() {
    const std::vector<int32_t> list = list_.read<int32_t>();
    const std::vector<float> got = weight_gradient_.read<float>();
    Random random(3);
    std::vector<std::pair<int, int>> compared;
    for (int i = 0; i < kCompared; ++i) {
      const auto channel = [&] { return static_cast<int>(random.below(static_cast<uint64_t>(channels_))); };
      compared.emplace_back(channel(), channel());
    }
    std::vector<double> expected(static_cast<size_t>(kOffsets * kCompared));
    for (size_t pair = 0; pair + 3 <= list.size(); pair += 3) {
      for (int i = 0; i < kCompared; ++i) {
        const float x =
            features_[static_cast<size_t>(int64_t{list[pair + 1]} * channels_ + compared[i].first)];
        const float y =
            out_gradient_[static_cast<size_t>(int64_t{list[pair + 2]} * channels_ + compared[i].second)];
        expected[static_cast<size_t>(list[pair] * kCompared + i)] +=
            static_cast<double>(x) * static_cast<double>(y);
      }
    }
    double error = 0, size = 0;
    for (int k = 0; k < kOffsets; ++k) {
      for (int i = 0; i < kCompared; ++i) {
        const double want = expected[static_cast<size_t>(k * kCompared + i)];
        const int64_t place = (int64_t{k} * channels_ + compared[i].first) * channels_ + compared[i].second;
        error += std::pow(static_cast<double>(got[static_cast<size_t>(place)]) - want, 2);
        size += want * want;
      }
    }
    return std::sqrt(error / size);
  }

  Machine& machine_;
  minuet_kernel_map* const map_;
  const int64_t rows_, pairs_;
  const int32_t channels_;
  const std::vector<float> features_, out_gradient_;
  std::vector<float> weight_;
  minuet_convolution_options options_ = MINUET_CONVOLUTION_OPTIONS_INIT;
  const Buffer input_, gradient_, output_, list_, count_, weight_gradient_, bias_gradient_;
};

llvm::json::Array measure(Machine& machine, const tool::BenchCloud& cloud, bool compares) {
  const Stream stream(machine), branch(machine);
  stream.make_current();
  const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
  const tool::VoxelCloud voxels = llvm::cantFail(tool::make_variant(cloud, 0, /*thin=*/false, voxelizer));
  const Coordinates set = make_set(machine, 3, voxels.coordinates, {1, 1, 1, 1});
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  for (int a = 0; a < 3; ++a) options.kernel_size[a] = 3;
  minuet_kernel_map* made = nullptr;
  check(minuet_kernel_map_create(set.get(), set.get(), &options, nullptr, &made));
  const KernelMap map(made, {minuet_kernel_map_destroy});
  llvm::json::Array layers;
  for (const int32_t channels : {32, 64, 96, 128, 256}) {
    if (!compares && channels != 64 && channels != 256) continue;
    Layer layer(machine, made, voxels.count(), pair_count(made), channels);
    llvm::json::Array results =
        compares ? layer.compare(stream) : llvm::json::Array{layer.measure(stream, branch)};
    for (llvm::json::Value& result : results) {
      (*result.getAsObject())["cloud"] = cloud.name;
      layers.push_back(std::move(result));
    }
  }
  return layers;
}

void bench(const std::string& commit, std::vector<std::string> names) {
  const bool compares = !names.empty() && names.front() == "--candidates";
  if (compares) names.erase(names.begin());
  const std::vector<tool::BenchCloud> clouds = present_clouds(names);
  Machine& machine = open_gpu();
  llvm::json::Array layers;
  for (const tool::BenchCloud& cloud : clouds) {
    for (llvm::json::Value& layer : measure(machine, cloud, compares)) layers.push_back(std::move(layer));
  }
  print_results(machine, commit, llvm::json::Object{{"dtype", "fp16"}, {"layers", std::move(layers)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: gradient_bench COMMIT [--candidates] [CLOUD...]\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] {
    minuet::abi::bench(arguments[1], {arguments + 2, arguments + count});
  });
}
