/* Rows of pointwise.h. */
#include <math.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void create_with_wrong_options(const world* world) {
  minuet_context* const own = world->context;
  const minuet_pointwise_step relu[9] = {{MINUET_POINTWISE_RELU, 0, NULL, NULL}};
  minuet_pointwise_options given, base = MINUET_POINTWISE_OPTIONS_INIT;
  base.channels = IN;
  base.steps = relu;
  base.step_count = 1;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_pointwise(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_pointwise(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_pointwise(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 1",
          minuet_plan_create_pointwise(own, WITH(struct_size = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_pointwise(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_plan_create_pointwise(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4", minuet_plan_create_pointwise(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels", minuet_plan_create_pointwise(own, WITH(channels = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels", minuet_plan_create_pointwise(own, WITH(channels = 65537), &out.plan));
  REFUSED(INVALID_ARGUMENT, "steps is null",
          minuet_plan_create_pointwise(own, WITH(steps = NULL), &out.plan));
  REFUSED(INVALID_ARGUMENT, "step_count is 0",
          minuet_plan_create_pointwise(own, WITH(step_count = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "step_count is 9",
          minuet_plan_create_pointwise(own, WITH(step_count = 9), &out.plan));
  REFUSED(INVALID_ARGUMENT, "step_bytes is 16",
          minuet_plan_create_pointwise(own, WITH(step_bytes = 16), &out.plan));
  ACCEPTED(minuet_plan_create_pointwise(own, WITH(step_bytes = 0), &out.plan));
  minuet_plan_destroy(out.plan);
  REFUSED(INVALID_ARGUMENT, "without_values is 2",
          minuet_plan_create_pointwise(own, WITH(without_values = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "allow_non_finite_parameters is -1",
          minuet_plan_create_pointwise(own, WITH(allow_non_finite_parameters = -1), &out.plan));
  ACCEPTED(minuet_plan_create_pointwise(own, &base, &out.plan));
  minuet_plan_destroy(out.plan);
}

static void create_with_wrong_steps(const world* world) {
  static const float numbers[IN] = {1, 2, INFINITY, 4};
  const struct {
    minuet_pointwise_step step;
    const char* words;
  } wrong[] = {{{0, 0, NULL, NULL}, "steps[0]: kind is 0; it must be 1 to 22"},
               {{23, 0, NULL, NULL}, "kind is 23"},
               {{MINUET_POINTWISE_RELU, 0.5f, NULL, NULL}, "number is 0.5, but a relu has none"},
               {{MINUET_POINTWISE_LEAKY_RELU, INFINITY, NULL, NULL}, "it must be finite"},
               {{MINUET_POINTWISE_LAYER_NORM, 0, NULL, NULL}, "it must be above 0"},
               {{MINUET_POINTWISE_LAYER_NORM, 1, numbers, NULL}, "only an affine step has them"},
               {{MINUET_POINTWISE_AFFINE, 0, numbers, NULL}, "steps[0].scale[2] is inf"},
               {{MINUET_POINTWISE_AFFINE, 0, NULL, numbers}, "steps[0].shift[2] is inf"},
               {{MINUET_POINTWISE_ARGMAX, 0, NULL, NULL}, "step 0 is an argmax"}};
  minuet_pointwise_step steps[9] = {{0, 0, NULL, NULL}};
  minuet_pointwise_options given, base = MINUET_POINTWISE_OPTIONS_INIT;
  base.channels = IN;
  base.steps = steps;
  for (int i = 1; i < 9; ++i) steps[i].kind = MINUET_POINTWISE_ADD;
  for (int i = 0; i < COUNT_OF(wrong); ++i) {
    steps[0] = wrong[i].step;
    REFUSED(INVALID_ARGUMENT, wrong[i].words,
            minuet_plan_create_pointwise(world->context, WITH(step_count = 2), &out.plan));
  }
  steps[0].kind = MINUET_POINTWISE_AFFINE;
  steps[0].scale = numbers;
  base.step_count = 8;
  ACCEPTED(minuet_plan_create_pointwise(world->context, WITH(allow_non_finite_parameters = 1), &out.plan));
  minuet_plan_destroy(out.plan);
  REFUSED(INVALID_ARGUMENT, "without_values is set",
          minuet_plan_create_pointwise(world->context, WITH(without_values = 1), &out.plan));
  steps[0].scale = NULL;
  REFUSED(INVALID_ARGUMENT, "step_count is 9",
          minuet_plan_create_pointwise(world->context, WITH(step_count = 9), &out.plan));
  ACCEPTED(minuet_plan_create_pointwise(world->context, WITH(without_values = 1), &out.plan));
  minuet_plan_destroy(out.plan);
  steps[0].kind = MINUET_POINTWISE_SOFTMAX;
  REFUSED(UNIMPLEMENTED, "16384",
          minuet_plan_create_pointwise(world->context, WITH(channels = 16385), &out.plan));
}

void call_pointwise(world* world) {
  create_with_wrong_options(world);
  create_with_wrong_steps(world);
}
