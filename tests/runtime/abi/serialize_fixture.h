// Plans for tests of serialized plans, and calls of the two functions with memory of exactly the given size.
#pragma once

#include <algorithm>
#include <memory>

#include "tests/runtime/abi/planted_fixture.h"

namespace minuet::abi {

/// A network with skips, a pooling, both kinds of activation, and a head of a width of its own.
inline constexpr const char* kSmallNetwork =
    R"({"name": "small", "ndim": 3, "in_channels": 4, "channels": [8, 16], "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 1, "kernel_size": 2, "stride": 2, "activation": "leaky_relu", "slope": 0.3},
  {"op": "residual", "name": "r", "width": 1},
  {"op": "max_pool", "name": "p", "kernel_size": 3},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"},
  {"op": "concat", "with": "fine"},
  {"op": "head", "name": "h", "classes": 5}]})";

enum class PlanKind { Convolution, Pooling, Network, MinkUNet };
inline constexpr PlanKind kPlanKinds[] = {PlanKind::Convolution, PlanKind::Pooling, PlanKind::Network,
                                          PlanKind::MinkUNet};

inline minuet_plan* make_plan(minuet_context* context, PlanKind kind, minuet_dtype dtype = MINUET_F16) {
  minuet_plan* made = nullptr;
  if (kind == PlanKind::Convolution) {
    std::vector<float> weight(27 * 4 * 8), scale(8, 0.7f), shift(8);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.001f * static_cast<float>(i % 97) - 0.03f;
    for (size_t i = 0; i < shift.size(); ++i) shift[i] = 0.1f * static_cast<float>(i) - 0.4f;
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.dtype = dtype;
    options.in_channels = 4, options.out_channels = 8;
    std::fill_n(options.kernel_size, 3, 3);
    options.submanifold = 1;
    options.activation = MINUET_ACTIVATION_LEAKY_RELU, options.negative_slope = 0.3f;
    options.weight = weight.data(), options.weight_count = static_cast<int64_t>(weight.size());
    options.scale = scale.data(), options.scale_count = 8;
    options.shift = shift.data(), options.shift_count = 8;
    check(minuet_plan_create_convolution(context, &options, &made));
  } else if (kind == PlanKind::Pooling) {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.dtype = dtype;
    options.channels = 4;
    std::fill_n(options.kernel_size, 3, 3);
    options.submanifold = 1;
    options.reduction = MINUET_REDUCE_AVERAGE;
    check(minuet_plan_create_pooling(context, &options, &made));
  } else {
    const std::vector<int32_t> narrow(9, 8);
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.dtype = dtype;
    options.seed = 7;
    if (kind == PlanKind::Network) {
      options.description = kSmallNetwork;
      options.dataflow = MINUET_DATAFLOW_FUSED;
    } else {
      options.name = "minkunet42";
      options.channels = narrow.data(), options.channel_count = 9;
    }
    check(minuet_plan_create_network(context, &options, &made));
  }
  return made;
}
inline Handle<minuet_plan> own_plan(minuet_context* context, PlanKind kind, minuet_dtype dtype = MINUET_F16) {
  return {make_plan(context, kind, dtype), {minuet_plan_destroy}};
}

inline std::string serialize(minuet_plan* plan, const std::vector<const char*>& archs = {},
                             uint32_t flags = 0) {
  const char* const* const list = archs.empty() ? nullptr : archs.data();
  size_t needed = 0, again = 0;
  check(minuet_plan_serialize(plan, list, static_cast<int32_t>(archs.size()), flags, nullptr, 0, &needed));
  const auto memory = std::make_unique<char[]>(needed);
  check(minuet_plan_serialize(plan, list, static_cast<int32_t>(archs.size()), flags, memory.get(), needed,
                              &again));
  EXPECT_EQ(needed, again);
  return {memory.get(), needed};
}

/// Gives the bytes in memory that has no byte more, and that is overwritten and freed before this returns.
inline minuet_status deserialize(minuet_context* context, const std::string& bytes,
                                 Handle<minuet_plan>& plan) {
  const auto callers = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), callers.get());
  minuet_plan* made = nullptr;
  const minuet_status status = minuet_plan_deserialize(context, callers.get(), bytes.size(), &made);
  EXPECT_EQ(made != nullptr, status == MINUET_OK);
  std::fill_n(callers.get(), bytes.size(), '\xff');
  plan.reset(made);
  return status;
}

}  // namespace minuet::abi
