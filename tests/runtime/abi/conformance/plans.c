/* Rows of plans: compiling, loading, queries, and plans as bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void count_kernels(const minuet_kernel_info* kernel, void* user) {
  (void)kernel;
  ++*(int*)user;
}

static void compile_plans(const world* world) {
  minuet_plan* const plan = world->convolution;
  int kernels = 0;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_compile(NULL, world->arch, count_kernels, &kernels));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_plan_compile(plan, NULL, count_kernels, &kernels));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string",
          minuet_plan_compile(plan, "", count_kernels, &kernels));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_plan_compile(plan, "hopper", count_kernels, &kernels));
  EXPECT(kernels == 0);
  ACCEPTED(minuet_plan_compile(plan, world->arch, NULL, NULL));
  ACCEPTED(minuet_plan_compile(plan, world->arch, count_kernels, &kernels));
  EXPECT((kernels > 0) == (strcmp(world->arch, "cpu") != 0));

  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_plan_load(plan, NULL));
  REFUSED(FAILED_PRECONDITION, "not compiled", minuet_plan_load(world->uncompiled, world->device));
  ACCEPTED(minuet_plan_load(plan, world->device));
}

static void query_plans(const world* world) {
  minuet_plan* const plan = world->network;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_query(NULL, INFO(plan)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_plan_query(plan, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0", minuet_plan_query(plan, INFO_WITH(plan, struct_size = 0)));
  ACCEPTED(minuet_plan_query(plan, INFO(plan)));
  EXPECT(strcmp(out.info.plan.name, "tiny") == 0 && out.info.plan.levels == 1 &&
         out.info.plan.out_channels == OUT);
  const int32_t parameters = out.info.plan.parameter_tensors;

  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_query_parameter(NULL, 0, INFO(parameter)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_plan_query_parameter(plan, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_plan_query_parameter(plan, 0, INFO_WITH(parameter, struct_size = 0)));
  REFUSED(OUT_OF_RANGE, "no parameter -1", minuet_plan_query_parameter(plan, -1, INFO(parameter)));
  REFUSED(OUT_OF_RANGE, "no parameter", minuet_plan_query_parameter(plan, parameters, INFO(parameter)));
  ACCEPTED(minuet_plan_query_parameter(plan, 0, INFO(parameter)));
  EXPECT(out.info.parameter.rank == 3 && out.info.parameter.shape[0] == VOLUME);
}

static void ask_for_workspaces(const world* world) {
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_workspace_bytes(NULL, device, 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_plan_workspace_bytes(plan, NULL, 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_plan_workspace_bytes(plan, device, 1, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "max_points", minuet_plan_workspace_bytes(plan, device, -1, 1, out.numbers));
  REFUSED(OUT_OF_RANGE, "max_points", minuet_plan_workspace_bytes(plan, device, INT64_MAX, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours is 0",
          minuet_plan_workspace_bytes(plan, device, 1, 0, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours", minuet_plan_workspace_bytes(plan, device, 1, NAN, out.numbers));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_plan_workspace_bytes(plan, world->other_device, 1000, 5, out.numbers));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_plan_workspace_bytes(world->uncompiled, device, 1000, 5, out.numbers));
  ACCEPTED(minuet_plan_workspace_bytes(plan, device, 1000, 5, out.numbers));
  EXPECT(out.numbers[0] > 0);
}

void call_plans(world* world) {
  compile_plans(world);
  query_plans(world);
  ask_for_workspaces(world);
}

static size_t size_of(minuet_plan* plan) {
  size_t needed = 0;
  MUST(minuet_plan_serialize(plan, NULL, 0, 0, NULL, 0, &needed));
  return needed;
}

static void serialize(const world* world, char* buffer, size_t size) {
  static const char* const cpu[] = {"cpu"};
  static const char* const empty[] = {"cpu", ""};
  static const char* const null[] = {NULL};
  minuet_plan* const plan = world->uncompiled;
  size_t needed = 0;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_serialize(NULL, cpu, 1, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "archs is null",
          minuet_plan_serialize(plan, NULL, 1, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "arch_count is 0",
          minuet_plan_serialize(plan, cpu, 0, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "arch_count is -1",
          minuet_plan_serialize(plan, cpu, -1, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "archs[1] is an empty",
          minuet_plan_serialize(plan, empty, 2, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "archs[0] is null",
          minuet_plan_serialize(plan, null, 1, 0, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "flags is 2", minuet_plan_serialize(plan, cpu, 1, 2, out.text, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "buffer is null", minuet_plan_serialize(plan, cpu, 1, 0, NULL, 8, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "needed is null", minuet_plan_serialize(plan, cpu, 1, 0, out.text, 8, NULL));
  REFUSED(INVALID_ARGUMENT, "buffer and needed overlap",
          minuet_plan_serialize(plan, cpu, 1, 0, &out.bytes, 8, &out.bytes));
  REFUSED(OUT_OF_RANGE, "buffer has 8", minuet_plan_serialize(plan, cpu, 1, 0, out.text, 8, &needed));
  EXPECT(needed == size);
  ACCEPTED(minuet_plan_serialize(plan, cpu, 1, 0, buffer, size, &needed));
  ACCEPTED(minuet_plan_serialize(plan, NULL, 0, MINUET_SERIALIZE_WITHOUT_VALUES, NULL, 0, &needed));
  EXPECT(needed < size);
}

static void deserialize(const world* world, char* buffer, size_t size) {
  minuet_context* const context = world->context;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_deserialize(NULL, buffer, size, &out.plan));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_plan_deserialize(context, NULL, size, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_deserialize(context, buffer, size, NULL));
  REFUSED(INVALID_ARGUMENT, "not a serialized plan", minuet_plan_deserialize(context, buffer, 0, &out.plan));
  REFUSED(INVALID_ARGUMENT, "bytes, but", minuet_plan_deserialize(context, buffer, size - 1, &out.plan));
  REFUSED(INVALID_ARGUMENT, "bytes, but", minuet_plan_deserialize(context, buffer, size + 1, &out.plan));
  buffer[size / 2] ^= 1;
  REFUSED(INVALID_ARGUMENT, "digest", minuet_plan_deserialize(context, buffer, size, &out.plan));
  buffer[size / 2] ^= 1;
  ACCEPTED(minuet_plan_deserialize(context, buffer, size, &out.plan));
  minuet_plan_destroy(out.plan);
}

void call_serialization(world* world) {
  const size_t size = size_of(world->uncompiled);
  char* const buffer = calloc(size + 1, 1);
  serialize(world, buffer, size);
  deserialize(world, buffer, size);
  free(buffer);
}
