/* Rows of plans: compiling, loading, queries, and plans as bytes. */
#include <math.h>
#include <stdio.h>
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

static void query_tensors(const world* world) {
  minuet_plan* const plan = world->network;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_query_input(NULL, 0, INFO(tensor)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_plan_query_input(plan, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_plan_query_input(plan, 0, INFO_WITH(tensor, struct_size = 0)));
  REFUSED(OUT_OF_RANGE, "no input -1", minuet_plan_query_input(plan, -1, INFO(tensor)));
  REFUSED(OUT_OF_RANGE, "no input 1", minuet_plan_query_input(plan, 1, INFO(tensor)));
  ACCEPTED(minuet_plan_query_input(plan, 0, INFO(tensor)));
  EXPECT(strcmp(out.info.tensor.name, "input") == 0 && out.info.tensor.channels == IN);
  EXPECT(out.info.tensor.rank == 2 && out.info.tensor.shape[0] == -1 && out.info.tensor.shape[1] == IN);
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_query_output(NULL, 0, INFO(tensor)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_plan_query_output(plan, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_plan_query_output(plan, 0, INFO_WITH(tensor, struct_size = 0)));
  REFUSED(OUT_OF_RANGE, "no output -1", minuet_plan_query_output(plan, -1, INFO(tensor)));
  REFUSED(OUT_OF_RANGE, "no output 1", minuet_plan_query_output(plan, 1, INFO(tensor)));
  ACCEPTED(minuet_plan_query_output(plan, 0, INFO(tensor)));
  EXPECT(strcmp(out.info.tensor.name, "output") == 0 && out.info.tensor.channels == OUT);
  EXPECT(out.info.tensor.level == 0 && out.info.tensor.tensor_stride[2] == 1);
  EXPECT(out.info.tensor.element == MINUET_ELEMENT_F16);

  GIVES(1, minuet_plan_description(NULL, out.text, sizeof(out.text)));
  EXPECT(out.text[0] == 0);
  GIVES(1, minuet_plan_description(world->convolution, NULL, 0));
  const size_t needed = minuet_plan_description(plan, NULL, 0);
  GIVES(needed, minuet_plan_description(plan, out.text, sizeof(out.text)));
  EXPECT(needed > 1 && strncmp(out.text, "{", 1) == 0);
}

/* Counts the convolutions that keep floating numbers because they read the network's input. */
static void visit(int32_t number, const char* reason, void* user) {
  if (number == 0 && strstr(reason, "reads the network's input") != NULL) ++*(int*)user;
}

static void quantize(const world* world) {
  minuet_plan* const plan = world->network;
  char text[4096];
  size_t needed = 0;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_observe(NULL, out.text, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "buffer is null", minuet_plan_observe(plan, NULL, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "needed is null", minuet_plan_observe(plan, out.text, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "a single op", minuet_plan_observe(world->convolution, out.text, 1, &out.bytes));
  ACCEPTED(minuet_plan_observe(plan, NULL, 0, &out.bytes));
  needed = out.bytes;
  ACCEPTED(minuet_plan_observe(plan, text, sizeof(text), &out.bytes));
  EXPECT(out.bytes == needed && strlen(text) + 1 == needed && strstr(text, "\"layer:") != NULL);

  const char* const observed = strstr(text, "\"layer:") + strlen("\"layer:");
  char name[64];
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(observed, "\""), observed);
  const char *const layers[] = {name, name}, *const none[] = {NULL}, *const unknown[] = {"nothing"};
  const float ranges[] = {2, 2}, wrong_ranges[] = {-1};
  int32_t flags[] = {1, 1}, wrong_flags[] = {2};
  int visits = 0;
  char* const to = out.text;
  REFUSED(INVALID_ARGUMENT, "plan is null",
          minuet_plan_quantize(NULL, layers, ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "layers is null",
          minuet_plan_quantize(plan, NULL, ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "layers[0] is null",
          minuet_plan_quantize(plan, none, ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "no convolution \"nothing\"",
          minuet_plan_quantize(plan, unknown, ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "listed twice",
          minuet_plan_quantize(plan, layers, ranges, flags, 2, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "ranges is null",
          minuet_plan_quantize(plan, layers, NULL, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "ranges[0] is -1",
          minuet_plan_quantize(plan, layers, wrong_ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "is_int8 is null",
          minuet_plan_quantize(plan, layers, ranges, NULL, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "is_int8[0] is 2",
          minuet_plan_quantize(plan, layers, ranges, wrong_flags, 1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "count is -1",
          minuet_plan_quantize(plan, layers, ranges, flags, -1, visit, &visits, to, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "buffer is null",
          minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, NULL, 1, &out.bytes));
  REFUSED(INVALID_ARGUMENT, "needed is null",
          minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, to, 1, NULL));
  REFUSED(
      INVALID_ARGUMENT, "a single op",
      minuet_plan_quantize(world->convolution, layers, ranges, flags, 1, visit, &visits, to, 1, &out.bytes));
  EXPECT(visits == 0);
  /* The first convolution reads the network's input, so that it stays floating. */
  ACCEPTED(
      minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, text, sizeof(text), &out.bytes));
  EXPECT(flags[0] == 0 && strstr(text, "\"output_range\": 2") != NULL && visits == 1);
  flags[0] = 1;
  ACCEPTED(minuet_plan_quantize(plan, layers, ranges, flags, 1, NULL, NULL, text, sizeof(text), &out.bytes));
  EXPECT(flags[0] == 0 && visits == 1);
  /* Each call takes the flags anew: after the call for the size they no longer ask for 8 bits. */
  flags[0] = 1;
  ACCEPTED(minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, NULL, 0, &out.bytes));
  ACCEPTED(
      minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, text, sizeof(text), &out.bytes));
  EXPECT(flags[0] == 0 && visits == 2);
  flags[0] = 1;
  ACCEPTED(
      minuet_plan_quantize(plan, layers, ranges, flags, 1, visit, &visits, text, sizeof(text), &out.bytes));
  EXPECT(flags[0] == 0 && visits == 3);
}

static void ask_for_workspaces(const world* world) {
  minuet_plan* const plan = world->network;
  const char* const arch = world->arch;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_workspace_bytes(NULL, arch, NULL, 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_plan_workspace_bytes(plan, NULL, NULL, 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string",
          minuet_plan_workspace_bytes(plan, "", NULL, 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_plan_workspace_bytes(plan, arch, NULL, 1, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "max_points", minuet_plan_workspace_bytes(plan, arch, NULL, -1, 1, out.numbers));
  REFUSED(OUT_OF_RANGE, "max_points",
          minuet_plan_workspace_bytes(plan, arch, NULL, INT64_MAX, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours is 0",
          minuet_plan_workspace_bytes(plan, arch, NULL, 1, 0, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours",
          minuet_plan_workspace_bytes(plan, arch, NULL, 1, NAN, out.numbers));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_workspace_bytes(plan, "sm_80", NULL, 1000, 5, out.numbers));
  REFUSED(FAILED_PRECONDITION, "call minuet_plan_compile",
          minuet_plan_workspace_bytes(world->uncompiled, arch, NULL, 1000, 5, out.numbers));
  ACCEPTED(minuet_plan_workspace_bytes(plan, arch, NULL, 1000, 5, out.numbers));
  EXPECT(out.numbers[0] > 0);
}

/* The function tells a size, so it refuses options that give memory or objects of a device. */
static void ask_for_workspaces_with_options(const world* world) {
  minuet_plan* const plan = world->network;
  const char* const arch = world->arch;
  minuet_parameters* parameters = NULL;
  minuet_execution_options given, base = MINUET_EXECUTION_OPTIONS_INIT;
  MUST(minuet_parameters_create(plan, world->device, NULL, &parameters));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_plan_workspace_bytes(plan, arch, WITH(struct_size = 0), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "ext",
          minuet_plan_workspace_bytes(plan, arch, WITH(ext = &given), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "workspace is set",
          minuet_plan_workspace_bytes(plan, arch, WITH(workspace = world->workspace), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is set",
          minuet_plan_workspace_bytes(plan, arch, WITH(workspace_bytes = 256), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "defer_workspace is set",
          minuet_plan_workspace_bytes(plan, arch, WITH(defer_workspace = 1), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "queue is set",
          minuet_plan_workspace_bytes(plan, arch, WITH(queue = world->queue), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "parameters is set",
          minuet_plan_workspace_bytes(plan, arch, WITH(parameters = parameters), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "scratch_bytes is -1",
          minuet_plan_workspace_bytes(plan, arch, WITH(scratch_bytes = -1), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "map_method is 3",
          minuet_plan_workspace_bytes(plan, arch, WITH(map_method = 3), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "batch_size is -1",
          minuet_plan_workspace_bytes(plan, arch, WITH(batch_size = -1), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_points",
          minuet_plan_workspace_bytes(plan, arch, WITH(max_points = -1), 1, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_plan_workspace_bytes(world->convolution, arch, WITH(max_points = 9), 1, 1, out.numbers));
  ACCEPTED(minuet_plan_workspace_bytes(plan, arch, WITH(parameter_inputs = 1), 1, 1, out.numbers));
  minuet_parameters_destroy(parameters);
}

static void ask_for_workspaces_by_capacity(const world* world) {
  minuet_plan* const plan = world->network;
  const char* const arch = world->arch;
  minuet_execution_options given, base = capacity_options();
  REFUSED(INVALID_ARGUMENT, "max_points is 9",
          minuet_plan_workspace_bytes(plan, arch, &base, 9, 0, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours is 1",
          minuet_plan_workspace_bytes(plan, arch, &base, 0, 1, out.numbers));
  REFUSED(INVALID_ARGUMENT, "max_neighbours",
          minuet_plan_workspace_bytes(plan, arch, &base, 0, NAN, out.numbers));
  REFUSED(INVALID_ARGUMENT, "level_count is 2",
          minuet_plan_workspace_bytes(plan, arch, WITH(level_count = 2), 0, 0, out.numbers));
  REFUSED(INVALID_ARGUMENT, "level_capacity is null",
          minuet_plan_workspace_bytes(plan, arch, WITH(level_capacity = NULL), 0, 0, out.numbers));
  REFUSED(INVALID_ARGUMENT, "key_bits is 16",
          minuet_plan_workspace_bytes(plan, arch, WITH(key_bits = 16), 0, 0, out.numbers));
  ACCEPTED(minuet_plan_workspace_bytes(plan, arch, &base, 0, 0, out.numbers));
  EXPECT(out.numbers[0] > 0);
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_plan_workspace_bytes(world->convolution, arch, &base, 0, 0, out.numbers));
}

void call_plans(world* world) {
  compile_plans(world);
  query_plans(world);
  query_tensors(world);
  quantize(world);
  ask_for_workspaces(world);
  ask_for_workspaces_with_options(world);
  ask_for_workspaces_by_capacity(world);
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
