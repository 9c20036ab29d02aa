#include "tests/runtime/cuda/gradient_candidates.h"

#include "llvm/Support/FormatVariadic.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"

namespace minuet {
namespace {

constexpr i32 kKernel = 3;

struct Variant {
  i32 tile_in, tile_out, copiers, stages, blocks;
};
/// Tiles of 32 to 256 channels with and without copiers, and with more or fewer stages and blocks.
constexpr Variant kVariants[] = {
    {32, 32, 1, 4, 3},   {32, 32, 1, 6, 2},   {32, 32, 1, 4, 4},   {32, 32, 0, 3, 4},   {32, 32, 0, 4, 3},
    {64, 64, 1, 4, 3},   {64, 64, 1, 6, 2},   {64, 64, 0, 3, 4},   {64, 64, 0, 4, 3},   {64, 128, 0, 3, 3},
    {96, 96, 0, 3, 2},   {96, 96, 1, 6, 1},   {96, 96, 2, 6, 1},   {128, 64, 0, 4, 2},  {128, 128, 2, 6, 1},
    {128, 128, 1, 6, 1}, {128, 128, 0, 3, 2}, {128, 128, 0, 6, 1}, {128, 256, 0, 4, 1}, {128, 256, 1, 4, 1}};

std::string name_of(const WarpgroupGradientSpec& spec) {
  return llvm::formatv("warpgroups {0}x{1}, {2} copiers, {3} stages, {4} blocks", spec.tile_in, spec.tile_out,
                       spec.copiers, spec.stages, spec.blocks);
}

/// Whether a tile covers the channels without many in excess, and is not much smaller than they are.
bool suits(const Variant& variant, i32 channels) {
  const auto divides = [&](i32 tile) { return channels % tile == 0 && (channels == tile || tile >= 64); };
  return divides(variant.tile_in) && divides(variant.tile_out) && variant.tile_in * 4 >= channels;
}

}  // namespace

std::vector<NamedCandidate> gradient_candidates(i32 channels) {
  ParameterGradientProblem problem;
  problem.weight = true;
  problem.forward.ndim = 3;
  problem.forward.kernel_size = {kKernel, kKernel, kKernel, 1};
  problem.forward.in_channels = problem.forward.out_channels = channels;
  problem.forward.dtype = DType::F16;
  const ParameterGradientChoice chosen = choose_parameter_gradient(problem);
  std::vector<NamedCandidate> all{{"chosen", chosen}, {"warps", chosen}};
  all.back().choice.candidates = {chosen.candidates.back()};
  for (const Variant& variant : kVariants) {
    if (!suits(variant, channels)) continue;
    const WarpgroupGradientSpec spec{.io = DType::F16,
                                     .tile_in = variant.tile_in,
                                     .tile_out = variant.tile_out,
                                     .copiers = variant.copiers,
                                     .stages = variant.stages,
                                     .blocks = variant.blocks};
    all.push_back({name_of(spec), chosen});
    all.back().choice.candidates = {make_candidate(problem.forward, spec)};
  }
  return all;
}

CandidateRun::CandidateRun(const ParameterGradientChoice& choice) : choice_(choice) {
  const std::shared_ptr<CudaDevice>& device = Gpu::get().device;
  SourceList sources;
  add_sources(sources, choice_, device->info().arch);
  Gpu::get().load(sources.take());
  launcher_ = take(Launcher::create(device, nullptr));
  step_ = std::make_unique<GradientStep>(*launcher_);
}

i64 CandidateRun::workspace_bytes(const CandidateLayer& layer) const {
  return step_->workspace_bytes(choice_, layer.list.most, layer.rows);
}

void CandidateRun::compute(const CandidateLayer& layer, void* workspace, CUstream stream) {
  ParameterGradientRequest request;
  request.choice = &choice_;
  request.list = layer.list;
  request.input = layer.input, request.input_rows = layer.rows, request.input_ld = layer.channels;
  request.gradient = layer.gradient, request.gradient_rows = layer.rows, request.gradient_ld = layer.channels;
  request.weight_gradient = layer.weight_gradient;
  request.output_stride = 1, request.input_stride = layer.channels;
  request.offset_strides[2] = i64{layer.channels} * layer.channels;
  request.offset_strides[1] = kKernel * request.offset_strides[2];
  request.offset_strides[0] = kKernel * request.offset_strides[1];
  request.workspace = workspace;
  take(launcher_->begin(stream));
  take(step_->compute(request));
  take(launcher_->end());
}

}  // namespace minuet
