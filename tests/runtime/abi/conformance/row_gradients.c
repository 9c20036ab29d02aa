/* Rows that compute gradients of gathers of rows, and of groups of rows. */
#include "tests/runtime/abi/conformance/conformance.h"

enum { POINTS = 4, CHANNELS = 4, MOST = (1 << 30) - 1 };

/* The ops of the rows. `flat` has one axis and is not loaded. */
typedef struct gradient_ops {
  minuet_point_op *nearest, *linear, *mean, *maximum, *sum, *flat;
  int64_t nearest_bytes, linear_bytes, mean_bytes, maximum_bytes;
  char* workspace;
} gradient_ops;

static minuet_devoxelize_options devoxelize_options(minuet_point_blend blend) {
  minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
  options.channels = CHANNELS;
  options.blend = blend;
  for (int axis = 0; axis < 3 && blend != MINUET_BLEND_NEAREST; ++axis) options.voxel_size[axis] = 0.5f;
  return options;
}

static minuet_group_gradient_options group_options(minuet_point_feature feature) {
  minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  options.channels = CHANNELS;
  options.feature = feature;
  return options;
}

static void create_devoxelize_gradient(const world* world) {
  minuet_context* const own = world->context;
  minuet_devoxelize_options given, base = devoxelize_options(MINUET_BLEND_CENTRES);
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_devoxelize_gradient_create(own, WITH(change), &out.point_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_devoxelize_gradient_create(NULL, &base, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_devoxelize_gradient_create(own, NULL, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize_gradient_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is -1", ndim = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 0", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "blend is 3", blend = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "low of axis 3 is 1", low[3] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 2 is 0", voxel_size[2] = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "tensor_stride of axis 1 is -2", tensor_stride[1] = -2);
#undef REFUSED_WITH
  ACCEPTED(minuet_devoxelize_gradient_create(own, &base, &out.point_op));
  minuet_point_op_destroy(out.point_op);
}

static void create_group_gradient(const world* world) {
  minuet_context* const own = world->context;
  minuet_group_gradient_options given, base = group_options(MINUET_POINT_FEATURE_MEAN);
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_group_gradient_create(own, WITH(change), &out.point_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_group_gradient_create(NULL, &base, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_group_gradient_create(own, NULL, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_group_gradient_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is 5", ndim = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = 9);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 0", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 65537", channels = 65537);
  REFUSED_WITH(INVALID_ARGUMENT, "feature is 4", feature = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "rows_are_f32 is 2", rows_are_f32 = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_group_gradient_create(own, &base, &out.point_op));
  minuet_point_op_destroy(out.point_op);
}

static void make_group_op(const world* world, minuet_point_feature feature, minuet_point_op** op) {
  const minuet_group_gradient_options options = group_options(feature);
  MUST(minuet_group_gradient_create(world->context, &options, op));
  MUST(minuet_point_op_load(*op, world->device));
}

static void make_ops(const world* world, gradient_ops* ops) {
  const minuet_devoxelize_options nearest = devoxelize_options(MINUET_BLEND_NEAREST),
                                  linear = devoxelize_options(MINUET_BLEND_CENTRES);
  minuet_group_gradient_options flat = group_options(MINUET_POINT_FEATURE_MEAN);
  int64_t most;
  flat.ndim = 1;
  MUST(minuet_devoxelize_gradient_create(world->context, &nearest, &ops->nearest));
  MUST(minuet_devoxelize_gradient_create(world->context, &linear, &ops->linear));
  MUST(minuet_group_gradient_create(world->context, &flat, &ops->flat));
  MUST(minuet_point_op_load(ops->nearest, world->device));
  MUST(minuet_point_op_load(ops->linear, world->device));
  make_group_op(world, MINUET_POINT_FEATURE_MEAN, &ops->mean);
  make_group_op(world, MINUET_POINT_FEATURE_MAX, &ops->maximum);
  make_group_op(world, MINUET_POINT_FEATURE_SUM, &ops->sum);
  MUST(minuet_devoxelize_gradient_bytes(ops->nearest, world->arch, POINTS, ROWS, &ops->nearest_bytes));
  MUST(minuet_devoxelize_gradient_bytes(ops->linear, world->arch, POINTS, ROWS, &ops->linear_bytes));
  MUST(minuet_group_gradient_bytes(ops->mean, world->arch, ROWS, &ops->mean_bytes));
  MUST(minuet_group_gradient_bytes(ops->maximum, world->arch, ROWS, &ops->maximum_bytes));
  EXPECT(ops->linear_bytes > ops->nearest_bytes && ops->maximum_bytes > ops->mean_bytes);
  most = ops->linear_bytes > ops->maximum_bytes ? ops->linear_bytes : ops->maximum_bytes;
  MUST(minuet_device_allocate(world->device, most, (void**)&ops->workspace));
}

static void ask_for_bytes(const gradient_ops* ops) {
  int64_t* const bytes = out.numbers;
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize_gradient_bytes(NULL, "cpu", POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "the op computes the gradient of groups",
          minuet_devoxelize_gradient_bytes(ops->mean, "cpu", POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null",
          minuet_devoxelize_gradient_bytes(ops->linear, NULL, POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "hopper",
          minuet_devoxelize_gradient_bytes(ops->linear, "hopper", POINTS, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most is -1", minuet_devoxelize_gradient_bytes(ops->linear, "cpu", -1, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "the number of corners of all points is",
          minuet_devoxelize_gradient_bytes(ops->linear, "cpu", MOST, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_rows is -1",
          minuet_devoxelize_gradient_bytes(ops->linear, "cpu", POINTS, -1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null",
          minuet_devoxelize_gradient_bytes(ops->linear, "cpu", POINTS, ROWS, NULL));
  ACCEPTED(minuet_devoxelize_gradient_bytes(ops->nearest, "sm_80", MOST, ROWS, bytes));
  EXPECT(out.numbers[0] > 0);
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_group_gradient_bytes(NULL, "cpu", ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "the op computes the gradient of a devoxelize",
          minuet_group_gradient_bytes(ops->nearest, "cpu", ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_group_gradient_bytes(ops->mean, NULL, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string",
          minuet_group_gradient_bytes(ops->mean, "", ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_groups is -1", minuet_group_gradient_bytes(ops->mean, "cpu", -1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null",
          minuet_group_gradient_bytes(ops->mean, "cpu", ROWS, NULL));
  ACCEPTED(minuet_group_gradient_bytes(ops->sum, "sm_90a", ROWS, bytes));
  EXPECT(out.numbers[0] == 0);
}

static void devoxelize_gradient(const world* world, const gradient_ops* ops) {
  minuet_device* const device = world->device;
  minuet_devoxelize_arguments given, base = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  base.points = (const float*)world->features;
  base.points_ld = 4;
  base.most = POINTS;
  base.batch = (const int32_t*)world->features;
  base.count = world->count;
  base.coordinates = world->coordinates;
  base.row_count = world->count;
  base.most_rows = ROWS;
  base.features = world->features;
  base.output = world->poisoned;
  base.workspace = ops->workspace;
  base.workspace_bytes = ops->linear_bytes;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_devoxelize_gradient(ops->linear, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize_gradient(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the op computes the gradient of groups",
          minuet_devoxelize_gradient(ops->mean, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_devoxelize_gradient(ops->linear, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_devoxelize_gradient(ops->linear, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "points is null", points = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "points_ld is 2", points_ld = 2);
  REFUSED_WITH(OUT_OF_RANGE, "most is -1", most = -1);
  REFUSED_WITH(OUT_OF_RANGE, "the number of corners of all points is", most = 1 << 28);
  REFUSED_WITH(INVALID_ARGUMENT, "batch", batch = (const int32_t*)(world->features + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "count", count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "point_rows is given", point_rows = world->coordinates);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates is null", coordinates = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count", row_count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(OUT_OF_RANGE, "most_rows is -1", most_rows = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "features is null", features = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", features = world->features + 8);
  REFUSED_WITH(INVALID_ARGUMENT, "output is null", output = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", output = world->features);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->linear_bytes - 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_devoxelize_gradient(ops->linear, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
  base.points = NULL;
  base.points_ld = 0;
  base.batch = base.coordinates = NULL;
  base.point_rows = world->coordinates;
  ACCEPTED(minuet_devoxelize_gradient(ops->nearest, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
}

static void group_gradient(const world* world, const gradient_ops* ops) {
  minuet_device* const device = world->device;
  minuet_group_gradient_arguments given, base = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
  float numbers[ROWS * CHANNELS];
  base.groups = world->coordinates;
  base.groups_ld = 4;
  base.row_count = base.group_count = world->count;
  base.most_rows = base.most_groups = ROWS;
  base.input = world->features;
  base.input_ld = CHANNELS;
  base.out_gradient = world->features;
  base.input_gradient = world->poisoned;
  base.workspace = ops->workspace;
  base.workspace_bytes = ops->maximum_bytes;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_group_gradient(ops->maximum, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_group_gradient(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the op computes the gradient of a devoxelize",
          minuet_group_gradient(ops->linear, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_group_gradient(ops->maximum, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_group_gradient(ops->maximum, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "groups is null", groups = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "groups_ld is 0; it must be 1 to 268435456", groups_ld = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count", row_count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(OUT_OF_RANGE, "most_rows is -1", most_rows = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "group_count",
               group_count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(OUT_OF_RANGE, "most_groups is -1", most_groups = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "group_sizes is given", group_sizes = world->count);
  REFUSED_WITH(INVALID_ARGUMENT, "input is null", input = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "input_ld is 3; it must be 4 to 268435456", input_ld = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradient is null", out_gradient = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", out_gradient = world->features + 8);
  REFUSED_WITH(INVALID_ARGUMENT, "input_gradient is null", input_gradient = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", input_gradient = world->features);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->maximum_bytes - 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_group_gradient(ops->maximum, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
  REFUSED(INVALID_ARGUMENT, "input or input_ld is given",
          minuet_group_gradient(ops->mean, device, &base, NULL));
  base.input = NULL;
  base.input_ld = 0;
  REFUSED(FAILED_PRECONDITION, "call minuet_point_op_load",
          minuet_group_gradient(ops->flat, world->other_device, &base, NULL));
  ACCEPTED(minuet_group_gradient(ops->mean, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  read_device(world, numbers, world->poisoned, sizeof(numbers));
  EXPECT(numbers[0] == 0 && numbers[ROWS * CHANNELS - 1] == 0);
  base.workspace = NULL;
  base.workspace_bytes = 0;
  ACCEPTED(minuet_group_gradient(ops->sum, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
}

void call_row_gradients(world* world) {
  gradient_ops ops;
  create_devoxelize_gradient(world);
  create_group_gradient(world);
  make_ops(world, &ops);
  ask_for_bytes(&ops);
  devoxelize_gradient(world, &ops);
  group_gradient(world, &ops);
  minuet_point_op_destroy(ops.nearest);
  minuet_point_op_destroy(ops.linear);
  minuet_point_op_destroy(ops.mean);
  minuet_point_op_destroy(ops.maximum);
  minuet_point_op_destroy(ops.sum);
  minuet_point_op_destroy(ops.flat);
  MUST(minuet_device_free(world->device, ops.workspace));
}
