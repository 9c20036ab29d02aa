/* A program for a released version of the headers, linked to today's library. It uses most of the ABI, and
 * checks results that can be counted by hand. Memory behind each struct that the library fills in must stay
 * as it was.
 *
 * usage: old_caller DEVICE runs on the device; old_caller ahead compiles kernels for a GPU that need not be
 * here. The exit code is 77 if the device cannot be opened, or if there is no NVRTC. */
#include <minuet/diagnostics.h>
#include <minuet/kernels.h>
#include <minuet/minuet.h>
#include <minuet/parameters.h>
#include <minuet/pointwise.h>
#include <minuet/precompile.h>
#include <minuet/pyramid.h>
#include <minuet/tuning.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, ROOM = 8, OFFSETS = 27, CANARIES = 64, CANARY = 0xa5 };

/* Three neighbours, and one voxel alone. */
static const int32_t cloud[ROWS * 4] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 9, 9, 9};
static const float neighbours[ROWS] = {3, 3, 3, 1}; /* of each voxel, with itself */
static const float ones[OFFSETS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const char* const description =
    "{\"name\": \"box\", \"ndim\": 3, \"in_channels\": 1, \"channels\": [1], \"layers\": [{\"op\": "
    "\"block\", "
    "\"name\": \"a\", \"width\": 0, \"kernel_size\": 3, \"norm\": \"none\", \"activation\": \"none\"}]}";

static minuet_context* context;
static minuet_device* device;
static char arch[32];
static int32_t* coordinates; /* ROOM rows in memory of the device */
static float* features;      /* ROOM ones */
static float* output;        /* ROOM */
static float results[ROOM];

#define MUST(call) must((call), #call, __LINE__)
static void must(minuet_status status, const char* call, int line) {
  char message[1024] = "";
  if (status == MINUET_OK) return;
  minuet_last_error(message, sizeof(message));
  fprintf(stderr, "line %d: %s: %s\n", line, call, message);
  exit(1);
}

#define EXPECT(condition)                                   \
  do {                                                      \
    if (condition) break;                                   \
    fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
    exit(1);                                                \
  } while (0)

/* Declares a struct that a call fills in, between bytes that it must not touch. */
#define GUARDED(type, name)            \
  struct {                             \
    type info;                         \
    unsigned char canaries[CANARIES];  \
  } name;                              \
  memset(&name, CANARY, sizeof(name)); \
  memset(&name.info, 0, sizeof(type)); \
  name.info.struct_size = sizeof(type)
#define EXPECT_GUARDED(type, name)                                                         \
  do {                                                                                     \
    EXPECT(name.info.struct_size == sizeof(type));                                         \
    for (int place = 0; place < CANARIES; ++place) EXPECT(name.canaries[place] == CANARY); \
  } while (0)
#define QUERY(type, name, call) \
  GUARDED(type, name);          \
  MUST(call);                   \
  EXPECT_GUARDED(type, name)

static void* device_memory(const void* source, int64_t bytes) {
  void* memory = NULL;
  MUST(minuet_device_allocate(device, bytes, &memory));
  if (source) MUST(minuet_device_copy(device, memory, source, bytes, 0));
  return memory;
}

static void poison_output(void) {
  memset(results, 0x7f, sizeof(results));
  MUST(minuet_device_copy(device, output, results, sizeof(results), 0));
}

/* Waits, and expects the neighbours of each voxel and zeros in the rows behind them. */
static void expect_neighbours(int64_t rows) {
  MUST(minuet_device_synchronize(device, NULL));
  MUST(minuet_device_copy(device, results, output, rows * (int64_t)sizeof(float), 1));
  for (int64_t row = 0; row < rows; ++row) EXPECT(results[row] == (row < ROWS ? neighbours[row] : 0));
}

static minuet_tensor tensor(float* data, int64_t rows) {
  minuet_tensor made = {.data = data, .rows = rows, .channels = 1, .dtype = MINUET_F32};
  return made;
}

static minuet_array array(void* data, int64_t rows) {
  minuet_array made = {.data = data, .shape = {rows, 1}, .rank = 2, .element = MINUET_ELEMENT_F32};
  return made;
}

static void compile_and_load(minuet_plan* plan) {
  MUST(minuet_plan_compile(plan, arch, NULL, NULL));
  MUST(minuet_plan_load(plan, device));
}

static minuet_plan* box(void) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  minuet_plan* plan = NULL;
  options.in_channels = options.out_channels = 1;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = 3;
  options.submanifold = 1;
  options.weight = ones;
  options.weight_count = OFFSETS;
  options.dataflow = MINUET_DATAFLOW_FUSED;
  MUST(minuet_plan_create_convolution(context, &options, &plan));
  compile_and_load(plan);
  return plan;
}

static minuet_plan* sums(void) {
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  minuet_plan* plan = NULL;
  options.channels = 1;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = options.stride[axis] = 2;
  options.reduction = MINUET_REDUCE_SUM;
  MUST(minuet_plan_create_pooling(context, &options, &plan));
  return plan;
}

/* One convolution and one pooling on sets and maps, with a queue. */
static void single_ops(void) {
  static const int32_t two[MINUET_MAX_DIM] = {2, 2, 2, 1};
  minuet_queue* queue = NULL;
  minuet_coordinates *fine = NULL, *coarse = NULL;
  minuet_kernel_map *within = NULL, *down = NULL;
  minuet_execution *convolution = NULL, *pooling = NULL;
  minuet_plan *first = box(), *second = NULL;
  MUST(minuet_queue_create(device, NULL, &queue));
  minuet_coordinates_options set_options = MINUET_COORDINATES_OPTIONS_INIT;
  set_options.queue = queue;
  MUST(minuet_coordinates_create(device, &set_options, coordinates, ROWS, NULL, &fine));
  MUST(minuet_coordinates_downsample(fine, two, NULL, &coarse));
  EXPECT(minuet_coordinates_count(fine) == ROWS && minuet_coordinates_count(coarse) == 2);
  minuet_kernel_map_options map_options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  for (int axis = 0; axis < 3; ++axis) map_options.kernel_size[axis] = 3;
  MUST(minuet_kernel_map_create(fine, fine, &map_options, NULL, &within));
  int64_t pairs = 0;
  MUST(minuet_kernel_map_query_pairs(within, &pairs));
  EXPECT(pairs == 10 && minuet_kernel_map_volume(within) == OFFSETS);
  for (int axis = 0; axis < 3; ++axis) map_options.kernel_size[axis] = 2;
  MUST(minuet_kernel_map_create(fine, coarse, &map_options, NULL, &down));

  second = sums();
  compile_and_load(second);

  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue;
  MUST(minuet_execution_create(first, device, &options, &convolution));
  MUST(minuet_execution_create(second, device, &options, &pooling));
  MUST(minuet_execution_prepare_maps(convolution, &within, 1, NULL));
  MUST(minuet_execution_prepare_maps(pooling, &down, 1, NULL));
  minuet_tensor input = tensor(features, ROWS), between = tensor(output, ROWS);
  poison_output();
  MUST(minuet_execution_run(convolution, &input, 1, &between, 1, NULL));
  expect_neighbours(ROWS);
  QUERY(minuet_execution_info, info, minuet_execution_query(convolution, &info.info));
  EXPECT(info.info.has_capacities == 0);
  QUERY(minuet_execution_counters, counters, minuet_execution_query_counters(convolution, &counters.info));
  QUERY(minuet_layer_info, layer, minuet_execution_query_layer(convolution, 0, &layer.info));
  EXPECT(layer.info.pairs == 10 && layer.info.in_channels == 1);

  float* const sums = device_memory(NULL, ROOM * sizeof(float));
  minuet_tensor pooled = tensor(sums, 2);
  MUST(minuet_execution_run(pooling, &between, 1, &pooled, 1, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  MUST(minuet_device_copy(device, results, sums, 2 * sizeof(float), 1));
  EXPECT(results[0] + results[1] == 10 && (results[0] == 9 || results[0] == 1));
  MUST(minuet_device_free(device, sums));
  minuet_execution_destroy(pooling);
  minuet_execution_destroy(convolution);
  minuet_kernel_map_destroy(down);
  minuet_kernel_map_destroy(within);
  minuet_coordinates_destroy(coarse);
  minuet_coordinates_destroy(fine);
  minuet_plan_destroy(second);
  minuet_plan_destroy(first);
  minuet_queue_destroy(queue);
}

static void query_network(minuet_plan* plan) {
  QUERY(minuet_plan_info, info, minuet_plan_query(plan, &info.info));
  EXPECT(strcmp(info.info.name, "box") == 0 && info.info.in_channels == 1 && info.info.out_channels == 1);
  EXPECT(info.info.levels == 1 && info.info.inputs == 1 && info.info.outputs == 1);
  QUERY(minuet_tensor_info, input, minuet_plan_query_input(plan, 0, &input.info));
  EXPECT(input.info.channels == 1 && input.info.element == MINUET_ELEMENT_F32);
  QUERY(minuet_tensor_info, given, minuet_plan_query_output(plan, 0, &given.info));
  QUERY(minuet_parameter_info, parameter, minuet_plan_query_parameter(plan, 0, &parameter.info));
  EXPECT(parameter.info.rank == 3 && parameter.info.shape[0] == OFFSETS);
}

/* A network without values, whose parameters are given, in exact mode and with sizes on the device. */
static void run_network(minuet_plan* plan, minuet_parameters* parameters, int has_capacities) {
  static const int64_t capacity[] = {ROOM};
  minuet_execution* execution = NULL;
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameters = parameters;
  if (has_capacities) options.level_capacity = capacity, options.level_count = 1;
  MUST(minuet_execution_create(plan, device, &options, &execution));
  poison_output();
  MUST(minuet_execution_prepare(execution, coordinates, ROWS, NULL));
  const int64_t rows = has_capacities ? ROOM : ROWS;
  const minuet_array input = array(features, rows), result = array(output, rows);
  MUST(minuet_execution_run_arrays(execution, &input, 1, &result, 1, NULL));
  expect_neighbours(rows);
  if (has_capacities) {
    uint32_t status = ~0u;
    int32_t counts[2] = {0, 0};
    MUST(minuet_execution_read_cloud(execution, &status, counts, 2, NULL));
    EXPECT(status == 0 && counts[0] == ROWS && counts[1] == ROWS);
  } else {
    QUERY(minuet_level_info, level, minuet_execution_query_level(execution, 0, &level.info));
    EXPECT(level.info.voxels == ROWS && level.info.tensor_stride[0] == 1);
  }
  minuet_execution_destroy(execution);
}

static void job_done(minuet_status status, void* user) { *(minuet_status*)user = status; }

static void network(void) {
  minuet_plan *plan = NULL, *again = NULL;
  minuet_parameters* parameters = NULL;
  minuet_job* job = NULL;
  minuet_status finished = MINUET_INTERNAL;
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = description;
  options.dataflow = MINUET_DATAFLOW_FUSED;
  options.without_values = 1;
  MUST(minuet_plan_create_network(context, &options, &plan));
  query_network(plan);
  MUST(minuet_plan_compile_async(plan, arch, job_done, &finished, &job));
  MUST(minuet_job_wait(job));
  EXPECT(minuet_job_done(job) && finished == MINUET_OK);
  minuet_job_destroy(job);
  MUST(minuet_plan_load(plan, device));
  const minuet_array weight = {
      .data = (void*)(uintptr_t)ones, .shape = {OFFSETS, 1, 1}, .rank = 3, .on_host = 1};
  const int32_t index = 0;
  MUST(minuet_parameters_create(plan, device, NULL, &parameters));
  MUST(minuet_parameters_set(parameters, &index, &weight, 1, MINUET_WEIGHTS_MINUET, NULL));
  run_network(plan, parameters, 0);
  run_network(plan, parameters, 1);
  minuet_parameters_destroy(parameters);
  minuet_plan_destroy(plan);
  plan = NULL;

  /* With values from a seed, as bytes, and made again: the parameters are given all the same. */
  size_t needed = 0;
  const char* const archs[] = {arch};
  minuet_plan* whole = NULL;
  options.without_values = 0;
  MUST(minuet_plan_create_network(context, &options, &whole));
  compile_and_load(whole);
  MUST(minuet_plan_serialize(whole, archs, 1, 0, NULL, 0, &needed));
  char* const bytes = malloc(needed);
  MUST(minuet_plan_serialize(whole, archs, 1, 0, bytes, needed, &needed));
  MUST(minuet_plan_deserialize(context, bytes, needed, &again));
  free(bytes);
  QUERY(minuet_plan_info, info, minuet_plan_query(again, &info.info));
  EXPECT(info.info.parameters == OFFSETS);
  compile_and_load(again);
  MUST(minuet_parameters_create(again, device, NULL, &parameters));
  MUST(minuet_parameters_set(parameters, &index, &weight, 1, MINUET_WEIGHTS_MINUET, NULL));
  run_network(again, parameters, 0);
  minuet_parameters_destroy(parameters);
  minuet_plan_destroy(again);
  minuet_plan_destroy(whole);
}

/* The convolution again, and a ReLU that keeps its results, on a pyramid with two levels. */
static void pyramid(void) {
  minuet_plan *convolution = box(), *relu = NULL;
  minuet_pyramid* made = NULL;
  minuet_pyramid_level levels[2] = {{.capacity = ROOM, .parent = -1},
                                    {.capacity = ROOM, .stride = {2, 2, 2}}};
  minuet_pyramid_map maps[3] = {
      {.kernel_size = {3, 3, 3}, .purposes = MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_EXPORT},
      {.coarse = 1, .kernel_size = {2, 2, 2}, .purposes = MINUET_PURPOSE_EXPORT},
      {.purposes = MINUET_PURPOSE_CONVOLUTION}};
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = levels, options.level_count = 2;
  options.maps = maps, options.map_count = 3;
  MUST(minuet_pyramid_create(context, &options, &made));
  MUST(minuet_pyramid_load(made, device));
  minuet_pyramid_arguments arguments = MINUET_PYRAMID_ARGUMENTS_INIT;
  MUST(minuet_pyramid_bytes(made, arch, &arguments.buffer_bytes, &arguments.workspace_bytes));
  arguments.buffer = device_memory(NULL, arguments.buffer_bytes);
  arguments.workspace = device_memory(NULL, arguments.workspace_bytes);
  arguments.coordinates = coordinates;
  arguments.most = ROWS;
  int32_t counts[3] = {0, 0, 0}, pairs = 0;
  arguments.counts = device_memory(counts, sizeof(counts));
  int32_t* const count = device_memory(counts, sizeof(int32_t));
  MUST(minuet_pyramid_build(made, device, &arguments, NULL));
  MUST(minuet_pyramid_export_pairs(made, device, arguments.buffer, arguments.buffer_bytes, 1, NULL, 0, count,
                                   NULL));

  minuet_run_arguments run = MINUET_RUN_ARGUMENTS_INIT;
  run.pyramid = made;
  MUST(minuet_plan_run_bytes(convolution, arch, &run, &run.workspace_bytes));
  run.buffer = arguments.buffer, run.buffer_bytes = arguments.buffer_bytes;
  void* const workspace = run.workspace = device_memory(NULL, run.workspace_bytes + 256);
  const minuet_array input = array(features, ROOM), result = array(output, ROOM);
  run.inputs = &input, run.outputs = &result;
  run.input_count = run.output_count = 1;
  poison_output();
  MUST(minuet_plan_run_load(convolution, device, &run));
  MUST(minuet_plan_run(convolution, device, &run, NULL));
  expect_neighbours(ROOM);
  MUST(minuet_device_copy(device, counts, arguments.counts, sizeof(counts), 1));
  MUST(minuet_device_copy(device, &pairs, count, sizeof(pairs), 1));
  EXPECT(counts[0] == ROWS && counts[1] == ROWS && counts[2] == 2 && pairs == ROWS);

  const minuet_pointwise_step step = {.kind = MINUET_POINTWISE_RELU};
  minuet_pointwise_options chain = MINUET_POINTWISE_OPTIONS_INIT;
  chain.channels = 1;
  chain.steps = &step;
  chain.step_count = 1;
  MUST(minuet_plan_create_pointwise(context, &chain, &relu));
  compile_and_load(relu);
  float* const copy = device_memory(results, sizeof(results)); /* what the convolution gave */
  const minuet_array convolved = array(copy, ROOM);
  run.inputs = &convolved;
  run.map = 2;
  poison_output();
  int64_t relu_bytes = 0;
  MUST(minuet_plan_run_bytes(relu, arch, &run, &relu_bytes));
  void* const relu_workspace = device_memory(NULL, relu_bytes + 256);
  run.workspace = relu_workspace, run.workspace_bytes = relu_bytes;
  MUST(minuet_plan_run(relu, device, &run, NULL));
  expect_neighbours(ROOM);
  MUST(minuet_device_free(device, relu_workspace));
  MUST(minuet_device_free(device, copy));
  minuet_plan_destroy(relu);
  MUST(minuet_device_free(device, workspace));
  MUST(minuet_device_free(device, count));
  MUST(minuet_device_free(device, arguments.counts));
  MUST(minuet_device_free(device, arguments.workspace));
  MUST(minuet_device_free(device, arguments.buffer));
  minuet_pyramid_destroy(made);
  minuet_plan_destroy(convolution);
}

static void count_kernel(const minuet_kernel_code* kernel, void* user) {
  EXPECT(kernel->struct_size >= sizeof(*kernel) && kernel->image_bytes > 0);
  ++*(int*)user;
}

/* Compiles kernels ahead, and returns the exit code. */
static int ahead(void) {
  static const char* const archs[] = {"sm_90a"};
  minuet_plan* const plan = sums();
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.plans = (minuet_plan* const*)&plan;
  options.plan_count = 1;
  options.archs = archs;
  options.arch_count = 1;
  GUARDED(minuet_precompile_result, result);
  const minuet_status status = minuet_precompile(context, &options, &result.info);
  if (status == MINUET_UNAVAILABLE) {
    printf("skipped: there is no NVRTC here\n");
    return 77;
  }
  MUST(status);
  EXPECT_GUARDED(minuet_precompile_result, result);
  EXPECT(result.info.kernels > 0 && result.info.failed == 0);
  int kernels = 0;
  MUST(minuet_plan_compile(plan, archs[0], NULL, NULL));
  MUST(minuet_plan_visit_kernels(plan, archs[0], count_kernel, &kernels));
  EXPECT(kernels > 0);
  minuet_plan_destroy(plan);
  minuet_context_destroy(context);
  return 0;
}

static void whole_library(void) {
  EXPECT(minuet_version() >= 300);
  EXPECT(strcmp(minuet_status_name(MINUET_UNAVAILABLE), "UNAVAILABLE") == 0);
  QUERY(minuet_system_info, system, minuet_query_system(&system.info));
  EXPECT(system.info.llvm[0] != 0);
  QUERY(minuet_kernel_counters, counters, minuet_context_kernel_counters(context, &counters.info));
  QUERY(minuet_shipped_network_info, shipped, minuet_query_shipped_network(0, &shipped.info));
  EXPECT(shipped.info.name && shipped.info.description);
  char message[256];
  EXPECT(minuet_device_open(context, "cpus", NULL, &(minuet_device*){NULL}) == MINUET_INVALID_ARGUMENT);
  EXPECT(minuet_last_error(message, sizeof(message)) > 0 && strstr(message, "cpus"));
}

int main(int count, char** words) {
  static const float all_ones[ROOM] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (count != 2) return 2;
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.disable_disk_cache = 1;
  MUST(minuet_context_create(&options, &context));
  if (strcmp(words[1], "ahead") == 0) return ahead();
  const minuet_status opened = minuet_device_open(context, words[1], NULL, &device);
  if (opened == MINUET_UNAVAILABLE) {
    printf("skipped: there is no device %s here\n", words[1]);
    return 77;
  }
  MUST(opened);
  QUERY(minuet_device_info, info, minuet_device_query(device, &info.info));
  strcpy(arch, info.info.arch);
  coordinates = device_memory(NULL, ROOM * 4 * sizeof(int32_t));
  MUST(minuet_device_copy(device, coordinates, cloud, sizeof(cloud), 0));
  features = device_memory(all_ones, sizeof(all_ones));
  output = device_memory(NULL, sizeof(results));
  whole_library();
  single_ops();
  network();
  pyramid();
  MUST(minuet_device_free(device, coordinates));
  MUST(minuet_device_free(device, features));
  MUST(minuet_device_free(device, output));
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  printf("a program for the headers of %d.%d.%d runs on %s\n", MINUET_VERSION_MAJOR, MINUET_VERSION_MINOR,
         MINUET_VERSION_PATCH, words[1]);
  return 0;
}
