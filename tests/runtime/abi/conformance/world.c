/* Makes the objects that rows use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

const char* const network_description =
    "{\"name\": \"tiny\", \"ndim\": 3, \"in_channels\": 4, \"channels\": [8], \"layers\": ["
    "{\"op\": \"block\", \"name\": \"a\", \"width\": 0, \"kernel_size\": 3}]}";

enum { FEATURE_BYTES = 16384, WORKSPACE_BYTES = 128 << 20 };

/* The allocator of the other device: its memory is that of the first. `user` is the world. */
static void* allocate(int64_t bytes, void* stream, void* user) {
  void* memory = NULL;
  (void)stream;
  MUST(minuet_device_allocate(((world*)user)->device, bytes, &memory));
  return memory;
}

static void give_back(void* memory, int64_t bytes, void* stream, void* user) {
  (void)bytes;
  (void)stream;
  MUST(minuet_device_free(((world*)user)->device, memory));
}

void* device_memory(const world* world, const void* source, int64_t bytes) {
  void* const zeros = source ? NULL : calloc(1, (size_t)bytes);
  void* memory = NULL;
  MUST(minuet_device_allocate(world->device, bytes, &memory));
  MUST(minuet_device_copy(world->device, memory, source ? source : zeros, bytes, 0));
  free(zeros);
  return memory;
}

minuet_convolution_options convolution_options(const world* world) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = IN;
  options.out_channels = OUT;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = SIZE;
  options.submanifold = 1;
  options.weight = world->weight;
  options.weight_count = WEIGHTS;
  return options;
}

minuet_execution_options capacity_options(void) {
  static const int64_t capacities[] = {256};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities;
  options.level_count = 1;
  return options;
}

void describe_pyramid(pyramid_shape* shape) {
  static const pyramid_shape plain = {
      {{.capacity = CAPACITY, .parent = -1}, {.capacity = CAPACITY, .parent = 0, .stride = {2, 2, 2}}},
      {{.kernel_size = {SIZE, SIZE, SIZE},
        .purposes = MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_POOLING | MINUET_PURPOSE_EXPORT},
       {.coarse = 1,
        .kernel_size = {2, 2, 2},
        .purposes = MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_TRANSPOSED_CONVOLUTION},
       {.fine = 1, .coarse = 1, .kernel_size = {SIZE, SIZE, SIZE}, .purposes = MINUET_PURPOSE_POOLING}},
      MINUET_PYRAMID_OPTIONS_INIT};
  *shape = plain;
  shape->options.keep_coordinates = 1;
  shape->options.levels = shape->levels;
  shape->options.maps = shape->maps;
  shape->options.level_count = COUNT_OF(shape->levels);
  shape->options.map_count = COUNT_OF(shape->maps);
}

static void make_memory(world* world) {
  static const int32_t coordinates[ROWS][4] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 5, 0}, {1, 0, 0, -3}};
  static const int32_t duplicates[ROWS][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 5, 0}, {1, 0, 0, -3}};
  static const int32_t negative[4] = {-1, 0, 0, 0};
  static const int32_t count = ROWS;
  void* memory = NULL;
  world->poisoned = device_memory(world, NULL, POISON_BYTES);
  world->coordinates = device_memory(world, coordinates, sizeof(coordinates));
  world->duplicates = device_memory(world, duplicates, sizeof(duplicates));
  world->negative = device_memory(world, negative, sizeof(negative));
  world->count = device_memory(world, &count, sizeof(count));
  world->features = device_memory(world, NULL, FEATURE_BYTES);
  world->workspace_bytes = WORKSPACE_BYTES;
  MUST(minuet_device_allocate(world->device, WORKSPACE_BYTES, &memory));
  world->workspace = memory;
  poison_device(world);
}

static minuet_coordinates* make_set(const world* world, minuet_device* device, minuet_queue* queue) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* set = NULL;
  options.queue = queue;
  MUST(minuet_coordinates_create(device, &options, world->coordinates, ROWS, NULL, &set));
  return set;
}

static minuet_kernel_map* make_map(minuet_coordinates* input, minuet_coordinates* output) {
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_kernel_map* map = NULL;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = SIZE;
  MUST(minuet_kernel_map_create(input, output, &options, NULL, &map));
  return map;
}

static void make_sets(world* world) {
  static const int32_t stride[MINUET_MAX_DIM] = {2, 2, 2, 1};
  world->set = make_set(world, world->device, NULL);
  world->queued_set = make_set(world, world->device, world->queue);
  world->other_set = make_set(world, world->other_device, NULL);
  MUST(minuet_coordinates_downsample(world->set, stride, NULL, &world->coarse));
  world->map = make_map(world->set, world->set);
  world->queued_map = make_map(world->queued_set, world->queued_set);
  world->other_map = make_map(world->other_set, world->other_set);
  world->coarse_map = make_map(world->set, world->coarse);
}

static void load(const world* world, minuet_plan* plan) {
  MUST(minuet_plan_compile(plan, world->arch, NULL, NULL));
  MUST(minuet_plan_load(plan, world->device));
}

static void make_plans(world* world) {
  const minuet_convolution_options convolution = convolution_options(world);
  minuet_pooling_options pooling = MINUET_POOLING_OPTIONS_INIT;
  minuet_network_options network = MINUET_NETWORK_OPTIONS_INIT;
  pooling.channels = IN;
  for (int axis = 0; axis < 3; ++axis) pooling.kernel_size[axis] = SIZE;
  pooling.submanifold = 1;
  network.description = network_description;
  network.dtype = MINUET_F16;
  network.dataflow = MINUET_DATAFLOW_FUSED;
  MUST(minuet_plan_create_convolution(world->context, &convolution, &world->uncompiled));
  MUST(minuet_plan_create_convolution(world->context, &convolution, &world->convolution));
  MUST(minuet_plan_create_pooling(world->context, &pooling, &world->pooling));
  MUST(minuet_plan_create_network(world->context, &network, &world->network));
  load(world, world->convolution);
  load(world, world->pooling);
  load(world, world->network);
}

static void make_pyramids(world* world) {
  static const minuet_pyramid_level level = {.capacity = CAPACITY, .parent = -1};
  minuet_pyramid_options flat = MINUET_PYRAMID_OPTIONS_INIT;
  pyramid_shape shape;
  describe_pyramid(&shape);
  flat.ndim = 2;
  flat.levels = &level;
  flat.level_count = 1;
  MUST(minuet_pyramid_create(world->context, &shape.options, &world->pyramid));
  MUST(minuet_pyramid_create(world->context, &flat, &world->flat_pyramid));
  MUST(minuet_pyramid_load(world->pyramid, world->device));
  MUST(
      minuet_pyramid_bytes(world->pyramid, world->arch, &world->buffer_bytes, &world->build_workspace_bytes));
  world->buffer = device_memory(world, NULL, world->buffer_bytes);
  world->build_workspace = device_memory(world, NULL, world->build_workspace_bytes);
}

int open_world(world* world, const char* device_name, const char* folder) {
  minuet_device_options options = MINUET_DEVICE_OPTIONS_INIT;
  minuet_device_info info = {.struct_size = sizeof(info)};
  char message[512];
  world->device_name = device_name;
  world->folder = folder;
  for (int i = 0; i < FLOATS; ++i) world->weight[i] = (float)(i % 7) * 0.125f;
  MUST(minuet_context_create(NULL, &world->context));
  if (minuet_device_open(world->context, device_name, NULL, &world->device) != MINUET_OK) {
    minuet_last_error(message, sizeof(message));
    printf("left out: conformance on a GPU: %s\n", message);
    minuet_context_destroy(world->context);
    return 0;
  }
  options.allocate = allocate;
  options.free = give_back;
  options.user = world;
  MUST(minuet_device_open(world->context, device_name, &options, &world->other_device));
  MUST(minuet_device_query(world->device, &info));
  memcpy(world->arch, info.arch, sizeof(world->arch));
  MUST(minuet_queue_create(world->device, NULL, &world->queue));
  MUST(minuet_queue_create(world->device, NULL, &world->queue2));
  MUST(minuet_queue_create(world->other_device, NULL, &world->other_queue));
  make_memory(world);
  make_sets(world);
  make_plans(world);
  make_pyramids(world);
  return 1;
}

void close_world(world* world) {
  void* const memory[] = {world->poisoned,  world->coordinates, world->duplicates,
                          world->negative,  world->count,       world->features,
                          world->workspace, world->buffer,      world->build_workspace};
  minuet_plan* const plans[] = {world->uncompiled, world->convolution, world->pooling, world->network};
  minuet_kernel_map* const maps[] = {world->map, world->queued_map, world->other_map, world->coarse_map};
  minuet_coordinates* const sets[] = {world->set, world->queued_set, world->other_set, world->coarse};
  minuet_pyramid_destroy(world->pyramid);
  minuet_pyramid_destroy(world->flat_pyramid);
  for (int i = 0; i < COUNT_OF(plans); ++i) minuet_plan_destroy(plans[i]);
  for (int i = 0; i < COUNT_OF(maps); ++i) minuet_kernel_map_destroy(maps[i]);
  for (int i = 0; i < COUNT_OF(sets); ++i) minuet_coordinates_destroy(sets[i]);
  minuet_queue_destroy(world->queue);
  minuet_queue_destroy(world->queue2);
  minuet_queue_destroy(world->other_queue);
  minuet_device_destroy(world->other_device);
  for (int i = 0; i < COUNT_OF(memory); ++i) MUST(minuet_device_free(world->device, memory[i]));
  minuet_device_destroy(world->device);
  minuet_context_destroy(world->context);
}
