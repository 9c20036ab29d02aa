/* A whole network from C: three voxels in, 96 features per voxel out, on whatever device there is. */
#include <minuet/minuet.h>
#include <stdio.h>
#include <stdlib.h>

static void check(minuet_status status) {
  if (status == MINUET_OK) return;
  char message[1024];
  minuet_last_error(message, sizeof(message));
  fprintf(stderr, "%s\n", message);
  exit(1);
}

int main(void) {
  /* Coordinates are (batch, x, y, z); row i of the features belongs to row i of the coordinates. */
  const int32_t coordinates[3][4] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, -7, 2, 5}};
  const float features[3][4] = {{0.1f, 0.2f, 0.3f, 1.0f}, {0.4f, 0.5f, 0.6f, 1.0f}, {0.7f, 0.8f, 0.9f, 1.0f}};

  minuet_context* context = NULL;
  minuet_device* device = NULL;
  minuet_plan* network = NULL;
  minuet_execution* execution = NULL;
  check(minuet_context_create(NULL, &context));
  check(minuet_device_open(context, NULL, NULL, &device)); /* cuda:0 where it is usable, else cpu */
  minuet_device_info info = {0};
  info.struct_size = sizeof(info);
  check(minuet_device_query(device, &info));

  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.name = "minkunet42";
  options.dtype = MINUET_F32;
  check(minuet_plan_create_network(context, &options, &network));
  check(minuet_plan_compile(network, info.arch, NULL, NULL)); /* cold: compiles; warm: from the cache */
  check(minuet_plan_load(network, device));
  check(minuet_execution_create(network, device, NULL, &execution));

  void *device_coordinates, *device_features, *device_output;
  check(minuet_device_allocate(device, sizeof(coordinates), &device_coordinates));
  check(minuet_device_allocate(device, sizeof(features), &device_features));
  check(minuet_device_copy(device, device_coordinates, coordinates, sizeof(coordinates), 0));
  check(minuet_device_copy(device, device_features, features, sizeof(features), 0));

  check(minuet_execution_prepare(execution, device_coordinates, 3, NULL)); /* coordinates: maps, counts */
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(execution, &rows, &channels));
  const int64_t bytes = rows * channels * (int64_t)sizeof(float);
  check(minuet_device_allocate(device, bytes, &device_output));
  const minuet_tensor in = {.data = device_features, .rows = 3, .channels = 4, .dtype = MINUET_F32};
  const minuet_tensor out = {.data = device_output, .rows = rows, .channels = channels, .dtype = MINUET_F32};
  check(minuet_execution_run(execution, &in, 1, &out, 1, NULL)); /* features: only enqueues */
  check(minuet_device_synchronize(device, NULL));

  float* output = malloc((size_t)bytes);
  check(minuet_device_copy(device, output, device_output, bytes, 1));
  printf("%s: %lld rows of %d features, the first is %g\n", info.name, (long long)rows, channels, output[0]);

  free(output);
  minuet_device_free(device, device_output);
  minuet_device_free(device, device_features);
  minuet_device_free(device, device_coordinates);
  minuet_execution_destroy(execution);
  minuet_plan_destroy(network);
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return 0;
}
