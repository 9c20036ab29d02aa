/* Rows of batch norms in training. */
#include "tests/runtime/abi/conformance/conformance.h"

/* The ops of the rows: `full` has all options, `plain` none, and `flat` has one axis and is not loaded. */
typedef struct norm_ops {
  minuet_batch_norm_op *full, *plain, *flat;
  int64_t bytes;
  char *workspace, *memory;
} norm_ops;

static minuet_batch_norm_options full_options(void) {
  minuet_batch_norm_options options = MINUET_BATCH_NORM_OPTIONS_INIT;
  options.channels = IN;
  options.momentum = 0.5f;
  options.has_running_mean = options.has_residual = options.has_relu = 1;
  return options;
}

static void create(const world* world) {
  minuet_context* const own = world->context;
  minuet_batch_norm_options given, base = full_options();
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_create(own, WITH(change), &out.batch_norm_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_batch_norm_create(NULL, &base, &out.batch_norm_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_batch_norm_create(own, NULL, &out.batch_norm_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is 5", ndim = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = 9);
  REFUSED_WITH(INVALID_ARGUMENT, "the channels are 0; they must be 1 to 65536", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "eps is -1; it must be positive", eps = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "eps is inf", eps = (float)(1e308 * 10));
  REFUSED_WITH(INVALID_ARGUMENT, "momentum is 0; it must be above 0 and at most 1", momentum = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "momentum is 1.5", momentum = 1.5f);
  REFUSED_WITH(INVALID_ARGUMENT, "momentum is 0.5, but with is_cumulative", is_cumulative = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "momentum is 0.5, but without has_running_mean", has_running_mean = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "has_running_mean is 2", has_running_mean = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "is_cumulative is 2", is_cumulative = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "has_residual is 2", has_residual = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "has_relu is 2", has_relu = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
  base.has_running_mean = 0;
  REFUSED_WITH(INVALID_ARGUMENT, "is_cumulative is 1, but without has_running_mean", is_cumulative = 1);
#undef REFUSED_WITH
  base = full_options();
  ACCEPTED(minuet_batch_norm_create(own, &base, &out.batch_norm_op));
  DONE(minuet_batch_norm_destroy(out.batch_norm_op));
  DONE(minuet_batch_norm_destroy(NULL));
}

static void make_ops(const world* world, norm_ops* ops) {
  minuet_batch_norm_options full = full_options(), plain = MINUET_BATCH_NORM_OPTIONS_INIT;
  int64_t* const bytes = out.numbers;
  plain.channels = IN;
  MUST(minuet_batch_norm_create(world->context, &full, &ops->full));
  MUST(minuet_batch_norm_create(world->context, &plain, &ops->plain));
  plain.ndim = 1;
  MUST(minuet_batch_norm_create(world->context, &plain, &ops->flat));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_load(ops->full, NULL));
  ACCEPTED(minuet_batch_norm_load(ops->full, world->device));
  ACCEPTED(minuet_batch_norm_load(ops->plain, world->device));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_bytes(NULL, "cpu", ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_batch_norm_bytes(ops->full, NULL, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_batch_norm_bytes(ops->full, "hopper", ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_rows is -1", minuet_batch_norm_bytes(ops->full, "cpu", -1, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null", minuet_batch_norm_bytes(ops->full, "cpu", ROWS, NULL));
  ACCEPTED(minuet_batch_norm_bytes(ops->full, "sm_80", ROWS, bytes));
  EXPECT(out.numbers[0] > 0);
  MUST(minuet_batch_norm_bytes(ops->full, world->arch, ROWS, &ops->bytes));
  ops->workspace = device_memory(world, NULL, ops->bytes + 16);
  ops->memory = device_memory(world, NULL, 1024);
}

/* Rows of zeros at a place of the memory of the ops, in which each matrix has 64 bytes. */
static minuet_tensor matrix(const norm_ops* ops, int place) {
  return (minuet_tensor){ops->memory + 64 * place, ROWS, 0, IN, MINUET_F32};
}
static float* floats(const norm_ops* ops, int place) { return (float*)(ops->memory + 64 * place); }

static minuet_batch_norm_arguments arguments_of(const world* world, const norm_ops* ops) {
  minuet_batch_norm_arguments given = MINUET_BATCH_NORM_ARGUMENTS_INIT;
  given.input = matrix(ops, 0);
  given.row_count = world->count;
  given.residual = matrix(ops, 1);
  given.output = matrix(ops, 2);
  given.weight = given.bias = floats(ops, 3);
  given.running_mean = floats(ops, 4);
  given.running_variance = floats(ops, 5);
  given.batch_count = (const int64_t*)floats(ops, 6);
  given.new_running_mean = floats(ops, 7);
  given.new_running_variance = floats(ops, 8);
  given.new_batch_count = (int64_t*)floats(ops, 9);
  given.moments = floats(ops, 10);
  given.all_moments = floats(ops, 10);
  given.ranks = 1;
  given.saved = floats(ops, 11);
  given.workspace = ops->workspace;
  given.workspace_bytes = ops->bytes;
  return given;
}

static void call_forward(const world* world, const norm_ops* ops) {
  minuet_batch_norm_op* const own = ops->full;
  minuet_device* const device = world->device;
  minuet_batch_norm_arguments given, base = arguments_of(world, ops);
  const char* const odd = ops->memory + 2;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_sum(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_sum(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_sum(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_sum(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "moments is null", moments = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "moments begins", moments = (float*)odd);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->bytes - 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_sum(own, device, WITH(output.data = NULL), NULL));
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_apply(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_apply(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_apply(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_apply(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "all_moments is null", all_moments = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "ranks is 0; it must be 1 to 65536", ranks = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", all_moments = floats(ops, 11));
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_apply(own, device, WITH(workspace = NULL), NULL));
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_forward(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_forward(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_forward(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_forward(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "input has 5 channels of fp32", input.channels = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "input has 4 channels of fp16", input.dtype = MINUET_F16);
  REFUSED_WITH(INVALID_ARGUMENT, "input has 4 rows, but its data pointer is null", input.data = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "input begins", input.data = ops->memory + 8);
  REFUSED_WITH(INVALID_ARGUMENT, "input has a row stride of 6", input.row_stride = 6);
  REFUSED_WITH(OUT_OF_RANGE, "input.rows is -1", input.rows = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count begins", row_count = (const int32_t*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "residual has 3 rows; it must have 4, as input has", residual.rows = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "output has 0 channels", output = (minuet_tensor){0});
  REFUSED_WITH(INVALID_ARGUMENT, "weight begins", weight = (const float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "bias begins", bias = (const float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "saved is null", saved = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "running_mean is null", running_mean = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "running_variance is null", running_variance = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "new_running_mean is null", new_running_mean = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "new_running_variance is null", new_running_variance = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "batch_count is null", batch_count = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "batch_count begins", batch_count = (const int64_t*)(ops->memory + 4));
  REFUSED_WITH(INVALID_ARGUMENT, "new_batch_count is null", new_batch_count = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", workspace = ops->workspace + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->bytes - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", output.data = base.input.data);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", new_running_variance = floats(ops, 4));
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_forward(own, device, &base, NULL));
  ACCEPTED(minuet_batch_norm_forward(own, device, WITH(new_running_mean = floats(ops, 4)), NULL));
  REFUSED(INVALID_ARGUMENT, "residual is given, but the op was created without has_residual",
          minuet_batch_norm_forward(ops->plain, device, &base, NULL));
  base.residual = (minuet_tensor){0};
  REFUSED(INVALID_ARGUMENT, "running_mean, running_variance or batch_count is given",
          minuet_batch_norm_forward(ops->plain, device, &base, NULL));
  base.running_mean = base.running_variance = NULL;
  base.batch_count = NULL;
  REFUSED(INVALID_ARGUMENT, "new_running_mean, new_running_variance or new_batch_count is given",
          minuet_batch_norm_forward(ops->plain, device, &base, NULL));
  base.new_running_mean = base.new_running_variance = NULL;
  base.new_batch_count = NULL;
  REFUSED(FAILED_PRECONDITION, "call minuet_batch_norm_load",
          minuet_batch_norm_forward(ops->flat, world->other_device, &base, NULL));
  ACCEPTED(minuet_batch_norm_forward(ops->plain, device, &base, NULL));
}

static void call_backward(const world* world, const norm_ops* ops) {
  minuet_batch_norm_op* const own = ops->full;
  minuet_device* const device = world->device;
  minuet_batch_norm_gradient_arguments given, base = MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT;
  const char* const odd = ops->memory + 2;
  base.input = matrix(ops, 0);
  base.out_gradient = matrix(ops, 1);
  base.row_count = world->count;
  base.weight = base.bias = floats(ops, 3);
  base.saved = floats(ops, 11);
  base.output = matrix(ops, 2);
  base.weight_gradient = floats(ops, 4);
  base.bias_gradient = floats(ops, 5);
  base.residual_gradient = matrix(ops, 6);
  base.sums = floats(ops, 7);
  base.input_gradient = matrix(ops, 8);
  base.workspace = ops->workspace;
  base.workspace_bytes = ops->bytes;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_sum_gradients(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_sum_gradients(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_sum_gradients(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_sum_gradients(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "sums is null", sums = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->bytes - 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_sum_gradients(own, device, WITH(input_gradient.data = NULL), NULL));
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_apply_gradients(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_apply_gradients(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_apply_gradients(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_apply_gradients(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "sums begins", sums = (float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "residual_gradient has 0 channels", residual_gradient = (minuet_tensor){0});
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_apply_gradients(own, device, WITH(workspace = NULL), NULL));
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_batch_norm_backward(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_batch_norm_backward(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_batch_norm_backward(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_batch_norm_backward(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "input has 5 channels", input.channels = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradient has 3 rows", out_gradient.rows = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count begins", row_count = (const int32_t*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "weight begins", weight = (const float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "bias begins", bias = (const float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "saved is null", saved = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "output has 0 channels", output = (minuet_tensor){0});
  REFUSED_WITH(INVALID_ARGUMENT, "accumulate is 2", accumulate = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "weight_gradient begins", weight_gradient = (float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "bias_gradient begins", bias_gradient = (float*)odd);
  REFUSED_WITH(INVALID_ARGUMENT, "residual_gradient has 0 channels", residual_gradient = (minuet_tensor){0});
  REFUSED_WITH(INVALID_ARGUMENT, "input_gradient has 3 rows", input_gradient.rows = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->bytes - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", input_gradient.data = base.out_gradient.data);
#undef REFUSED_WITH
  ACCEPTED(minuet_batch_norm_backward(own, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "residual_gradient is given, but the op was created without has_residual",
          minuet_batch_norm_backward(ops->plain, device, &base, NULL));
  base.residual_gradient = (minuet_tensor){0};
  REFUSED(INVALID_ARGUMENT, "output is given, but the op was created without both has_relu and has_residual",
          minuet_batch_norm_backward(ops->plain, device, &base, NULL));
  base.output = (minuet_tensor){0};
  REFUSED(FAILED_PRECONDITION, "call minuet_batch_norm_load",
          minuet_batch_norm_backward(ops->flat, world->other_device, &base, NULL));
  ACCEPTED(minuet_batch_norm_backward(ops->plain, device, WITH(weight_gradient = NULL), NULL));
}

void call_batch_norm(world* world) {
  norm_ops ops;
  create(world);
  make_ops(world, &ops);
  call_forward(world, &ops);
  call_backward(world, &ops);
  MUST(minuet_device_synchronize(world->device, NULL));
  minuet_batch_norm_destroy(ops.full);
  minuet_batch_norm_destroy(ops.plain);
  minuet_batch_norm_destroy(ops.flat);
  MUST(minuet_device_free(world->device, ops.workspace));
  MUST(minuet_device_free(world->device, ops.memory));
}
