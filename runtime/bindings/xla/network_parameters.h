// The parameters of a network as operands and results of a custom call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "minuet/minuet.hpp"
#include "runtime/bindings/xla/call_frame.h"

namespace minuet_xla {

/// How a custom call takes parameters: the values of its attribute `parameters`.
enum class ParameterForm : std::int64_t {
  None = 0,
  Each = 1,     // one operand for each
  Flat = 2,     // one operand for all: NetworkParameters has the layout
  Prepared = 3  // one operand: what minuet_prepare gives
};

/// Reads the attribute `parameters`. Throws unless it is one of `allowed`.
ParameterForm parameter_form(const XlaAttributes& attributes, std::initializer_list<ParameterForm> allowed);

/// Gives the arrays of a network's parameters in a call.
///
/// In the flat form, all parameters are one array f32 [elements], in C order one behind the other without
/// gaps: first those that are trained, in the order of their numbers, then the running statistics, in the
/// same order. Gradients are one array for the first part, and new statistics one for the second. There is no
/// array for a part that has no elements.
class NetworkParameters {
 public:
  /// `statistics` has the numbers of the parameters that are running statistics.
  NetworkParameters(const minuet::Plan& network, std::span<const std::int64_t> statistics, bool is_flat);

  std::int64_t operand_count() const {
    return is_flat_ ? 1 : static_cast<std::int64_t>(is_statistic_.size());
  }
  /// Returns one array for each parameter, and moves `place` behind their operands.
  std::vector<minuet_array> operands(const XlaCall& call, std::int64_t& place) const;
  enum class Part { Trained, Statistics };
  /// Returns one array for each parameter: the result of those in the part, and no data for the others. Moves
  /// `place` behind the results. `parameters` are those that operands() has returned.
  std::vector<minuet_array> results(const XlaCall& call, std::int64_t& place,
                                    std::vector<minuet_array> parameters, Part part) const;

 private:
  struct Flat {
    minuet_array array = {};  // without data
    std::int64_t offset = 0;  // elements from the beginning of its part
  };

  std::vector<bool> is_statistic_;  // of each parameter
  bool is_flat_;
  std::vector<Flat> flat_;                                       // of each parameter, in the flat form
  std::int64_t trained_elements_ = 0, statistics_elements_ = 0;  // in the flat form
};

}  // namespace minuet_xla
