/* Rows of devices, their memory, and queues. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void* no_memory(int64_t bytes, void* stream, void* user) {
  (void)bytes;
  (void)stream;
  (void)user;
  return NULL;
}
static void free_nothing(void* memory, int64_t bytes, void* stream, void* user) {
  (void)memory;
  (void)bytes;
  (void)stream;
  (void)user;
}

static void open_devices(const world* world) {
  minuet_context* const context = world->context;
  minuet_device_options given, base = MINUET_DEVICE_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_device_open(NULL, "cpu", NULL, &out.device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_open(context, "cpu", NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "cuda:N", minuet_device_open(context, "gpu", NULL, &out.device));
  REFUSED(INVALID_ARGUMENT, "cuda:N", minuet_device_open(context, "cuda:-1", NULL, &out.device));
  REFUSED(INVALID_ARGUMENT, "cuda:N", minuet_device_open(context, "cuda:00", NULL, &out.device));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_device_open(context, "cpu", WITH(struct_size = 8), &out.device));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_device_open(context, "cpu", WITH(ext = &base), &out.device));
  REFUSED(INVALID_ARGUMENT, "free is null",
          minuet_device_open(context, "cpu", WITH(allocate = no_memory), &out.device));
  REFUSED(INVALID_ARGUMENT, "allocate is null",
          minuet_device_open(context, "cpu", WITH(free = free_nothing), &out.device));
  base.allocate = no_memory;
  base.free = free_nothing;
  REFUSED(INVALID_ARGUMENT, "name", minuet_device_open(context, NULL, WITH(user = &base), &out.device));
  ACCEPTED(minuet_device_open(context, "cpu", WITH(user = &base), &out.device));
  minuet_device* const without_memory = out.device;
  REFUSED(RESOURCE_EXHAUSTED, "64 bytes", minuet_device_allocate(without_memory, 64, &out.memory));
  DONE(minuet_device_destroy(without_memory));
  DONE(minuet_device_destroy(NULL));
  ACCEPTED(minuet_device_open(context, NULL, NULL, &out.device));
  DONE(minuet_device_destroy(out.device));
  ACCEPTED(minuet_device_open(context, world->device_name, NULL, &out.device));
  DONE(minuet_device_destroy(out.device));

  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_query(NULL, INFO(device)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_device_query(world->device, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 1",
          minuet_device_query(world->device, INFO_WITH(device, struct_size = 1)));
  ACCEPTED(minuet_device_query(world->device, INFO(device)));
  EXPECT(strcmp(out.info.device.name, world->device_name) == 0 && out.info.device.memory_bytes > 0);
}

static void use_memory(const world* world) {
  static char numbers[16] = "fifteen letters", answer[16];
  minuet_device* const device = world->device;
  char* const poisoned = world->poisoned;
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_allocate(NULL, 16, &out.memory));
  REFUSED(INVALID_ARGUMENT, "memory is null", minuet_device_allocate(device, 16, NULL));
  REFUSED(INVALID_ARGUMENT, "bytes is -1", minuet_device_allocate(device, -1, &out.memory));
  REFUSED(RESOURCE_EXHAUSTED, "9223372036854775807", minuet_device_allocate(device, INT64_MAX, &out.memory));
  ACCEPTED(minuet_device_allocate(device, 0, &out.memory));
  ACCEPTED(minuet_device_free(device, out.memory));
  ACCEPTED(minuet_device_allocate(device, 16, &out.memory));
  EXPECT((uintptr_t)out.memory % 256 == 0);
  void* const memory = out.memory;
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_free(NULL, memory));

  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_copy(NULL, poisoned, numbers, 16, 0));
  REFUSED(INVALID_ARGUMENT, "target is null", minuet_device_copy(device, NULL, numbers, 16, 0));
  REFUSED(INVALID_ARGUMENT, "source is null", minuet_device_copy(device, poisoned, NULL, 16, 0));
  REFUSED(INVALID_ARGUMENT, "bytes is -16", minuet_device_copy(device, poisoned, numbers, -16, 0));
  REFUSED(INVALID_ARGUMENT, "direction is -1", minuet_device_copy(device, poisoned, numbers, 16, -1));
  REFUSED(INVALID_ARGUMENT, "direction is 2", minuet_device_copy(device, poisoned, numbers, 16, 2));
  REFUSED(INVALID_ARGUMENT, "target and source overlap",
          minuet_device_copy(device, poisoned, poisoned + 8, 16, 0));
  ACCEPTED(minuet_device_copy(device, NULL, NULL, 0, 0));
  ACCEPTED(minuet_device_copy(device, memory, numbers, 16, 0));
  ACCEPTED(minuet_device_copy(device, answer, memory, 16, 1));
  EXPECT(memcmp(numbers, answer, 16) == 0);
  ACCEPTED(minuet_device_free(device, memory));
  ACCEPTED(minuet_device_free(device, NULL));

  REFUSED(INVALID_ARGUMENT, "device is null", minuet_device_synchronize(NULL, NULL));
  ACCEPTED(minuet_device_synchronize(device, NULL));
}

void call_devices(world* world) {
  open_devices(world);
  use_memory(world);
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_queue_create(NULL, NULL, &out.queue));
  REFUSED(INVALID_ARGUMENT, "queue is null", minuet_queue_create(world->device, NULL, NULL));
  ACCEPTED(minuet_queue_create(world->device, NULL, &out.queue));
  DONE(minuet_queue_destroy(out.queue));
  DONE(minuet_queue_destroy(NULL));
}
