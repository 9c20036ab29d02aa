/* Runs the artifact of backend.cc, and knows minuet.h, pyramid.h and the artifact alone. It takes all memory
 * from an allocator of its own, works on a stream of its own, and on a GPU captures the whole network in one
 * graph, which it replays for other clouds. Nothing is compiled here: kernels come from the artifact.
 *
 *   runtime FILE DEVICE     for example: runtime toy.artifact cpu, or: runtime toy.artifact cuda:0 */
#include <dlfcn.h>
#include <math.h>
#include <minuet/pyramid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artifact.h"

static void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void check(minuet_status status) {
  if (status == MINUET_OK) return;
  char message[4096];
  minuet_last_error(message, sizeof(message));
  fail(message);
}

/* ---- the host's GPU code: the driver by dlopen, so that this program builds without CUDA ------------------
 */

typedef struct host {
  int is_gpu;
  void* driver;
  void *context, *stream, *graph, *executable;
  int64_t blocks, bytes; /* that the allocator has given and not got back */
} host;

/* Calls the function of the driver, which takes parameters of these types. */
#define DRIVER(own, name, types, arguments)                                   \
  do {                                                                        \
    int(*function) types = NULL;                                              \
    void* found = dlsym((own)->driver, name);                                 \
    memcpy(&function, &found, sizeof(found));                                 \
    if (!found || function arguments != 0) fail("the driver fails in " name); \
  } while (0)

static void open_host(host* own, const char* device) {
  int number = 0;
  own->is_gpu = strncmp(device, "cuda", 4) == 0;
  if (!own->is_gpu) return;
  own->driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!own->driver) fail("there is no CUDA driver");
  DRIVER(own, "cuInit", (unsigned), (0));
  DRIVER(own, "cuDeviceGet", (int*, int), (&number, device[4] == ':' ? atoi(device + 5) : 0));
  DRIVER(own, "cuDevicePrimaryCtxRetain", (void**, int), (&own->context, number));
  DRIVER(own, "cuCtxPushCurrent_v2", (void*), (own->context));
  DRIVER(own, "cuStreamCreate", (void**, unsigned), (&own->stream, 1 /* with no other stream ordered */));
}

/* Memory that begins on a multiple of 256, or null. */
static void* allocate(int64_t bytes, void* stream, void* user) {
  host* const own = user;
  void* memory = NULL;
  (void)stream; /* this allocator's memory is ready for every stream */
  if (own->is_gpu) {
    int (*function)(void**, size_t) = NULL;
    void* found = dlsym(own->driver, "cuMemAlloc_v2");
    memcpy(&function, &found, sizeof(found));
    if (function(&memory, (size_t)bytes) != 0) return NULL;
  } else {
    memory = aligned_alloc(256, ((size_t)bytes + 255) / 256 * 256);
  }
  if (memory) ++own->blocks, own->bytes += bytes;
  return memory;
}

static void release(void* memory, int64_t bytes, void* stream, void* user) {
  host* const own = user;
  if (own->is_gpu) {
    /* Work that uses the block may be under way on `stream`. A pool would reuse it in the stream's order. */
    DRIVER(own, "cuStreamSynchronize", (void*), (stream));
    DRIVER(own, "cuMemFree_v2", (void*), (memory));
  } else {
    free(memory);
  }
  --own->blocks, own->bytes -= bytes;
}

static void wait_for(host* own) {
  if (own->is_gpu) DRIVER(own, "cuStreamSynchronize", (void*), (own->stream));
}

/* ---- the artifact -----------------------------------------------------------------------------------------
 */

typedef struct artifact {
  char* bytes;
  size_t size;
  const toy_header* header;
  const minuet_pyramid_level* levels;
  const minuet_pyramid_map* maps;
  const toy_tensor* tensors;
  const toy_call* calls;
  const toy_sample* samples;
} artifact;

static artifact read_artifact(const char* path) {
  artifact read = {0};
  FILE* const file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) fail("cannot read the artifact");
  read.size = (size_t)ftell(file);
  read.bytes = malloc(read.size);
  rewind(file);
  if (!read.bytes || fread(read.bytes, 1, read.size, file) != read.size) fail("cannot read the artifact");
  fclose(file);
  read.header = (const toy_header*)(void*)read.bytes;
  if (read.size < sizeof(toy_header) ||
      memcmp(read.header->magic, TOY_MAGIC, sizeof(read.header->magic)) != 0)
    fail("this file is no artifact of the backend");
  read.levels = (const minuet_pyramid_level*)(const void*)(read.header + 1);
  /* These structs may have another size in the header that the backend was built with. */
  const char* next = (const char*)read.levels + read.header->levels * read.header->level_bytes;
  read.maps = (const minuet_pyramid_map*)(const void*)next;
  next += read.header->maps * read.header->map_bytes;
  read.tensors = (const toy_tensor*)(const void*)next;
  read.calls = (const toy_call*)(const void*)(read.tensors + read.header->tensors);
  read.samples = (const toy_sample*)(const void*)(read.calls + read.header->calls);
  return read;
}

/* ---- the program: plans, the pyramid, and one block of memory for all that a run touches ------------------
 */

typedef struct program {
  artifact file;
  minuet_device* device;
  minuet_pyramid* pyramid;
  minuet_plan** plans;
  void* memory;
  int64_t bytes;
  /* These point into `memory`. */
  void *buffer, *workspace;
  void** tensors;
  int32_t *coordinates, *count, *counts, *places;
  uint32_t* status;
  int64_t buffer_bytes, workspace_bytes;
} program;

static int64_t capacity_of(const program* own, int32_t tensor) {
  return own->file.levels[own->file.tensors[tensor].level].capacity;
}
static int64_t tensor_bytes(const program* own, int32_t tensor) {
  return capacity_of(own, tensor) * own->file.tensors[tensor].channels * (int64_t)sizeof(float);
}
static minuet_array array_of(const program* own, int32_t tensor) {
  minuet_array array = {0};
  array.data = own->tensors[tensor];
  array.rank = 2;
  array.shape[0] = capacity_of(own, tensor);
  array.shape[1] = own->file.tensors[tensor].channels;
  array.element = MINUET_ELEMENT_F32;
  return array;
}

/* Fills in what a run of the call takes, except the tensors. */
static minuet_run_arguments arguments_of(const program* own, const toy_call* call) {
  minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
  arguments.pyramid = own->pyramid;
  arguments.map = call->map;
  arguments.set_order = call->set_order;
  arguments.buffer = own->buffer;
  arguments.buffer_bytes = own->buffer_bytes;
  arguments.workspace = own->workspace;
  arguments.workspace_bytes = own->workspace_bytes;
  return arguments;
}

/* Makes the plans and the pyramid, and loads their kernels. The only part that may take long. */
static void load(program* own, minuet_context* context, const char* arch) {
  const toy_header* const header = own->file.header;
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = own->file.levels;
  options.level_count = header->levels;
  options.maps = own->file.maps;
  options.map_count = header->maps;
  options.level_bytes = (size_t)header->level_bytes;
  options.map_bytes = (size_t)header->map_bytes;
  options.keep_coordinates = 1u << own->file.tensors[header->output].level;
  check(minuet_pyramid_create(context, &options, &own->pyramid));
  own->plans = calloc((size_t)header->calls, sizeof(own->plans[0]));
  for (int32_t i = 0; i < header->calls; ++i) {
    const toy_call* const call = &own->file.calls[i];
    const size_t size = (size_t)call->plan_bytes;
    check(minuet_plan_deserialize(context, own->file.bytes + call->plan_offset, size, &own->plans[i]));
    check(minuet_plan_compile(own->plans[i], arch, NULL, NULL)); /* finds the kernels in the artifact */
    check(minuet_plan_load(own->plans[i], own->device));
  }
  check(minuet_pyramid_load(own->pyramid, own->device));
}

/* Takes `bytes` bytes from the block that begins at `base`, or only counts them where it is null. */
static void* take(char* base, int64_t* used, int64_t bytes) {
  void* const at = base ? base + *used : NULL;
  *used += (bytes + 255) / 256 * 256;
  return at;
}

/* Places everything in the block, and returns the bytes that it needs. A real compiler would let tensors
 * share memory that are not alive together. */
static int64_t place(program* own, char* base) {
  const toy_header* const header = own->file.header;
  const int64_t rows = own->file.levels[0].capacity;
  int64_t used = 0;
  own->buffer = take(base, &used, own->buffer_bytes);
  own->workspace = take(base, &used, own->workspace_bytes);
  for (int32_t i = 0; i < header->tensors; ++i) own->tensors[i] = take(base, &used, tensor_bytes(own, i));
  own->coordinates = take(base, &used, rows * 4 * (int64_t)sizeof(int32_t));
  own->places = take(base, &used, capacity_of(own, header->output) * 4 * (int64_t)sizeof(int32_t));
  own->count = take(base, &used, sizeof(int32_t));
  own->status = take(base, &used, sizeof(uint32_t));
  own->counts = take(base, &used, (1 + header->levels) * (int64_t)sizeof(int32_t));
  return used;
}

static void allocate_memory(program* own, host* host, const char* arch) {
  const toy_header* const header = own->file.header;
  check(minuet_pyramid_bytes(own->pyramid, arch, &own->buffer_bytes, &own->workspace_bytes));
  for (int32_t i = 0; i < header->calls; ++i) {
    const minuet_run_arguments arguments = arguments_of(own, &own->file.calls[i]);
    int64_t bytes = 0;
    check(minuet_plan_run_bytes(own->plans[i], arch, &arguments, &bytes));
    if (bytes > own->workspace_bytes) own->workspace_bytes = bytes; /* they run one after another */
  }
  own->tensors = calloc((size_t)header->tensors, sizeof(own->tensors[0]));
  own->bytes = place(own, NULL);
  own->memory = allocate(own->bytes, host->stream, host);
  if (!own->memory) fail("there is no memory");
  place(own, own->memory);
}

/* The whole network: sets and kernel maps from the coordinates, then one run after another. Only enqueues. */
static void enqueue(const program* own, void* stream) {
  const toy_header* const header = own->file.header;
  minuet_pyramid_arguments build = MINUET_PYRAMID_ARGUMENTS_INIT;
  build.buffer = own->buffer;
  build.buffer_bytes = own->buffer_bytes;
  build.workspace = own->workspace;
  build.workspace_bytes = own->workspace_bytes;
  build.coordinates = own->coordinates;
  build.most = own->file.levels[0].capacity;
  build.count = own->count;
  build.status = own->status;
  build.counts = own->counts;
  check(minuet_pyramid_build(own->pyramid, own->device, &build, stream));
  for (int32_t i = 0; i < header->calls; ++i) {
    const toy_call* const call = &own->file.calls[i];
    minuet_run_arguments arguments = arguments_of(own, call);
    minuet_array inputs[TOY_MOST_INPUTS];
    const minuet_array output = array_of(own, call->output);
    for (int32_t j = 0; j < call->input_count; ++j) inputs[j] = array_of(own, call->inputs[j]);
    arguments.inputs = inputs;
    arguments.input_count = call->input_count;
    arguments.outputs = &output;
    arguments.output_count = 1;
    check(minuet_plan_run(own->plans[i], own->device, &arguments, stream));
  }
  check(minuet_pyramid_coordinates(own->pyramid, own->device, own->buffer, own->buffer_bytes,
                                   own->file.tensors[header->output].level, own->places, stream));
}

static void capture(const program* own, host* host) {
  DRIVER(host, "cuStreamBeginCapture_v2", (void*, int), (host->stream, 1 /* of this thread alone */));
  enqueue(own, host->stream);
  DRIVER(host, "cuStreamEndCapture", (void*, void**), (host->stream, &host->graph));
  DRIVER(host, "cuGraphInstantiateWithFlags", (void**, void*, unsigned long long),
         (&host->executable, host->graph, 0));
}

/* ---- one cloud through it, and what must come out ---------------------------------------------------------
 */

static void copy_in(const program* own, void* target, const void* source, int64_t bytes) {
  check(minuet_device_copy(own->device, target, source, bytes, 0));
}
static void copy_out(const program* own, void* target, const void* source, int64_t bytes) {
  check(minuet_device_copy(own->device, target, source, bytes, 1));
}

/* The greatest difference from the backend's interpreter. Rows of a level are in an order of the library's,
 * so that they are found by their places. */
static double compare(const program* own, const toy_sample* sample) {
  const int32_t output = own->file.header->output, channels = own->file.tensors[output].channels;
  const int32_t* const wanted = (const int32_t*)(void*)(own->file.bytes + sample->places);
  const float* const results = (const float*)(void*)(own->file.bytes + sample->results);
  const int64_t rows = capacity_of(own, output);
  int32_t counts[17] = {0};
  uint32_t status = 1;
  double greatest = 0;
  copy_out(own, &status, own->status, sizeof(status));
  copy_out(own, counts, own->counts, (1 + own->file.header->levels) * (int64_t)sizeof(int32_t));
  if (status != 0) fail("the cloud does not fit");
  if (counts[1 + own->file.tensors[output].level] != sample->output_rows)
    fail("the output has another number of rows");
  int32_t* const places = malloc((size_t)rows * 4 * sizeof(int32_t));
  float* const values = malloc((size_t)tensor_bytes(own, output));
  copy_out(own, places, own->places, rows * 4 * (int64_t)sizeof(int32_t));
  copy_out(own, values, own->tensors[output], tensor_bytes(own, output));
  for (int32_t row = 0; row < sample->output_rows; ++row) {
    int32_t found = 0;
    while (found < sample->output_rows &&
           memcmp(places + 4 * found, wanted + 4 * row, 4 * sizeof(int32_t)) != 0)
      ++found;
    if (found == sample->output_rows) fail("a row of the output is missing");
    for (int32_t c = 0; c < channels; ++c) {
      const double difference = fabs((double)values[found * channels + c] - results[row * channels + c]);
      if (!(difference <= greatest)) greatest = difference;
    }
  }
  free(values);
  free(places);
  return greatest;
}

static void run_sample(const program* own, host* host, const toy_sample* sample) {
  const int32_t channels = own->file.tensors[own->file.header->input].channels;
  copy_in(own, own->coordinates, own->file.bytes + sample->coordinates,
          sample->rows * 4 * (int64_t)sizeof(int32_t));
  copy_in(own, own->tensors[own->file.header->input], own->file.bytes + sample->features,
          (int64_t)sample->rows * channels * (int64_t)sizeof(float));
  copy_in(own, own->count, &sample->rows, sizeof(sample->rows));
  if (host->is_gpu) {
    DRIVER(host, "cuGraphLaunch", (void*, void*), (host->executable, host->stream));
  } else {
    enqueue(own, NULL);
  }
  wait_for(host);
  const double greatest = compare(own, sample);
  printf("%d voxels in, %d out, off by at most %g\n", sample->rows, sample->output_rows, greatest);
  if (!(greatest <= 1e-4)) fail("the results are not those of the backend's interpreter");
}

int main(int argument_count, char** arguments) {
  if (argument_count != 3) fail("usage: runtime FILE DEVICE");
  host host = {0};
  program own = {0};
  minuet_context* context = NULL;
  own.file = read_artifact(arguments[1]);
  open_host(&host, arguments[2]);

  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.jit = MINUET_JIT_OFF; /* what is missing in the artifact is an error, and is not compiled here */
  options.disable_disk_cache = 1;
  options.bundle_path = "";
  check(minuet_context_create(&options, &context));
  minuet_device_options memory = MINUET_DEVICE_OPTIONS_INIT;
  memory.allocate = allocate;
  memory.free = release;
  memory.user = &host;
  check(minuet_device_open(context, arguments[2], &memory, &own.device));
  minuet_device_info info = {0};
  info.struct_size = sizeof(info);
  check(minuet_device_query(own.device, &info));

  load(&own, context, info.arch);
  allocate_memory(&own, &host, info.arch);
  printf("%s: %d calls, %lld bytes for a run\n", info.name, own.file.header->calls, (long long)own.bytes);
  if (host.is_gpu) capture(&own, &host);
  for (int32_t i = 0; i < own.file.header->samples; ++i) run_sample(&own, &host, &own.file.samples[i]);

  if (host.is_gpu) {
    DRIVER(&host, "cuGraphExecDestroy", (void*), (host.executable));
    DRIVER(&host, "cuGraphDestroy", (void*), (host.graph));
  }
  release(own.memory, own.bytes, host.stream, &host);
  for (int32_t i = 0; i < own.file.header->calls; ++i) minuet_plan_destroy(own.plans[i]);
  minuet_pyramid_destroy(own.pyramid);
  minuet_device_destroy(own.device);
  minuet_context_destroy(context);
  if (host.blocks != 0 || host.bytes != 0) fail("the allocator has not got everything back");
  if (host.is_gpu) DRIVER(&host, "cuStreamDestroy_v2", (void*), (host.stream));
  free(own.tensors);
  free(own.plans);
  free(own.file.bytes);
  return 0;
}
