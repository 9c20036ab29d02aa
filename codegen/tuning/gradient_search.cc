// Makes the tasks for the kernels that compute the gradients of weights.
#include <algorithm>
#include <set>
#include <tuple>

#include "codegen/choose/tuned_config.h"
#include "codegen/tuning/search_space.h"

namespace minuet {
namespace {

using Spec = WeightGradientCandidate::Spec;

constexpr i32 ceil_to(i32 value, i32 step) { return (value + step - 1) / step * step; }

/// Appends Specs to the candidates of a task, in the order of the calls. Leaves out those that the kernels
/// cannot have, that the architecture cannot run, or that the task already has.
class GradientSpecs {
 public:
  GradientSpecs(TuningTask& task, const ConvolutionProblem& forward, llvm::StringRef arch)
      : task_(task),
        arch_(arch),
        inputs_(group_inputs(forward)),
        outputs_(forward.out_channels / forward.groups) {
    known_.insert(task.default_config);
  }

  void add(const Spec& spec) {
    const TuningConfig config = gradient_config(spec);
    Spec read;
    if (llvm::errorToBool(read_gradient_config(task_.bucket, config, read))) return;
    WeightGradientCandidate candidate;
    candidate.spec = read;
    if (candidate.runs_on(arch_) && known_.insert(config).second) task_.candidates.push_back(config);
  }

  /// Returns true if a tile is not larger than the channels need.
  bool fits(i32 tile_in, i32 tile_out, i32 step) const {
    const auto fits_channels = [&](i32 tile, i32 channels) {
      i32 next = step;  // Is the smallest tile that is a power of two and has all channels.
      while (next < channels) next *= 2;
      return tile <= std::min(next, ceil_to(channels, step));
    };
    return fits_channels(tile_in, inputs_) && fits_channels(tile_out, outputs_);
  }

  /// Sorts Specs by the number of products, of which those with channels in excess are useless. Of several
  /// with equally many, larger tiles come first, because they read fewer rows again.
  template <class TileSpec>
  void sort(std::vector<TileSpec>& specs) const {
    const auto place = [&](const TileSpec& spec) {
      return std::tuple(i64{ceil_to(inputs_, spec.tile_in)} * ceil_to(outputs_, spec.tile_out),
                        -spec.tile_in * spec.tile_out);
    };
    std::stable_sort(specs.begin(), specs.end(),
                     [&](const TileSpec& a, const TileSpec& b) { return place(a) < place(b); });
  }

 private:
  TuningTask& task_;
  const llvm::StringRef arch_;
  const i32 inputs_, outputs_;
  std::set<TuningConfig> known_;
};

/// Adds Specs of the same tile: first those with one other field, then those with two.
void add_neighbours(GradientSpecs& list, const WarpgroupGradientSpec& base) {
  const auto add = [&](i32 copiers, i32 stages, i32 blocks) {
    WarpgroupGradientSpec spec = base;
    spec.copiers = copiers, spec.stages += stages, spec.blocks += blocks;
    list.add(spec);
  };
  add(1 - base.copiers, 0, 0);
  for (const i32 more : {1, -1, 2}) add(base.copiers, more, 0), add(base.copiers, 0, more);
  for (const i32 more : {1, -1, 2}) add(1 - base.copiers, more, 0), add(1 - base.copiers, 0, more);
  for (const i32 stages : {1, -1}) {
    for (const i32 blocks : {-1, 1}) add(base.copiers, stages, blocks);
  }
}

void add_neighbours(GradientSpecs& list, const WeightGradientSpec& base) {
  const auto add = [&](i32 warps_in, i32 warps_out, i32 stages) {
    WeightGradientSpec spec = base;
    spec.warps_in = warps_in, spec.warps_out = warps_out, spec.stages += stages;
    list.add(spec);
  };
  for (const i32 more : {-1, 1, -2, 2}) add(base.warps_in, base.warps_out, more);
  for (const i32 stages : {0, -1, 1}) {
    add(2 * base.warps_in, base.warps_out, stages), add(base.warps_in, 2 * base.warps_out, stages);
    add(base.warps_in / 2, base.warps_out, stages), add(base.warps_in, base.warps_out / 2, stages);
    add(2 * base.warps_in, base.warps_out / 2, stages), add(base.warps_in / 2, 2 * base.warps_out, stages);
  }
}

/// Returns Specs without warpgroups of all tiles that fit the channels.
std::vector<WeightGradientSpec> tensor_specs(const GradientSpecs& list, const WeightGradientSpec& usual) {
  std::vector<WeightGradientSpec> specs;
  for (const i32 tile_in : {16, 32, 64, 96, 128}) {
    for (const i32 tile_out : {16, 32, 64, 96, 128}) {
      if (!list.fits(tile_in, tile_out, 16)) continue;
      specs.push_back(tensor_gradient_spec(usual.io, tile_in, tile_out, usual.vector_bytes));
    }
  }
  list.sort(specs);
  return specs;
}

/// Returns Specs of warpgroups of all tiles that fit the channels.
std::vector<WarpgroupGradientSpec> warpgroup_specs(const GradientSpecs& list, DType dtype) {
  std::vector<WarpgroupGradientSpec> specs = warpgroup_gradient_specs(dtype);
  std::erase_if(
      specs, [&](const WarpgroupGradientSpec& spec) { return !list.fits(spec.tile_in, spec.tile_out, 32); });
  list.sort(specs);
  return specs;
}

template <class TileSpec>
void add_all(GradientSpecs& list, const std::vector<TileSpec>& specs) {
  for (const TileSpec& spec : specs) list.add(spec);
  for (const TileSpec& spec : specs) add_neighbours(list, spec);
}

}  // namespace

[[gnu::cold]] TuningTask weight_gradient_task(const ConvolutionProblem& forward, llvm::StringRef arch,
                                              i64 rows, i64 most_pairs, std::optional<double> density) {
  const ParameterGradientChoice choice =
      choose_parameter_gradient({.forward = forward, .weight = true, .bias = false});
  const Spec& usual = choice.candidate(arch, most_pairs).spec;
  TuningTask task{weight_gradient_bucket(forward, rows, density), gradient_config(usual), {}};
  GradientSpecs list(task, forward, arch);
  // The last candidate is that of GPUs without warpgroups, and another one is computed by warpgroups.
  const auto& tensor = std::get<WeightGradientSpec>(choice.candidates.back().spec);
  if (const auto* const warpgroups = std::get_if<WarpgroupGradientSpec>(&usual)) {
    add_neighbours(list, *warpgroups);
    add_all(list, warpgroup_specs(list, forward.dtype));
    list.add(tensor);
    add_neighbours(list, tensor);
  } else {
    add_neighbours(list, tensor);
    add_all(list, tensor_specs(list, tensor));
  }
  return task;
}

}  // namespace minuet
