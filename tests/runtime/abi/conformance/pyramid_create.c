/* Rows that describe pyramids. */
#include "tests/runtime/abi/conformance/conformance.h"

static const int64_t one_capacity[] = {CAPACITY}, zero_capacity[] = {0}, most_capacity[] = {(int64_t)1 << 40},
                     negative_slots[] = {-1}, most_slots[] = {(1 << 26) + 1};

static void create_with_wrong_options(const world* world, pyramid_shape* shape) {
  minuet_context* const own = world->context;
  minuet_pyramid_options given, base = shape->options;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_pyramid_create(NULL, &base, &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_pyramid_create(own, NULL, &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_pyramid_create(own, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 8",
          minuet_pyramid_create(own, WITH(struct_size = 8), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_pyramid_create(own, WITH(ext = &base), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "ndim is -1", minuet_pyramid_create(own, WITH(ndim = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "ndim is 5", minuet_pyramid_create(own, WITH(ndim = 5), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level 1: stride of axis 2",
          minuet_pyramid_create(own, WITH(ndim = 2), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is 2",
          minuet_pyramid_create(own, WITH(levels = NULL), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is 0",
          minuet_pyramid_create(own, WITH(level_count = 0), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is -1",
          minuet_pyramid_create(own, WITH(level_count = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is 17",
          minuet_pyramid_create(own, WITH(level_count = 17), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "map_count is 3", minuet_pyramid_create(own, WITH(maps = NULL), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "map_count is 0", minuet_pyramid_create(own, WITH(map_count = 0), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "map_count is -1",
          minuet_pyramid_create(own, WITH(map_count = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "keep_coordinates is 4",
          minuet_pyramid_create(own, WITH(keep_coordinates = 4), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "keep_coordinates is 2147483649",
          minuet_pyramid_create(own, WITH(keep_coordinates = 1u << 31 | 1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_capacity is given without a network",
          minuet_pyramid_create(own, WITH(level_capacity = one_capacity), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "batch_size is -1",
          minuet_pyramid_create(own, WITH(batch_size = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "batch_size is 2147483648",
          minuet_pyramid_create(own, WITH(batch_size = (int64_t)1 << 31), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_bytes is 88",
          minuet_pyramid_create(own, WITH(level_bytes = 88), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "map_bytes is 66",
          minuet_pyramid_create(own, WITH(map_bytes = 66), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_slots is given without a network",
          minuet_pyramid_create(own, WITH(level_slots = one_capacity), &out.pyramid));
  /* 0 is the size in 0.3.0, which is less than today's, so that only the first level and the first map are
   * where they are read. */
  given = base;
  given.level_bytes = given.map_bytes = 0;
  given.level_count = given.map_count = 1;
  ACCEPTED(minuet_pyramid_create(own, &given, &out.pyramid));
  minuet_pyramid_destroy(out.pyramid);
  ACCEPTED(minuet_pyramid_create(own, WITH(batch_size = 2), &out.pyramid));
  minuet_pyramid_destroy(out.pyramid);
  ACCEPTED(minuet_pyramid_create(own, WITH(keep_first_duplicate = 1), &out.pyramid));
  DONE(minuet_pyramid_destroy(out.pyramid));
  DONE(minuet_pyramid_destroy(NULL));
  base.levels = NULL;
  base.level_count = 0;
  REFUSED(INVALID_ARGUMENT, "levels is null", minuet_pyramid_create(own, &base, &out.pyramid));
}

static void create_with_wrong_bounds(const world* world, pyramid_shape* shape) {
  minuet_context* const own = world->context;
  minuet_pyramid_options given, base = shape->options;
  base.has_bounds = 1;
  REFUSED(INVALID_ARGUMENT, "least[1] is 1 and greatest[1] is 0",
          minuet_pyramid_create(own, WITH(least[1] = 1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "greatest[3] is -1",
          minuet_pyramid_create(own, WITH(greatest[3] = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "batch index", minuet_pyramid_create(own, WITH(least[0] = -1), &out.pyramid));
  base.greatest[0] = 2;
  REFUSED(INVALID_ARGUMENT, "batch index must be 0 to 1",
          minuet_pyramid_create(own, WITH(batch_size = 2), &out.pyramid));
  base.greatest[0] = 0;
  REFUSED(INVALID_ARGUMENT, "has_bounds is 2",
          minuet_pyramid_create(own, WITH(has_bounds = 2), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "keep_first_duplicate is 2",
          minuet_pyramid_create(own, WITH(keep_first_duplicate = 2), &out.pyramid));
  ACCEPTED(minuet_pyramid_create(own, WITH(has_bounds = 1), &out.pyramid));
  minuet_pyramid_destroy(out.pyramid);
  for (int axis = 0; axis < 3; ++axis) base.least[1 + axis] = INT32_MIN;
  for (int axis = 0; axis < 3; ++axis) base.greatest[1 + axis] = INT32_MAX;
  REFUSED(OUT_OF_RANGE, "64-bit key", minuet_pyramid_create(own, &base, &out.pyramid));
}

/* One change of the shape. */
#define REFUSED_WITH(wanted, words, ...)                \
  (describe_pyramid(shape), (void)(shape->__VA_ARGS__), \
   REFUSED(wanted, words, minuet_pyramid_create(world->context, &shape->options, &out.pyramid)))

static void create_with_wrong_levels(const world* world, pyramid_shape* shape) {
  REFUSED_WITH(INVALID_ARGUMENT, "capacity of level 0 is 0", levels[0].capacity = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "capacity of level 1 is -1", levels[1].capacity = -1);
  REFUSED_WITH(OUT_OF_RANGE, "level 1: ", levels[1].capacity = (int64_t)1 << 40);
  REFUSED_WITH(OUT_OF_RANGE, "level 0: ", levels[0].capacity = INT64_MAX);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: the number of slots is -1", levels[1].slots = -1);
  REFUSED_WITH(OUT_OF_RANGE, "level 0: 67108865 slots", levels[0].slots = (1 << 26) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "parent of level 0 is 0", levels[0].parent = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "parent of level 1 is -1", levels[1].parent = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "parent of level 1 is 1", levels[1].parent = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "parent of level 1 is 2", levels[1].parent = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "parent of level 1 is -2147483648", levels[1].parent = INT32_MIN);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: stride of axis 0 is -1", levels[1].stride[0] = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: stride of axis 3 is 2", levels[1].stride[3] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "level 0, axis 1: the stride is 2", levels[0].stride[1] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "at most 2^24", levels[1].stride[2] = (1 << 24) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "at most 2^24", levels[1].stride[2] = INT32_MAX);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: is_reached is 2", levels[1].is_reached = 2);
  REFUSED_WITH(INVALID_ARGUMENT,
               "level 1: padding of axis 1 is 3, but is_reached is 0: set is_reached to 1, or padding to 0",
               levels[1].padding[1] = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: padding of axis 0 is -1", levels[1].is_reached = 1,
               shape->levels[1].padding[0] = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "level 1: shape of axis 1 is 0", levels[1].is_reached = 1,
               shape->levels[1].shape[0] = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "level 0 is the caller's set", levels[0].is_reached = 1);
}

static void create_with_wrong_maps(const world* world, pyramid_shape* shape) {
  static const int32_t equal_offsets[] = {1, 2, 3, 1, 2, 3};
  REFUSED_WITH(INVALID_ARGUMENT, "map 0: there is no level -1", maps[0].fine = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 0: there is no level 2", maps[0].fine = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: there is no level -1", maps[1].coarse = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: there is no level 2", maps[1].coarse = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: kernel_size of axis 0 is -3", maps[2].kernel_size[0] = -3);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: kernel_size of axis 3 is 2", maps[2].kernel_size[3] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "map 0: axis 1", maps[0].kernel_size[1] = 1 << 24);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: dilation of axis 2 is -1", maps[1].dilation[2] = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: dilation of axis 3 is 2", maps[1].dilation[3] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: axis 0", maps[1].dilation[0] = (1 << 24) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: purposes is 0", maps[1].purposes = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: purposes is 32", maps[1].purposes = 32);
  REFUSED_WITH(INVALID_ARGUMENT, "map 1: purposes is 4294967295", maps[1].purposes = UINT32_MAX);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: dense_offsets is -1", maps[2].dense_offsets = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: padding is given, but dense_offsets is 0", maps[2].padding[0] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: kernel_shape is 3", maps[2].kernel_shape = 3);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: offset_count is 1 and offsets is null", maps[2].offset_count = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: offset_count", maps[2].offsets = equal_offsets);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: offsets are given, but the kernel shape is cross",
               maps[2].offsets = equal_offsets, shape->maps[2].offset_count = 1,
               shape->maps[2].kernel_shape = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "map 2: axis 0", levels[1].stride[0] = shape->maps[2].dilation[0] = 1 << 24);
  REFUSED_WITH(OUT_OF_RANGE, "map 0: ", levels[0].capacity = 1 << 27);
  /* The table of the other direction has an entry for each offset and row of level 0. */
  describe_pyramid(shape);
  shape->options.maps = shape->maps + 1;
  shape->options.map_count = 1;
  shape->levels[0].capacity = (1 << 28) + 1;
  REFUSED(OUT_OF_RANGE, "map 0: ", minuet_pyramid_create(world->context, &shape->options, &out.pyramid));
  shape->maps[1].coarse = 0;
  for (int axis = 0; axis < 3; ++axis) shape->maps[1].kernel_size[axis] = 0;
  shape->maps[1].purposes = MINUET_PURPOSE_EXPORT;
  REFUSED(INVALID_ARGUMENT, "pairs of map 0",
          minuet_pyramid_create(world->context, &shape->options, &out.pyramid));
}

static void create_of_networks(const world* world, pyramid_shape* shape) {
  minuet_context* const own = world->context;
  minuet_pyramid_options given, base = MINUET_PYRAMID_OPTIONS_INIT;
  base.network = world->network;
  base.level_capacity = one_capacity;
  base.level_count = 1;
  REFUSED(INVALID_ARGUMENT, "beside a network",
          minuet_pyramid_create(own, WITH(levels = shape->levels), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "beside a network",
          minuet_pyramid_create(own, WITH(maps = shape->maps), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "beside a network",
          minuet_pyramid_create(own, WITH(map_count = 1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "ndim is 2", minuet_pyramid_create(own, WITH(ndim = 2), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "ndim is 9", minuet_pyramid_create(own, WITH(ndim = 9), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_capacity is null",
          minuet_pyramid_create(own, WITH(level_capacity = NULL), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is 2",
          minuet_pyramid_create(own, WITH(level_count = 2), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_count is -1",
          minuet_pyramid_create(own, WITH(level_count = -1), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "capacity of level 0 is 0",
          minuet_pyramid_create(own, WITH(level_capacity = zero_capacity), &out.pyramid));
  REFUSED(OUT_OF_RANGE,
          "level 0: ", minuet_pyramid_create(own, WITH(level_capacity = most_capacity), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "level_slots[0]: the number of slots is -1",
          minuet_pyramid_create(own, WITH(level_slots = negative_slots), &out.pyramid));
  REFUSED(OUT_OF_RANGE, "level_slots[0]: 67108865 slots",
          minuet_pyramid_create(own, WITH(level_slots = most_slots), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "single op",
          minuet_pyramid_create(own, WITH(network = world->convolution), &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "keep_coordinates is 2",
          minuet_pyramid_create(own, WITH(keep_coordinates = 2), &out.pyramid));
  ACCEPTED(minuet_pyramid_create(own, &base, &out.pyramid));
  minuet_pyramid_destroy(out.pyramid);
}

void call_pyramid_create(world* world) {
  pyramid_shape shape;
  describe_pyramid(&shape);
  create_with_wrong_options(world, &shape);
  create_with_wrong_bounds(world, &shape);
  create_with_wrong_levels(world, &shape);
  create_with_wrong_maps(world, &shape);
  create_of_networks(world, &shape);
}
