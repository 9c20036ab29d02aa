/* Rows that run executions, and all that lets sizes live on the device. */
#include <math.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void run_wrong_calls(minuet_execution* own, const minuet_tensor* in, const minuet_tensor* result) {
  const minuet_tensor two[] = {*in, *in};
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_run(NULL, in, 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "inputs is null", minuet_execution_run(own, NULL, 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "outputs is null", minuet_execution_run(own, in, 1, NULL, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input_count is -1", minuet_execution_run(own, in, -1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output_count is -1", minuet_execution_run(own, in, 1, result, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "1 input", minuet_execution_run(own, in, 0, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "1 input", minuet_execution_run(own, two, 2, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "1 output", minuet_execution_run(own, in, 1, result, 0, NULL));
}

static void run_wrong_inputs(minuet_execution* own, const minuet_tensor* in, const minuet_tensor* result) {
  minuet_tensor given, base = *in;
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(data = NULL), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0",
          minuet_execution_run(own, WITH(data = (char*)base.data + 8), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(rows = -1), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(rows = ROWS + 1), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(row_stride = 3), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(row_stride = 5), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(row_stride = -4), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0",
          minuet_execution_run(own, WITH(row_stride = (1 << 28) + 4), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(channels = 8), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(channels = -4), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(dtype = -1), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0", minuet_execution_run(own, WITH(dtype = 4), 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "input 0",
          minuet_execution_run(own, WITH(dtype = MINUET_F16), 1, result, 1, NULL));
}

static void run_wrong_outputs(minuet_execution* own, const minuet_tensor* in, const minuet_tensor* result) {
  minuet_tensor given, base = *result;
  REFUSED(INVALID_ARGUMENT, "output 0", minuet_execution_run(own, in, 1, WITH(data = NULL), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0",
          minuet_execution_run(own, in, 1, WITH(data = (char*)base.data + 4), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0", minuet_execution_run(own, in, 1, WITH(rows = ROWS - 1), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0", minuet_execution_run(own, in, 1, WITH(row_stride = 7), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0", minuet_execution_run(own, in, 1, WITH(channels = 4), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0", minuet_execution_run(own, in, 1, WITH(dtype = 17), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0 and input 0 overlap",
          minuet_execution_run(own, in, 1, WITH(data = in->data), 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0 and input 0 overlap",
          minuet_execution_run(own, in, 1, WITH(data = (char*)in->data + 48), 1, NULL));
}

/* The tensors may not lie in the caller's workspace, nor the output in the residual. */
static void run_overlapping(const world* world, const minuet_tensor* in, const minuet_tensor* result) {
  minuet_convolution_options convolution = convolution_options(world);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_tensor inside_in = *in, inside_result = *result;
  const minuet_tensor both[] = {*in, {world->features + 1024, ROWS, 0, OUT, MINUET_F32}};
  const minuet_tensor over = {world->features + 1024 + 64, ROWS, 0, OUT, MINUET_F32};
  minuet_plan* plan = NULL;
  minuet_execution* own = NULL;
  convolution.residual = 1;
  options.workspace = world->workspace;
  options.workspace_bytes = world->workspace_bytes;
  inside_in.data = world->workspace + 512;
  inside_result.data = world->workspace + world->workspace_bytes - 16;
  MUST(minuet_plan_create_convolution(world->context, &convolution, &plan));
  MUST(minuet_plan_compile(plan, world->arch, NULL, NULL));
  MUST(minuet_plan_load(plan, world->device));
  MUST(minuet_execution_create(plan, world->device, &options, &own));
  MUST(minuet_execution_prepare_maps(own, &world->map, 1, NULL));
  const minuet_tensor inside_both[] = {inside_in, both[1]};
  REFUSED(INVALID_ARGUMENT, "2 inputs (the residual second)",
          minuet_execution_run(own, in, 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "execution and input 0",
          minuet_execution_run(own, inside_both, 2, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0 and the", minuet_execution_run(own, both, 2, &inside_result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0 and input 1 (the residual)",
          minuet_execution_run(own, both, 2, &over, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 0 and input 1 (the residual)",
          minuet_execution_run(own, both, 2, &both[1], 1, NULL));
  ACCEPTED(minuet_execution_run(own, both, 2, result, 1, NULL));
  MUST(minuet_device_synchronize(world->device, NULL));
  poison_device(world);
  minuet_execution_destroy(own);
  minuet_plan_destroy(plan);
}

/* Values that are not set yet, and values that run takes as inputs. */
static void run_with_parameters(const world* world, const minuet_tensor* in, const minuet_tensor* result) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_tensor both[] = {*in, {world->features, VOLUME * IN, 0, OUT, MINUET_F32}};
  minuet_tensor given, base = both[1];
  minuet_parameters* parameters = NULL;
  minuet_execution *own = NULL, *taking = NULL;
  MUST(minuet_parameters_create(world->convolution, world->device, NULL, &parameters));
  options.parameters = parameters;
  MUST(minuet_execution_create(world->convolution, world->device, &options, &own));
  options.parameters = NULL;
  options.parameter_inputs = 1;
  MUST(minuet_execution_create(world->convolution, world->device, &options, &taking));
  MUST(minuet_execution_prepare_maps(own, &world->map, 1, NULL));
  MUST(minuet_execution_prepare_maps(taking, &world->map, 1, NULL));
  REFUSED(FAILED_PRECONDITION, "weight", minuet_execution_run(own, in, 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "1 parameters", minuet_execution_run(taking, in, 1, result, 1, NULL));
#define REFUSED_WITH(words, change) \
  (both[1] = *WITH(change),         \
   REFUSED(INVALID_ARGUMENT, words, minuet_execution_run(taking, both, 2, result, 1, NULL)))
  REFUSED_WITH("weight", rows = VOLUME);
  REFUSED_WITH("weight", channels = IN);
  REFUSED_WITH("data", data = NULL);
  REFUSED_WITH("row stride", row_stride = 7);
  REFUSED_WITH("input 1", dtype = 4);
  REFUSED_WITH("output 0 and input 1 overlap", data = world->poisoned);
#undef REFUSED_WITH
  both[1] = base;
  ACCEPTED(minuet_execution_run(taking, both, 2, result, 1, NULL));
  MUST(minuet_device_synchronize(world->device, NULL));
  poison_device(world);
  minuet_execution_destroy(taking);
  minuet_execution_destroy(own);
  minuet_parameters_destroy(parameters);
}

/* The same run with arrays, and winners of a pooling as its second output. */
static void run_arrays(world* world) {
  minuet_pooling_options pooling = MINUET_POOLING_OPTIONS_INIT;
  minuet_array given, base = {world->features, {ROWS, IN}, {0}, 2, MINUET_ELEMENT_F32, 0, 0};
  const minuet_array in = base;
  const minuet_array result[] = {
      {world->poisoned, {ROWS, IN}, {0}, 2, MINUET_ELEMENT_F32, 0, 0},
      {(char*)world->poisoned + 1024, {ROWS, IN}, {0}, 2, MINUET_ELEMENT_I32, 0, 0}};
  const minuet_array same[] = {result[0], result[0]};
  minuet_plan* plan = NULL;
  minuet_execution* own = NULL;
  int32_t winners[ROWS * IN];
  pooling.channels = IN;
  for (int i = 0; i < 3; ++i) pooling.kernel_size[i] = SIZE;
  pooling.submanifold = 1;
  pooling.winners = 1;
  MUST(minuet_plan_create_pooling(world->context, &pooling, &plan));
  MUST(minuet_plan_compile(plan, world->arch, NULL, NULL));
  MUST(minuet_plan_load(plan, world->device));
  MUST(minuet_execution_create(plan, world->device, NULL, &own));
  REFUSED(FAILED_PRECONDITION, "prepare_maps", minuet_execution_run_arrays(own, &in, 1, result, 2, NULL));
  MUST(minuet_execution_prepare_maps(own, &world->map, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_run_arrays(NULL, &in, 1, result, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "inputs is null", minuet_execution_run_arrays(own, NULL, 1, result, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "outputs is null", minuet_execution_run_arrays(own, &in, 1, NULL, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "input_count is -1", minuet_execution_run_arrays(own, &in, -1, result, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "output_count is -1", minuet_execution_run_arrays(own, &in, 1, result, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "2 outputs", minuet_execution_run_arrays(own, &in, 1, result, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "output 1", minuet_execution_run_arrays(own, &in, 1, same, 2, NULL));
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_execution_run_arrays(own, WITH(change), 1, result, 2, NULL))
  REFUSED_WITH("input 0", data = NULL);
  REFUSED_WITH("input 0", shape[0] = ROWS + 1);
  REFUSED_WITH("input 0", stride[0] = IN);
  REFUSED_WITH("input 0", rank = 1);
  REFUSED_WITH("input 0", element = MINUET_ELEMENT_F16);
  REFUSED_WITH("input 0", on_host = 2);
  REFUSED_WITH("input 0", has_strides = 1);
  REFUSED_WITH("overlap", data = world->poisoned);
#undef REFUSED_WITH
  ACCEPTED(minuet_execution_run_arrays(own, &in, 1, result, 2, NULL));
  read_device(world, winners, (char*)world->poisoned + 1024, sizeof(winners));
  for (int i = 0; i < ROWS * IN; ++i) EXPECT(winners[i] >= 0 && winners[i] < ROWS);
  poison_device(world);
  minuet_execution_destroy(own);
  minuet_plan_destroy(plan);
}

void call_run(world* world) {
  const minuet_tensor in = {world->features, ROWS, 0, IN, MINUET_F32};
  const minuet_tensor result = {world->poisoned, ROWS, 0, OUT, MINUET_F32};
  float answer[ROWS * OUT];
  minuet_execution* own = NULL;
  MUST(minuet_execution_create(world->convolution, world->device, NULL, &own));
  REFUSED(FAILED_PRECONDITION, "prepare_maps", minuet_execution_run(own, &in, 1, &result, 1, NULL));
  MUST(minuet_execution_prepare_maps(own, &world->map, 1, NULL));
  run_arrays(world);
  run_wrong_calls(own, &in, &result);
  run_wrong_inputs(own, &in, &result);
  run_wrong_outputs(own, &in, &result);
  ACCEPTED(minuet_execution_run(own, &in, 1, &result, 1, NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  for (int i = 0; i < ROWS * OUT; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
  run_overlapping(world, &in, &result);
  run_with_parameters(world, &in, &result);
  /* A failed prepare leaves nothing prepared. */
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_execution_prepare_maps(own, &world->map, -1, NULL));
  REFUSED(FAILED_PRECONDITION, "prepare_maps", minuet_execution_run(own, &in, 1, &result, 1, NULL));
  minuet_execution_destroy(own);
}

/* The memory of the execution is the caller's, and begins at world->workspace. */
static void prepare_on_device(const world* world, minuet_execution* own) {
  const int32_t* const rows4 = world->coordinates;
  const int32_t* const odd = (const int32_t*)((const char*)rows4 + 1);
  const int32_t* const inside = (const int32_t*)world->workspace;
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_prepare_on_device(NULL, rows4, world->count, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null",
          minuet_execution_prepare_on_device(own, NULL, world->count, NULL));
  REFUSED(INVALID_ARGUMENT, "count is null", minuet_execution_prepare_on_device(own, rows4, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "the coordinates",
          minuet_execution_prepare_on_device(own, odd, world->count, NULL));
  REFUSED(INVALID_ARGUMENT, "the count", minuet_execution_prepare_on_device(own, rows4, odd, NULL));
  REFUSED(INVALID_ARGUMENT, "workspace", minuet_execution_prepare_on_device(own, inside, world->count, NULL));
  REFUSED(INVALID_ARGUMENT, "count", minuet_execution_prepare_on_device(own, rows4, inside, NULL));
  REFUSED(OUT_OF_RANGE, "level_capacity[0]", minuet_execution_prepare(own, rows4, 257, NULL));
  REFUSED(INVALID_ARGUMENT, "workspace", minuet_execution_prepare(own, inside, ROWS, NULL));
  ACCEPTED(minuet_execution_prepare_on_device(own, rows4, world->count, NULL));
}

static void query_cloud(minuet_execution* own, minuet_execution* exact) {
  void* const one_place = &out.status_word;
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_query_cloud(NULL, &out.status_word, &out.count_words));
  REFUSED(INVALID_ARGUMENT, "status is null", minuet_execution_query_cloud(own, NULL, &out.count_words));
  REFUSED(INVALID_ARGUMENT, "counts is null", minuet_execution_query_cloud(own, &out.status_word, NULL));
  REFUSED(INVALID_ARGUMENT, "status and counts overlap",
          minuet_execution_query_cloud(own, &out.status_word, one_place));
  REFUSED(FAILED_PRECONDITION, "level_capacity",
          minuet_execution_query_cloud(exact, &out.status_word, &out.count_words));
  ACCEPTED(minuet_execution_query_cloud(own, &out.status_word, &out.count_words));
  EXPECT(out.status_word != NULL && out.count_words != NULL);
}

static void copy_cloud(const world* world, minuet_execution* own, minuet_execution* exact) {
  uint32_t* const word = world->poisoned;
  int32_t* const counts = (int32_t*)world->poisoned + 4;
  uint32_t* const odd = (uint32_t*)((char*)world->poisoned + 2);
  uint32_t* const inside = (uint32_t*)world->workspace;
  int32_t answer[2];
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_copy_cloud(NULL, word, counts, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "status is null", minuet_execution_copy_cloud(own, NULL, counts, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 2", minuet_execution_copy_cloud(own, word, NULL, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 0", minuet_execution_copy_cloud(own, word, counts, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 1", minuet_execution_copy_cloud(own, word, counts, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 3", minuet_execution_copy_cloud(own, word, counts, 3, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_execution_copy_cloud(own, word, counts, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "the status", minuet_execution_copy_cloud(own, odd, counts, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "the counts", minuet_execution_copy_cloud(own, word, (int32_t*)odd, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "status and counts overlap",
          minuet_execution_copy_cloud(own, word, (int32_t*)word, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "status", minuet_execution_copy_cloud(own, inside, counts, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "counts", minuet_execution_copy_cloud(own, word, (int32_t*)inside, 2, NULL));
  REFUSED(FAILED_PRECONDITION, "level_capacity", minuet_execution_copy_cloud(exact, word, counts, 2, NULL));
  ACCEPTED(minuet_execution_copy_cloud(own, word, NULL, 0, NULL));
  ACCEPTED(minuet_execution_copy_cloud(own, word, counts, 2, NULL));
  read_device(world, answer, counts, sizeof(answer));
  EXPECT(answer[0] == ROWS && answer[1] == ROWS);
  poison_device(world);
}

static void read_cloud(minuet_execution* own, minuet_execution* exact) {
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_read_cloud(NULL, &out.word, out.small, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "status is null", minuet_execution_read_cloud(own, NULL, out.small, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 2", minuet_execution_read_cloud(own, &out.word, NULL, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 0", minuet_execution_read_cloud(own, &out.word, out.small, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 3", minuet_execution_read_cloud(own, &out.word, out.small, 3, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -2", minuet_execution_read_cloud(own, &out.word, out.small, -2, NULL));
  REFUSED(INVALID_ARGUMENT, "status and counts overlap",
          minuet_execution_read_cloud(own, (uint32_t*)(void*)out.small, out.small, 2, NULL));
  REFUSED(FAILED_PRECONDITION, "level_capacity",
          minuet_execution_read_cloud(exact, &out.word, out.small, 2, NULL));
  ACCEPTED(minuet_execution_read_cloud(own, &out.word, NULL, 0, NULL));
  ACCEPTED(minuet_execution_read_cloud(own, &out.word, out.small, 2, NULL));
  EXPECT(out.word == 0 && out.small[0] == ROWS && out.small[1] == ROWS);
}

static void suggest_capacities(minuet_execution* own, minuet_execution* exact) {
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_suggest_capacities(NULL, 1, out.numbers, 1));
  REFUSED(INVALID_ARGUMENT, "level_capacity is null", minuet_execution_suggest_capacities(exact, 1, NULL, 1));
  REFUSED(INVALID_ARGUMENT, "level_count is 0",
          minuet_execution_suggest_capacities(exact, 1, out.numbers, 0));
  REFUSED(INVALID_ARGUMENT, "level_count is -1",
          minuet_execution_suggest_capacities(exact, 1, out.numbers, -1));
  REFUSED(INVALID_ARGUMENT, "level_count is 2",
          minuet_execution_suggest_capacities(exact, 1, out.numbers, 2));
  REFUSED(INVALID_ARGUMENT, "factor is 0.5", minuet_execution_suggest_capacities(exact, 0.5, out.numbers, 1));
  REFUSED(INVALID_ARGUMENT, "factor is nan", minuet_execution_suggest_capacities(exact, NAN, out.numbers, 1));
  REFUSED(INVALID_ARGUMENT, "factor", minuet_execution_suggest_capacities(exact, INFINITY, out.numbers, 1));
  REFUSED(FAILED_PRECONDITION, "level_capacity", minuet_execution_suggest_capacities(own, 1, out.numbers, 1));
  ACCEPTED(minuet_execution_suggest_capacities(exact, 1.5, out.numbers, 1));
  EXPECT(out.numbers[0] == 256);
}

/* `own` gets its workspace here, before which it answers no call that needs one. */
static void set_workspace(const world* world, minuet_execution* own) {
  char* const memory = world->workspace;
  const int64_t bytes = world->workspace_bytes;
  REFUSED(FAILED_PRECONDITION, "workspace",
          minuet_execution_query_cloud(own, &out.status_word, &out.count_words));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_copy_cloud(own, world->poisoned, NULL, 0, NULL));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_read_cloud(own, &out.word, NULL, 0, NULL));
  REFUSED(FAILED_PRECONDITION, "workspace",
          minuet_execution_prepare_on_device(own, world->coordinates, world->count, NULL));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_set_workspace(NULL, memory, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "workspace is null", minuet_execution_set_workspace(own, NULL, bytes, NULL));
  REFUSED(INVALID_ARGUMENT, "bytes is 0", minuet_execution_set_workspace(own, memory, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "bytes is -1", minuet_execution_set_workspace(own, memory, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "multiple of 256",
          minuet_execution_set_workspace(own, memory + 128, bytes, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "256 bytes", minuet_execution_set_workspace(own, memory, 256, NULL));
  ACCEPTED(minuet_execution_set_workspace(own, memory, bytes, NULL));
}

void call_capacity(world* world) {
  minuet_execution_options options = capacity_options();
  minuet_execution *own = NULL, *exact = NULL;
  options.defer_workspace = 1;
  MUST(minuet_execution_create(world->network, world->device, &options, &own));
  MUST(minuet_execution_create(world->network, world->device, NULL, &exact));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_suggest_capacities(exact, 1, out.numbers, 1));
  set_workspace(world, own);
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_copy_cloud(own, world->poisoned, NULL, 0, NULL));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_read_cloud(own, &out.word, NULL, 0, NULL));
  prepare_on_device(world, own);
  MUST(minuet_execution_prepare(exact, world->coordinates, ROWS, NULL));
  query_cloud(own, exact);
  copy_cloud(world, own, exact);
  read_cloud(own, exact);
  suggest_capacities(own, exact);
  minuet_execution_destroy(exact);
  minuet_execution_destroy(own);
}
