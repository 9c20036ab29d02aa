/* Rows that make voxels of points, and give features of voxels back to points. */
#include "tests/runtime/abi/conformance/conformance.h"

enum { POINTS = 4, MOST = (1 << 30) - 1 };

/* The ops of the rows. `flat` has two axes and is not loaded. */
typedef struct point_ops {
  minuet_point_op *voxelize, *nearest, *linear, *flat;
  int64_t voxelize_bytes, linear_bytes;
  char* points; /* POINTS points of 4 zeros */
  char* workspace;
} point_ops;

static minuet_voxelize_options voxelize_options(void) {
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  options.channels = 4;
  for (int axis = 0; axis < 3; ++axis) options.voxel_size[axis] = 0.5f;
  return options;
}

static minuet_devoxelize_options devoxelize_options(minuet_point_blend blend) {
  minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
  options.channels = 4;
  options.blend = blend;
  for (int axis = 0; axis < 3 && blend != MINUET_BLEND_NEAREST; ++axis) options.voxel_size[axis] = 0.5f;
  return options;
}

static void create_voxelize(const world* world) {
  minuet_context* const own = world->context;
  minuet_voxelize_options given, base = voxelize_options();
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_voxelize_create(own, WITH(change), &out.point_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_voxelize_create(NULL, &base, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_voxelize_create(own, NULL, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_voxelize_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is 5", ndim = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 2 is 0.5, but the points do not have this axis",
               ndim = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 3 is 0", ndim = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = 9);
  REFUSED_WITH(INVALID_ARGUMENT, "first_column is -1", first_column = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 0", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 65537", channels = 65537);
  REFUSED_WITH(INVALID_ARGUMENT, "feature is 4", feature = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "has_range is 2", has_range = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "the range of axis 0, from 0 to 0, has 0 voxels of 0.5", has_range = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "low of axis 3 is 1", low[3] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "low and high of axis 1", low[1] = (float)1e300);
  REFUSED_WITH(INVALID_ARGUMENT, "high of axis 0 is 1, but has_range is 0", high[0] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 1 is -1", voxel_size[1] = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "batch_size is -1", batch_size = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "most_points_per_voxel is -1", most_points_per_voxel = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "most_voxels is -1", most_voxels = -1);
#undef REFUSED_WITH
  ACCEPTED(minuet_voxelize_create(own, &base, &out.point_op));
  DONE(minuet_point_op_destroy(out.point_op));
  DONE(minuet_point_op_destroy(NULL));
}

static void create_devoxelize(const world* world) {
  minuet_context* const own = world->context;
  minuet_devoxelize_options given, base = devoxelize_options(MINUET_BLEND_CENTRES);
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_devoxelize_create(own, WITH(change), &out.point_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_devoxelize_create(NULL, &base, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_devoxelize_create(own, NULL, &out.point_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is -1", ndim = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 0", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "blend is 3", blend = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 0 is 0.5, but the nearest voxel is that of point_rows",
               blend = MINUET_BLEND_NEAREST);
  REFUSED_WITH(INVALID_ARGUMENT, "low of axis 3 is 1", low[3] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_size of axis 2 is 0", voxel_size[2] = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "tensor_stride of axis 1 is -2", tensor_stride[1] = -2);
  REFUSED_WITH(INVALID_ARGUMENT, "tensor_stride of axis 0 is 16777217", tensor_stride[0] = (1 << 24) + 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_devoxelize_create(own, &base, &out.point_op));
  minuet_point_op_destroy(out.point_op);
}

static void make_ops(const world* world, point_ops* ops) {
  const minuet_voxelize_options voxelize = voxelize_options();
  const minuet_devoxelize_options nearest = devoxelize_options(MINUET_BLEND_NEAREST),
                                  linear = devoxelize_options(MINUET_BLEND_CENTRES);
  minuet_voxelize_options flat = voxelize;
  flat.ndim = 1;
  flat.voxel_size[1] = flat.voxel_size[2] = 0;
  MUST(minuet_voxelize_create(world->context, &voxelize, &ops->voxelize));
  MUST(minuet_voxelize_create(world->context, &flat, &ops->flat));
  MUST(minuet_devoxelize_create(world->context, &nearest, &ops->nearest));
  MUST(minuet_devoxelize_create(world->context, &linear, &ops->linear));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_point_op_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_point_op_load(ops->voxelize, NULL));
  ACCEPTED(minuet_point_op_load(ops->voxelize, world->device));
  ACCEPTED(minuet_point_op_load(ops->nearest, world->device));
  ACCEPTED(minuet_point_op_load(ops->linear, world->device));
}

static void ask_for_bytes(const world* world, point_ops* ops) {
  int64_t* const bytes = out.numbers;
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_voxelize_bytes(NULL, "cpu", POINTS, bytes));
  REFUSED(INVALID_ARGUMENT, "the op devoxelizes", minuet_voxelize_bytes(ops->linear, "cpu", POINTS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_voxelize_bytes(ops->voxelize, NULL, POINTS, bytes));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_voxelize_bytes(ops->voxelize, "hopper", POINTS, bytes));
  REFUSED(OUT_OF_RANGE, "most is -1", minuet_voxelize_bytes(ops->voxelize, "cpu", -1, bytes));
  REFUSED(OUT_OF_RANGE, "most is 1073741824", minuet_voxelize_bytes(ops->voxelize, "cpu", MOST + 1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null",
          minuet_voxelize_bytes(ops->voxelize, "cpu", POINTS, NULL));
  ACCEPTED(minuet_voxelize_bytes(ops->voxelize, "sm_80", POINTS, bytes));
  EXPECT(out.numbers[0] > 0);
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize_bytes(NULL, "cpu", POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "the op voxelizes",
          minuet_devoxelize_bytes(ops->voxelize, "cpu", POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_devoxelize_bytes(ops->linear, NULL, POINTS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string",
          minuet_devoxelize_bytes(ops->linear, "", POINTS, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most is -1", minuet_devoxelize_bytes(ops->linear, "cpu", -1, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_rows is -1", minuet_devoxelize_bytes(ops->linear, "cpu", POINTS, -1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null",
          minuet_devoxelize_bytes(ops->linear, "cpu", POINTS, ROWS, NULL));
  ACCEPTED(minuet_devoxelize_bytes(ops->nearest, "sm_90a", POINTS, ROWS, bytes));
  EXPECT(out.numbers[0] == 0);
  MUST(minuet_voxelize_bytes(ops->voxelize, world->arch, POINTS, &ops->voxelize_bytes));
  MUST(minuet_devoxelize_bytes(ops->linear, world->arch, POINTS, ROWS, &ops->linear_bytes));
  ops->points = device_memory(world, NULL, POINTS * 16);
  ops->workspace = device_memory(world, NULL, ops->voxelize_bytes + ops->linear_bytes + 32);
}

/* The outputs lie one behind the other in the poisoned memory. */
static minuet_voxelize_arguments voxelize_arguments(const world* world, const point_ops* ops) {
  minuet_voxelize_arguments arguments = MINUET_VOXELIZE_ARGUMENTS_INIT;
  char* const written = world->poisoned;
  arguments.points = (const float*)ops->points;
  arguments.points_ld = 4;
  arguments.most = POINTS;
  arguments.batch = (const int32_t*)world->features;
  arguments.count = world->count;
  arguments.workspace = ops->workspace;
  arguments.workspace_bytes = ops->voxelize_bytes;
  arguments.capacity = POINTS;
  arguments.coordinates = (int32_t*)written;
  arguments.features = written + 256;
  arguments.voxel_points = (int32_t*)(written + 512);
  arguments.point_rows = (int32_t*)(written + 576);
  arguments.counts = (int32_t*)(written + 640);
  arguments.status = (uint32_t*)(written + 704);
  return arguments;
}

static void voxelize(const world* world, const point_ops* ops) {
  minuet_point_op* const own = ops->voxelize;
  minuet_device* const device = world->device;
  minuet_voxelize_arguments given, base = voxelize_arguments(world, ops);
  int32_t counts[MINUET_VOXELIZE_COUNTS];
  char* const written = world->poisoned;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_voxelize(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_voxelize(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the op devoxelizes", minuet_voxelize(ops->linear, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_voxelize(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_voxelize(own, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "call minuet_point_op_load",
          minuet_voxelize(ops->flat, world->other_device, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "points is null", points = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "points", points = (const float*)(ops->points + 1));
  REFUSED_WITH(INVALID_ARGUMENT, "points_ld is 3; it must be 4 to 268435456", points_ld = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "points_ld is 268435457", points_ld = (1 << 28) + 1);
  REFUSED_WITH(OUT_OF_RANGE, "most is -1", most = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "batch", batch = (const int32_t*)(world->features + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "count", count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", workspace = ops->workspace + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->voxelize_bytes - 1);
  REFUSED_WITH(OUT_OF_RANGE, "capacity is -1", capacity = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates is null", coordinates = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "features is null", features = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", features = written);
  REFUSED_WITH(INVALID_ARGUMENT, "voxel_points", voxel_points = (int32_t*)(written + 513));
  REFUSED_WITH(INVALID_ARGUMENT, "point_rows", point_rows = (int32_t*)(written + 578));
  REFUSED_WITH(INVALID_ARGUMENT, "counts", counts = (int32_t*)(written + 641));
  REFUSED_WITH(INVALID_ARGUMENT, "status", status = (uint32_t*)(written + 706));
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", coordinates = (int32_t*)ops->points);
#undef REFUSED_WITH
  ACCEPTED(minuet_voxelize(own, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  read_device(world, counts, base.counts, sizeof(counts));
  EXPECT(counts[MINUET_VOXELIZE_VOXELS] == 1 && counts[MINUET_VOXELIZE_KEPT] == POINTS);
  base.voxel_points = base.point_rows = base.counts = NULL;
  base.status = NULL;
  base.batch = base.count = NULL;
  ACCEPTED(minuet_voxelize(own, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
}

static void devoxelize(const world* world, const point_ops* ops) {
  minuet_device* const device = world->device;
  minuet_devoxelize_arguments given, base = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  char* const workspace = ops->workspace + (ops->voxelize_bytes + 15) / 16 * 16;
  base.points = (const float*)ops->points;
  base.points_ld = 4;
  base.most = POINTS;
  base.batch = (const int32_t*)world->features;
  base.count = world->count;
  base.coordinates = world->coordinates;
  base.row_count = world->count;
  base.most_rows = ROWS;
  base.features = world->features;
  base.output = world->poisoned;
  base.workspace = workspace;
  base.workspace_bytes = ops->linear_bytes;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_devoxelize(ops->linear, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_devoxelize(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the op voxelizes", minuet_devoxelize(ops->voxelize, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_devoxelize(ops->linear, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_devoxelize(ops->linear, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "points is null", points = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "points_ld is 2", points_ld = 2);
  REFUSED_WITH(OUT_OF_RANGE, "most is -1", most = -1);
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
  ACCEPTED(minuet_devoxelize(ops->linear, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
  REFUSED(INVALID_ARGUMENT, "points, points_ld, batch or coordinates is given",
          minuet_devoxelize(ops->nearest, device, &base, NULL));
  base.points = NULL;
  base.points_ld = 0;
  base.batch = base.coordinates = NULL;
  base.workspace = NULL;
  base.workspace_bytes = 0;
  REFUSED(INVALID_ARGUMENT, "point_rows is null", minuet_devoxelize(ops->nearest, device, &base, NULL));
  base.point_rows = world->coordinates;
  ACCEPTED(minuet_devoxelize(ops->nearest, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
}

/* A network that makes voxels of points. Its execution has no prepare. */
static void read_points(world* world, const point_ops* ops) {
  static const char description[] =
      "{\"name\": \"points\", \"ndim\": 3, \"in_channels\": 4, \"layers\": ["
      "{\"op\": \"voxelize\", \"voxel_size\": [1, 1, 1]}, {\"op\": \"devoxelize\"}]}";
  const minuet_array in = {ops->points, {ROWS, IN}, {0}, 2, MINUET_ELEMENT_F32, 0, 0};
  const minuet_array result = {world->poisoned, {ROWS, IN}, {0}, 2, MINUET_ELEMENT_F32, 0, 0};
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  minuet_plan* plan = NULL;
  minuet_execution* own = NULL;
  options.description = description;
  options.dtype = MINUET_F32;
  MUST(minuet_plan_create_network(world->context, &options, &plan));
  MUST(minuet_plan_compile(plan, world->arch, NULL, NULL));
  MUST(minuet_plan_load(plan, world->device));
  MUST(minuet_execution_create(plan, world->device, NULL, &own));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_read_points(NULL, out.small, 6, NULL));
  REFUSED(INVALID_ARGUMENT, "counts is null", minuet_execution_read_points(own, NULL, 6, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_execution_read_points(own, out.small, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 7", minuet_execution_read_points(own, out.small, 7, NULL));
  REFUSED(FAILED_PRECONDITION, "run the network first",
          minuet_execution_read_points(own, out.small, 6, NULL));
  REFUSED(FAILED_PRECONDITION, "nothing to prepare",
          minuet_execution_prepare(own, world->coordinates, ROWS, NULL));
  MUST(minuet_execution_run_arrays(own, &in, 1, &result, 1, NULL));
  ACCEPTED(minuet_execution_read_points(own, out.small, MINUET_VOXELIZE_COUNTS, NULL));
  EXPECT(out.small[MINUET_VOXELIZE_KEPT] + out.small[MINUET_VOXELIZE_OUTSIDE] +
             out.small[MINUET_VOXELIZE_NOT_FINITE] ==
         ROWS);
  minuet_execution_destroy(own);
  minuet_plan_destroy(plan);
  poison_device(world);
}

void call_points(world* world) {
  point_ops ops;
  create_voxelize(world);
  create_devoxelize(world);
  make_ops(world, &ops);
  ask_for_bytes(world, &ops);
  voxelize(world, &ops);
  devoxelize(world, &ops);
  read_points(world, &ops);
  minuet_point_op_destroy(ops.voxelize);
  minuet_point_op_destroy(ops.nearest);
  minuet_point_op_destroy(ops.linear);
  minuet_point_op_destroy(ops.flat);
  MUST(minuet_device_free(world->device, ops.points));
  MUST(minuet_device_free(world->device, ops.workspace));
}
