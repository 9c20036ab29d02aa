// C++ over pointwise.h, in the manner of minuet.hpp.
#ifndef MINUET_POINTWISE_HPP_
#define MINUET_POINTWISE_HPP_

#include "minuet/minuet.hpp"
#include "minuet/pointwise.h"

namespace minuet {

/// Returns the plan of a chain of pointwise steps.
inline Plan pointwise(const Context& context, const minuet_pointwise_options& options) {
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_pointwise(context.get(), &options, &plan));
  return Plan::take(plan);
}

}  // namespace minuet

#endif  // MINUET_POINTWISE_HPP_
