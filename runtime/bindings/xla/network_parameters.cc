#include "runtime/bindings/xla/network_parameters.h"

#include <algorithm>

namespace minuet_xla {
namespace {

minuet_array placed(minuet_array array, float* begin, std::int64_t offset) {
  array.data = begin + offset;
  return array;
}

}  // namespace

ParameterForm parameter_form(const XlaAttributes& attributes, std::initializer_list<ParameterForm> allowed) {
  const auto form = static_cast<ParameterForm>(attributes.integer("parameters"));
  if (std::find(allowed.begin(), allowed.end(), form) == allowed.end()) {
    refuse("the attribute parameters is " + std::to_string(static_cast<std::int64_t>(form)) +
           ", which this custom call does not know");
  }
  return form;
}

NetworkParameters::NetworkParameters(const minuet::Plan& network, std::span<const std::int64_t> statistics,
                                     bool is_flat)
    : is_statistic_(static_cast<std::size_t>(network.info().parameter_tensors)), is_flat_(is_flat) {
  const auto count = static_cast<std::int64_t>(is_statistic_.size());
  for (const std::int64_t number : statistics) {
    if (number < 0 || number >= count) refuse("the attribute statistics names no parameter");
    is_statistic_[static_cast<std::size_t>(number)] = true;
  }
  if (!is_flat) return;
  for (std::int32_t i = 0; i < count; ++i) {
    const minuet_parameter_info info = network.parameter(i);
    Flat& flat = flat_.emplace_back();
    flat.array.element = MINUET_ELEMENT_F32;
    flat.array.rank = info.rank;
    std::int64_t elements = 1;
    for (std::int32_t axis = 0; axis < info.rank; ++axis) {
      flat.array.shape[axis] = info.shape[axis];
      elements *= info.shape[axis];
    }
    std::int64_t& end = is_statistic_[static_cast<std::size_t>(i)] ? statistics_elements_ : trained_elements_;
    flat.offset = end;
    end += elements;
  }
}

std::vector<minuet_array> NetworkParameters::operands(const XlaCall& call, std::int64_t& place) const {
  std::vector<minuet_array> arrays;
  arrays.reserve(is_statistic_.size());
  if (!is_flat_) {
    for (std::size_t i = 0; i < is_statistic_.size(); ++i) arrays.push_back(call.operand(place++).array());
    return arrays;
  }
  auto* const begin =
      call.operand(place++).of<float>(XLA_FFI_DataType_F32, 1, trained_elements_ + statistics_elements_);
  for (std::size_t i = 0; i < flat_.size(); ++i) {
    arrays.push_back(
        placed(flat_[i].array, begin + (is_statistic_[i] ? trained_elements_ : 0), flat_[i].offset));
  }
  return arrays;
}

std::vector<minuet_array> NetworkParameters::results(const XlaCall& call, std::int64_t& place,
                                                     std::vector<minuet_array> parameters, Part part) const {
  const bool of_statistics = part == Part::Statistics;
  const std::int64_t elements = of_statistics ? statistics_elements_ : trained_elements_;
  float* begin = nullptr;
  if (elements > 0) begin = call.result(place++).of<float>(XLA_FFI_DataType_F32, 1, elements);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].data = nullptr;
    if (is_statistic_[i] != of_statistics) continue;
    parameters[i] = is_flat_ ? placed(flat_[i].array, begin, flat_[i].offset) : call.result(place++).array();
  }
  return parameters;
}

}  // namespace minuet_xla
