// Every kernel of kernels.inc compiles for every architecture that its row admits, and the ones that matter
// do not spill. All Specs for one architecture, the default one for the others; with MINUET_LONG_TESTS=1 all
// for all.
//
// A row without variants() here does not compile: the list below is made from kernels.inc itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "codegen/choose/choice.h"
#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/depthwise.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/space.h"
#include "codegen/compile/compiler.h"
#include "tests/codegen/compile/map_kernel_variants.h"
#include "tests/codegen/compile/training_kernel_variants.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The Specs to compile beside the default one, by row of kernels.inc. map_kernel_variants.h and
/// training_kernel_variants.h have more.
std::vector<PermuteRowsSpec> variants(const PermuteRowsSpec&) {
  std::vector<PermuteRowsSpec> specs;
  for (DType io : kDTypes) {
    for (i32 channels : {1, 3, 96})
      specs.push_back(choose_permute_rows(io, channels, {channels, 0}, {channels, 0}));
  }
  return specs;
}

/// What the engine would choose for ordinary, odd and unaligned layers.
std::vector<GmasChoice> choices() {
  std::vector<GmasChoice> all;
  for (DType dtype : kDTypes) {
    for (const auto& [in, out] : {std::pair{4, 32}, {3, 7}, {96, 96}, {256, 1}}) {
      ConvolutionProblem problem;
      problem.dtype = dtype;
      problem.in_channels = in;
      problem.out_channels = out;
      problem.kernel_size = {3, 3, 3, 1};
      problem.input = {in + 2, 2};  // a column range that is not aligned to 16 bytes
      problem.output = problem.residual_input = {out, 0};
      problem.scale_shift = out != 1;
      problem.residual = out == 96;
      problem.activation = static_cast<Activation>(all.size() % kActivations);  // in turns
      problem.second_output = out == 32 || out == 1;
      problem.covered_output = problem.output;
      problem.second_activation = static_cast<Activation>(all.size() / 2 % kActivations);
      all.push_back(choose_gmas(problem));
    }
  }
  return all;
}

std::vector<GatherSpec> variants(const GatherSpec&) {
  std::vector<GatherSpec> specs;
  for (const GmasChoice& choice : choices()) specs.push_back(choice.gather);
  specs.push_back({.io = DType::F16, .channels = 64, .tile = 64, .vector_bytes = 16});
  return specs;
}
std::vector<ScatterSpec> variants(const ScatterSpec&) {
  std::vector<ScatterSpec> specs;
  for (const GmasChoice& choice : choices()) specs.push_back(choice.scatter);
  return specs;
}
std::vector<PermuteWeightsSpec> variants(const PermuteWeightsSpec&) {
  return {{.vector_bytes = 2}, {.vector_bytes = 4}, {.vector_bytes = 8}};
}

std::vector<CopyParametersSpec> variants(const CopyParametersSpec&) { return {}; }
std::vector<FoldBatchNormsSpec> variants(const FoldBatchNormsSpec&) { return {}; }
std::vector<MakeWeightImagesSpec> variants(const MakeWeightImagesSpec&) { return {{.element_bytes = 4}}; }
std::vector<ClearWordsSpec> variants(const ClearWordsSpec&) { return {}; }
std::vector<InsertPointsSpec> variants(const InsertPointsSpec&) { return by_ndim<InsertPointsSpec>(); }
std::vector<NumberVoxelsSpec> variants(const NumberVoxelsSpec&) { return {}; }
std::vector<AssignRowsSpec> variants(const AssignRowsSpec&) { return {}; }
std::vector<ReduceVoxelsSpec> variants(const ReduceVoxelsSpec&) {
  std::vector<ReduceVoxelsSpec> specs = by_ndim<ReduceVoxelsSpec>();
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const PointReduction reduction : {PointReduction::Max, PointReduction::Sum, PointReduction::First})
      specs.push_back({.io = io, .reduction = reduction});
  }
  return specs;
}
std::vector<ListSelectedSpec> variants(const ListSelectedSpec&) {
  std::vector<ListSelectedSpec> specs = by_ndim<ListSelectedSpec>();
  specs.push_back({.rule = SelectRule::All});
  for (const SelectRule rule : {SelectRule::All, SelectRule::Mask})
    specs.push_back({.source = SelectSource::Cells, .rule = rule});
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    specs.push_back({.io = io, .rule = SelectRule::Above});
    for (const SelectRule rule : {SelectRule::Above, SelectRule::NonZero})
      specs.push_back({.io = io, .source = SelectSource::Cells, .rule = rule});
  }
  return specs;
}
std::vector<FinishSelectionSpec> variants(const FinishSelectionSpec&) {
  return by_ndim<FinishSelectionSpec>();
}
std::vector<MakeScoreKeysSpec> variants(const MakeScoreKeysSpec&) {
  std::vector<MakeScoreKeysSpec> specs = by_ndim<MakeScoreKeysSpec>();
  for (const DType io : {DType::F16, DType::BF16}) specs.push_back({.io = io});
  specs.push_back({.source = SelectSource::Cells});
  return specs;
}
std::vector<MarkBestSpec> variants(const MarkBestSpec&) { return {}; }
std::vector<IndexRowsSpec> variants(const IndexRowsSpec&) { return by_ndim<IndexRowsSpec>(); }
std::vector<WeighCornersSpec> variants(const WeighCornersSpec&) {
  std::vector<WeighCornersSpec> specs = by_ndim<WeighCornersSpec>();
  specs.push_back({.at_centres = false});
  return specs;
}
std::vector<DevoxelizeSpec> variants(const DevoxelizeSpec&) {
  std::vector<DevoxelizeSpec> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const i32 corners : {1, 2, 8, 16})
      specs.push_back({.io = io, .corners = corners, .vector_bytes = corners == 2 ? dtype_bytes(io) : 16});
  }
  return specs;
}
std::vector<PointwiseSpec> variants(const PointwiseSpec&) {
  using Kind = PointwiseKind;
  const std::vector<Kind> chains[] = {
      {Kind::Gelu, Kind::Silu, Kind::Sigmoid, Kind::Tanh, Kind::GeluTanh},
      {Kind::Affine, Kind::LeakyReLU, Kind::Add, Kind::Affine, Kind::Multiply},
      {Kind::LayerNorm, Kind::Affine, Kind::Softmax},
      {Kind::GeluGradient, Kind::SiluGradient, Kind::SigmoidGradient, Kind::TanhGradient,
       Kind::GeluTanhGradient, Kind::ReLUGradient, Kind::LeakyReLUGradient},
      {Kind::LayerNormGradient, Kind::Affine, Kind::SoftmaxGradient},
      {Kind::Add, Kind::Argmax}};
  std::vector<PointwiseSpec> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const i32 channels : {96, 20, 301, 2048}) {
      for (const std::vector<Kind>& kinds : chains) {
        PointwiseProblem problem;
        problem.dtype = io;
        problem.channels = channels;
        for (const Kind kind : kinds) problem.steps.push_back({kind, 0.5f});
        problem.input = problem.output = {channels, 0};
        for (const Kind kind : kinds) {
          if (reads_operand(kind)) problem.operands.push_back({channels, 0});
        }
        specs.push_back(choose_pointwise(problem).kernel);
      }
    }
  }
  return specs;
}
std::vector<CountInputsSpec> variants(const CountInputsSpec&) { return {}; }
std::vector<PoolGradientSpec> variants(const PoolGradientSpec&) {
  std::vector<PoolGradientSpec> specs;
  for (const Reduction reduction : {Reduction::Max, Reduction::Average, Reduction::Sum}) {
    specs.push_back({.io = DType::F32, .channels = 6, .vector_bytes = 8, .reduction = reduction});
    specs.push_back({.io = DType::BF16, .channels = 96, .vector_bytes = 16, .reduction = reduction});
  }
  return specs;
}
std::vector<PoolSpec> variants(const PoolSpec&) {
  std::vector<PoolSpec> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const Reduction reduction : {Reduction::Max, Reduction::Average, Reduction::Sum}) {
      specs.push_back({.io = io, .channels = 96, .vector_bytes = 16, .reduction = reduction});
      specs.push_back({.io = io, .channels = 3, .vector_bytes = dtype_bytes(io), .reduction = reduction});
    }
    for (const i32 channels : {96, 20, 3}) {
      PoolingProblem problem;
      problem.dtype = io;
      problem.channels = channels;
      problem.input = problem.output = {channels, 0};
      problem.winners = true;
      specs.push_back(choose_pool(problem).pool);
    }
  }
  return specs;
}

std::vector<DepthwiseSpec> variants(const DepthwiseSpec&) {
  std::vector<DepthwiseSpec> specs;
  for (const DType io : kDTypes) {
    for (const auto& [in, out] : {std::pair{96, 96}, {256, 256}, {16, 48}, {8, 128}, {5, 5}, {3, 6}}) {
      ConvolutionProblem problem;
      problem.dtype = io;
      problem.in_channels = problem.groups = in;
      problem.out_channels = out;
      problem.kernel_size = {3, 3, in == 96 ? 5 : 3, 1};
      problem.input = {in, 0};
      problem.output = problem.residual_input = problem.covered_output = {out, 0};
      problem.scale_shift = in != 5;
      problem.residual = out > 100;
      problem.activation = static_cast<Activation>(specs.size() % kActivations);
      problem.second_output = specs.size() % 2 == 0;
      specs.push_back(choose_depthwise(problem).kernel);
    }
  }
  return specs;
}

std::vector<ItemRowsSpec> variants(const ItemRowsSpec&) {
  std::vector<ItemRowsSpec> specs = by_ndim<ItemRowsSpec>();
  for (const i32 ndim : {1, 2, 3, 4}) specs.push_back({.ndim = ndim, .lists = true});
  return specs;
}
std::vector<StartItemRowsSpec> variants(const StartItemRowsSpec&) { return {}; }

/// Returns the Specs that are chosen for global poolings of many, few and odd numbers of channels.
template <class Spec>
std::vector<Spec> item_specs(Spec GlobalPoolChoice::*spec) {
  std::vector<Spec> specs;
  for (const DType dtype : kDTypes) {
    for (const Reduction reduction : {Reduction::Max, Reduction::Average, Reduction::Sum}) {
      for (const i32 channels : {64, 20, 3, 512, 4097}) {
        GlobalPoolingProblem problem;
        problem.dtype = dtype;
        problem.channels = channels;
        problem.reduction = reduction;
        problem.input = problem.output = {channels, 0};
        specs.push_back(choose_global_pool(problem).*spec);
      }
    }
  }
  return specs;
}
std::vector<PoolItemsSpec> variants(const PoolItemsSpec&) { return item_specs(&GlobalPoolChoice::pool); }
std::vector<JoinItemsSpec> variants(const JoinItemsSpec&) { return item_specs(&GlobalPoolChoice::join); }

std::vector<ListCellRowsSpec> variants(const ListCellRowsSpec&) { return by_ndim<ListCellRowsSpec>(); }

/// What is chosen for dense tensors of ordinary and odd channels and cells.
template <class Problem, class Choose>
auto dense_specs(const Choose& choose) {
  std::vector<decltype(choose(Problem()).kernel)> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const bool channels_last : {false, true}) {
      for (const i32 channels : {128, 20, 3}) {
        Problem problem;
        problem.dtype = io;
        problem.channels = channels;
        problem.features = {channels, 0};
        problem.layout.channels_last = channels_last;
        problem.layout.shape = {channels == 128 ? 200 : 3, 7, channels == 3 ? 5 : 4, 1};
        specs.push_back(choose(problem).kernel);
      }
    }
  }
  return specs;
}
std::vector<ToDenseSpec> variants(const ToDenseSpec&) { return dense_specs<ToDenseProblem>(choose_to_dense); }
std::vector<FromDenseSpec> variants(const FromDenseSpec&) {
  std::vector<FromDenseSpec> specs = dense_specs<FromDenseProblem>(choose_from_dense);
  for (const i32 ndim : {1, 2, 4}) specs.push_back({.ndim = ndim});
  return specs;
}

/// What is chosen for channels of all widths of an access, and for strides of 2, 3 and 4.
template <class Problem, class Choose>
auto space_specs(const Choose& choose) {
  std::vector<decltype(choose(Problem()).kernel)> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const i32 channels : {64, 12, 6, 3}) {
      const AxisArray stride{2, channels == 3 ? 3 : 2, channels == 12 ? 4 : 1, 1};
      Problem problem = make_space_problem<Problem>(3, io, channels, stride);
      const auto wide = static_cast<i32>(channels * kernel_volume(problem));
      const bool is_down = problem.kind == ConvolutionKind::Strided;
      problem.input = {is_down ? channels : wide, 0};
      problem.output = {is_down ? wide : channels, 0};
      specs.push_back(choose(problem).kernel);
    }
  }
  return specs;
}
std::vector<SpaceToChannelSpec> variants(const SpaceToChannelSpec&) {
  return space_specs<SpaceToChannelProblem>(choose_space_to_channel);
}
std::vector<ChannelToSpaceSpec> variants(const ChannelToSpaceSpec&) {
  return space_specs<ChannelToSpaceProblem>(choose_channel_to_space);
}

/// What is chosen for layers with 8-bit tensors.
std::vector<FusedSpec> integer_specs(const std::string& arch) {
  std::vector<FusedSpec> specs;
  std::size_t turn = 0;
  const auto add = [&](std::optional<DType> input, std::optional<DType> output, i32 in, i32 out, i64 rows,
                       bool shortcut = false) {
    ConvolutionProblem problem;
    problem.dtype = turn % 3 == 0 ? DType::F16 : turn % 3 == 1 ? DType::BF16 : DType::TF32;
    problem.in_channels = in;
    problem.out_channels = out;
    problem.kernel_size = {3, 3, 3, 1};
    problem.input = {in, 0};
    problem.output = problem.residual_input = problem.covered_output = {out, 0};
    problem.scale_shift = true;
    problem.residual = in == out;
    problem.input_type = input;
    problem.output_type = output;
    if (problem.residual && input) problem.residual_type = turn % 2 == 0 ? DType::U8 : DType::S8;
    problem.activation = static_cast<Activation>(turn % kActivations);
    problem.shortcut = shortcut;
    if (shortcut && turn % 2 == 0) problem.shortcut_type = output;
    problem.second_output = turn % 3 == 1 && !shortcut;
    if (turn % 2 == 1 && problem.second_output) problem.second_type = DType::S8;
    problem.second_activation = static_cast<Activation>(turn / 2 % kActivations);
    specs.push_back(choose_fused(problem, arch, rows).fused);
    ++turn;
  };
  for (const DType input : {DType::U8, DType::S8}) {
    for (const auto& [in, out] : {std::pair{3, 7}, {33, 17}, {16, 32}, {32, 32}, {64, 64}, {128, 96}}) {
      add(input, DType::U8, in, out, 20000);
      add(input, std::nullopt, in, out, 80000);
    }
    for (const i32 channels : {96, 128, 256}) {
      for (const i64 rows : {1700, 5000, 45000, 1000000}) add(input, DType::S8, channels, channels, rows);
    }
    add(std::nullopt, input, 4, 32, 80000);
    add(std::nullopt, input, 64, 64, 80000);
  }
  for (const DType input : {DType::U8, DType::S8}) {
    for (i32 i = 0; i < 3; ++i) add(input, DType::U8, 128, 96, 1000000, /*shortcut=*/true);
  }
  return specs;
}

/// What is chosen for layers of few and of many channels and rows.
std::vector<FusedSpec> variants(const FusedSpec&) {
  std::vector<FusedSpec> specs;
  const auto add = [&](DType dtype, i32 in, i32 out, i32 kernel_size, i64 rows, bool residual = false) {
    ConvolutionProblem problem;
    problem.dtype = dtype;
    problem.in_channels = in;
    problem.out_channels = out;
    problem.kernel_size = {kernel_size, kernel_size, kernel_size, 1};
    problem.input = {in, 0};
    problem.output = problem.residual_input = {out, 0};
    problem.scale_shift = true;
    problem.residual = residual || in == out;
    problem.shortcut = !problem.residual;
    problem.covered_output = problem.output;
    problem.activation = static_cast<Activation>(specs.size() / 3 % kActivations);  // in turns
    problem.second_output = !problem.shortcut && specs.size() / 3 % 2 == 0;
    problem.second_activation = static_cast<Activation>(specs.size() / 6 % kActivations);
    for (const char* arch : {"sm_80", "sm_90"}) specs.push_back(choose_fused(problem, arch, rows).fused);
    specs.push_back(choose_fused(problem, "sm_90a", rows).fused);
  };
  for (DType dtype : kDTypes) {
    for (const auto& [in, out] : {std::pair{4, 32}, {3, 7}, {32, 32}, {96, 96}, {256, 256}})
      add(dtype, in, out, 3, 20000);
  }
  for (const i64 rows : {3000, 8000, 20000, 80000, 1000000}) {
    for (const i32 channels : {32, 64, 128}) add(DType::F16, channels, channels, 3, rows);
  }
  for (const i64 rows : {600, 1700, 3000, 8000}) add(DType::F16, 256, 256, 3, rows);
  add(DType::BF16, 384, 256, 3, 8000);
  add(DType::F16, 64, 128, 3, 8000);
  for (const i64 rows : {45000, 80000, 1000000}) {
    for (const i32 in : {96, 128}) add(DType::F16, in, 96, 3, rows);
  }
  add(DType::F16, 192, 128, 3, 20000);
  add(DType::F16, 64, 96, 2, 20000);
  add(DType::F16, 128, 96, 1, 80000);
  add(DType::F16, 64, 64, 5, 20000);
  add(DType::F16, 128, 128, 2, 20000);
  add(DType::F16, 32, 128, 3, 80000);
  for (const bool residual : {false, true}) add(DType::F16, 32, 96, 3, 80000, residual);
  add(DType::BF16, 32, 64, 3, 1000000, /*residual=*/true);
  add(DType::F16, 96, 20, 1, 80000);
  specs.push_back({.weights = WeightRoad::BulkRefill, .programmatic = true});
  return specs;
}

/// One compile to do, and what must hold for its binary.
struct Job {
  KernelSource source;
  int params_bytes;
  int threads;
  bool is_default;
};

/// `specs`: the default one first.
template <class Spec>
void add_jobs(std::vector<Job>& jobs, const std::vector<Spec>& specs) {
  constexpr int kParamsBytes = sizeof(typename KernelRow<Spec>::Params);
  std::vector<std::string> seen;
  for (const Spec& spec : specs) {
    Job job{emit(spec), kParamsBytes, kernel_needs(spec).threads, seen.empty()};
    if (std::find(seen.begin(), seen.end(), job.source.display_name) != seen.end()) continue;
    seen.push_back(job.source.display_name);
    jobs.push_back(std::move(job));
  }
}

template <class Spec>
void add_jobs(std::vector<Job>& jobs) {
  std::vector<Spec> specs = variants(Spec{});
  specs.insert(specs.begin(), Spec{});
  add_jobs(jobs, specs);
}

std::vector<Job> all_jobs() {
  std::vector<Job> jobs;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) add_jobs<Spec>(jobs);
#include "kernels_templates/kernels.inc"
  return jobs;
}

/// Kernels that read or write every byte of a layer: a spill would cost them bandwidth, and the fused one its
/// products.
bool must_not_spill(const Job& job) {
  const llvm::StringRef name = job.source.display_name;
  if (name.take_front(17) == "fused_convolution" || name.take_front(9) == "depthwise") return true;
  return job.is_default && (name.take_front(6) == "gather" || name.take_front(7) == "scatter" ||
                            name.take_front(8) == "to_dense" || name.take_front(10) == "pool_items" ||
                            name.take_front(17) == "search_kernel_map");
}

constexpr const char* kAllSpecs = "sm_90a";

class KernelsCompile : public testing::TestWithParam<const char*> {};

void expect_binary(Compiler& compiler, const Job& job, const std::string& arch) {
  SCOPED_TRACE(job.source.display_name);
  llvm::Expected<Binary> binary = compiler.compile({job.source, arch}, {});
  if (!binary) {
    const StatusError status = take_status(binary.takeError());
    ADD_FAILURE() << status.message() << "\n" << status.detail();
    return;
  }
  std::printf("%-52s %-8s %3d registers %4d local %6d shared %7zu cubin %6.0f ms\n",
              binary->display_name.c_str(), arch.c_str(), binary->registers, binary->local_bytes,
              binary->shared_bytes, binary->cubin.size(), binary->compile_ms);
  EXPECT_EQ(binary->params_bytes, job.params_bytes);
  EXPECT_GE(binary->max_threads, job.threads);
  EXPECT_GT(binary->registers, 0);
  // What we read in the cubin is what ptxas says.
  EXPECT_THAT(binary->log, HasSubstr(llvm::formatv(" {0} registers", binary->registers).str()));
  EXPECT_THAT(binary->log, HasSubstr(llvm::formatv(" {0} bytes stack frame", binary->local_bytes).str()));
  if (binary->shared_bytes > 0) {
    EXPECT_THAT(binary->log, HasSubstr(llvm::formatv(" {0} bytes smem", binary->shared_bytes).str()));
  } else {
    EXPECT_THAT(binary->log, Not(HasSubstr("bytes smem")));
  }
  EXPECT_EQ(binary->log.find("warning"), std::string::npos) << binary->log;
  // What ptxas says, as an information, where it makes a warpgroup's products wait for each other.
  EXPECT_EQ(binary->log.find("Potential Performance Loss"), std::string::npos) << binary->log;
  if (must_not_spill(job)) {
    EXPECT_EQ(binary->local_bytes, 0) << binary->log;
  }
}

TEST_P(KernelsCompile, EveryRow) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  const std::string arch = GetParam();
  // What differs between architectures a row's default Spec shows; between Specs, one architecture.
  const bool all_specs = arch == kAllSpecs || long_tests_wanted();
  for (const Job& job : all_jobs()) {
    if (!all_specs && !job.is_default) continue;
    if (!missing_arch(job.source, arch).empty()) continue;
    expect_binary(**compiler, job, arch);
  }
}

/// The kernels that are chosen for 8-bit tensors, which differ between architectures in their products.
TEST_P(KernelsCompile, EightBitTensors) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  const std::string arch = GetParam();
  std::vector<Job> jobs;
  add_jobs(jobs, integer_specs(arch));
  const std::size_t distance = arch == kAllSpecs || long_tests_wanted() ? 1 : 7;
  for (std::size_t i = 0; i < jobs.size(); i += distance) expect_binary(**compiler, jobs[i], arch);
}

INSTANTIATE_TEST_SUITE_P(Arch, KernelsCompile,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace minuet
