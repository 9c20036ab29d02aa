// Wraps pointwise.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_POINTWISE_HPP_
#define MINUET_POINTWISE_HPP_

#include "minuet/minuet.hpp"
#include "minuet/pointwise.h"

namespace minuet {

/// Creates a plan of a chain of pointwise steps (minuet_plan_create_pointwise).
inline Plan pointwise(const Context& context, const minuet_pointwise_options& options) {
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_pointwise(context.get(), &options, &plan));
  return Plan::take(plan);
}

}  // namespace minuet

#endif  // MINUET_POINTWISE_HPP_
