/* Runs on the machine that infers. It finds every kernel in bundles.
 *
 *   app NETWORK.json DEVICE [ARCH...] < DIGESTS
 *
 * The input has a line for each bundle, as farm prints it: its digest and its path. Beside the device's own
 * architecture, the program gets the kernels for each ARCH, which needs no GPU. */
#include <minuet/diagnostics.h>

#include "common.h"

static void add_bundles(minuet_context* context) {
  char digest[65], path[1024];
  while (scanf("%64s %1023s", digest, path) == 2) check(minuet_context_add_bundle(context, path, digest));
}

static void* upload(minuet_device* device, const void* data, int64_t bytes) {
  void* memory = NULL;
  check(minuet_device_allocate(device, bytes, &memory));
  if (data) check(minuet_device_copy(device, memory, data, bytes, 0));
  return memory;
}

/* Runs the network over three voxels. Two of them have the same voxel of the coarser level. */
static void infer(minuet_plan* plan, minuet_device* device) {
  const int32_t voxels[3][4] = {{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 8, 8, 8}};
  const uint16_t features[3][4] = {{0x3c00}, {0x3c00}, {0x3c00}}; /* 1, 0, 0, 0 in fp16 */
  uint16_t result[2][5];
  minuet_execution* execution = NULL;
  check(minuet_execution_create(plan, device, NULL, &execution));
  void* const places = upload(device, voxels, sizeof(voxels));
  check(minuet_execution_prepare(execution, places, 3, NULL));
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(execution, &rows, &channels));
  if (rows != 2 || channels != 5) fail("the output has another shape");
  minuet_tensor in = {.rows = 3, .channels = 4, .dtype = MINUET_F16};
  minuet_tensor out = {.rows = rows, .channels = channels, .dtype = MINUET_F16};
  in.data = upload(device, features, sizeof(features));
  out.data = upload(device, NULL, sizeof(result));
  check(minuet_execution_run(execution, &in, 1, &out, 1, NULL));
  check(minuet_device_synchronize(device, NULL));
  check(minuet_device_copy(device, result, out.data, sizeof(result), 1));
  for (int i = 0; i < 2 * 5; ++i) {
    if ((result[i / 5][i % 5] & 0x7c00) == 0x7c00) fail("a result is infinite or not a number");
  }
  minuet_execution_destroy(execution);
  minuet_device_free(device, places);
  minuet_device_free(device, in.data);
  minuet_device_free(device, out.data);
}

int main(int argument_count, char** arguments) {
  if (argument_count < 3) fail("usage: app NETWORK.json DEVICE [ARCH...] < DIGESTS");
  minuet_context* context = NULL;
  minuet_device* device = NULL;
  minuet_device_info info = {.struct_size = sizeof(info)};
  check(minuet_context_create(NULL, &context));
  add_bundles(context);
  check(minuet_device_open(context, arguments[2], NULL, &device));
  check(minuet_device_query(device, &info));
  minuet_plan* const plan = read_network(context, arguments[1]);
  check(minuet_plan_compile(plan, info.arch, NULL, NULL)); /* finds the kernels, and compiles none */
  for (int i = 3; i < argument_count; ++i) check(minuet_plan_compile(plan, arguments[i], NULL, NULL));
  check(minuet_plan_load(plan, device));
  infer(plan, device);

  minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
  check(minuet_context_kernel_counters(context, &counters));
  printf("%s: %lld kernels from bundles, %lld compiled\n", info.name, (long long)counters.bundle_hits,
         (long long)counters.compiled);
  minuet_plan_destroy(plan);
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return 0;
}
