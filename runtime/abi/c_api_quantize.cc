// Implements quantize.h: descriptions of networks for their calibration, and of quantized networks.
#include "minuet/quantize.h"

#include "runtime/abi/c_api_internal.h"
#include "runtime/network/quantize_description.h"

namespace minuet {
namespace {

/// Returns what the plan's network was built from.
llvm::Expected<const NetworkRecord*> network_of(const minuet_plan& plan) {
  const std::optional<NetworkRecord>& network = plan.store->plan().network;
  if (network) return &*network;
  return make_error(StatusCode::InvalidArgument,
                    "the plan is of a single op: give a plan of minuet_plan_create_network");
}

llvm::Error check_text_target(const char* buffer, size_t size, const size_t* needed) {
  MINUET_TRY(check_pointer(needed, "needed"));
  return check_buffer(buffer, size);
}

llvm::Expected<std::vector<LayerPrecision>> read_precisions(const char* const* layers, const float* ranges,
                                                            const int32_t* is_int8, int32_t count) {
  MINUET_TRY(check_list(layers, "layers", count, "count"));
  MINUET_TRY(check_list(ranges, "ranges", count, "count"));
  MINUET_TRY(check_list(is_int8, "is_int8", count, "count"));
  std::vector<LayerPrecision> precisions;
  for (int32_t i = 0; i < count; ++i) {
    const std::string element = "[" + std::to_string(i) + "]";
    MINUET_TRY(check_pointer(layers[i], ("layers" + element).c_str()));
    constexpr auto kLeast = static_cast<float>(MINUET_LEAST_RANGE),
                   kGreatest = static_cast<float>(MINUET_GREATEST_RANGE);
    if (ranges[i] != 0 && !(ranges[i] >= kLeast && ranges[i] <= kGreatest)) {
      return make_error(StatusCode::InvalidArgument,
                        "ranges{0} is {1}; it must be 0, or from {2:g6} to {3:g6}", element,
                        number_text(ranges[i]), MINUET_LEAST_RANGE, MINUET_GREATEST_RANGE);
    }
    MINUET_TRY(check_flags({{is_int8[i], ("is_int8" + element).c_str()}}));
    precisions.push_back({layers[i], ranges[i], is_int8[i] != 0, ""});
  }
  return precisions;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_observe(minuet_plan* plan, char* buffer, size_t size, size_t* needed) {
  return guarded("minuet_plan_observe", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_text_target(buffer, size, needed));
    MINUET_ASSIGN(const NetworkRecord* const network, network_of(*plan));
    MINUET_ASSIGN(const NetworkDescription observed,
                  observe_network(network->problem.description, plan->store->plan().program));
    *needed = give_text(print_network(observed, network->head_channels), buffer, size);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_quantize(minuet_plan* plan, const char* const* layers, const float* ranges,
                                   int32_t* is_int8, int32_t count, minuet_floating_visitor visitor,
                                   void* user, char* buffer, size_t size, size_t* needed) {
  return guarded("minuet_plan_quantize", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_text_target(buffer, size, needed));
    MINUET_ASSIGN(std::vector<LayerPrecision> precisions, read_precisions(layers, ranges, is_int8, count));
    MINUET_ASSIGN(const NetworkRecord* const network, network_of(*plan));
    const auto head_channels = [&](const std::string& head, i32 /*in_channels*/) -> llvm::Expected<i32> {
      return network->head_channels.at(head);
    };
    const auto weight_faults = [&](const Program& quantized) {
      return find_weight_faults(plan->store->plan(), quantized);
    };
    MINUET_ASSIGN(const NetworkDescription quantized,
                  quantize_network(network->problem.description, head_channels, precisions, weight_faults));
    for (int32_t i = 0; i < count; ++i) {
      is_int8[i] = precisions[i].is_int8 ? 1 : 0;
      if (visitor != nullptr && !precisions[i].reason.empty()) visitor(i, precisions[i].reason.c_str(), user);
    }
    *needed = give_text(print_network(quantized, network->head_channels), buffer, size);
    return llvm::Error::success();
  });
}

}  // extern "C"
