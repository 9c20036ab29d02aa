/* Rows that load and build pyramids, and that take their contents out. */
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

enum { LEVELS = 2, COARSE = 3 }; /* COARSE: the voxels of level 1 */

static void ask_for_bytes(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  int64_t* const first = out.numbers;
  int64_t* const second = out.numbers + 1;
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_pyramid_bytes(NULL, "cpu", first, second));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_pyramid_bytes(own, NULL, first, second));
  REFUSED(INVALID_ARGUMENT, "arch is an empty string", minuet_pyramid_bytes(own, "", first, second));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_pyramid_bytes(own, "hopper", first, second));
  REFUSED(INVALID_ARGUMENT, "buffer_bytes is null", minuet_pyramid_bytes(own, "cpu", NULL, second));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null", minuet_pyramid_bytes(own, "cpu", first, NULL));
  REFUSED(INVALID_ARGUMENT, "buffer_bytes and workspace_bytes overlap",
          minuet_pyramid_bytes(own, "cpu", first, first));
  ACCEPTED(minuet_pyramid_bytes(own, "sm_80", first, second));
  EXPECT(out.numbers[0] > 0 && out.numbers[1] > 0);
  ACCEPTED(minuet_pyramid_bytes(world->flat_pyramid, "cpu", first, second));
  EXPECT(out.numbers[0] > 0 && out.numbers[0] < world->buffer_bytes);
}

static void load_pyramids(const world* world) {
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_pyramid_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_pyramid_load(world->pyramid, NULL));
  ACCEPTED(minuet_pyramid_load(world->pyramid, world->device));
}

static minuet_pyramid_arguments build_arguments(const world* world) {
  minuet_pyramid_arguments arguments = MINUET_PYRAMID_ARGUMENTS_INIT;
  arguments.buffer = world->buffer;
  arguments.buffer_bytes = world->buffer_bytes;
  arguments.workspace = world->build_workspace;
  arguments.workspace_bytes = world->build_workspace_bytes;
  arguments.coordinates = world->coordinates;
  arguments.most = ROWS;
  arguments.count = world->count;
  arguments.status = world->poisoned;
  arguments.counts = (int32_t*)world->poisoned + 1;
  return arguments;
}

static void build_wrongly(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  minuet_pyramid_arguments given, base = build_arguments(world);
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_pyramid_build(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_pyramid_build(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_pyramid_build(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_pyramid_build(own, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "call minuet_pyramid_load",
          minuet_pyramid_build(world->flat_pyramid, world->other_device, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "buffer is null", buffer = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", buffer = world->buffer + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has", buffer_bytes = world->buffer_bytes - 1);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has -1 bytes", buffer_bytes = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", workspace = world->build_workspace + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = world->build_workspace_bytes - 1);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has 0 bytes", workspace_bytes = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates is null", coordinates = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates",
               coordinates = (const int32_t*)((const char*)world->coordinates + 1));
  REFUSED_WITH(OUT_OF_RANGE, "most is -1", most = -1);
  REFUSED_WITH(OUT_OF_RANGE, "most is 9", most = CAPACITY + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "count", count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "status", status = (uint32_t*)((char*)world->poisoned + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "counts", counts = (int32_t*)((char*)world->poisoned + 5));
#undef REFUSED_WITH
}

/* Memory that the call writes may overlap nothing else. */
static void build_overlapping(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  minuet_pyramid_arguments given, base = build_arguments(world);
  int32_t* const end = (int32_t*)(world->buffer + world->buffer_bytes);
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_pyramid_build(own, device, WITH(change), NULL))
  REFUSED_WITH("buffer and workspace overlap", workspace = world->buffer);
  REFUSED_WITH("buffer and coordinates overlap", coordinates = (const int32_t*)world->buffer);
  REFUSED_WITH("buffer and coordinates overlap", coordinates = end - 1);
  REFUSED_WITH("buffer and count overlap", count = end - 1);
  REFUSED_WITH("buffer and status overlap", status = (uint32_t*)world->buffer);
  REFUSED_WITH("buffer and counts overlap", counts = end - 1);
  REFUSED_WITH("workspace and coordinates overlap", coordinates = (const int32_t*)world->build_workspace);
  REFUSED_WITH("workspace and count overlap", count = (const int32_t*)world->build_workspace);
  REFUSED_WITH("workspace and status overlap", status = (uint32_t*)world->build_workspace);
  REFUSED_WITH("workspace and counts overlap", counts = (int32_t*)world->build_workspace);
  REFUSED_WITH("status and counts overlap", counts = world->poisoned);
  REFUSED_WITH("status and count overlap", count = world->poisoned);
  REFUSED_WITH("status and coordinates overlap", status = (uint32_t*)world->coordinates + 4 * ROWS - 1);
  REFUSED_WITH("counts and coordinates overlap", counts = world->coordinates - LEVELS);
  REFUSED_WITH("counts and count overlap", counts = world->count);
#undef REFUSED_WITH
}

static void build_rightly(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  minuet_pyramid_arguments given, base = build_arguments(world);
  int32_t answer[2 + LEVELS];
  ACCEPTED(minuet_pyramid_build(own, device, WITH(coordinates = world->duplicates), NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  EXPECT(answer[0] == MINUET_CLOUD_DUPLICATE && answer[1] == 0 && answer[2] == 0 && answer[3] == 0);
  base.coordinates = NULL;
  base.count = NULL;
  ACCEPTED(minuet_pyramid_build(own, device, WITH(most = 0), NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  EXPECT(answer[0] == 0 && answer[1] == 0 && answer[2] == 0 && answer[3] == 0);
  base = build_arguments(world);
  poison_device(world);
  ACCEPTED(minuet_pyramid_build(own, device, WITH(status = NULL), NULL));
  read_device(world, answer, world->poisoned, sizeof(answer));
  EXPECT(answer[1] == ROWS && answer[2] == ROWS && answer[3] == COARSE);
  poison_device(world);
  base.status = NULL;
  ACCEPTED(minuet_pyramid_build(own, device, WITH(counts = NULL), NULL));
  base.counts = NULL;
  ACCEPTED(minuet_pyramid_build(own, device, WITH(count = NULL), NULL));
}

static void take_coordinates(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  int32_t* const target = world->poisoned;
  int32_t* const odd = (int32_t*)((char*)world->poisoned + 2);
  int32_t* const inside = (int32_t*)world->buffer;
  const char* const from = world->buffer;
  const int64_t bytes = world->buffer_bytes;
  int32_t answer[CAPACITY * 4];
  REFUSED(INVALID_ARGUMENT, "pyramid is null",
          minuet_pyramid_coordinates(NULL, device, from, bytes, 0, target, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null",
          minuet_pyramid_coordinates(own, NULL, from, bytes, 0, target, NULL));
  REFUSED(INVALID_ARGUMENT, "buffer is null",
          minuet_pyramid_coordinates(own, device, NULL, bytes, 0, target, NULL));
  REFUSED(INVALID_ARGUMENT, "multiple of 16",
          minuet_pyramid_coordinates(own, device, from + 4, bytes, 0, target, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "buffer has",
          minuet_pyramid_coordinates(own, device, from, bytes - 1, 0, target, NULL));
  REFUSED(OUT_OF_RANGE, "level is -1",
          minuet_pyramid_coordinates(own, device, from, bytes, -1, target, NULL));
  REFUSED(OUT_OF_RANGE, "level is 2",
          minuet_pyramid_coordinates(own, device, from, bytes, LEVELS, target, NULL));
  REFUSED(FAILED_PRECONDITION, "keep_coordinates",
          minuet_pyramid_coordinates(own, device, from, bytes, 1, target, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates is null",
          minuet_pyramid_coordinates(own, device, from, bytes, 0, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "multiple of 4",
          minuet_pyramid_coordinates(own, device, from, bytes, 0, odd, NULL));
  REFUSED(INVALID_ARGUMENT, "coordinates and buffer overlap",
          minuet_pyramid_coordinates(own, device, from, bytes, 0, inside - 1, NULL));
  ACCEPTED(minuet_pyramid_coordinates(own, device, from, bytes, 0, target, NULL));
  read_device(world, answer, target, sizeof(answer));
  for (int i = 4 * ROWS; i < 4 * CAPACITY; ++i) EXPECT(answer[i] == 0);
  poison_device(world);
}

static void take_rows(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  int32_t* const source = world->poisoned;
  int32_t* const set = (int32_t*)world->poisoned + CAPACITY;
  int32_t* const odd = (int32_t*)((char*)world->poisoned + 1);
  int32_t* const inside = (int32_t*)world->buffer;
  const char* const from = world->buffer;
  const int64_t bytes = world->buffer_bytes;
  int32_t answer[2 * CAPACITY];
  REFUSED(INVALID_ARGUMENT, "pyramid is null",
          minuet_pyramid_rows(NULL, device, from, bytes, source, set, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_pyramid_rows(own, NULL, from, bytes, source, set, NULL));
  REFUSED(INVALID_ARGUMENT, "buffer is null",
          minuet_pyramid_rows(own, device, NULL, bytes, source, set, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "buffer has 0 bytes",
          minuet_pyramid_rows(own, device, from, 0, source, set, NULL));
  REFUSED(FAILED_PRECONDITION, "call minuet_pyramid_load",
          minuet_pyramid_rows(world->flat_pyramid, world->other_device, from, bytes, source, set, NULL));
  REFUSED(INVALID_ARGUMENT, "source_row", minuet_pyramid_rows(own, device, from, bytes, odd, set, NULL));
  REFUSED(INVALID_ARGUMENT, "set_row", minuet_pyramid_rows(own, device, from, bytes, source, odd, NULL));
  REFUSED(INVALID_ARGUMENT, "source_row and set_row overlap",
          minuet_pyramid_rows(own, device, from, bytes, source, set - 1, NULL));
  REFUSED(INVALID_ARGUMENT, "source_row and buffer overlap",
          minuet_pyramid_rows(own, device, from, bytes, inside, set, NULL));
  REFUSED(INVALID_ARGUMENT, "set_row and buffer overlap",
          minuet_pyramid_rows(own, device, from, bytes, source, inside, NULL));
  ACCEPTED(minuet_pyramid_rows(own, device, from, bytes, NULL, NULL, NULL));
  ACCEPTED(minuet_pyramid_rows(own, device, from, bytes, source, NULL, NULL));
  ACCEPTED(minuet_pyramid_rows(own, device, from, bytes, NULL, set, NULL));
  read_device(world, answer, source, sizeof(answer));
  for (int row = 0; row < ROWS; ++row) {
    const int32_t place = answer[CAPACITY + row];
    EXPECT(place >= 0 && place < ROWS && answer[place] == row);
  }
  poison_device(world);
}

static void take_pairs(const world* world) {
  minuet_pyramid* const own = world->pyramid;
  minuet_device* const device = world->device;
  int32_t* const count = world->poisoned;
  int32_t* const pairs = (int32_t*)world->poisoned + 1;
  int32_t* const odd = (int32_t*)((char*)world->poisoned + 2);
  int32_t* const inside = (int32_t*)world->buffer;
  const char* const from = world->buffer;
  const int64_t bytes = world->buffer_bytes;
  int32_t answer[1 + 3 * (ROWS + 2)];
  REFUSED(INVALID_ARGUMENT, "pyramid is null",
          minuet_pyramid_export_pairs(NULL, device, from, bytes, 0, pairs, 9, count, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null",
          minuet_pyramid_export_pairs(own, NULL, from, bytes, 0, pairs, 9, count, NULL));
  REFUSED(INVALID_ARGUMENT, "buffer is null",
          minuet_pyramid_export_pairs(own, device, NULL, bytes, 0, pairs, 9, count, NULL));
  REFUSED(RESOURCE_EXHAUSTED, "buffer has",
          minuet_pyramid_export_pairs(own, device, from, bytes - 1, 0, pairs, 9, count, NULL));
  REFUSED(OUT_OF_RANGE, "map is -1",
          minuet_pyramid_export_pairs(own, device, from, bytes, -1, pairs, 9, count, NULL));
  REFUSED(OUT_OF_RANGE, "map is 3",
          minuet_pyramid_export_pairs(own, device, from, bytes, 3, pairs, 9, count, NULL));
  REFUSED(FAILED_PRECONDITION, "MINUET_PURPOSE_EXPORT",
          minuet_pyramid_export_pairs(own, device, from, bytes, 1, pairs, 9, count, NULL));
  REFUSED(INVALID_ARGUMENT, "capacity is 9",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, NULL, 9, count, NULL));
  REFUSED(INVALID_ARGUMENT, "capacity is 0",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, 0, count, NULL));
  REFUSED(INVALID_ARGUMENT, "capacity is -1",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, -1, count, NULL));
  REFUSED(INVALID_ARGUMENT, "count is null",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, 9, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs begins",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, odd, 9, count, NULL));
  REFUSED(INVALID_ARGUMENT, "count begins",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, 9, odd, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs and count overlap",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, 9, pairs + 26, NULL));
  REFUSED(INVALID_ARGUMENT, "pairs and buffer overlap",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, inside, INT64_MAX, count, NULL));
  REFUSED(INVALID_ARGUMENT, "count and buffer overlap",
          minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, 9, inside, NULL));
  ACCEPTED(minuet_pyramid_export_pairs(own, device, from, bytes, 0, NULL, 0, count, NULL));
  read_device(world, answer, count, sizeof(int32_t));
  EXPECT(answer[0] == ROWS + 2);
  poison_device(world);
  ACCEPTED(minuet_pyramid_export_pairs(own, device, from, bytes, 0, pairs, ROWS + 2, count, NULL));
  read_device(world, answer, count, sizeof(answer));
  EXPECT(answer[0] == ROWS + 2);
  for (int pair = 1; pair < ROWS + 2; ++pair) EXPECT(answer[1 + 3 * pair] >= answer[3 * pair - 2]);
  poison_device(world);
}

void call_pyramids(world* world) {
  ask_for_bytes(world);
  load_pyramids(world);
  build_wrongly(world);
  build_overlapping(world);
  build_rightly(world);
  take_coordinates(world);
  take_rows(world);
  take_pairs(world);
}
