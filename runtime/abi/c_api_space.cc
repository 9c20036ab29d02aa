// Implements space.h, plans of space to channel and back.
#include "codegen/choose/ops/space.h"
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

template <class Problem>
[[gnu::cold]] llvm::Error create_space_op(minuet_context* context, const minuet_space_options* options,
                                          minuet_plan** plan) {
  MINUET_TRY(check_pointer(context, "context"));
  MINUET_TRY(check_pointer(options, "options"));
  MINUET_TRY(check_pointer(plan, "plan"));
  MINUET_ASSIGN(const minuet_space_options given,
                read_options(options, minuet_space_options(MINUET_SPACE_OPTIONS_INIT)));
  MINUET_ASSIGN(const i32 ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(const DType dtype, read_dtype(given.dtype));
  MINUET_ASSIGN(const AxisArray stride, read_axes(given.stride, ndim, "stride"));
  const auto problem = make_space_problem<Problem>(ndim, dtype, given.channels, stride);
  Context& own = *context->context;
  MINUET_ASSIGN(std::shared_ptr<const Plan> made, Plan::create(problem, {}, own.tuning()));
  *plan = make_plan(std::move(made), own);
  return llvm::Error::success();
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_create_space_to_channel(minuet_context* context,
                                                  const minuet_space_options* options, minuet_plan** plan) {
  return guarded("minuet_plan_create_space_to_channel",
                 [&] { return create_space_op<SpaceToChannelProblem>(context, options, plan); });
}

minuet_status minuet_plan_create_channel_to_space(minuet_context* context,
                                                  const minuet_space_options* options, minuet_plan** plan) {
  return guarded("minuet_plan_create_channel_to_space",
                 [&] { return create_space_op<ChannelToSpaceProblem>(context, options, plan); });
}

}  // extern "C"
