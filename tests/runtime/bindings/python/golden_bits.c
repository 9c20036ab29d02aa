/* Runs a golden problem through the C ABI, for test_golden.py: the bits must be those of C++ and Python.
 *
 * usage: minuet_golden_bits FOLDER DEVICE: reads golden_problem.h's files, and writes the file `output`. */
#include "tests/runtime/bindings/python/golden_problem.h"

#include <minuet/generate.h>
#include <minuet/minuet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static minuet_context* context;
static minuet_device* device;

static void check(minuet_status status) {
  char message[1024];
  if (status == MINUET_OK) return;
  minuet_last_error(message, sizeof(message));
  fprintf(stderr, "%s\n", message);
  exit(1);
}

/* Reads a file of the folder, or writes it. */
static void move(const char* folder, const char* name, void* memory, size_t bytes, int writes) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* file = fopen(path, writes ? "wb" : "rb");
  if (!file || (writes ? fwrite(memory, 1, bytes, file) : fread(memory, 1, bytes, file)) != bytes) {
    fprintf(stderr, "%s: %zu bytes could not be moved\n", path, bytes);
    exit(1);
  }
  fclose(file);
}

/* Returns a file's bytes in memory of the device. */
static void* load(const char* folder, const char* name, size_t bytes) {
  void* memory = NULL;
  void* const host = malloc(bytes);
  move(folder, name, host, bytes, 0);
  check(minuet_device_allocate(device, (int64_t)bytes, &memory));
  check(minuet_device_copy(device, memory, host, (int64_t)bytes, 0));
  free(host);
  return memory;
}

static minuet_coordinates* make_set(const char* folder, const char* name, const golden_problem* p,
                                    int32_t rows, const int32_t* tensor_stride) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* set = NULL;
  options.ndim = p->ndim;
  memcpy(options.tensor_stride, tensor_stride, sizeof(options.tensor_stride));
  int32_t* const points = load(folder, name, (size_t)rows * (size_t)(1 + p->ndim) * 4);
  check(minuet_coordinates_create(device, &options, points, rows, NULL, &set));
  check(minuet_device_synchronize(device, NULL));
  check(minuet_device_free(device, points));
  return set;
}

static minuet_coordinates* make_fine(const char* folder, const golden_problem* p,
                                     minuet_coordinates* coarse) {
  if (p->coarse_is != GOLDEN_GENERATED) return make_set(folder, "fine", p, p->fine_rows, p->tensor_stride);
  minuet_generate_options options = MINUET_GENERATE_OPTIONS_INIT;
  minuet_coordinates* fine = NULL;
  memcpy(options.kernel_size, p->kernel_size, sizeof(options.kernel_size));
  memcpy(options.stride, p->stride, sizeof(options.stride));
  memcpy(options.dilation, p->dilation, sizeof(options.dilation));
  check(minuet_coordinates_generate(coarse, &options, NULL, &fine));
  return fine;
}

static minuet_coordinates* make_coarse(const char* folder, const golden_problem* p,
                                       minuet_coordinates* fine) {
  minuet_coordinates* coarse = fine;
  if (p->coarse_is == GOLDEN_GIVEN || p->coarse_is == GOLDEN_GENERATED)
    return make_set(folder, "coarse", p, p->coarse_rows, p->coarse_stride);
  if (p->coarse_is == GOLDEN_DOWNSAMPLED)
    check(minuet_coordinates_downsample(fine, p->stride, NULL, &coarse));
  if (p->coarse_is == GOLDEN_REACHED) {
    minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
    memcpy(options.kernel_size, p->kernel_size, sizeof(options.kernel_size));
    memcpy(options.stride, p->stride, sizeof(options.stride));
    memcpy(options.dilation, p->dilation, sizeof(options.dilation));
    memcpy(options.padding, p->padding, sizeof(options.padding));
    memcpy(options.shape, p->shape, sizeof(options.shape));
    check(minuet_coordinates_reach(fine, &options, NULL, &coarse));
  }
  return coarse;
}

static minuet_plan* make_plan(const char* folder, const golden_problem* p) {
  minuet_plan* plan = NULL;
  if (p->reduction != GOLDEN_CONVOLUTION) {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.ndim = p->ndim, options.dtype = p->dtype, options.channels = p->in_channels;
    options.reduction = p->reduction, options.submanifold = p->submanifold,
    options.transposed = p->transposed;
    options.dense_offsets = p->dense_offsets;
    memcpy(options.kernel_size, p->kernel_size, sizeof(options.kernel_size));
    memcpy(options.stride, p->stride, sizeof(options.stride));
    memcpy(options.dilation, p->dilation, sizeof(options.dilation));
    memcpy(options.padding, p->padding, sizeof(options.padding));
    SET_GOLDEN_OFFSETS(options, *p);
    check(minuet_plan_create_pooling(context, &options, &plan));
    return plan;
  }
  float* const weight = malloc((size_t)p->weights * sizeof(float));
  move(folder, "weight", weight, (size_t)p->weights * sizeof(float), 0);
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.ndim = p->ndim, options.dtype = p->dtype, options.groups = p->groups;
  options.in_channels = p->in_channels, options.out_channels = p->out_channels;
  options.submanifold = p->submanifold, options.transposed = p->transposed;
  options.dense_offsets = p->dense_offsets;
  options.weight = weight, options.weight_count = p->weights;
  memcpy(options.kernel_size, p->kernel_size, sizeof(options.kernel_size));
  memcpy(options.stride, p->stride, sizeof(options.stride));
  memcpy(options.dilation, p->dilation, sizeof(options.dilation));
  memcpy(options.padding, p->padding, sizeof(options.padding));
  SET_GOLDEN_OFFSETS(options, *p);
  check(minuet_plan_create_convolution(context, &options, &plan));
  free(weight);
  return plan;
}

int main(int count, char** arguments) {
  golden_problem p;
  if (count != 3) return 2;
  const char* const folder = arguments[1];
  move(folder, "numbers", &p, sizeof(p), 0);
  minuet_device_info info = {.struct_size = sizeof(info)};
  minuet_kernel_map *forward = NULL, *map = NULL;
  minuet_execution* execution = NULL;
  check(minuet_context_create(NULL, &context));
  check(minuet_device_open(context, arguments[2], NULL, &device));
  check(minuet_device_query(device, &info));
  minuet_coordinates* fine = NULL;
  if (p.coarse_is != GOLDEN_GENERATED) fine = make_fine(folder, &p, NULL);
  minuet_coordinates* const coarse = make_coarse(folder, &p, fine);
  if (p.coarse_is == GOLDEN_GENERATED) fine = make_fine(folder, &p, coarse);
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  memcpy(options.kernel_size, p.kernel_size, sizeof(options.kernel_size));
  memcpy(options.dilation, p.dilation, sizeof(options.dilation));
  memcpy(options.padding, p.padding, sizeof(options.padding));
  options.dense_offsets = p.dense_offsets;
  SET_GOLDEN_OFFSETS(options, p);
  check(minuet_kernel_map_create(fine, coarse, &options, NULL, &forward));
  if (p.transposed) check(minuet_kernel_map_transpose(forward, &map));
  minuet_plan* const plan = make_plan(folder, &p);
  check(minuet_plan_compile(plan, info.arch, NULL, NULL));
  check(minuet_plan_load(plan, device));
  check(minuet_execution_create(plan, device, NULL, &execution));
  check(minuet_execution_prepare_maps(execution, p.transposed ? &map : &forward, 1, NULL));

  const int64_t rows = p.transposed ? p.coarse_rows : p.fine_rows;
  const int64_t result_rows = p.transposed ? p.fine_rows : p.coarse_rows;
  const int64_t element = p.dtype == MINUET_F16 || p.dtype == MINUET_BF16 ? 2 : 4;
  const int64_t bytes = result_rows * p.out_channels * element;
  minuet_tensor from = {.rows = rows, .channels = p.in_channels, .dtype = p.dtype};
  minuet_tensor to = {.rows = result_rows, .channels = p.out_channels, .dtype = p.dtype};
  from.data = load(folder, "features", (size_t)(rows * p.in_channels * element));
  check(minuet_device_allocate(device, bytes, &to.data));
  check(minuet_execution_run(execution, &from, 1, &to, 1, NULL));
  check(minuet_device_synchronize(device, NULL));
  void* const output = malloc((size_t)bytes);
  check(minuet_device_copy(device, output, to.data, bytes, 1));
  move(folder, "output", output, (size_t)bytes, 1);
  free(output);
  check(minuet_device_free(device, to.data));
  check(minuet_device_free(device, from.data));
  minuet_execution_destroy(execution);
  minuet_plan_destroy(plan);
  minuet_kernel_map_destroy(map);
  minuet_kernel_map_destroy(forward);
  if (coarse != fine) minuet_coordinates_destroy(coarse);
  minuet_coordinates_destroy(fine);
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return 0;
}
