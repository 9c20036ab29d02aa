/* Rows of kernel maps. */
#include "tests/runtime/abi/conformance/conformance.h"

static void create_wrong_maps(const world* world) {
  static const int32_t far_offset[] = {0, (1 << 28) + 1, 0};
  minuet_coordinates* const set = world->set;
  minuet_kernel_map_options given, base = MINUET_KERNEL_MAP_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "input is null", minuet_kernel_map_create(NULL, set, NULL, NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "output is null", minuet_kernel_map_create(set, NULL, NULL, NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_kernel_map_create(set, set, NULL, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "device", minuet_kernel_map_create(set, world->other_set, NULL, NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "queue", minuet_kernel_map_create(set, world->queued_set, NULL, NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_kernel_map_create(set, set, WITH(struct_size = 0), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_kernel_map_create(set, set, WITH(ext = &base), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is -1",
          minuet_kernel_map_create(set, set, WITH(dense_offsets = -1), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "dense_offsets is 0",
          minuet_kernel_map_create(set, set, WITH(padding[2] = 1), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "kernel_shape is 7",
          minuet_kernel_map_create(set, set, WITH(kernel_shape = 7), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "offset_count is 2 and offsets is null",
          minuet_kernel_map_create(set, set, WITH(offset_count = 2), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "offset_count",
          minuet_kernel_map_create(set, set, WITH(offsets = far_offset), NULL, &out.map));
  base.offsets = far_offset;
  base.offset_count = 1;
  base.kernel_shape = MINUET_KERNEL_CUSTOM;
  REFUSED(INVALID_ARGUMENT, "offset 0 is 268435457 on axis 1",
          minuet_kernel_map_create(set, set, &base, NULL, &out.map));
  base.offsets = NULL;
  base.offset_count = base.kernel_shape = 0;
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 2 is -1",
          minuet_kernel_map_create(set, set, WITH(kernel_size[2] = -1), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "kernel_size of axis 3 is 3",
          minuet_kernel_map_create(set, set, WITH(kernel_size[3] = 3), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "offsets",
          minuet_kernel_map_create(set, set, WITH(kernel_size[0] = 1 << 24), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "dilation of axis 0 is -2",
          minuet_kernel_map_create(set, set, WITH(dilation[0] = -2), NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "dilation",
          minuet_kernel_map_create(set, set, WITH(dilation[1] = (1 << 24) + 1), NULL, &out.map));
}

/* Sets of another number of axes than the map's other set. */
static void mix_axes(const world* world) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* plane = NULL;
  options.ndim = 2;
  MUST(minuet_coordinates_create(world->device, &options, world->coordinates, 1, NULL, &plane));
  REFUSED(INVALID_ARGUMENT, "ndim", minuet_kernel_map_create(world->set, plane, NULL, NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "ndim", minuet_kernel_map_create(plane, world->set, NULL, NULL, &out.map));
  minuet_coordinates_destroy(plane);
}

static void create_maps(const world* world) {
  minuet_kernel_map_options given, base = MINUET_KERNEL_MAP_OPTIONS_INIT;
  ACCEPTED(minuet_kernel_map_create(world->set, world->set, NULL, NULL, &out.map));
  minuet_kernel_map* const identity = out.map;
  GIVES(1, minuet_kernel_map_volume(identity));
  GIVES(0, minuet_kernel_map_volume(NULL));
  DONE(minuet_kernel_map_destroy(identity));
  DONE(minuet_kernel_map_destroy(NULL));
  REFUSED(INVALID_ARGUMENT, "transposed is 2",
          minuet_kernel_map_create(world->coarse, world->set, WITH(transposed = 2), NULL, &out.map));
  ACCEPTED(minuet_kernel_map_create(world->coarse, world->set, WITH(transposed = 1), NULL, &out.map));
  minuet_kernel_map_destroy(out.map);
  REFUSED(INVALID_ARGUMENT, "forward is null", minuet_kernel_map_transpose(NULL, &out.map));
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_kernel_map_transpose(world->map, NULL));
  ACCEPTED(minuet_kernel_map_transpose(world->coarse_map, &out.map));
  minuet_kernel_map_destroy(out.map);
}

static void export_maps(const world* world) {
  int32_t pairs[3 * 16];
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_kernel_map_query_pairs(NULL, out.numbers));
  REFUSED(INVALID_ARGUMENT, "pairs is null", minuet_kernel_map_query_pairs(world->map, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs is null", minuet_kernel_map_query_pairs(world->queued_map, NULL));
  ACCEPTED(minuet_kernel_map_query_pairs(world->map, out.numbers));
  EXPECT(out.numbers[0] == ROWS + 2); /* the first two rows are neighbours */
  REFUSED(INVALID_ARGUMENT, "map is null", minuet_kernel_map_export(NULL, out.small, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs is null", minuet_kernel_map_export(world->map, NULL, NULL));
  ACCEPTED(minuet_kernel_map_export(world->map, pairs, NULL));
  /* The offsets ascend. The second row is the neighbour of the first at (1, 0, 0), which is offset 22. */
  EXPECT(pairs[0] == 4 && pairs[15] == 22 && pairs[16] == 1 && pairs[17] == 0);
}

void call_maps(world* world) {
  create_wrong_maps(world);
  mix_axes(world);
  create_maps(world);
  export_maps(world);
}
