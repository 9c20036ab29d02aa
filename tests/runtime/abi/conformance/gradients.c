/* Rows that list pairs and compute gradients. */
#include "tests/runtime/abi/conformance/conformance.h"

enum { PAIRS = VOLUME * ROWS };

typedef struct gradient_ops {
  minuet_gradient_op *both, *bias, *flat; /* `flat` has one axis and is not loaded */
  int64_t bytes;
  char *pairs, *weight, *memory, *workspace;
  minuet_array array;
} gradient_ops;

static void list_pairs(const world* world, gradient_ops* ops) {
  int32_t* const pairs = (int32_t*)ops->pairs;
  int32_t* const count = pairs + 3 * PAIRS;
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_kernel_map_list_pairs(NULL, pairs, PAIRS, count, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs is null",
          minuet_kernel_map_list_pairs(world->map, NULL, PAIRS, count, NULL));
  REFUSED(INVALID_ARGUMENT, "count is null",
          minuet_kernel_map_list_pairs(world->map, pairs, PAIRS, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "count begins",
          minuet_kernel_map_list_pairs(world->map, pairs, PAIRS, (int32_t*)((char*)count + 1), NULL));
  REFUSED(OUT_OF_RANGE, "capacity is -1", minuet_kernel_map_list_pairs(world->map, pairs, -1, count, NULL));
  REFUSED(INVALID_ARGUMENT, "overlap", minuet_kernel_map_list_pairs(world->map, pairs, PAIRS, pairs, NULL));
  ACCEPTED(minuet_kernel_map_list_pairs(world->map, NULL, 0, count, NULL));
  ACCEPTED(minuet_kernel_map_list_pairs(world->map, pairs, PAIRS, count, NULL));
}

static void make_ops(const world* world, gradient_ops* ops) {
  minuet_context* const own = world->context;
  const minuet_convolution_options base = convolution_options(world);
  minuet_convolution_options flat = base;
  flat.ndim = 1;
  for (int axis = 1; axis < 3; ++axis) flat.kernel_size[axis] = 0;
  REFUSED(INVALID_ARGUMENT, "context is null",
          minuet_gradient_create(NULL, &base, MINUET_GRADIENT_WEIGHT, &out.gradient_op));
  REFUSED(INVALID_ARGUMENT, "convolution is null",
          minuet_gradient_create(own, NULL, MINUET_GRADIENT_WEIGHT, &out.gradient_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_gradient_create(own, &base, MINUET_GRADIENT_WEIGHT, NULL));
  REFUSED(INVALID_ARGUMENT, "gradients are 0", minuet_gradient_create(own, &base, 0, &out.gradient_op));
  REFUSED(INVALID_ARGUMENT, "gradients are 1",
          minuet_gradient_create(own, &base, MINUET_GRADIENT_INPUT, &out.gradient_op));
  ACCEPTED(minuet_gradient_create(own, &base, MINUET_GRADIENT_WEIGHT, &out.gradient_op));
  DONE(minuet_gradient_op_destroy(out.gradient_op));
  DONE(minuet_gradient_op_destroy(NULL));
  MUST(minuet_gradient_create(own, &base, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS, &ops->both));
  MUST(minuet_gradient_create(own, &base, MINUET_GRADIENT_BIAS, &ops->bias));
  MUST(minuet_gradient_create(own, &flat, MINUET_GRADIENT_BIAS, &ops->flat));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_gradient_op_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_gradient_op_load(ops->both, NULL));
  ACCEPTED(minuet_gradient_op_load(ops->both, world->device));
  ACCEPTED(minuet_gradient_op_load(ops->bias, world->device));
}

/* The gradients of an affine step's parameters. */
static void call_affine(const world* world, const gradient_ops* ops) {
  minuet_context* const own = world->context;
  minuet_device* const device = world->device;
  minuet_affine_gradient_options given, base = MINUET_AFFINE_GRADIENT_OPTIONS_INIT;
  minuet_gradient_op *both = NULL, *shift = NULL;
  const minuet_gradient which = MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS;
  char *scale, *workspace;
  int64_t bytes = 0;
  base.channels = OUT;
  base.epsilon = 0.5f;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_gradient_create_affine(own, WITH(change), which, &out.gradient_op))
  REFUSED(INVALID_ARGUMENT, "context is null",
          minuet_gradient_create_affine(NULL, &base, which, &out.gradient_op));
  REFUSED(INVALID_ARGUMENT, "affine is null",
          minuet_gradient_create_affine(own, NULL, which, &out.gradient_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_gradient_create_affine(own, &base, which, NULL));
  REFUSED(INVALID_ARGUMENT, "gradients are 1",
          minuet_gradient_create_affine(own, &base, MINUET_GRADIENT_INPUT, &out.gradient_op));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype is 9", dtype = 9);
  REFUSED_WITH(INVALID_ARGUMENT, "has 0 channels", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "epsilon is -1", epsilon = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_gradient_create_affine(own, &base, which, &both));
  MUST(minuet_gradient_create_affine(own, &base, MINUET_GRADIENT_BIAS, &shift));
  ACCEPTED(minuet_gradient_op_load(both, device));
  MUST(minuet_gradient_op_load(shift, device));
  ACCEPTED(minuet_gradient_bytes(both, world->arch, 0, ROWS, &bytes));
  scale = device_memory(world, NULL, 4 * OUT);
  workspace = device_memory(world, NULL, bytes);
  {
    minuet_array array = ops->array;
    minuet_gradient_arguments given, base = MINUET_GRADIENT_ARGUMENTS_INIT;
    array.data = scale, array.rank = 1, array.shape[0] = OUT;
    base.input = base.out_gradient = (minuet_tensor){world->features, ROWS, 0, OUT, MINUET_F32};
    base.row_count = world->count;
    base.weight_gradient = &array;
    base.bias_gradient = (float*)ops->memory;
    base.workspace = workspace, base.workspace_bytes = bytes;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_gradient_compute(both, device, WITH(change), NULL))
    REFUSED_WITH(INVALID_ARGUMENT, "pairs, most_pairs", most_pairs = 1);
    REFUSED_WITH(INVALID_ARGUMENT, "pairs, most_pairs", swapped = 1);
    REFUSED_WITH(INVALID_ARGUMENT, "input has 1 rows", input.rows = 1);
    REFUSED_WITH(INVALID_ARGUMENT, "input has 1 channels of fp32", input.channels = 1);
    REFUSED_WITH(INVALID_ARGUMENT, "weight_gradient is null", weight_gradient = NULL);
    REFUSED_WITH(INVALID_ARGUMENT, "weight_gradient must be", weight_gradient = &ops->array);
    REFUSED_WITH(INVALID_ARGUMENT, "bias_gradient is null", bias_gradient = NULL);
    REFUSED_WITH(INVALID_ARGUMENT, "row_count begins",
                 row_count = (const int32_t*)((const char*)base.row_count + 2));
    REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace", workspace_bytes = bytes - 1);
    REFUSED_WITH(INVALID_ARGUMENT, "overlap", bias_gradient = (float*)scale);
#undef REFUSED_WITH
    REFUSED(INVALID_ARGUMENT, "input is given", minuet_gradient_compute(shift, device, &base, NULL));
    ACCEPTED(minuet_gradient_compute(both, device, &base, NULL));
    ACCEPTED(minuet_gradient_compute(both, device, WITH(accumulate = 1), NULL));
  }
  MUST(minuet_device_synchronize(device, NULL));
  minuet_gradient_op_destroy(both);
  minuet_gradient_op_destroy(shift);
  MUST(minuet_device_free(device, scale));
  MUST(minuet_device_free(device, workspace));
}

static void ask_for_bytes(const world* world, gradient_ops* ops) {
  int64_t* const bytes = out.numbers;
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_gradient_bytes(NULL, "cpu", PAIRS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_gradient_bytes(ops->both, NULL, PAIRS, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_gradient_bytes(ops->both, "hopper", PAIRS, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_pairs is -1", minuet_gradient_bytes(ops->both, "cpu", -1, ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_rows is -1", minuet_gradient_bytes(ops->both, "cpu", PAIRS, -1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null",
          minuet_gradient_bytes(ops->both, "cpu", PAIRS, ROWS, NULL));
  ACCEPTED(minuet_gradient_bytes(ops->both, "sm_80", PAIRS, ROWS, bytes));
  EXPECT(out.numbers[0] > 0);
  MUST(minuet_gradient_bytes(ops->both, world->arch, PAIRS, ROWS, &ops->bytes));
  ops->workspace = device_memory(world, NULL, ops->bytes);
}

static minuet_gradient_arguments arguments_of(const world* world, const gradient_ops* ops) {
  minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  given.pairs = (const int32_t*)ops->pairs;
  given.most_pairs = PAIRS;
  given.pair_count = given.pairs + 3 * PAIRS;
  given.input = (minuet_tensor){world->features, ROWS, 0, IN, MINUET_F32};
  given.out_gradient = (minuet_tensor){world->features, ROWS, 0, OUT, MINUET_F32};
  given.row_count = world->count;
  given.weight_gradient = &ops->array;
  given.bias_gradient = (float*)ops->memory;
  given.workspace = ops->workspace;
  given.workspace_bytes = ops->bytes;
  return given;
}

static void compute(const world* world, const gradient_ops* ops) {
  minuet_device* const device = world->device;
  minuet_gradient_arguments given, base = arguments_of(world, ops);
  minuet_array array = ops->array;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_gradient_compute(ops->both, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_gradient_compute(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_gradient_compute(ops->both, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_gradient_compute(ops->both, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "pairs is null", pairs = NULL);
  REFUSED_WITH(OUT_OF_RANGE, "most_pairs is -1", most_pairs = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "pair_count begins",
               pair_count = (const int32_t*)((const char*)base.pair_count + 1));
  REFUSED_WITH(INVALID_ARGUMENT, "input has 5 channels of fp32", input.channels = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "input: dtype is 9", input.dtype = 9);
  REFUSED_WITH(OUT_OF_RANGE, "input.rows is -1", input.rows = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradient has 8 channels of fp16", out_gradient.dtype = MINUET_F16);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradient has a row stride of 7", out_gradient.row_stride = 7);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count begins",
               row_count = (const int32_t*)((const char*)base.row_count + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "weight_gradient is null", weight_gradient = NULL);
  array.shape[2] = OUT + 1;
  REFUSED_WITH(INVALID_ARGUMENT, "its shape is", weight_gradient = &array);
  REFUSED_WITH(INVALID_ARGUMENT, "weights_order is 12", weights_order = 12);
  REFUSED_WITH(INVALID_ARGUMENT, "accumulate is 2", accumulate = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "swapped is 3", swapped = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "bias_gradient is null", bias_gradient = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace", workspace_bytes = ops->bytes - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", bias_gradient = (float*)ops->weight);
#undef REFUSED_WITH
  REFUSED(INVALID_ARGUMENT, "pairs, most_pairs or pair_count is given",
          minuet_gradient_compute(ops->bias, device, &base, NULL));
  REFUSED(FAILED_PRECONDITION, "minuet_gradient_op_load",
          minuet_gradient_compute(ops->flat, device,
                                  (given = base, given.pairs = given.pair_count = NULL, given.most_pairs = 0,
                                   given.weight_gradient = NULL, given.input = (minuet_tensor){0}, &given),
                                  NULL));
  ACCEPTED(minuet_gradient_compute(ops->both, device, &base, NULL));
  ACCEPTED(minuet_gradient_compute(ops->both, device, WITH(accumulate = 1), NULL));
}

static void create_pooling_gradient(const world* world) {
  minuet_context* const own = world->context;
  minuet_pooling_options given, base = MINUET_POOLING_OPTIONS_INIT;
  base.channels = OUT;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_plan_create_pooling_gradient(own, WITH(change), &out.plan))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_pooling_gradient(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_pooling_gradient(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_pooling_gradient(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "winners is set", winners = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "reduction is 3", reduction = 3);
#undef REFUSED_WITH
  ACCEPTED(minuet_plan_create_pooling_gradient(own, &base, &out.plan));
  DONE(minuet_plan_destroy(out.plan));
}

void call_gradients(world* world) {
  gradient_ops ops = {0};
  ops.pairs = device_memory(world, NULL, 12 * PAIRS + 16);
  ops.weight = device_memory(world, NULL, 4 * WEIGHTS);
  ops.memory = device_memory(world, NULL, 4 * OUT);
  ops.array.data = ops.weight;
  ops.array.shape[0] = VOLUME, ops.array.shape[1] = IN, ops.array.shape[2] = OUT;
  ops.array.rank = 3;
  ops.array.element = MINUET_ELEMENT_F32;
  list_pairs(world, &ops);
  make_ops(world, &ops);
  ask_for_bytes(world, &ops);
  compute(world, &ops);
  call_affine(world, &ops);
  create_pooling_gradient(world);
  MUST(minuet_device_synchronize(world->device, NULL));
  minuet_gradient_op_destroy(ops.both);
  minuet_gradient_op_destroy(ops.bias);
  minuet_gradient_op_destroy(ops.flat);
  MUST(minuet_device_free(world->device, ops.pairs));
  MUST(minuet_device_free(world->device, ops.weight));
  MUST(minuet_device_free(world->device, ops.memory));
  MUST(minuet_device_free(world->device, ops.workspace));
}
