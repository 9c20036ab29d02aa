/* Runs one submanifold convolution through the C ABI, for test_golden.py: the bits must be those of Python.
 *
 * usage: minuet_golden_bits FOLDER ROWS IN OUT: reads coordinates, features and weight from the folder (raw,
 * 3x3x3, float32), and writes the file output. */
#include <minuet/minuet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(minuet_status status) {
  if (status == MINUET_OK) return;
  char message[1024];
  minuet_last_error(message, sizeof(message));
  fprintf(stderr, "%s\n", message);
  exit(1);
}

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

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const char* folder = arguments[1];
  const int64_t rows = atoi(arguments[2]);
  const int32_t in = atoi(arguments[3]), out = atoi(arguments[4]);
  const size_t weights = (size_t)(27 * in * out);
  int32_t* coordinates = aligned_alloc(256, (size_t)(rows * 16 + 255) / 256 * 256);
  float* features = aligned_alloc(256, (size_t)(rows * in * 4 + 255) / 256 * 256);
  float* output = aligned_alloc(256, (size_t)(rows * out * 4 + 255) / 256 * 256);
  float* weight = malloc(weights * 4);
  move(folder, "coordinates", coordinates, (size_t)rows * 16, 0);
  move(folder, "features", features, (size_t)(rows * in) * 4, 0);
  move(folder, "weight", weight, weights * 4, 0);

  minuet_context* context = NULL;
  minuet_device* device = NULL;
  minuet_coordinates* set = NULL;
  minuet_kernel_map* map = NULL;
  minuet_plan* plan = NULL;
  minuet_execution* execution = NULL;
  check(minuet_context_create(NULL, &context));
  check(minuet_device_open(context, "cpu", NULL, &device));
  check(minuet_coordinates_create(device, NULL, coordinates, rows, NULL, &set));
  minuet_kernel_map_options cube = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  for (int axis = 0; axis < 3; ++axis) cube.kernel_size[axis] = options.kernel_size[axis] = 3;
  check(minuet_kernel_map_create(set, set, &cube, NULL, &map));
  options.in_channels = in;
  options.out_channels = out;
  options.submanifold = 1;
  options.weight = weight;
  options.weight_count = (int64_t)weights;
  check(minuet_plan_create_convolution(context, &options, &plan));
  check(minuet_plan_compile(plan, "cpu", NULL, NULL));
  check(minuet_plan_load(plan, device));
  check(minuet_execution_create(plan, device, NULL, &execution));
  check(minuet_execution_prepare_maps(execution, &map, 1, NULL));
  const minuet_tensor from = {.data = features, .rows = rows, .channels = in, .dtype = MINUET_F32};
  const minuet_tensor to = {.data = output, .rows = rows, .channels = out, .dtype = MINUET_F32};
  check(minuet_execution_run(execution, &from, 1, &to, 1, NULL));
  move(folder, "output", output, (size_t)(rows * out) * 4, 1);
  minuet_execution_destroy(execution);
  minuet_plan_destroy(plan);
  minuet_kernel_map_destroy(map);
  minuet_coordinates_destroy(set);
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  free(coordinates);
  free(features);
  free(output);
  free(weight);
  return 0;
}
