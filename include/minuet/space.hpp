// Wraps space.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_SPACE_HPP_
#define MINUET_SPACE_HPP_

#include "minuet/minuet.hpp"
#include "minuet/space.h"

namespace minuet {

/// Creates a plan that puts the features of the children of each cell side by side
/// (minuet_plan_create_space_to_channel).
inline Plan space_to_channel(const Context& context, const minuet_space_options& options) {
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_space_to_channel(context.get(), &options, &plan));
  return Plan::take(plan);
}

/// Creates a plan of the way back (minuet_plan_create_channel_to_space).
inline Plan channel_to_space(const Context& context, const minuet_space_options& options) {
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_channel_to_space(context.get(), &options, &plan));
  return Plan::take(plan);
}

}  // namespace minuet

#endif  // MINUET_SPACE_HPP_
