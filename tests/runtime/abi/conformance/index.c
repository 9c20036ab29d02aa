/* Rows of index.h, and of the options that declare slots. */
#include <math.h>

#include "tests/runtime/abi/conformance/conformance.h"

static const int64_t capacities[] = {1000, 500}, zero_capacities[] = {1000, 0},
                     most_capacities[] = {1000, (int64_t)1 << 30};
static const int64_t slots[] = {4096, 0}, negative_slots[] = {4096, -1}, most_slots[] = {4096, (1 << 26) + 1};

static void tell_bytes(void) {
  minuet_index_options given, base = MINUET_INDEX_OPTIONS_INIT;
  base.level_capacity = capacities;
  base.level_slots = slots;
  base.level_count = 2;
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_index_bytes(NULL, INFO(index)));
  REFUSED(INVALID_ARGUMENT, "sizes is null", minuet_index_bytes(&base, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_index_bytes(&base, INFO_WITH(index, struct_size = 0)));
  REFUSED(INVALID_ARGUMENT, "struct_size is 1", minuet_index_bytes(WITH(struct_size = 1), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_index_bytes(WITH(ext = &base), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "level_capacity is null",
          minuet_index_bytes(WITH(level_capacity = NULL), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "level_capacity[1] is 0",
          minuet_index_bytes(WITH(level_capacity = zero_capacities), INFO(index)));
  REFUSED(OUT_OF_RANGE, "level_capacity[1]",
          minuet_index_bytes(WITH(level_capacity = most_capacities), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "level_slots[1]: the number of slots is -1",
          minuet_index_bytes(WITH(level_slots = negative_slots), INFO(index)));
  REFUSED(OUT_OF_RANGE, "level_slots[1]: 67108865 slots",
          minuet_index_bytes(WITH(level_slots = most_slots), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "level_count is 0", minuet_index_bytes(WITH(level_count = 0), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "level_count is 17", minuet_index_bytes(WITH(level_count = 17), INFO(index)));
  REFUSED(INVALID_ARGUMENT, "reserved is 1", minuet_index_bytes(WITH(reserved = 1), INFO(index)));
  ACCEPTED(minuet_index_bytes(&base, INFO(index)));
  EXPECT(out.info.index.slots == 2 * 4096 && out.info.index.table > 32 * 2 * 4096);
  ACCEPTED(minuet_index_bytes(WITH(level_slots = NULL), INFO(index)));
}

static void suggest_slots(const world* world) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution *own = NULL, *sorted = NULL, *op = NULL;
  MUST(minuet_execution_create(world->network, world->device, &options, &own));
  MUST(minuet_execution_create(world->convolution, world->device, NULL, &op));
  options.map_method = MINUET_MAPS_SORTED;
  MUST(minuet_execution_create(world->network, world->device, &options, &sorted));
  MUST(minuet_execution_prepare(sorted, world->coordinates, ROWS, NULL));
  REFUSED(FAILED_PRECONDITION, "prepare", minuet_execution_suggest_slots(own, 1, out.numbers, 1, NULL));
  MUST(minuet_execution_prepare(own, world->coordinates, ROWS, NULL));
  REFUSED(INVALID_ARGUMENT, "execution is null",
          minuet_execution_suggest_slots(NULL, 1, out.numbers, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "level_slots is null", minuet_execution_suggest_slots(own, 1, NULL, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "level_count is 2", minuet_execution_suggest_slots(own, 1, out.numbers, 2, NULL));
  REFUSED(INVALID_ARGUMENT, "factor is 0.5", minuet_execution_suggest_slots(own, 0.5, out.numbers, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "factor is nan", minuet_execution_suggest_slots(own, NAN, out.numbers, 1, NULL));
  REFUSED(INVALID_ARGUMENT, "factor is 1025",
          minuet_execution_suggest_slots(own, 1025, out.numbers, 1, NULL));
  REFUSED(FAILED_PRECONDITION, "sorted", minuet_execution_suggest_slots(sorted, 1, out.numbers, 1, NULL));
  REFUSED(FAILED_PRECONDITION, "single op", minuet_execution_suggest_slots(op, 1, out.numbers, 1, NULL));
  ACCEPTED(minuet_execution_suggest_slots(own, 1.5, out.numbers, 1, NULL));
  EXPECT(out.numbers[0] == 4096);
  minuet_execution_destroy(own);
  minuet_execution_destroy(sorted);
  minuet_execution_destroy(op);
}

void call_index(world* world) {
  tell_bytes();
  suggest_slots(world);
}
