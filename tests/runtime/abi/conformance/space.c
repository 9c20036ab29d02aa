/* Rows of space.h. */
#include "tests/runtime/abi/conformance/conformance.h"

static void create_space_to_channel(const world* world) {
  minuet_context* const own = world->context;
  minuet_space_options given, base = MINUET_SPACE_OPTIONS_INIT;
  base.channels = IN;
  base.stride[0] = 2;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_space_to_channel(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_space_to_channel(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_space_to_channel(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 1",
          minuet_plan_create_space_to_channel(own, WITH(struct_size = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_space_to_channel(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_plan_create_space_to_channel(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4",
          minuet_plan_create_space_to_channel(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels are 0",
          minuet_plan_create_space_to_channel(own, WITH(channels = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "2 children of 32769 channels",
          minuet_plan_create_space_to_channel(own, WITH(channels = 32769), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 1 is -1",
          minuet_plan_create_space_to_channel(own, WITH(stride[1] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 3 is 2",
          minuet_plan_create_space_to_channel(own, WITH(stride[3] = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "at most 65536",
          minuet_plan_create_space_to_channel(own, WITH(stride[0] = 1 << 17), &out.plan));
  REFUSED(INVALID_ARGUMENT, "more than 1048576 children",
          minuet_plan_create_space_to_channel(own, WITH(stride[0] = 1 << 21), &out.plan));
  REFUSED(INVALID_ARGUMENT, "the stride is 1 on every axis",
          minuet_plan_create_space_to_channel(own, WITH(stride[0] = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "reserved is 1",
          minuet_plan_create_space_to_channel(own, WITH(reserved = 1), &out.plan));
  ACCEPTED(minuet_plan_create_space_to_channel(own, WITH(channels = 32768), &out.plan));
  minuet_plan_destroy(out.plan);
  ACCEPTED(minuet_plan_create_space_to_channel(own, WITH(stride[2] = 4), &out.plan));
  minuet_plan_destroy(out.plan);
}

static void create_channel_to_space(const world* world) {
  minuet_context* const own = world->context;
  minuet_space_options given, base = MINUET_SPACE_OPTIONS_INIT;
  base.channels = IN;
  base.stride[0] = 2;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_channel_to_space(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_channel_to_space(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_channel_to_space(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 1",
          minuet_plan_create_channel_to_space(own, WITH(struct_size = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_channel_to_space(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_plan_create_channel_to_space(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4",
          minuet_plan_create_channel_to_space(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels are 0",
          minuet_plan_create_channel_to_space(own, WITH(channels = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "2 children of 32769 channels",
          minuet_plan_create_channel_to_space(own, WITH(channels = 32769), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 1 is -1",
          minuet_plan_create_channel_to_space(own, WITH(stride[1] = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "stride of axis 3 is 2",
          minuet_plan_create_channel_to_space(own, WITH(stride[3] = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "at most 65536",
          minuet_plan_create_channel_to_space(own, WITH(stride[0] = 1 << 17), &out.plan));
  REFUSED(INVALID_ARGUMENT, "more than 1048576 children",
          minuet_plan_create_channel_to_space(own, WITH(stride[0] = 1 << 21), &out.plan));
  REFUSED(INVALID_ARGUMENT, "the stride is 1 on every axis",
          minuet_plan_create_channel_to_space(own, WITH(stride[0] = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "reserved is 1",
          minuet_plan_create_channel_to_space(own, WITH(reserved = 1), &out.plan));
  ACCEPTED(minuet_plan_create_channel_to_space(own, WITH(channels = 32768), &out.plan));
  minuet_plan_destroy(out.plan);
  ACCEPTED(minuet_plan_create_channel_to_space(own, WITH(stride[2] = 4), &out.plan));
  minuet_plan_destroy(out.plan);
}

void call_space(world* world) {
  create_space_to_channel(world);
  create_channel_to_space(world);
}
