/* Rows of values of parameters. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

/* An array of the shape of the convolution's weight. */
static minuet_array weight_array(const void* data) {
  minuet_array array = {0};
  array.data = (void*)data;
  array.shape[0] = VOLUME;
  array.shape[1] = IN;
  array.shape[2] = OUT;
  array.rank = 3;
  array.element = MINUET_ELEMENT_F32;
  array.on_host = 1;
  return array;
}

static void create_parameters(const world* world) {
  minuet_plan* const plan = world->convolution;
  minuet_device* const device = world->device;
  minuet_parameters_options given, base = MINUET_PARAMETERS_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_parameters_create(NULL, device, NULL, &out.parameters));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_parameters_create(plan, NULL, NULL, &out.parameters));
  REFUSED(INVALID_ARGUMENT, "parameters is null", minuet_parameters_create(plan, device, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_parameters_create(plan, device, WITH(struct_size = 0), &out.parameters));
  REFUSED(INVALID_ARGUMENT, "ext",
          minuet_parameters_create(plan, device, WITH(ext = &base), &out.parameters));
  REFUSED(INVALID_ARGUMENT, "master is 2",
          minuet_parameters_create(plan, device, WITH(master = 2), &out.parameters));
  REFUSED(INVALID_ARGUMENT, "set_by_each_run is 2",
          minuet_parameters_create(plan, device, WITH(set_by_each_run = 2), &out.parameters));
  REFUSED(INVALID_ARGUMENT, "no parameters",
          minuet_parameters_create(world->pooling, device, NULL, &out.parameters));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_parameters_create(world->uncompiled, device, NULL, &out.parameters));
  REFUSED(FAILED_PRECONDITION, "not loaded",
          minuet_parameters_create(plan, world->other_device, NULL, &out.parameters));
  ACCEPTED(minuet_parameters_create(plan, device, WITH(master = 1), &out.parameters));
  DONE(minuet_parameters_destroy(out.parameters));
  ACCEPTED(minuet_parameters_create(plan, device, WITH(set_by_each_run = 1), &out.parameters));
  DONE(minuet_parameters_destroy(out.parameters));
  DONE(minuet_parameters_destroy(NULL));
}

static void set_wrong_calls(minuet_parameters* own, const minuet_array* good) {
  static const int32_t past[] = {1}, negative[] = {-1}, twice[] = {0, 0};
  const minuet_array two[] = {*good, *good};
  REFUSED(INVALID_ARGUMENT, "parameters is null", minuet_parameters_set(NULL, NULL, good, 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "values is null", minuet_parameters_set(own, NULL, NULL, 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "count is -1", minuet_parameters_set(own, NULL, good, -1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "count is 0", minuet_parameters_set(own, NULL, good, 0, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "order is -1", minuet_parameters_set(own, NULL, good, 1, -1, NULL));
  REFUSED(INVALID_ARGUMENT, "order is 12", minuet_parameters_set(own, NULL, good, 1, 12, NULL));
  REFUSED(OUT_OF_RANGE, "no parameter 1", minuet_parameters_set(own, past, good, 1, 0, NULL));
  REFUSED(OUT_OF_RANGE, "no parameter 1", minuet_parameters_set(own, NULL, two, 2, 0, NULL));
  REFUSED(OUT_OF_RANGE, "no parameter -1", minuet_parameters_set(own, negative, good, 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "given twice", minuet_parameters_set(own, twice, two, 2, 0, NULL));
}

static void set_wrong_arrays(minuet_parameters* own, const minuet_array* good) {
  minuet_array given, base = *good;
  REFUSED(INVALID_ARGUMENT, "data is null", minuet_parameters_set(own, NULL, WITH(data = NULL), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "its data",
          minuet_parameters_set(own, NULL, WITH(data = (char*)base.data + 1), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "shape[0] is 0",
          minuet_parameters_set(own, NULL, WITH(shape[0] = 0), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "shape[2] is -8",
          minuet_parameters_set(own, NULL, WITH(shape[2] = -OUT), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "weight", minuet_parameters_set(own, NULL, WITH(shape[0] = 26), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "stride[1] is -1",
          minuet_parameters_set(own, NULL, WITH(stride[1] = -1), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "rank is 0", minuet_parameters_set(own, NULL, WITH(rank = 0), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "rank is 7", minuet_parameters_set(own, NULL, WITH(rank = 7), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "weight", minuet_parameters_set(own, NULL, WITH(rank = 2), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "element is 1", minuet_parameters_set(own, NULL, WITH(element = 1), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "element is 7",
          minuet_parameters_set(own, NULL, WITH(element = MINUET_ELEMENT_I32), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "element is 10",
          minuet_parameters_set(own, NULL, WITH(element = 10), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "on_host is 2", minuet_parameters_set(own, NULL, WITH(on_host = 2), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "has_strides is 2",
          minuet_parameters_set(own, NULL, WITH(has_strides = 2), 1, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "stride[2] is 1",
          minuet_parameters_set(own, NULL, WITH(stride[2] = 1), 1, 0, NULL));
  base.has_strides = 1;
  REFUSED(INVALID_ARGUMENT, "reach",
          minuet_parameters_set(own, NULL, WITH(stride[0] = INT64_MAX), 1, 0, NULL));
}

static void get_wrong(const world* world, minuet_parameters* own) {
  minuet_array given, base = weight_array(world->poisoned);
  base.on_host = 0;
  REFUSED(FAILED_PRECONDITION, "weight", minuet_parameters_get(own, 0, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "parameters is null", minuet_parameters_get(NULL, 0, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "value is null", minuet_parameters_get(own, 0, NULL, NULL));
  REFUSED(OUT_OF_RANGE, "no parameter 1", minuet_parameters_get(own, 1, &base, NULL));
  REFUSED(OUT_OF_RANGE, "no parameter -1", minuet_parameters_get(own, -1, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "data is null", minuet_parameters_get(own, 0, WITH(data = NULL), NULL));
  REFUSED(INVALID_ARGUMENT, "its data",
          minuet_parameters_get(own, 0, WITH(data = (char*)base.data + 2), NULL));
  REFUSED(INVALID_ARGUMENT, "f64", minuet_parameters_get(own, 0, WITH(element = MINUET_ELEMENT_F64), NULL));
  REFUSED(INVALID_ARGUMENT, "element is 6", minuet_parameters_get(own, 0, WITH(element = 6), NULL));
  REFUSED(INVALID_ARGUMENT, "weight", minuet_parameters_get(own, 0, WITH(shape[1] = 5), NULL));
  REFUSED(INVALID_ARGUMENT, "rank is 7", minuet_parameters_get(own, 0, WITH(rank = 7), NULL));
  base.has_strides = 1;
  base.stride[0] = IN * OUT;
  base.stride[1] = OUT;
  REFUSED(INVALID_ARGUMENT, "contiguous", minuet_parameters_get(own, 0, WITH(stride[2] = 0), NULL));
}

void call_parameters(world* world) {
  static float answer[WEIGHTS];
  const minuet_array good = weight_array(world->weight);
  minuet_array target = weight_array(answer);
  minuet_parameters* own = NULL;
  create_parameters(world);
  MUST(minuet_parameters_create(world->convolution, world->device, NULL, &own));
  set_wrong_calls(own, &good);
  set_wrong_arrays(own, &good);
  get_wrong(world, own);
  ACCEPTED(minuet_parameters_set(own, NULL, &good, 1, MINUET_WEIGHTS_AS_DESCRIBED, NULL));
  ACCEPTED(minuet_parameters_set(own, NULL, NULL, 0, MINUET_WEIGHTS_MINUET, NULL));
  ACCEPTED(minuet_parameters_get(own, 0, &target, NULL));
  EXPECT(memcmp(answer, world->weight, sizeof(answer)) == 0);
  REFUSED(INVALID_ARGUMENT, "parameters is null", minuet_parameters_release_captures(NULL));
  ACCEPTED(minuet_parameters_release_captures(own));
  minuet_parameters_destroy(own);
}
