/* Rows that create and prepare executions. */
#include "tests/runtime/abi/conformance/conformance.h"

static const int64_t zero_capacity[] = {0}, most_capacity[] = {(int64_t)1 << 40}, negative_slots[] = {-1},
                     most_slots[] = {(1 << 26) + 1};

static void create_with_wrong_handles(const world* world) {
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  minuet_convolution_options options = convolution_options(world);
  minuet_plan* bare = NULL;
  options.weight = NULL;
  options.without_values = 1;
  MUST(minuet_plan_create_convolution(world->context, &options, &bare));
  MUST(minuet_plan_compile(bare, world->arch, NULL, NULL));
  MUST(minuet_plan_load(bare, device));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_execution_create(NULL, device, NULL, &out.execution));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_execution_create(plan, NULL, NULL, &out.execution));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_create(plan, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_execution_create(plan, world->other_device, NULL, &out.execution));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_execution_create(world->uncompiled, device, NULL, &out.execution));
  REFUSED(FAILED_PRECONDITION, "without values", minuet_execution_create(bare, device, NULL, &out.execution));
  minuet_plan_destroy(bare);
}

static void create_with_wrong_clouds(const world* world) {
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  minuet_execution_options given, base = MINUET_EXECUTION_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_execution_create(plan, device, WITH(struct_size = 0), &out.execution));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_execution_create(plan, device, WITH(ext = &base), &out.execution));
  REFUSED(INVALID_ARGUMENT, "max_points",
          minuet_execution_create(plan, device, WITH(max_points = -1), &out.execution));
  REFUSED(OUT_OF_RANGE, "max_points",
          minuet_execution_create(plan, device, WITH(max_points = INT64_MAX), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_count",
          minuet_execution_create(plan, device, WITH(level_count = 1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "key_bits",
          minuet_execution_create(plan, device, WITH(key_bits = 32), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_slots is given without level_capacity",
          minuet_execution_create(plan, device, WITH(level_slots = negative_slots), &out.execution));
  REFUSED(INVALID_ARGUMENT, "map_method is -1",
          minuet_execution_create(plan, device, WITH(map_method = -1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "map_method is 3",
          minuet_execution_create(plan, device, WITH(map_method = 3), &out.execution));
  REFUSED(INVALID_ARGUMENT, "scratch_bytes is -1",
          minuet_execution_create(plan, device, WITH(scratch_bytes = -1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "batch_size is -1",
          minuet_execution_create(plan, device, WITH(batch_size = -1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "batch_size is 2147483648",
          minuet_execution_create(plan, device, WITH(batch_size = (int64_t)1 << 31), &out.execution));
  base.has_bounds = 1;
  REFUSED(INVALID_ARGUMENT, "least[1] is 1 and greatest[1] is 0",
          minuet_execution_create(plan, device, WITH(least[1] = 1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "greatest[3] is -1",
          minuet_execution_create(plan, device, WITH(greatest[3] = -1), &out.execution));
  base.greatest[0] = 1;
  REFUSED(INVALID_ARGUMENT, "greatest[0] are 0 and 1, but the batch index must be 0 to 0",
          minuet_execution_create(plan, device, WITH(batch_size = 1), &out.execution));
  base.greatest[0] = 0;
  base = capacity_options();
  REFUSED(INVALID_ARGUMENT, "level_count is -1",
          minuet_execution_create(plan, device, WITH(level_count = -1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_count is 2",
          minuet_execution_create(plan, device, WITH(level_count = 2), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_capacity is null",
          minuet_execution_create(plan, device, WITH(level_capacity = NULL), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_capacity[0] is 0",
          minuet_execution_create(plan, device, WITH(level_capacity = zero_capacity), &out.execution));
  REFUSED(OUT_OF_RANGE, "level_capacity[0]",
          minuet_execution_create(plan, device, WITH(level_capacity = most_capacity), &out.execution));
  REFUSED(INVALID_ARGUMENT, "level_slots[0]: the number of slots is -1",
          minuet_execution_create(plan, device, WITH(level_slots = negative_slots), &out.execution));
  REFUSED(OUT_OF_RANGE, "level_slots[0]: 67108865 slots",
          minuet_execution_create(plan, device, WITH(level_slots = most_slots), &out.execution));
  REFUSED(INVALID_ARGUMENT, "key_bits is 16",
          minuet_execution_create(plan, device, WITH(key_bits = 16), &out.execution));
  REFUSED(INVALID_ARGUMENT, "max_points is 9",
          minuet_execution_create(plan, device, WITH(max_points = 9), &out.execution));
}

static void create_with_wrong_memory(const world* world) {
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  minuet_parameters* parameters = NULL;
  minuet_execution_options given, base = MINUET_EXECUTION_OPTIONS_INIT;
  MUST(minuet_parameters_create(world->convolution, device, NULL, &parameters));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is 0",
          minuet_execution_create(plan, device, WITH(workspace = world->workspace), &out.execution));
  REFUSED(INVALID_ARGUMENT, "workspace is null",
          minuet_execution_create(plan, device, WITH(workspace_bytes = 256), &out.execution));
  REFUSED(INVALID_ARGUMENT, "queue belongs to the device",
          minuet_execution_create(plan, device, WITH(queue = world->other_queue), &out.execution));
  REFUSED(INVALID_ARGUMENT, "parameters were created for another plan",
          minuet_execution_create(plan, device, WITH(parameters = parameters), &out.execution));
  base.parameters = parameters;
  REFUSED(INVALID_ARGUMENT, "parameter_inputs is 2",
          minuet_execution_create(world->convolution, device, WITH(parameter_inputs = 2), &out.execution));
  REFUSED(INVALID_ARGUMENT, "parameter_inputs",
          minuet_execution_create(world->convolution, device, WITH(parameter_inputs = 1), &out.execution));
  base.parameters = NULL;
  base.workspace_bytes = world->workspace_bytes;
  REFUSED(INVALID_ARGUMENT, "multiple of 256",
          minuet_execution_create(plan, device, WITH(workspace = world->workspace + 16), &out.execution));
  base.workspace = world->workspace;
  REFUSED(INVALID_ARGUMENT, "defer_workspace is 2",
          minuet_execution_create(plan, device, WITH(defer_workspace = 2), &out.execution));
  REFUSED(INVALID_ARGUMENT, "defer_workspace",
          minuet_execution_create(plan, device, WITH(defer_workspace = 1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is -1",
          minuet_execution_create(plan, device, WITH(workspace_bytes = -1), &out.execution));
  REFUSED(RESOURCE_EXHAUSTED, "workspace has 256 bytes",
          minuet_execution_create(plan, device, WITH(workspace_bytes = 256), &out.execution));
  ACCEPTED(
      minuet_execution_create(plan, device, WITH(workspace_bytes = world->workspace_bytes), &out.execution));
  minuet_execution_destroy(out.execution);
  minuet_parameters_destroy(parameters);
}

/* Options of a network's cloud make no sense for a single op. */
static void create_of_single_ops(const world* world) {
  minuet_plan* const plan = world->convolution;
  minuet_device* const device = world->device;
  minuet_execution_options given, base = MINUET_EXECUTION_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_execution_create(plan, device, WITH(max_points = 100), &out.execution));
  REFUSED(INVALID_ARGUMENT, "keep_first_duplicate is 2",
          minuet_execution_create(plan, device, WITH(keep_first_duplicate = 2), &out.execution));
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_execution_create(plan, device, WITH(keep_first_duplicate = 1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "has_bounds is 2",
          minuet_execution_create(plan, device, WITH(has_bounds = 2), &out.execution));
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_execution_create(plan, device, WITH(has_bounds = 1), &out.execution));
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_execution_create(plan, device, WITH(batch_size = 1), &out.execution));
  ACCEPTED(minuet_execution_create(plan, device, NULL, &out.execution));
  DONE(minuet_execution_destroy(out.execution));
  DONE(minuet_execution_destroy(NULL));
}

void call_execution_create(world* world) {
  create_with_wrong_handles(world);
  create_with_wrong_clouds(world);
  create_with_wrong_memory(world);
  create_of_single_ops(world);
}

void call_prepare(world* world) {
  const int32_t* const rows4 = world->coordinates;
  const int32_t* const odd = (const int32_t*)((const char*)rows4 + 3);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution *own = NULL, *op = NULL, *bounded = NULL;
  MUST(minuet_execution_create(world->network, world->device, NULL, &own));
  MUST(minuet_execution_create(world->convolution, world->device, NULL, &op));
  options.has_bounds = 1;
  MUST(minuet_execution_create(world->network, world->device, &options, &bounded));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_prepare(NULL, rows4, ROWS, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null", minuet_execution_prepare(own, NULL, ROWS, NULL));
  REFUSED(INVALID_ARGUMENT, "the coordinates", minuet_execution_prepare(own, odd, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is -1", minuet_execution_prepare(own, rows4, -1, NULL));
  REFUSED(OUT_OF_RANGE, "coordinates", minuet_execution_prepare(own, rows4, INT64_MAX, NULL));
  REFUSED(INVALID_ARGUMENT, "duplicates", minuet_execution_prepare(own, world->duplicates, ROWS, NULL));
  REFUSED(INVALID_ARGUMENT, "negative batch index", minuet_execution_prepare(own, world->negative, 1, NULL));
  REFUSED(OUT_OF_RANGE, "bounds", minuet_execution_prepare(bounded, rows4, ROWS, NULL));
  REFUSED(FAILED_PRECONDITION, "single op", minuet_execution_prepare(op, rows4, ROWS, NULL));
  ACCEPTED(minuet_execution_prepare(own, NULL, 0, NULL));
  ACCEPTED(minuet_execution_prepare(own, rows4, ROWS, NULL));
  REFUSED(FAILED_PRECONDITION, "level_capacity",
          minuet_execution_prepare_on_device(own, rows4, world->count, NULL));
  REFUSED(FAILED_PRECONDITION, "single op",
          minuet_execution_prepare_on_device(op, rows4, world->count, NULL));
  minuet_execution_destroy(bounded);
  minuet_execution_destroy(op);
  minuet_execution_destroy(own);
}

static void prepare_one(const world* world, minuet_execution* own, minuet_execution* network) {
  minuet_kernel_map* const* const map = &world->map;
  minuet_kernel_map* const two[] = {world->map, world->map};
  minuet_kernel_map* const none[] = {NULL};
  minuet_kernel_map* thin = NULL;
  MUST(minuet_kernel_map_create(world->set, world->set, NULL, NULL, &thin));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_prepare_maps(NULL, map, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "maps is null", minuet_execution_prepare_maps(own, NULL, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_execution_prepare_maps(own, none, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_execution_prepare_maps(own, map, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "0 kernel maps", minuet_execution_prepare_maps(own, map, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "2 kernel maps", minuet_execution_prepare_maps(own, two, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "another device", minuet_execution_prepare_maps(own, &world->other_map, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "queue", minuet_execution_prepare_maps(own, &world->queued_map, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "kernel size", minuet_execution_prepare_maps(own, &thin, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "submanifold", minuet_execution_prepare_maps(own, &world->coarse_map, 1, NULL));
  REFUSED(FAILED_PRECONDITION, "network", minuet_execution_prepare_maps(network, map, 1, NULL));
  ACCEPTED(minuet_execution_prepare_maps(own, map, 1, NULL));
  minuet_kernel_map_destroy(thin);
}

static void prepare_together(const world* world, minuet_execution* without_queue, minuet_execution* network) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution* both[2] = {NULL, NULL};
  minuet_kernel_map* const maps[] = {world->queued_map, world->queued_map};
  minuet_kernel_map* const hole[] = {world->queued_map, NULL};
  minuet_kernel_map* const mixed[] = {world->queued_map, world->map};
  options.queue = world->queue2;
  MUST(minuet_execution_create(world->convolution, world->device, &options, &both[0]));
  minuet_execution* const elsewhere = both[0];
  options.queue = world->queue;
  for (int i = 0; i < 2; ++i) {
    MUST(minuet_execution_create(world->convolution, world->device, &options, &both[i]));
  }
  minuet_execution* const twice[] = {both[0], both[0]};
  minuet_execution* const none[] = {both[0], NULL};
  minuet_execution* const two_queues[] = {both[0], elsewhere};
  minuet_execution* const one_queue[] = {both[0], without_queue};
  REFUSED(INVALID_ARGUMENT, "executions is null", minuet_executions_prepare_maps(NULL, maps, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "maps is null", minuet_executions_prepare_maps(both, NULL, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_executions_prepare_maps(both, maps, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_executions_prepare_maps(none, maps, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_executions_prepare_maps(both, hole, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "twice", minuet_executions_prepare_maps(twice, maps, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "one queue", minuet_executions_prepare_maps(two_queues, maps, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "one queue", minuet_executions_prepare_maps(one_queue, maps, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "one queue", minuet_executions_prepare_maps(&without_queue, maps, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "queue", minuet_executions_prepare_maps(both, mixed, 2, NULL));
  REFUSED(FAILED_PRECONDITION, "network", minuet_executions_prepare_maps(&network, maps, 1, NULL));
  ACCEPTED(minuet_executions_prepare_maps(both, maps, 2, NULL));
  ACCEPTED(minuet_executions_prepare_maps(NULL, NULL, 0, NULL));
  minuet_execution_destroy(elsewhere);
  for (int i = 0; i < 2; ++i) minuet_execution_destroy(both[i]);
}

/* The workspaces of executions that are prepared together must not overlap. */
static void prepare_overlapping(const world* world) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution* both[2] = {NULL, NULL};
  minuet_kernel_map* const maps[] = {world->queued_map, world->queued_map};
  options.queue = world->queue;
  options.workspace_bytes = world->workspace_bytes / 2 + 256;
  for (int i = 0; i < 2; ++i) {
    options.workspace = world->workspace + i * (world->workspace_bytes / 2 - 256);
    MUST(minuet_execution_create(world->convolution, world->device, &options, &both[i]));
  }
  REFUSED(INVALID_ARGUMENT, "the workspace of execution 1",
          minuet_executions_prepare_maps(both, maps, 2, NULL));
  for (int i = 0; i < 2; ++i) minuet_execution_destroy(both[i]);
}

void call_prepare_maps(world* world) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution *own = NULL, *network = NULL, *queued_network = NULL;
  MUST(minuet_execution_create(world->convolution, world->device, NULL, &own));
  MUST(minuet_execution_create(world->network, world->device, NULL, &network));
  options.queue = world->queue;
  MUST(minuet_execution_create(world->network, world->device, &options, &queued_network));
  prepare_one(world, own, network);
  prepare_together(world, own, queued_network);
  prepare_overlapping(world);
  minuet_execution_destroy(queued_network);
  minuet_execution_destroy(network);
  minuet_execution_destroy(own);
}
