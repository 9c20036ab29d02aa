/* Rows that run plans on pyramids. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

/* A convolution with a residual, in fp16 and in the fused dataflow, and all that a run of it takes. */
typedef struct op_run {
  minuet_plan *plan, *unfused, *bare;
  minuet_parameters *unset, *other;
  char* workspace;
  int64_t workspace_bytes;
  minuet_array inputs[2], output;
} op_run;

static minuet_plan* load_convolution(const world* world, const minuet_convolution_options* options) {
  minuet_plan* plan = NULL;
  MUST(minuet_plan_create_convolution(world->context, options, &plan));
  MUST(minuet_plan_compile(plan, world->arch, NULL, NULL));
  MUST(minuet_plan_load(plan, world->device));
  return plan;
}

static minuet_run_arguments sizes_of(const world* world) {
  minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
  arguments.pyramid = world->pyramid;
  return arguments;
}

static minuet_run_arguments arguments_of(const world* world, const op_run* op) {
  minuet_run_arguments arguments = sizes_of(world);
  arguments.buffer = world->buffer;
  arguments.buffer_bytes = world->buffer_bytes;
  arguments.workspace = op->workspace;
  arguments.workspace_bytes = op->workspace_bytes;
  arguments.inputs = op->inputs;
  arguments.outputs = &op->output;
  arguments.input_count = COUNT_OF(op->inputs);
  arguments.output_count = 1;
  return arguments;
}

static minuet_array half_array(void* data, int32_t channels) {
  minuet_array array = {0};
  array.data = data;
  array.shape[0] = CAPACITY;
  array.shape[1] = channels;
  array.rank = 2;
  array.element = MINUET_ELEMENT_F16;
  return array;
}

static void open_op(const world* world, op_run* op) {
  minuet_convolution_options options = convolution_options(world);
  const minuet_run_arguments sizes = sizes_of(world);
  options.dtype = MINUET_F16;
  options.residual = 1;
  options.dataflow = MINUET_DATAFLOW_FUSED;
  op->plan = load_convolution(world, &options);
  options.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  op->unfused = load_convolution(world, &options);
  options.dataflow = MINUET_DATAFLOW_FUSED;
  options.weight = NULL;
  options.without_values = 1;
  op->bare = load_convolution(world, &options);
  MUST(minuet_parameters_create(op->plan, world->device, NULL, &op->unset));
  MUST(minuet_parameters_create(op->bare, world->device, NULL, &op->other));
  MUST(minuet_plan_run_bytes(op->plan, world->arch, &sizes, &op->workspace_bytes));
  op->workspace = device_memory(world, NULL, op->workspace_bytes);
  op->inputs[0] = half_array(world->features, IN);
  op->inputs[1] = half_array(world->features + 1024, OUT);
  op->output = half_array(world->poisoned, OUT);
}

static void close_op(const world* world, op_run* op) {
  MUST(minuet_device_synchronize(world->device, NULL));
  MUST(minuet_device_free(world->device, op->workspace));
  minuet_parameters_destroy(op->unset);
  minuet_parameters_destroy(op->other);
  minuet_plan_destroy(op->plan);
  minuet_plan_destroy(op->unfused);
  minuet_plan_destroy(op->bare);
}

static void ask_for_bytes(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  const char* const arch = world->arch;
  minuet_run_arguments given, base = sizes_of(world);
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_plan_run_bytes(plan, arch, WITH(change), out.numbers))
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_run_bytes(NULL, arch, &base, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_plan_run_bytes(plan, NULL, &base, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string", minuet_plan_run_bytes(plan, "", &base, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_plan_run_bytes(plan, arch, NULL, out.numbers));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_plan_run_bytes(plan, arch, &base, NULL));
  REFUSED_WITH("struct_size is 15", struct_size = 15);
  REFUSED_WITH("ext", ext = &given);
  REFUSED_WITH("pyramid is null", pyramid = NULL);
  REFUSED_WITH("plan has 3 axes, but the pyramid has 2", pyramid = world->flat_pyramid);
  REFUSED_WITH("map is -1", map = -1);
  REFUSED_WITH("map is 3", map = 3);
  REFUSED_WITH("kernel size", map = 1);
  REFUSED_WITH("is not made for", map = 2);
  REFUSED_WITH("set_order is 8", set_order = 8);
  REFUSED_WITH("set_order is 4294967295", set_order = UINT32_MAX);
#undef REFUSED_WITH
  REFUSED(INVALID_ARGUMENT, "caller's order",
          minuet_plan_run_bytes(world->network, arch, WITH(set_order = 1), out.numbers));
  REFUSED(INVALID_ARGUMENT, "map is 1",
          minuet_plan_run_bytes(world->network, arch, WITH(map = 1), out.numbers));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_run_bytes(plan, "sm_80", &base, out.numbers));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_run_bytes(world->uncompiled, arch, &base, out.numbers));
  REFUSED(FAILED_PRECONDITION, "gather-gemm-scatter",
          minuet_plan_run_bytes(op->unfused, arch, &base, out.numbers));
  ACCEPTED(minuet_plan_run_bytes(plan, arch, WITH(set_order = 7), out.numbers));
  EXPECT(out.numbers[0] > 0 && out.numbers[0] <= op->workspace_bytes);
  /* What belongs to the run itself does not matter. */
  ACCEPTED(minuet_plan_run_bytes(plan, arch, WITH(input_count = -1), out.numbers));
  EXPECT(out.numbers[0] == op->workspace_bytes);
}

static void ask_for_prepared_bytes(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  const char* const arch = world->arch;
  minuet_run_arguments given, base = sizes_of(world);
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_plan_prepared_bytes(plan, arch, WITH(change), out.numbers))
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_prepared_bytes(NULL, arch, &base, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_plan_prepared_bytes(plan, NULL, &base, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_plan_prepared_bytes(plan, arch, NULL, out.numbers));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_plan_prepared_bytes(plan, arch, &base, NULL));
  REFUSED_WITH("struct_size is 15", struct_size = 15);
  REFUSED_WITH("pyramid is null", pyramid = NULL);
  REFUSED_WITH("map is 3", map = 3);
  REFUSED_WITH("set_order is 8", set_order = 8);
#undef REFUSED_WITH
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_prepared_bytes(plan, "sm_80", &base, out.numbers));
  ACCEPTED(minuet_plan_prepared_bytes(plan, arch, &base, out.numbers));
  EXPECT(out.numbers[0] >= 2 * VOLUME * IN * OUT);
}

/* A row of `plan` with one change of the arguments. */
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_plan_run(plan, device, WITH(change), NULL))

static minuet_array weight_of(float* data) {
  minuet_array weight = {0};
  weight.data = data;
  weight.rank = 3;
  weight.shape[0] = VOLUME;
  weight.shape[1] = IN;
  weight.shape[2] = OUT;
  return weight;
}

/* Prepares the weight of a plan without values, and runs with it. */
static void prepare_parameters(const world* world, const op_run* op) {
  minuet_plan* const plan = op->bare;
  minuet_device* const device = world->device;
  const minuet_weights_order order = MINUET_WEIGHTS_MINUET;
  minuet_run_arguments given, sizes = sizes_of(world), base = arguments_of(world, op);
  uint16_t answer[CAPACITY * OUT];
  int64_t bytes = 0;
  float* const data = (float*)device_memory(world, world->weight, sizeof(float) * VOLUME * IN * OUT);
  const minuet_array weight = weight_of(data);
  minuet_array wrong = weight;
  char* prepared;
  MUST(minuet_plan_prepared_bytes(plan, world->arch, &sizes, &bytes));
  prepared = device_memory(world, NULL, bytes);
#define REFUSED_VALUE(words, change) \
  (wrong = weight, change,           \
   REFUSED(INVALID_ARGUMENT, words,  \
           minuet_plan_prepare_parameters(plan, device, &sizes, &wrong, 1, order, prepared, bytes, NULL)))
  REFUSED(INVALID_ARGUMENT, "plan is null",
          minuet_plan_prepare_parameters(NULL, device, &sizes, &weight, 1, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null",
          minuet_plan_prepare_parameters(plan, NULL, &sizes, &weight, 1, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null",
          minuet_plan_prepare_parameters(plan, device, NULL, &weight, 1, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "values is null",
          minuet_plan_prepare_parameters(plan, device, &sizes, NULL, 1, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "value_count is -1",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, -1, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "0 values are given",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 0, order, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "order is -1",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, -1, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "order is 99",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, 99, prepared, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "prepared is null",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, order, NULL, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "multiple of 16",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, order, prepared + 4, bytes, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "prepared has",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, order, prepared, bytes - 1, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "prepared has -1 bytes",
          minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, order, prepared, -1, NULL));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_plan_prepare_parameters(plan, world->other_device, &sizes, &weight, 1, order, prepared,
                                         bytes, NULL));
  REFUSED_VALUE("weight", wrong.shape[2] = OUT + 1);
  REFUSED_VALUE("it must be f32", wrong.element = MINUET_ELEMENT_F16);
  REFUSED_VALUE("overlap", wrong.data = prepared);
#undef REFUSED_VALUE
  given = sizes, given.map = 9;
  REFUSED(INVALID_ARGUMENT, "map is 9",
          minuet_plan_prepare_parameters(plan, device, &given, &weight, 1, order, prepared, bytes, NULL));
  ACCEPTED(minuet_plan_prepare_parameters(plan, device, &sizes, &weight, 1, order, prepared, bytes, NULL));
  base.prepared = prepared, base.prepared_bytes = bytes;
  REFUSED_WITH(INVALID_ARGUMENT, "prepared is null", prepared = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", prepared = prepared + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "prepared has", prepared_bytes = bytes - 1);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "prepared has -1 bytes", prepared_bytes = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "choose one of them", parameters = op->other);
  REFUSED_WITH(INVALID_ARGUMENT, "the workspace and the prepared parameters overlap", workspace = prepared);
  ACCEPTED(minuet_plan_run(plan, device, &base, NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  for (int i = 0; i < CAPACITY * OUT; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
  MUST(minuet_device_free(world->device, prepared));
  MUST(minuet_device_free(world->device, data));
}

static void run_wrong_plans(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_run(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_plan_run(plan, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_plan_run(plan, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "not loaded", minuet_plan_run(plan, world->other_device, &base, NULL));
  REFUSED(FAILED_PRECONDITION, "not loaded", minuet_plan_run(world->uncompiled, device, &base, NULL));
  REFUSED(FAILED_PRECONDITION, "gather-gemm-scatter", minuet_plan_run(op->unfused, device, &base, NULL));
  REFUSED(FAILED_PRECONDITION, "without values: give parameters",
          minuet_plan_run(op->bare, device, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "created for another plan", parameters = op->other);
  REFUSED_WITH(FAILED_PRECONDITION, "weight", parameters = op->unset);
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 15", struct_size = 15);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "pyramid is null", pyramid = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "plan has 3 axes, but the pyramid has 2", pyramid = world->flat_pyramid);
  REFUSED_WITH(INVALID_ARGUMENT, "map is -1", map = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "map is 3", map = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "is not made for", map = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "set_order is 8", set_order = 8);
}

static void run_with_wrong_memory(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  REFUSED_WITH(INVALID_ARGUMENT, "buffer is null", buffer = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", buffer = world->buffer + 4);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has", buffer_bytes = world->buffer_bytes - 1);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has -1 bytes", buffer_bytes = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", workspace = op->workspace + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = op->workspace_bytes - 1);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has 0 bytes", workspace_bytes = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "the workspace and the pyramid's buffer overlap", workspace = world->buffer);
  REFUSED_WITH(INVALID_ARGUMENT, "the workspace and the pyramid's buffer overlap", buffer = op->workspace);
}

static void run_with_wrong_lists(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  REFUSED_WITH(INVALID_ARGUMENT, "inputs is null", inputs = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "outputs is null", outputs = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "input_count is -1", input_count = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "2 inputs (the residual second)", input_count = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "output_count is -1", output_count = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "1 output", output_count = 0);
}

static void run_with_wrong_arrays(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments arguments = arguments_of(world, op);
  minuet_array inputs[2], output;
  arguments.inputs = inputs;
  arguments.outputs = &output;
#define REFUSED_ARRAY(words, change)                                        \
  (memcpy(inputs, op->inputs, sizeof(inputs)), output = op->output, change, \
   REFUSED(INVALID_ARGUMENT, words, minuet_plan_run(plan, device, &arguments, NULL)))
  REFUSED_ARRAY("input 0", inputs[0].data = NULL);
  REFUSED_ARRAY("input 0", inputs[0].data = world->features + 2);
  REFUSED_ARRAY("input 0", inputs[0].shape[0] = ROWS);
  REFUSED_ARRAY("input 0", inputs[0].shape[1] = OUT);
  REFUSED_ARRAY("input 0", inputs[0].element = MINUET_ELEMENT_F32);
  REFUSED_ARRAY("input 1", inputs[1].shape[0] = CAPACITY + 1);
  REFUSED_ARRAY("input 1", inputs[1].rank = 3);
  REFUSED_ARRAY("output 0", output.data = NULL);
  REFUSED_ARRAY("output 0", output.shape[0] = CAPACITY - 1);
  REFUSED_ARRAY("output 0", output.element = MINUET_ELEMENT_I32);
  REFUSED_ARRAY("output 0 and input 0 overlap", output.data = world->features);
  REFUSED_ARRAY("output 0 and input 1 (the residual) overlap", output.data = world->features + 1024 + 112);
  REFUSED_ARRAY("the workspace and input 0 overlap", inputs[0].data = op->workspace);
  REFUSED_ARRAY("the workspace and input 1 (the residual) overlap", inputs[1].data = op->workspace);
  REFUSED_ARRAY("the workspace and output 0 overlap", output.data = op->workspace + op->workspace_bytes - 16);
  REFUSED_ARRAY("output 0 and the pyramid's buffer overlap",
                output.data = world->buffer + world->buffer_bytes - 256);
#undef REFUSED_ARRAY
}

static void run_rightly(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  uint16_t answer[CAPACITY * OUT];
  minuet_array weight;
  MUST(minuet_pyramid_build(world->pyramid, device,
                            &(minuet_pyramid_arguments){.struct_size = sizeof(minuet_pyramid_arguments),
                                                        .buffer = world->buffer,
                                                        .buffer_bytes = world->buffer_bytes,
                                                        .workspace = world->build_workspace,
                                                        .workspace_bytes = world->build_workspace_bytes,
                                                        .coordinates = world->coordinates,
                                                        .most = ROWS},
                            NULL));
  ACCEPTED(minuet_plan_run(plan, device, &base, NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  for (int i = 0; i < CAPACITY * OUT; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
  weight = weight_of((float*)world->weight);
  weight.on_host = 1;
  MUST(minuet_parameters_set(op->unset, NULL, &weight, 1, MINUET_WEIGHTS_MINUET, NULL));
  ACCEPTED(minuet_plan_run(plan, device, WITH(parameters = op->unset), NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  for (int i = 0; i < CAPACITY * OUT; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
}

static void run_networks(const world* world, const op_run* op) {
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  uint16_t answer[CAPACITY * OUT];
  base.input_count = 1;
  MUST(minuet_plan_run_bytes(plan, world->arch, &base, &base.workspace_bytes));
  base.workspace = device_memory(world, NULL, base.workspace_bytes);
  REFUSED_WITH(INVALID_ARGUMENT, "map is 1", map = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "map is -1", map = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "caller's order", set_order = MINUET_SET_ORDER_OUTPUT);
  REFUSED_WITH(INVALID_ARGUMENT, "run takes 1 input", input_count = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "created for another plan", parameters = op->other);
  ACCEPTED(minuet_plan_run(plan, device, &base, NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  for (int i = ROWS * OUT; i < CAPACITY * OUT; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
  MUST(minuet_device_free(world->device, base.workspace));
}

static void load_runs(const world* world, const op_run* op) {
  minuet_plan* const plan = op->plan;
  minuet_device* const device = world->device;
  minuet_run_arguments given, base = arguments_of(world, op);
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_run_load(NULL, device, &base));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_plan_run_load(plan, NULL, &base));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_plan_run_load(plan, device, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0", minuet_plan_run_load(plan, device, WITH(struct_size = 0)));
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_plan_run_load(plan, device, WITH(pyramid = NULL)));
  REFUSED(INVALID_ARGUMENT, "map is 9", minuet_plan_run_load(plan, device, WITH(map = 9)));
  REFUSED(INVALID_ARGUMENT, "set_order is 8", minuet_plan_run_load(plan, device, WITH(set_order = 8)));
  REFUSED(INVALID_ARGUMENT, "created for another plan",
          minuet_plan_run_load(plan, device, WITH(parameters = op->other)));
  REFUSED(FAILED_PRECONDITION, "not loaded", minuet_plan_run_load(plan, world->other_device, &base));
  REFUSED(FAILED_PRECONDITION, "without values", minuet_plan_run_load(op->bare, device, &base));
  REFUSED(FAILED_PRECONDITION, "gather-gemm-scatter", minuet_plan_run_load(op->unfused, device, &base));
  ACCEPTED(minuet_plan_run_load(plan, device, &base));
  ACCEPTED(minuet_plan_run_load(plan, device, WITH(parameters = op->unset)));
}

void call_pyramid_runs(world* world) {
  op_run op = {0};
  open_op(world, &op);
  ask_for_bytes(world, &op);
  ask_for_prepared_bytes(world, &op);
  run_wrong_plans(world, &op);
  run_with_wrong_memory(world, &op);
  run_with_wrong_lists(world, &op);
  run_with_wrong_arrays(world, &op);
  load_runs(world, &op);
  run_rightly(world, &op);
  prepare_parameters(world, &op);
  run_networks(world, &op);
  close_op(world, &op);
}
