/* Rows of networks and weights files. */
#include <stdio.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void create_wrong_networks(const world* world) {
  static const int32_t width[] = {OUT, OUT}, zero[] = {0};
  minuet_context* const own = world->context;
  minuet_network_options given, base = MINUET_NETWORK_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "name and description are both null",
          minuet_plan_create_network(own, &base, &out.plan));
  REFUSED(NOT_FOUND, "resnet", minuet_plan_create_network(own, WITH(name = "resnet"), &out.plan));
  REFUSED(INVALID_ARGUMENT, "description is not JSON",
          minuet_plan_create_network(own, WITH(description = "{"), &out.plan));
  base.description = network_description;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_plan_create_network(NULL, &base, &out.plan));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_plan_create_network(own, NULL, &out.plan));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_create_network(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_plan_create_network(own, WITH(struct_size = 0), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_plan_create_network(own, WITH(ext = &base), &out.plan));
  REFUSED(INVALID_ARGUMENT, "name and description are both given",
          minuet_plan_create_network(own, WITH(name = "minkunet42"), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is -1", minuet_plan_create_network(own, WITH(dtype = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dtype is 4", minuet_plan_create_network(own, WITH(dtype = 4), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channel_count is 0",
          minuet_plan_create_network(own, WITH(channels = width), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channel_count is 1",
          minuet_plan_create_network(own, WITH(channel_count = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim", minuet_plan_create_network(own, WITH(ndim = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "ndim", minuet_plan_create_network(own, WITH(ndim = 5), &out.plan));
  REFUSED(INVALID_ARGUMENT, "dataflow is 3", minuet_plan_create_network(own, WITH(dataflow = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shape_count is 0",
          minuet_plan_create_network(own, WITH(shape = width), &out.plan));
  REFUSED(INVALID_ARGUMENT, "shape_count is 3",
          minuet_plan_create_network(own, WITH(shape_count = 3), &out.plan));
  REFUSED(INVALID_ARGUMENT, "in_channels is -1",
          minuet_plan_create_network(own, WITH(in_channels = -1), &out.plan));
  base.channels = width;
  REFUSED(INVALID_ARGUMENT, "channel_count is -1",
          minuet_plan_create_network(own, WITH(channel_count = -1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "channels has 2 widths",
          minuet_plan_create_network(own, WITH(channel_count = 2), &out.plan));
  base.channel_count = 1;
  REFUSED(INVALID_ARGUMENT, "channels has a width of 0",
          minuet_plan_create_network(own, WITH(channels = zero), &out.plan));
  ACCEPTED(minuet_plan_create_network(own, &base, &out.plan));
  minuet_plan_destroy(out.plan);
}

/* Options of a weights file, where there is none. */
static void create_without_file(const world* world) {
  minuet_context* const own = world->context;
  minuet_network_options given, base = MINUET_NETWORK_OPTIONS_INIT;
  base.description = network_description;
  REFUSED(NOT_FOUND, "/nowhere", minuet_plan_create_network(own, WITH(weights_path = "/nowhere"), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(weights_order = MINUET_WEIGHTS_MINUET), &out.plan));
  REFUSED(INVALID_ARGUMENT, "allow_unused is 2",
          minuet_plan_create_network(own, WITH(allow_unused = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(allow_unused = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(weights_prefix = "module."), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(weights_map = "{}"), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(weights_key = "model_state"), &out.plan));
  REFUSED(INVALID_ARGUMENT, "allow_non_finite_parameters is 2",
          minuet_plan_create_network(own, WITH(allow_non_finite_parameters = 2), &out.plan));
  REFUSED(INVALID_ARGUMENT, "weights_path is null",
          minuet_plan_create_network(own, WITH(allow_non_finite_parameters = 1), &out.plan));
  base.without_values = 1;
  REFUSED(INVALID_ARGUMENT, "without_values", minuet_plan_create_network(own, WITH(seed = 1), &out.plan));
  REFUSED(INVALID_ARGUMENT, "without_values is 2",
          minuet_plan_create_network(own, WITH(without_values = 2), &out.plan));
  ACCEPTED(minuet_plan_create_network(own, WITH(without_values = 1), &out.plan));
  minuet_plan_destroy(out.plan);
}

/* A weights file of the network: a header of JSON, its length in front, and zeros. */
static void write_weights(const char* path) {
  static const char header[] =
      "{\"a.conv.weight\":{\"dtype\":\"F32\",\"shape\":[27,4,8],\"data_offsets\":[0,3456]},"
      "\"a.bn.weight\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[3456,3488]},"
      "\"a.bn.bias\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[3488,3520]},"
      "\"a.bn.running_mean\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[3520,3552]},"
      "\"a.bn.running_var\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[3552,3584]}}";
  static const char data[3584];
  const unsigned length = sizeof(header) - 1;
  const char size[8] = {(char)(length % 256), (char)(length / 256)};
  FILE* const file = fopen(path, "wb");
  EXPECT(file && fwrite(size, 8, 1, file) == 1 && fwrite(header, length, 1, file) == 1 &&
         fwrite(data, sizeof(data), 1, file) == 1 && fclose(file) == 0);
}

static void convert_weights(const world* world) {
  const char* const path = path_in(world, "weights");
  const char* const converted = path_in(world, "converted");
  minuet_network_options given, base = MINUET_NETWORK_OPTIONS_INIT;
  base.description = network_description;
  write_weights(path);
  REFUSED(INVALID_ARGUMENT, "weights_path is null", minuet_weights_convert(&base, converted));
  base.weights_path = path;
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_weights_convert(NULL, converted));
  REFUSED(INVALID_ARGUMENT, "output_path is null", minuet_weights_convert(&base, NULL));
  REFUSED(INVALID_ARGUMENT, "weights file itself", minuet_weights_convert(&base, path));
  REFUSED(FAILED_PRECONDITION, "/nowhere/file", minuet_weights_convert(&base, "/nowhere/file"));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_weights_convert(WITH(struct_size = 0), converted));
  REFUSED(INVALID_ARGUMENT, "weights_order is 12",
          minuet_weights_convert(WITH(weights_order = 12), converted));
  REFUSED(INVALID_ARGUMENT, "weights_order is -1",
          minuet_weights_convert(WITH(weights_order = -1), converted));
  REFUSED(INVALID_ARGUMENT, "weights_map", minuet_weights_convert(WITH(weights_map = "["), converted));
  REFUSED(INVALID_ARGUMENT, "module.", minuet_weights_convert(WITH(weights_prefix = "module."), converted));
  REFUSED(INVALID_ARGUMENT, "weights_key", minuet_weights_convert(WITH(weights_key = "model"), converted));
  REFUSED(NOT_FOUND, "/nowhere", minuet_weights_convert(WITH(weights_path = "/nowhere"), converted));
  EXPECT(fopen(converted, "rb") == NULL);
  ACCEPTED(minuet_weights_convert(&base, converted));
  REFUSED(INVALID_ARGUMENT, "without_values",
          minuet_plan_create_network(world->context, WITH(without_values = 1), &out.plan));
  base.weights_path = converted;
  ACCEPTED(minuet_plan_create_network(world->context, &base, &out.plan));
  minuet_plan_destroy(out.plan);
  EXPECT(remove(path) == 0 && remove(converted) == 0);
}

static void query_shipped_networks(void) {
  REFUSED(OUT_OF_RANGE, "index is -1", minuet_query_shipped_network(-1, INFO(shipped_network)));
  REFUSED(OUT_OF_RANGE, "index is 1000", minuet_query_shipped_network(1000, INFO(shipped_network)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_query_shipped_network(0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0",
          minuet_query_shipped_network(0, INFO_WITH(shipped_network, struct_size = 0)));
  ACCEPTED(minuet_query_shipped_network(0, INFO(shipped_network)));
  EXPECT(strcmp(out.info.shipped_network.name, "minkunet42") == 0);
}

void call_networks(world* world) {
  query_shipped_networks();
  create_wrong_networks(world);
  create_without_file(world);
  convert_weights(world);
}
