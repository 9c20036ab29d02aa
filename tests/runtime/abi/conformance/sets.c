/* Rows of coordinate sets. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void create_wrong_sets(const world* world) {
  minuet_device* const device = world->device;
  const int32_t* const rows4 = world->coordinates;
  const int32_t* const odd = (const int32_t*)((const char*)rows4 + 2);
  const int64_t too_many = (int64_t)1 << 40;
  REFUSED(INVALID_ARGUMENT, "device is null",
          minuet_coordinates_create(NULL, NULL, rows4, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "coordinates is null",
          minuet_coordinates_create(device, NULL, NULL, 4, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "the coordinates",
          minuet_coordinates_create(device, NULL, odd, 1, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "is -1", minuet_coordinates_create(device, NULL, rows4, -1, NULL, &out.set));
  REFUSED(OUT_OF_RANGE, "coordinates",
          minuet_coordinates_create(device, NULL, rows4, too_many, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "set is null", minuet_coordinates_create(device, NULL, rows4, ROWS, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "duplicates",
          minuet_coordinates_create(device, NULL, world->duplicates, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "negative batch index",
          minuet_coordinates_create(device, NULL, world->negative, 1, NULL, &out.set));
}

static void create_sets_with_wrong_options(const world* world) {
  minuet_device* const device = world->device;
  const int32_t* const at = world->coordinates;
  minuet_coordinates_options given, base = MINUET_COORDINATES_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_coordinates_create(device, WITH(struct_size = 15), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "ext",
          minuet_coordinates_create(device, WITH(ext = &base), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "ndim is -1",
          minuet_coordinates_create(device, WITH(ndim = -1), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "ndim is 5",
          minuet_coordinates_create(device, WITH(ndim = 5), at, 1, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "tensor_stride of axis 1 is -1",
          minuet_coordinates_create(device, WITH(tensor_stride[1] = -1), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "tensor_stride of axis 0",
          minuet_coordinates_create(device, WITH(tensor_stride[0] = (1 << 24) + 1), at, 1, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "tensor_stride of axis 3",
          minuet_coordinates_create(device, WITH(tensor_stride[3] = 2), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "reserved is 1",
          minuet_coordinates_create(device, WITH(reserved = 1), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "queue belongs to the device",
          minuet_coordinates_create(device, WITH(queue = world->other_queue), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "has_bounds is 2",
          minuet_coordinates_create(device, WITH(has_bounds = 2), at, ROWS, NULL, &out.set));
  REFUSED(OUT_OF_RANGE, "bounds",
          minuet_coordinates_create(device, WITH(has_bounds = 1), at, ROWS, NULL, &out.set));
  base.has_bounds = 1;
  REFUSED(INVALID_ARGUMENT, "least[2] is 1 and greatest[2] is 0",
          minuet_coordinates_create(device, WITH(least[2] = 1), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "greatest[1] is -1",
          minuet_coordinates_create(device, WITH(greatest[1] = -1), at, ROWS, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "batch index",
          minuet_coordinates_create(device, WITH(least[0] = -1), at, ROWS, NULL, &out.set));
  for (int axis = 0; axis < 3; ++axis) base.least[1 + axis] = INT32_MIN / 2;
  for (int axis = 0; axis < 3; ++axis) base.greatest[1 + axis] = INT32_MAX / 2;
  REFUSED(OUT_OF_RANGE, "64-bit key",
          minuet_coordinates_create(device, WITH(greatest[0] = 1), at, ROWS, NULL, &out.set));
}

static void create_sets(const world* world) {
  minuet_device* const device = world->device;
  const int32_t* const at = world->coordinates;
  minuet_coordinates_options given, base = MINUET_COORDINATES_OPTIONS_INIT;
  ACCEPTED(minuet_coordinates_create(device, NULL, NULL, 0, NULL, &out.set));
  DONE(minuet_coordinates_destroy(out.set));
  DONE(minuet_coordinates_destroy(NULL));
  ACCEPTED(minuet_coordinates_create(device, NULL, at, ROWS, NULL, &out.set));
  DONE(minuet_coordinates_destroy(out.set));
  ACCEPTED(minuet_coordinates_create(device, WITH(queue = world->queue), at, ROWS, NULL, &out.set));
  minuet_coordinates_destroy(out.set);
  REFUSED(INVALID_ARGUMENT, "keep_first_duplicate is 2",
          minuet_coordinates_create(device, WITH(keep_first_duplicate = 2), world->duplicates, ROWS, NULL,
                                    &out.set));
  ACCEPTED(minuet_coordinates_create(device, WITH(keep_first_duplicate = 1), world->duplicates, ROWS, NULL,
                                     &out.set));
  minuet_coordinates* const set = out.set;
  GIVES(ROWS - 1, minuet_coordinates_count(set));
  GIVES(ROWS, minuet_coordinates_rows(set));
  GIVES(0, minuet_coordinates_count(NULL));
  GIVES(0, minuet_coordinates_rows(NULL));
  minuet_coordinates_destroy(set);
}

static void downsample_sets(const world* world) {
  static const int32_t twos[MINUET_MAX_DIM] = {2, 2, 2, 1}, negative[MINUET_MAX_DIM] = {2, -2, 2, 1},
                       far[MINUET_MAX_DIM] = {(1 << 24) + 1, 1, 1, 1}, fourth[MINUET_MAX_DIM] = {2, 2, 2, 2};
  minuet_coordinates* const set = world->set;
  REFUSED(INVALID_ARGUMENT, "fine is null", minuet_coordinates_downsample(NULL, twos, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "stride is null", minuet_coordinates_downsample(set, NULL, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "coarse is null", minuet_coordinates_downsample(set, twos, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "stride of axis 1 is -2",
          minuet_coordinates_downsample(set, negative, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "axis 0: stride", minuet_coordinates_downsample(set, far, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "stride of axis 3 is 2",
          minuet_coordinates_downsample(set, fourth, NULL, &out.set));
  ACCEPTED(minuet_coordinates_downsample(set, twos, NULL, &out.set));
  minuet_coordinates* const coarse = out.set;
  GIVES(ROWS - 1, minuet_coordinates_count(coarse)); /* the first two rows are in one cell */
  minuet_coordinates_destroy(coarse);
}

static void reach_sets(const world* world) {
  minuet_coordinates* const set = world->set;
  minuet_reach_options given, base = MINUET_REACH_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "parent is null", minuet_coordinates_reach(NULL, &base, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_coordinates_reach(set, NULL, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "set is null", minuet_coordinates_reach(set, &base, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_coordinates_reach(set, WITH(struct_size = 8), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_coordinates_reach(set, WITH(ext = &base), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 1 is -3",
          minuet_coordinates_reach(set, WITH(kernel_size[1] = -3), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "offsets",
          minuet_coordinates_reach(set, WITH(kernel_size[0] = INT32_MAX), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "axis 0: stride",
          minuet_coordinates_reach(set, WITH(stride[0] = (1 << 24) + 1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_coordinates_reach(set, WITH(dilation[2] = -1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_coordinates_reach(set, WITH(dilation[2] = (1 << 24) + 1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "padding of axis 2 is -1",
          minuet_coordinates_reach(set, WITH(padding[2] = -1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "axis 2 has padding",
          minuet_coordinates_reach(set, WITH(padding[2] = INT32_MAX), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "padding of axis 3 is 1",
          minuet_coordinates_reach(set, WITH(padding[3] = 1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "shape of axis 0 is -4",
          minuet_coordinates_reach(set, WITH(shape[0] = -4), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "shape of axis 1 is 0",
          minuet_coordinates_reach(set, WITH(shape[0] = 4), NULL, &out.set));
  ACCEPTED(minuet_coordinates_reach(set, &base, NULL, &out.set)); /* one offset: the same coordinates */
  GIVES(ROWS, minuet_coordinates_count(out.set));
  minuet_coordinates_destroy(out.set);
}

static void generate_sets(const world* world) {
  minuet_coordinates* const set = world->set;
  minuet_generate_options given, base = MINUET_GENERATE_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "parent is null", minuet_coordinates_generate(NULL, &base, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_coordinates_generate(set, NULL, NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "set is null", minuet_coordinates_generate(set, &base, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_coordinates_generate(set, WITH(struct_size = 8), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_coordinates_generate(set, WITH(ext = &base), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 1 is -3",
          minuet_coordinates_generate(set, WITH(kernel_size[1] = -3), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "offsets",
          minuet_coordinates_generate(set, WITH(kernel_size[0] = INT32_MAX), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "axis 0: stride 2 does not divide 1",
          minuet_coordinates_generate(set, WITH(stride[0] = 2), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_coordinates_generate(set, WITH(dilation[2] = -1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_coordinates_generate(set, WITH(dilation[2] = (1 << 24) + 1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 2",
          minuet_coordinates_generate(set, WITH(dense_offsets = 2), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "set dense_offsets",
          minuet_coordinates_generate(set, WITH(padding[2] = 1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "shape of axis 0 is -4",
          minuet_coordinates_generate(set, WITH(shape[0] = -4), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "reserved is 1",
          minuet_coordinates_generate(set, WITH(reserved = 1), NULL, &out.set));
  ACCEPTED(minuet_coordinates_generate(set, &base, NULL, &out.set)); /* one offset: the same coordinates */
  GIVES(ROWS, minuet_coordinates_count(out.set));
  minuet_coordinates_destroy(out.set);
  base.dense_offsets = 1;
  REFUSED(INVALID_ARGUMENT, "padding of axis 2 is -1",
          minuet_coordinates_generate(set, WITH(padding[2] = -1), NULL, &out.set));
  REFUSED(INVALID_ARGUMENT, "axis 2 has padding",
          minuet_coordinates_generate(set, WITH(padding[2] = INT32_MAX), NULL, &out.set));
  ACCEPTED(minuet_coordinates_generate(set, WITH(padding[2] = 1), NULL, &out.set));
  GIVES(ROWS, minuet_coordinates_count(out.set));
  minuet_coordinates_destroy(out.set);
}

static void export_sets(const world* world) {
  int32_t* const target = world->poisoned;
  int32_t answer[ROWS * 4], wanted[ROWS * 4];
  REFUSED(INVALID_ARGUMENT, "set is null", minuet_coordinates_export(NULL, target, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null", minuet_coordinates_export(world->set, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "the coordinates",
          minuet_coordinates_export(world->set, (int32_t*)((char*)target + 1), NULL));
  ACCEPTED(minuet_coordinates_export(world->set, target, NULL));
  read_device(world, answer, target, sizeof(answer));
  read_device(world, wanted, world->coordinates, sizeof(wanted));
  EXPECT(memcmp(answer, wanted, sizeof(answer)) == 0);
  poison_device(world);
}

void call_sets(world* world) {
  create_wrong_sets(world);
  create_sets_with_wrong_options(world);
  create_sets(world);
  downsample_sets(world);
  reach_sets(world);
  generate_sets(world);
  export_sets(world);
}
