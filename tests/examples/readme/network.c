/* Runs a network over three voxels, on the GPU if there is one, otherwise on the CPU. */
#include <minuet/minuet.h>
#include <stdio.h>

static char error[1024];
#define CHECK(call) \
  if ((call) != MINUET_OK) return minuet_last_error(error, sizeof(error)), fprintf(stderr, "%s\n", error), 1

int main(void) {
  const int32_t voxels[3][4] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, -7, 2, 5}}; /* batch, x, y, z */
  const float features[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  float result[3][96];
  minuet_context* context;
  minuet_device* device;
  minuet_plan* network;
  minuet_execution* execution;
  minuet_device_info info = {.struct_size = sizeof(info)};
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  minuet_tensor in = {.rows = 3, .channels = 4}, out = {.rows = 3, .channels = 96};
  void* place;

  CHECK(minuet_context_create(NULL, &context));
  CHECK(minuet_device_open(context, NULL, NULL, &device));
  CHECK(minuet_device_query(device, &info));
  options.name = "minkunet42"; /* weights are random; options.weights_path names a file */
  CHECK(minuet_plan_create_network(context, &options, &network));
  CHECK(minuet_plan_compile(network, info.arch, NULL, NULL)); /* the next process finds the kernels on disk */
  CHECK(minuet_plan_load(network, device));
  CHECK(minuet_execution_create(network, device, NULL, &execution));
  CHECK(minuet_device_allocate(device, sizeof(voxels), &place));
  CHECK(minuet_device_allocate(device, sizeof(features), &in.data));
  CHECK(minuet_device_allocate(device, sizeof(result), &out.data));
  CHECK(minuet_device_copy(device, place, voxels, sizeof(voxels), 0));
  CHECK(minuet_device_copy(device, in.data, features, sizeof(features), 0));
  CHECK(minuet_execution_prepare(execution, place, 3, NULL));    /* builds the kernel maps */
  CHECK(minuet_execution_run(execution, &in, 1, &out, 1, NULL)); /* only enqueues work */
  CHECK(minuet_device_synchronize(device, NULL));
  CHECK(minuet_device_copy(device, result, out.data, sizeof(result), 1));
  return printf("%s: the first of 96 features is %g\n", info.name, result[0][0]) < 0;
}
