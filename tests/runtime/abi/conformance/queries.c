/* Rows of what executions tell. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void ask_before_prepare(const world* world, minuet_execution* own) {
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_output_shape(own, out.numbers, out.small));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_output_coordinates(own, world->poisoned, NULL));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_find_overflow(own, NULL, out.small));
  REFUSED(FAILED_PRECONDITION, "profiling", minuet_execution_query_stages(own, INFO(stages)));
  ACCEPTED(minuet_execution_query(own, INFO(execution)));
  EXPECT(!out.info.execution.has_capacities && out.info.execution.workspace_bytes > 0);
  ACCEPTED(minuet_execution_query_level(own, 0, INFO(level)));
  EXPECT(out.info.level.voxels == 0 && out.info.level.map_method == MINUET_MAPS_AUTO);
  ACCEPTED(minuet_execution_query_layer(own, 0, INFO(layer)));
  EXPECT(out.info.layer.pairs == 0 && out.info.layer.dataflow == MINUET_DATAFLOW_AUTO);
}

static void ask_for_outputs(const world* world, minuet_execution* own, minuet_execution* op) {
  int32_t* const overlapping = (int32_t*)(void*)out.numbers;
  int32_t* const target = world->poisoned;
  int32_t answer[ROWS * 4], wanted[ROWS * 4];
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_output_shape(NULL, out.numbers, out.small));
  REFUSED(INVALID_ARGUMENT, "rows is null", minuet_execution_output_shape(own, NULL, out.small));
  REFUSED(INVALID_ARGUMENT, "channels is null", minuet_execution_output_shape(own, out.numbers, NULL));
  REFUSED(INVALID_ARGUMENT, "rows and channels overlap",
          minuet_execution_output_shape(own, out.numbers, overlapping));
  ACCEPTED(minuet_execution_output_shape(own, out.numbers, out.small));
  EXPECT(out.numbers[0] == ROWS && out.small[0] == OUT);
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_output_shape_of(NULL, 0, out.numbers, out.small));
  REFUSED(INVALID_ARGUMENT, "rows is null", minuet_execution_output_shape_of(own, 0, NULL, out.small));
  REFUSED(INVALID_ARGUMENT, "channels is null", minuet_execution_output_shape_of(own, 0, out.numbers, NULL));
  REFUSED(OUT_OF_RANGE, "no output -1", minuet_execution_output_shape_of(own, -1, out.numbers, out.small));
  REFUSED(OUT_OF_RANGE, "no output 1", minuet_execution_output_shape_of(own, 1, out.numbers, out.small));
  ACCEPTED(minuet_execution_output_shape_of(own, 0, out.numbers, out.small));
  EXPECT(out.numbers[0] == ROWS && out.small[0] == OUT);
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_output_coordinates(NULL, target, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null", minuet_execution_output_coordinates(own, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "the coordinates",
          minuet_execution_output_coordinates(own, (int32_t*)((char*)target + 2), NULL));
  REFUSED(FAILED_PRECONDITION, "single op", minuet_execution_output_coordinates(op, target, NULL));
  ACCEPTED(minuet_execution_output_coordinates(own, target, NULL));
  read_device(world, answer, target, sizeof(answer));
  read_device(world, wanted, world->coordinates, sizeof(wanted));
  EXPECT(memcmp(answer, wanted, sizeof(answer)) == 0);
  poison_device(world);
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_output_coordinates_of(NULL, 0, target, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null",
          minuet_execution_output_coordinates_of(own, 0, NULL, NULL));
  REFUSED(OUT_OF_RANGE, "no output -1", minuet_execution_output_coordinates_of(own, -1, target, NULL));
  REFUSED(OUT_OF_RANGE, "no output 1", minuet_execution_output_coordinates_of(own, 1, target, NULL));
  REFUSED(FAILED_PRECONDITION, "single op", minuet_execution_output_coordinates_of(op, 0, target, NULL));
  ACCEPTED(minuet_execution_output_coordinates_of(own, 0, target, NULL));
  read_device(world, answer, target, sizeof(answer));
  EXPECT(memcmp(answer, wanted, sizeof(answer)) == 0);
  poison_device(world);
}

static void ask_for_structs(minuet_execution* own) {
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_query(NULL, INFO(execution)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_execution_query(own, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_execution_query(own, INFO_WITH(execution, struct_size = 0)));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_query_counters(NULL, INFO(counters)));
  REFUSED(INVALID_ARGUMENT, "counters is null", minuet_execution_query_counters(own, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 4",
          minuet_execution_query_counters(own, INFO_WITH(counters, struct_size = 4)));
  ACCEPTED(minuet_execution_query_counters(own, INFO(counters)));
  EXPECT(out.info.counters.workspace_bytes > 0);
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_reset_counters(NULL));
  ACCEPTED(minuet_execution_reset_counters(own));
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_release_captures(NULL));
  ACCEPTED(minuet_execution_release_captures(own));
}

static void ask_for_parts(minuet_execution* own) {
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_query_level(NULL, 0, INFO(level)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_execution_query_level(own, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_execution_query_level(own, 0, INFO_WITH(level, struct_size = 0)));
  REFUSED(OUT_OF_RANGE, "no level -1", minuet_execution_query_level(own, -1, INFO(level)));
  REFUSED(OUT_OF_RANGE, "no level 1", minuet_execution_query_level(own, 1, INFO(level)));
  ACCEPTED(minuet_execution_query_level(own, 0, INFO(level)));
  EXPECT(out.info.level.voxels == ROWS && out.info.level.tensor_stride[2] == 1);
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_query_layer(NULL, 0, INFO(layer)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_execution_query_layer(own, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 7",
          minuet_execution_query_layer(own, 0, INFO_WITH(layer, struct_size = 7)));
  REFUSED(OUT_OF_RANGE, "no layer -1", minuet_execution_query_layer(own, -1, INFO(layer)));
  REFUSED(OUT_OF_RANGE, "no layer 1", minuet_execution_query_layer(own, 1, INFO(layer)));
  ACCEPTED(minuet_execution_query_layer(own, 0, INFO(layer)));
  EXPECT(out.info.layer.pairs == ROWS + 2 && out.info.layer.dataflow == MINUET_DATAFLOW_FUSED);
}

static void ask_after_runs(minuet_execution* own) {
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_query_stages(NULL, INFO(stages)));
  REFUSED(INVALID_ARGUMENT, "times is null", minuet_execution_query_stages(own, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 3",
          minuet_execution_query_stages(own, INFO_WITH(stages, struct_size = 3)));
  ACCEPTED(minuet_execution_query_stages(own, INFO(stages)));
  EXPECT(out.info.stages.gemm >= 0);
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_find_overflow(NULL, NULL, out.small));
  REFUSED(INVALID_ARGUMENT, "layer is null", minuet_execution_find_overflow(own, NULL, NULL));
  ACCEPTED(minuet_execution_find_overflow(own, NULL, out.small));
  EXPECT(out.small[0] == -1);
}

void call_queries(world* world) {
  const minuet_tensor in = {world->features, ROWS, 0, IN, MINUET_F16};
  const minuet_tensor result = {world->poisoned, ROWS, 0, OUT, MINUET_F16};
  minuet_execution *own = NULL, *op = NULL;
  MUST(minuet_execution_create(world->convolution, world->device, NULL, &op));
  MUST(minuet_execution_create(world->network, world->device, NULL, &own));
  ask_before_prepare(world, own);
  REFUSED(INVALID_ARGUMENT, "execution is null", minuet_execution_set_profiling(NULL, 1));
  ACCEPTED(minuet_execution_set_profiling(own, 1));
  MUST(minuet_execution_prepare(own, world->coordinates, ROWS, NULL));
  ask_for_outputs(world, own, op);
  ask_for_structs(own);
  ask_for_parts(own);
  MUST(minuet_execution_run(own, &in, 1, &result, 1, NULL));
  MUST(minuet_device_synchronize(world->device, NULL));
  poison_device(world);
  ask_after_runs(own);
  minuet_execution_destroy(op);
  minuet_execution_destroy(own);
}
