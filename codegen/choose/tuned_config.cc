#include "codegen/choose/tuned_config.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace minuet {
namespace {

/// Reads the named fields. The configuration must have all of them and no others.
llvm::Error read_fields(const TuningConfig& config, llvm::ArrayRef<std::pair<const char*, i32*>> fields) {
  for (const auto& [name, target] : fields) {
    const auto found = config.find(name);
    if (found == config.end()) {
      return make_error(StatusCode::InvalidArgument, "the configuration has no '{0}'", name);
    }
    if (found->second < 0 || found->second > std::numeric_limits<i32>::max()) {
      return make_error(StatusCode::OutOfRange, "'{0}' is {1}; it must be 0 to {2}", name, found->second,
                        std::numeric_limits<i32>::max());
    }
    *target = static_cast<i32>(found->second);
  }
  if (config.size() == fields.size()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the configuration has {0} fields, but this library expects {1}", config.size(),
                    fields.size());
}

llvm::Error validate_bucket(const TuningBucket& bucket) {
  const bool has_channels = bucket.operation == Operation::Gather || bucket.operation == Operation::Scatter;
  if (has_channels && (bucket.channels < 1 || bucket.channels > std::numeric_limits<i32>::max())) {
    return make_error(StatusCode::OutOfRange, "the tuning result is for {0} channels; they must be 1 to {1}",
                      bucket.channels, std::numeric_limits<i32>::max());
  }
  if (!is_of_layer(bucket.operation) && bucket.operation != Operation::Gemm) return llvm::Error::success();
  if (bucket.channels < 1 || bucket.channels > kMostChannels || bucket.out_channels < 1 ||
      bucket.out_channels > kMostChannels || bucket.volume < 1 || bucket.volume > kMostOffsets) {
    return make_error(
        StatusCode::OutOfRange,
        "the tuning result is for {0} -> {1} channels and {2} offsets; channels must be 1 to {3}, and "
        "offsets 1 to {4}",
        bucket.channels, bucket.out_channels, bucket.volume, kMostChannels, kMostOffsets);
  }
  return llvm::Error::success();
}

/// Calls the visitor with the name and the value of each integer of a FusedSpec that tuning may change.
template <class Spec, class Visitor>
void visit_fused(Spec& spec, Visitor&& visitor) {
  visitor("step", spec.step), visitor("columns", spec.columns), visitor("row_tiles", spec.row_tiles),
      visitor("warps", spec.warps), visitor("split", spec.split), visitor("cluster", spec.cluster),
      visitor("prefetch", spec.prefetch), visitor("stages", spec.stages), visitor("blocks", spec.blocks);
}

llvm::Error validate_fused(const TuningBucket& bucket, const TuningConfig& config) {
  FusedSpec spec;
  spec.io = bucket.dtype;
  spec.in_channels = static_cast<i32>(bucket.channels);
  spec.out_channels = static_cast<i32>(bucket.out_channels);
  spec.volume = static_cast<i32>(bucket.volume);
  MINUET_TRY(read_config(config, spec));
  return validate_spec(spec);
}

/// Checks a tile of the gather or the scatter kernel for rows without gaps between them. Gaps make the access
/// narrower, which is always valid.
template <class Spec>
llvm::Error validate_tile(const TuningBucket& bucket, i32 tile) {
  Spec spec;
  spec.io = bucket.dtype;
  spec.channels = static_cast<i32>(bucket.channels);
  spec.tile = tile;
  spec.vector_bytes = widest_vector(dtype_bytes(spec.io), tile, {{spec.channels, 0}});
  return validate_spec(spec);
}

}  // namespace

TuningConfig config_of(const SearchChoice& search) {
  return {{"source_block", search.source_block},
          {"query_block", search.query_block},
          {"threads", search.threads}};
}

TuningConfig config_of(const GroupingChoice& grouping) {
  return {{"padding_percent", std::llround(grouping.padding_threshold * 100)},
          {"height_step", grouping.height_step},
          {"streams", grouping.streams}};
}

TuningConfig tile_config(i32 tile) { return {{"tile", tile}}; }

TuningConfig config_of(const GemmChoice& gemm) { return {{"algorithm", gemm.algorithm}}; }

TuningConfig config_of(const FusedSpec& fused) {
  TuningConfig config{{"weights", static_cast<i64>(fused.weights)},
                      {"unit", static_cast<i64>(fused.unit)},
                      {"early_loads", fused.early_loads ? 1 : 0},
                      {"staged_rows", fused.staged_rows ? 1 : 0},
                      {"persistent", fused.persistent ? 1 : 0}};
  visit_fused(fused, [&](const char* name, i32 value) { config[name] = value; });
  return config;
}

TuningConfig config_of(Dataflow dataflow) { return {{"dataflow", static_cast<i64>(dataflow)}}; }

TuningConfig config_of(const OrderChoice& order) { return {{"order", static_cast<i64>(order.order)}}; }

llvm::Error read_config(const TuningConfig& config, SearchChoice& search) {
  return read_fields(config, {{"source_block", &search.source_block},
                              {"query_block", &search.query_block},
                              {"threads", &search.threads}});
}

llvm::Error read_config(const TuningConfig& config, GroupingChoice& grouping) {
  i32 percent = 0;
  MINUET_TRY(read_fields(config, {{"padding_percent", &percent},
                                  {"height_step", &grouping.height_step},
                                  {"streams", &grouping.streams}}));
  grouping.padding_threshold = percent / 100.0;
  return llvm::Error::success();
}

llvm::Error read_config(const TuningConfig& config, i32& tile) {
  return read_fields(config, {{"tile", &tile}});
}

llvm::Error read_config(const TuningConfig& config, GemmChoice& gemm) {
  return read_fields(config, {{"algorithm", &gemm.algorithm}});
}

llvm::Error read_config(const TuningConfig& config, FusedSpec& fused) {
  i32 weights = 0, unit = 0, early_loads = 0, staged_rows = 0, persistent = 0;
  std::vector<std::pair<const char*, i32*>> fields{{"weights", &weights},
                                                   {"unit", &unit},
                                                   {"early_loads", &early_loads},
                                                   {"staged_rows", &staged_rows},
                                                   {"persistent", &persistent}};
  visit_fused(fused, [&](const char* name, i32& value) { fields.emplace_back(name, &value); });
  MINUET_TRY(read_fields(config, fields));
  constexpr auto kMostWeights = static_cast<i32>(WeightRoad::Resident),
                 kMostUnit = static_cast<i32>(MmaUnit::Warpgroup);
  if (weights > kMostWeights || unit > kMostUnit || early_loads > 1 || staged_rows > 1 || persistent > 1) {
    return make_error(StatusCode::OutOfRange,
                      "weights is {0}, unit is {1}, early_loads is {2}, staged_rows is {3} and persistent is "
                      "{4}; they must be 0 to {5}, 0 to {6}, and 0 or 1 each",
                      weights, unit, early_loads, staged_rows, persistent, kMostWeights, kMostUnit);
  }
  fused.weights = static_cast<WeightRoad>(weights);
  fused.unit = static_cast<MmaUnit>(unit);
  fused.early_loads = early_loads == 1;
  fused.staged_rows = staged_rows == 1;
  fused.persistent = persistent == 1;
  return llvm::Error::success();
}

llvm::Error read_config(const TuningConfig& config, Dataflow& dataflow) {
  i32 number = 0;
  MINUET_TRY(read_fields(config, {{"dataflow", &number}}));
  if (number > static_cast<i32>(Dataflow::Fused)) {
    return make_error(StatusCode::OutOfRange, "the configuration's dataflow is {0}; it must be 0 to {1}",
                      number, static_cast<i32>(Dataflow::Fused));
  }
  dataflow = static_cast<Dataflow>(number);
  return llvm::Error::success();
}

llvm::Error read_config(const TuningConfig& config, OrderChoice& order) {
  i32 number = 0;
  MINUET_TRY(read_fields(config, {{"order", &number}}));
  if (number > static_cast<i32>(RowOrder::ByBlock)) {
    return make_error(StatusCode::OutOfRange, "the configuration's order of rows is {0}; it must be 0 to {1}",
                      number, static_cast<i32>(RowOrder::ByBlock));
  }
  order.order = static_cast<RowOrder>(number);
  return llvm::Error::success();
}

TuningConfig gradient_config(const WeightGradientCandidate::Spec& spec) {
  if (const auto* const warpgroups = std::get_if<WarpgroupGradientSpec>(&spec)) {
    return {{"unit", static_cast<i64>(MmaUnit::Warpgroup)},
            {"tile_in", warpgroups->tile_in},
            {"tile_out", warpgroups->tile_out},
            {"stages", warpgroups->stages},
            {"copiers", warpgroups->copiers},
            {"blocks", warpgroups->blocks},
            {"warps_in", 0},
            {"warps_out", 0}};
  }
  const auto& tensor = std::get<WeightGradientSpec>(spec);
  return {{"unit", static_cast<i64>(MmaUnit::Warp)},
          {"tile_in", tensor.tile_in},
          {"tile_out", tensor.tile_out},
          {"stages", tensor.stages},
          {"copiers", 0},
          {"blocks", 0},
          {"warps_in", tensor.warps_in},
          {"warps_out", tensor.warps_out}};
}

llvm::Error read_gradient_config(const TuningBucket& bucket, const TuningConfig& config,
                                 WeightGradientCandidate::Spec& spec) {
  const auto inputs = static_cast<i32>(bucket.channels), outputs = static_cast<i32>(bucket.out_channels);
  WarpgroupGradientSpec warpgroups;
  WeightGradientSpec tensor;
  i32 unit = 0;
  MINUET_TRY(read_fields(config, {{"unit", &unit},
                                  {"tile_in", &warpgroups.tile_in},
                                  {"tile_out", &warpgroups.tile_out},
                                  {"stages", &warpgroups.stages},
                                  {"copiers", &warpgroups.copiers},
                                  {"blocks", &warpgroups.blocks},
                                  {"warps_in", &tensor.warps_in},
                                  {"warps_out", &tensor.warps_out}}));
  warpgroups.io = tensor.io = bucket.dtype;
  if (unit == static_cast<i32>(MmaUnit::Warpgroup)) {
    if (!suits_warpgroups(bucket.dtype, inputs, outputs) || tensor.warps_in != 0 || tensor.warps_out != 0) {
      return make_error(
          StatusCode::OutOfRange,
          "warpgroups do not suit {0} -> {1} channels of {2}, or warps_in and warps_out are not 0", inputs,
          outputs, kDTypeNames[static_cast<int>(bucket.dtype)]);
    }
    MINUET_TRY(validate_spec(warpgroups));
    spec = warpgroups;
    return llvm::Error::success();
  }
  tensor.tile_in = warpgroups.tile_in, tensor.tile_out = warpgroups.tile_out;
  tensor.stages = warpgroups.stages;
  tensor.vector_bytes = gradient_vector_bytes(bucket.dtype, inputs, outputs);
  if (unit != static_cast<i32>(MmaUnit::Warp) || warpgroups.copiers != 0 || warpgroups.blocks != 0 ||
      tensor.vector_bytes < 4) {
    return make_error(
        StatusCode::OutOfRange,
        "unit is {0}, copiers is {1} and blocks is {2}; unit must be 0 or 1, the others must be "
        "0 if it is 0, and groups of channels must have multiples of 4 bytes",
        unit, warpgroups.copiers, warpgroups.blocks);
  }
  MINUET_TRY(validate_spec(tensor));
  spec = tensor;
  return llvm::Error::success();
}

llvm::Error validate_config(const TuningBucket& bucket, const TuningConfig& config) {
  MINUET_TRY(validate_bucket(bucket));
  if (bucket.operation == Operation::Search) {
    SearchChoice search;
    MINUET_TRY(read_config(config, search));
    return validate(search, bucket.key);
  }
  if (bucket.operation == Operation::Grouping) {
    GroupingChoice grouping;
    MINUET_TRY(read_config(config, grouping));
    return validate(grouping);
  }
  if (bucket.operation == Operation::Order) {
    OrderChoice order;
    return read_config(config, order);
  }
  if (bucket.operation == Operation::Gemm) {
    GemmChoice gemm;
    MINUET_TRY(read_config(config, gemm));
    return validate(gemm);
  }
  if (bucket.operation == Operation::Fused || bucket.operation == Operation::InputGradient)
    return validate_fused(bucket, config);
  if (bucket.operation == Operation::WeightGradient) {
    WeightGradientCandidate::Spec spec;
    return read_gradient_config(bucket, config, spec);
  }
  if (bucket.operation == Operation::Dataflow) {
    Dataflow dataflow = Dataflow::GatherGemmScatter;
    MINUET_TRY(read_config(config, dataflow));
    if (dataflow != Dataflow::Fused || bucket.volume <= kMostFusedOffsets) return llvm::Error::success();
    return make_error(StatusCode::OutOfRange,
                      "the fused dataflow takes at most {0} offsets, and the tuning result is for {1}",
                      kMostFusedOffsets, bucket.volume);
  }
  i32 tile = 0;
  MINUET_TRY(read_config(config, tile));
  return bucket.operation == Operation::Gather ? validate_tile<GatherSpec>(bucket, tile)
                                               : validate_tile<ScatterSpec>(bucket, tile);
}

std::optional<TuningConfig> default_config_of(const TuningBucket& bucket, bool is_cpu) {
  if (llvm::errorToBool(validate_bucket(bucket))) return std::nullopt;
  switch (bucket.operation) {
    case Operation::Search:
      return config_of(SearchChoice{});
    case Operation::Grouping:
      return config_of(GroupingChoice{});
    case Operation::Gemm:
      return config_of(GemmChoice{});
    case Operation::Order:
      return config_of(OrderChoice{});
    case Operation::Gather:
    case Operation::Scatter:
      return tile_config(default_tile(dtype_bytes(bucket.dtype), static_cast<i32>(bucket.channels)));
    case Operation::Dataflow: {
      ConvolutionProblem problem;
      problem.dtype = bucket.dtype;
      problem.kernel_size = {static_cast<i32>(bucket.volume), 1, 1, 1};
      return config_of(choose_dataflow(problem, is_cpu ? "" : "sm_80"));
    }
    default:
      return std::nullopt;
  }
}

}  // namespace minuet
