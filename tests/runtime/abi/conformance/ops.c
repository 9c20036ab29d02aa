/* Rows of the plans of single ops. */
#include <math.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void create_with_wrong_sizes(const world* world) {
  minuet_context* const own = world->context;
  minuet_convolution_options given, base = convolution_options(world);
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_convolution(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_convolution(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_convolution(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 8",
          minuet_plan_create_convolution(own, WITH(struct_size = 8), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_convolution(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 2",
          minuet_plan_create_convolution(own, WITH(dense_offsets = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 0",
          minuet_plan_create_convolution(own, WITH(padding[0] = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "padding of axis 1 is -1",
          minuet_plan_create_convolution(own, WITH(padding[1] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "submanifold op has a centred kernel",
          minuet_plan_create_convolution(own, WITH(dense_offsets = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is -1", minuet_plan_create_convolution(own, WITH(ndim = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_plan_create_convolution(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is -1", minuet_plan_create_convolution(own, WITH(dtype = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4", minuet_plan_create_convolution(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels are 0 -> 8",
          minuet_plan_create_convolution(own, WITH(in_channels = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "1 to 65536",
          minuet_plan_create_convolution(own, WITH(in_channels = 65537), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels are 4 -> -8",
          minuet_plan_create_convolution(own, WITH(out_channels = -8), &out.plan));
  REFUSED(INVALID_ARGUMENT, "1 to 65536",
          minuet_plan_create_convolution(own, WITH(out_channels = 65537), &out.plan));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 0 is -3",
          minuet_plan_create_convolution(own, WITH(kernel_size[0] = -3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 3 is 2",
          minuet_plan_create_convolution(own, WITH(kernel_size[3] = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offsets",
          minuet_plan_create_convolution(own, WITH(kernel_size[1] = 1 << 24), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 1 is -1",
          minuet_plan_create_convolution(own, WITH(stride[1] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride", minuet_plan_create_convolution(own, WITH(stride[0] = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dilation of axis 2 is -1",
          minuet_plan_create_convolution(own, WITH(dilation[2] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_plan_create_convolution(own, WITH(dilation[0] = (1 << 24) + 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "groups", minuet_plan_create_convolution(own, WITH(groups = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight_count is 864; it must be 432",
          minuet_plan_create_convolution(own, WITH(groups = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dataflow is -1",
          minuet_plan_create_convolution(own, WITH(dataflow = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dataflow is 3",
          minuet_plan_create_convolution(own, WITH(dataflow = 3), &out.plan));
}

static void create_with_wrong_offsets(const world* world) {
  static const int32_t offsets[] = {0, 0, 0, 1, 0, -7, 0, 0, 0};
  minuet_context* const own = world->context;
  minuet_convolution_options given, base = convolution_options(world);
  REFUSED(INVALID_ARGUMENT, "kernel_shape is -1",
          minuet_plan_create_convolution(own, WITH(kernel_shape = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "kernel_shape is 3",
          minuet_plan_create_convolution(own, WITH(kernel_shape = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offset_count is 1 and offsets is null",
          minuet_plan_create_convolution(own, WITH(offset_count = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offset_count",
          minuet_plan_create_convolution(own, WITH(offset_count = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offset_count",
          minuet_plan_create_convolution(own, WITH(offsets = offsets), &out.plan));
  REFUSED(INVALID_ARGUMENT, "there are no offsets",
          minuet_plan_create_convolution(own, WITH(kernel_shape = MINUET_KERNEL_CUSTOM), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight_count is 864; it must be 224",
          minuet_plan_create_convolution(own, WITH(kernel_shape = MINUET_KERNEL_CROSS), &out.plan));
  base.offsets = offsets;
  base.offset_count = 2;
  REFUSED(INVALID_ARGUMENT, "the kernel shape is box", minuet_plan_create_convolution(own, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "the kernel shape is cross",
          minuet_plan_create_convolution(own, WITH(kernel_shape = MINUET_KERNEL_CROSS), &out.plan));
  base.kernel_shape = MINUET_KERNEL_CUSTOM;
  REFUSED(INVALID_ARGUMENT, "leave its kernel size", minuet_plan_create_convolution(own, &base, &out.plan));
  base.kernel_size[0] = base.kernel_size[1] = base.kernel_size[2] = 0;
  REFUSED(INVALID_ARGUMENT, "weight_count is 864; it must be 64",
          minuet_plan_create_convolution(own, &base, &out.plan));
  /* The list at `offsets` is short: the library must refuse the number before it reads the list. */
  REFUSED(INVALID_ARGUMENT, "offset_count is 1048577",
          minuet_plan_create_convolution(own, WITH(offset_count = (1 << 20) + 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 1",
          minuet_plan_create_convolution(own, WITH(dense_offsets = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_plan_create_convolution(own, WITH(dilation[1] = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offsets 0 and 2 are equal",
          minuet_plan_create_convolution(own, WITH(offset_count = 3), &out.plan));
}

static void create_with_wrong_values(const world* world) {
  static const float one_nan[OUT] = {0, 0, NAN};
  float slope = 0.5f;
  minuet_context* const own = world->context;
  minuet_convolution_options given, base = convolution_options(world);
  REFUSED(INVALID_ARGUMENT, "transposed is 2",
          minuet_plan_create_convolution(own, WITH(transposed = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "submanifold and transposed",
          minuet_plan_create_convolution(own, WITH(transposed = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "activation is 8",
          minuet_plan_create_convolution(own, WITH(activation = 8), &out.plan));
  REFUSED(INVALID_ARGUMENT, "activation is 0 (none)",
          minuet_plan_create_convolution(own, WITH(negative_slope = slope), &out.plan));
  slope = INFINITY;
  REFUSED(INVALID_ARGUMENT, "negative_slope is inf",
          minuet_plan_create_convolution(own, WITH(negative_slope = slope), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight is null",
          minuet_plan_create_convolution(own, WITH(weight = NULL), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight_count is 0",
          minuet_plan_create_convolution(own, WITH(weight_count = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight_count is -1",
          minuet_plan_create_convolution(own, WITH(weight_count = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weight_count is 865",
          minuet_plan_create_convolution(own, WITH(weight_count = WEIGHTS + 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "scale_count is 0",
          minuet_plan_create_convolution(own, WITH(scale = one_nan), &out.plan));
  REFUSED(INVALID_ARGUMENT, "scale_count is 8",
          minuet_plan_create_convolution(own, WITH(scale_count = OUT), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shift_count is 0",
          minuet_plan_create_convolution(own, WITH(shift = one_nan), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shift_count is 9",
          minuet_plan_create_convolution(own, WITH(shift_count = OUT + 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "without_values is 2",
          minuet_plan_create_convolution(own, WITH(without_values = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "without_values",
          minuet_plan_create_convolution(own, WITH(without_values = 1), &out.plan));
  base.scale = one_nan;
  base.scale_count = OUT;
  REFUSED(INVALID_ARGUMENT, "scale[2] is nan",
          minuet_plan_create_convolution(own, WITH(activation = MINUET_ACTIVATION_TANH), &out.plan));
  REFUSED(INVALID_ARGUMENT, "allow_non_finite_parameters is 2",
          minuet_plan_create_convolution(own, WITH(allow_non_finite_parameters = 2), &out.plan));
  ACCEPTED(minuet_plan_create_convolution(own, WITH(allow_non_finite_parameters = 1), &out.plan));
  minuet_plan_destroy(out.plan);
}

static void create_convolutions(const world* world) {
  minuet_context* const own = world->context;
  minuet_convolution_options given, base = convolution_options(world);
  ACCEPTED(minuet_plan_create_convolution(own, &base, &out.plan));
  DONE(minuet_plan_destroy(out.plan));
  DONE(minuet_plan_destroy(NULL));
  REFUSED(INVALID_ARGUMENT, "residual is 2",
          minuet_plan_create_convolution(own, WITH(residual = 2), &out.plan));
  ACCEPTED(minuet_plan_create_convolution(own, WITH(residual = 1), &out.plan));
  minuet_plan_destroy(out.plan);
  ACCEPTED(minuet_plan_create_convolution(own, WITH(submanifold = 0), &out.plan));
  minuet_plan_destroy(out.plan);
  base.weight = NULL;
  base.without_values = 1;
  REFUSED(INVALID_ARGUMENT, "weight_count is 1",
          minuet_plan_create_convolution(own, WITH(weight_count = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "scale_count is 1",
          minuet_plan_create_convolution(own, WITH(scale_count = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shift_count is -8",
          minuet_plan_create_convolution(own, WITH(shift_count = -OUT), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shift_count is 8",
          minuet_plan_create_convolution(own, WITH(shift_count = OUT), &out.plan));
  base.scale_count = OUT;
  ACCEPTED(minuet_plan_create_convolution(own, WITH(shift_count = OUT), &out.plan));
  minuet_plan_destroy(out.plan);
}

/* Plans compute the gradient of the input alone. */
static void create_gradients(const world* world) {
  minuet_context* const own = world->context;
  minuet_convolution_options given, base = convolution_options(world);
  REFUSED(INVALID_ARGUMENT, "context is null",
          minuet_plan_create_convolution_gradient(NULL, &base, MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null",
          minuet_plan_create_convolution_gradient(own, NULL, MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null",
          minuet_plan_create_convolution_gradient(own, &base, MINUET_GRADIENT_INPUT, NULL));
  REFUSED(
      INVALID_ARGUMENT, "struct_size",
      minuet_plan_create_convolution_gradient(own, WITH(struct_size = 0), MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(INVALID_ARGUMENT, "gradients are -1",
          minuet_plan_create_convolution_gradient(own, &base, -1, &out.plan));
  REFUSED(INVALID_ARGUMENT, "gradients are 0",
          minuet_plan_create_convolution_gradient(own, &base, 0, &out.plan));
  REFUSED(INVALID_ARGUMENT, "gradients are 8",
          minuet_plan_create_convolution_gradient(own, &base, 8, &out.plan));
  REFUSED(
      INVALID_ARGUMENT, "channels are 0 -> 8",
      minuet_plan_create_convolution_gradient(own, WITH(in_channels = 0), MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(UNIMPLEMENTED, "use minuet_gradient_create",
          minuet_plan_create_convolution_gradient(own, &base, MINUET_GRADIENT_WEIGHT, &out.plan));
  REFUSED(INVALID_ARGUMENT, "has the activation relu",
          minuet_plan_create_convolution_gradient(own, WITH(activation = MINUET_ACTIVATION_RELU),
                                                  MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(INVALID_ARGUMENT, "has a residual",
          minuet_plan_create_convolution_gradient(own, WITH(residual = 1), MINUET_GRADIENT_INPUT, &out.plan));
  REFUSED(
      INVALID_ARGUMENT, "weight_count is 1",
      minuet_plan_create_convolution_gradient(own, WITH(weight_count = 1), MINUET_GRADIENT_INPUT, &out.plan));
  ACCEPTED(minuet_plan_create_convolution_gradient(own, &base, MINUET_GRADIENT_INPUT, &out.plan));
  minuet_plan_destroy(out.plan);
}

static void create_poolings(const world* world) {
  minuet_context* const own = world->context;
  minuet_pooling_options given, base = MINUET_POOLING_OPTIONS_INIT;
  base.channels = IN;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_pooling(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_pooling(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_pooling(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_plan_create_pooling(own, WITH(struct_size = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_pooling(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_plan_create_pooling(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4", minuet_plan_create_pooling(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels", minuet_plan_create_pooling(own, WITH(channels = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels", minuet_plan_create_pooling(own, WITH(channels = 65537), &out.plan));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 1 is -1",
          minuet_plan_create_pooling(own, WITH(kernel_size[1] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 0 is -1",
          minuet_plan_create_pooling(own, WITH(stride[0] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dilation of axis 3 is 4",
          minuet_plan_create_pooling(own, WITH(dilation[3] = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "reduction is -1",
          minuet_plan_create_pooling(own, WITH(reduction = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "reduction is 3",
          minuet_plan_create_pooling(own, WITH(reduction = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "winners", minuet_plan_create_pooling(own, WITH(winners = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 3",
          minuet_plan_create_pooling(own, WITH(dense_offsets = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 0",
          minuet_plan_create_pooling(own, WITH(padding[0] = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "kernel_shape is 3",
          minuet_plan_create_pooling(own, WITH(kernel_shape = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offset_count is 1 and offsets is null",
          minuet_plan_create_pooling(own, WITH(offset_count = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "offset_count is 0 and offsets is not null",
          minuet_plan_create_pooling(own, WITH(offsets = base.kernel_size), &out.plan));
  REFUSED(INVALID_ARGUMENT, "reserved is 1", minuet_plan_create_pooling(own, WITH(reserved = 1), &out.plan));
  base.transposed = 1;
  REFUSED(INVALID_ARGUMENT, "submanifold and transposed",
          minuet_plan_create_pooling(own, WITH(submanifold = 1), &out.plan));
  base.stride[0] = 2;
  base.submanifold = 1;
  REFUSED(INVALID_ARGUMENT, "stride", minuet_plan_create_pooling(own, WITH(transposed = 0), &out.plan));
  base.submanifold = 0;
  for (int reduction = MINUET_REDUCE_MAX; reduction <= MINUET_REDUCE_SUM; ++reduction) {
    ACCEPTED(minuet_plan_create_pooling(own, WITH(reduction = reduction), &out.plan));
    minuet_plan_destroy(out.plan);
  }
}

void call_ops(world* world) {
  create_with_wrong_sizes(world);
  create_with_wrong_offsets(world);
  create_with_wrong_values(world);
  create_convolutions(world);
  create_gradients(world);
  create_poolings(world);
}
