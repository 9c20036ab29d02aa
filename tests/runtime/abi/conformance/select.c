/* Rows that list rows, children or cells that a rule keeps. */
#include "tests/runtime/abi/conformance/conformance.h"

enum { CANDIDATES = 2 * ROWS, CELLS = 4 };

/* The ops of the rows: the two children of rows with the best scores, rows by a mask, and cells that are not
 * 0. `flat` has one axis and is not loaded. */
typedef struct select_ops {
  minuet_select_op *best, *mask, *cells, *flat;
  int64_t best_bytes, cells_bytes;
  char* workspace;
} select_ops;

static minuet_select_options best_options(void) {
  minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
  options.rule = MINUET_SELECT_BEST;
  options.best = 3;
  options.children[0] = 2;
  return options;
}

static minuet_select_options cells_options(void) {
  minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
  options.source = MINUET_SELECT_CELLS;
  options.rule = MINUET_SELECT_NONZERO;
  options.channels = 4;
  options.batch_size = 1;
  options.shape[0] = CELLS;
  options.shape[1] = options.shape[2] = 1;
  return options;
}

static void create_of_rows(const world* world) {
  minuet_context* const own = world->context;
  minuet_select_options given, base = best_options();
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_select_create(own, WITH(change), &out.select_op))
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_select_create(NULL, &base, &out.select_op));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_select_create(own, NULL, &out.select_op));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_select_create(own, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "ndim is 5", ndim = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "dtype", dtype = 9);
  REFUSED_WITH(INVALID_ARGUMENT, "source is 2", source = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "rule is 5", rule = 5);
  REFUSED_WITH(INVALID_ARGUMENT, "best is 3, but the rule does not look for the best scores",
               rule = MINUET_SELECT_MASK);
  REFUSED_WITH(INVALID_ARGUMENT, "threshold is 0.5, but the rule compares no score", threshold = 0.5f);
  REFUSED_WITH(INVALID_ARGUMENT, "channels is 4, but the rule reads no dense tensor", channels = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "0 of the best candidates", best = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "batch_size is -1", batch_size = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "children of axis 1 is -1", children[1] = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "a row has 1048577 children on axis 2", children[2] = (1 << 20) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "a row has more than the 1048576 children", children[2] = 1 << 20);
  REFUSED_WITH(INVALID_ARGUMENT, "children", children[3] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "the children of a row are 16777217 apart on axis 0",
               tensor_stride[0] = (1 << 24) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "shape is 4, but rows are not the cells", shape[0] = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "axis_order is 1, but the rule reads no dense tensor", axis_order[1] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "channels_last is 1, but the rule reads no dense tensor", channels_last = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "reserved is 1", reserved = 1);
  base.rule = MINUET_SELECT_ABOVE;
  base.best = 0;
  REFUSED_WITH(INVALID_ARGUMENT, "the threshold is NaN", threshold = (float)(1e308 * 10 - 1e308 * 10));
  REFUSED_WITH(INVALID_ARGUMENT, "batch_size is 2, but the rule does not depend on batch items",
               batch_size = 2);
  base.rule = MINUET_SELECT_ALL;
  REFUSED_WITH(INVALID_ARGUMENT, "rows cannot be selected by the numbers of a dense tensor",
               rule = MINUET_SELECT_NONZERO);
#undef REFUSED_WITH
  ACCEPTED(minuet_select_create(own, &base, &out.select_op));
  DONE(minuet_select_op_destroy(out.select_op));
  DONE(minuet_select_op_destroy(NULL));
}

static void create_of_cells(const world* world) {
  minuet_context* const own = world->context;
  minuet_select_options given, base = cells_options();
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_select_create(own, WITH(change), &out.select_op))
  REFUSED_WITH(OUT_OF_RANGE, "batch_size is 0; it must be 1", batch_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "channels are 0", channels = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "children is 1, but cells have none", children[0] = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "axis 1 has 0 cells", shape[1] = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "shape of axis 3", shape[3] = 1);
  REFUSED_WITH(OUT_OF_RANGE, "there are 1073741824 candidates", shape[0] = 1 << 30);
  REFUSED_WITH(INVALID_ARGUMENT, "tensor_stride of axis 0 is -2", tensor_stride[0] = -2);
  REFUSED_WITH(OUT_OF_RANGE, "the coordinate of the last of 4 cells", tensor_stride[0] = 1 << 30);
  REFUSED_WITH(INVALID_ARGUMENT, "must name each of the 3 once", axis_order[0] = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "channels_last is 2", channels_last = 2);
#undef REFUSED_WITH
}

static void make_ops(const world* world, select_ops* ops) {
  const minuet_select_options best = best_options(), cells = cells_options();
  minuet_select_options mask = MINUET_SELECT_OPTIONS_INIT, flat = MINUET_SELECT_OPTIONS_INIT;
  mask.rule = MINUET_SELECT_MASK;
  flat.ndim = 1;
  MUST(minuet_select_create(world->context, &best, &ops->best));
  MUST(minuet_select_create(world->context, &mask, &ops->mask));
  MUST(minuet_select_create(world->context, &cells, &ops->cells));
  MUST(minuet_select_create(world->context, &flat, &ops->flat));
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_select_op_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_select_op_load(ops->best, NULL));
  ACCEPTED(minuet_select_op_load(ops->best, world->device));
  ACCEPTED(minuet_select_op_load(ops->mask, world->device));
  ACCEPTED(minuet_select_op_load(ops->cells, world->device));
}

static void ask_for_bytes(const world* world, select_ops* ops) {
  int64_t* const bytes = out.numbers;
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_select_bytes(NULL, "cpu", ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_select_bytes(ops->best, NULL, ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_select_bytes(ops->best, "hopper", ROWS, bytes));
  REFUSED(OUT_OF_RANGE, "most_rows is -1", minuet_select_bytes(ops->best, "cpu", -1, bytes));
  REFUSED(OUT_OF_RANGE, "there are 1073741824 candidates",
          minuet_select_bytes(ops->best, "cpu", 1 << 29, bytes));
  REFUSED(INVALID_ARGUMENT, "most_rows is 4, but the candidates are cells",
          minuet_select_bytes(ops->cells, "cpu", ROWS, bytes));
  REFUSED(INVALID_ARGUMENT, "workspace_bytes is null", minuet_select_bytes(ops->best, "cpu", ROWS, NULL));
  ACCEPTED(minuet_select_bytes(ops->best, "sm_80", ROWS, bytes));
  EXPECT(out.numbers[0] > 0);
  MUST(minuet_select_bytes(ops->best, world->arch, ROWS, &ops->best_bytes));
  MUST(minuet_select_bytes(ops->cells, world->arch, 0, &ops->cells_bytes));
  ops->workspace = device_memory(world, NULL, ops->best_bytes + ops->cells_bytes + 32);
}

/* The outputs lie one behind the other in the poisoned memory. */
static minuet_select_arguments select_arguments(const world* world, const select_ops* ops) {
  minuet_select_arguments arguments = MINUET_SELECT_ARGUMENTS_INIT;
  char* const written = world->poisoned;
  arguments.coordinates = world->coordinates;
  arguments.row_count = world->count;
  arguments.most_rows = ROWS;
  arguments.scores = world->features;
  arguments.scores_ld = 2;
  arguments.workspace = ops->workspace;
  arguments.workspace_bytes = ops->best_bytes;
  arguments.capacity = CANDIDATES;
  arguments.selected = (int32_t*)written;
  arguments.sources = (int32_t*)(written + 256);
  arguments.parents = (int32_t*)(written + 320);
  arguments.places = (int32_t*)(written + 384);
  arguments.count = (int32_t*)(written + 448);
  arguments.status = (uint32_t*)(written + 464);
  return arguments;
}

static void select_rows(const world* world, const select_ops* ops) {
  minuet_select_op* const own = ops->best;
  minuet_device* const device = world->device;
  minuet_select_arguments given, base = select_arguments(world, ops);
  int32_t count = -1;
  char* const written = world->poisoned;
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_select(own, device, WITH(change), NULL))
  REFUSED(INVALID_ARGUMENT, "op is null", minuet_select(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_select(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_select(own, device, NULL, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 0", struct_size = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates is null", coordinates = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates", coordinates = (const int32_t*)(world->features + 2));
  REFUSED_WITH(INVALID_ARGUMENT, "row_count", row_count = (const int32_t*)((const char*)world->count + 2));
  REFUSED_WITH(OUT_OF_RANGE, "most_rows is -1", most_rows = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "mask is given", mask = (const uint8_t*)world->features);
  REFUSED_WITH(INVALID_ARGUMENT, "scores is null", scores = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "scores", scores = world->features + 2);
  REFUSED_WITH(INVALID_ARGUMENT, "scores_ld is 1; it must be 2 to 268435456", scores_ld = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "scores_ld is 268435457", scores_ld = (1 << 28) + 1);
  REFUSED_WITH(INVALID_ARGUMENT, "dense is given", dense = world->features);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", workspace = ops->workspace + 8);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = ops->best_bytes - 1);
  REFUSED_WITH(OUT_OF_RANGE, "capacity is -1", capacity = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "selected is null", selected = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "sources", sources = (int32_t*)(written + 257));
  REFUSED_WITH(INVALID_ARGUMENT, "parents", parents = (int32_t*)(written + 322));
  REFUSED_WITH(INVALID_ARGUMENT, "features is given", features = written + 512);
  REFUSED_WITH(INVALID_ARGUMENT, "places", places = (int32_t*)(written + 385));
  REFUSED_WITH(INVALID_ARGUMENT, "count is null", count = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "status", status = (uint32_t*)(written + 466));
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", sources = (int32_t*)written);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", places = (int32_t*)world->features);
#undef REFUSED_WITH
  ACCEPTED(minuet_select(own, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  read_device(world, &count, base.count, sizeof(count));
  EXPECT(count >= 3 && count <= CANDIDATES);
  base.sources = base.parents = base.places = NULL;
  base.status = NULL;
  base.row_count = NULL;
  ACCEPTED(minuet_select(own, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
  base.scores = NULL;
  base.scores_ld = 0;
  REFUSED(FAILED_PRECONDITION, "call minuet_select_op_load",
          minuet_select(ops->flat, world->other_device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "mask is null", minuet_select(ops->mask, device, &base, NULL));
  base.mask = (const uint8_t*)world->features;
  ACCEPTED(minuet_select(ops->mask, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  poison_device(world);
}

static void select_cells(const world* world, const select_ops* ops) {
  minuet_select_op* const own = ops->cells;
  minuet_device* const device = world->device;
  minuet_select_arguments given, base = MINUET_SELECT_ARGUMENTS_INIT;
  char* const written = world->poisoned;
  base.dense = world->features;
  base.workspace = ops->workspace;
  base.workspace_bytes = ops->cells_bytes;
  base.capacity = CELLS;
  base.selected = (int32_t*)written;
  base.features = written + 256;
  base.count = (int32_t*)(written + 512);
#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_select(own, device, WITH(change), NULL))
  REFUSED_WITH(INVALID_ARGUMENT, "coordinates is given", coordinates = world->coordinates);
  REFUSED_WITH(INVALID_ARGUMENT, "row_count is given", row_count = world->count);
  REFUSED_WITH(INVALID_ARGUMENT, "most_rows is 4, but the candidates are cells", most_rows = ROWS);
  REFUSED_WITH(INVALID_ARGUMENT, "scores is given", scores = world->features);
  REFUSED_WITH(INVALID_ARGUMENT, "scores_ld is 1; it must be 0 to 0", scores_ld = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "dense is null", dense = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "parents is given", parents = (int32_t*)(written + 1024));
  REFUSED_WITH(INVALID_ARGUMENT, "multiple of 16", features = written + 264);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", features = written);
#undef REFUSED_WITH
  ACCEPTED(minuet_select(own, device, &base, NULL));
  MUST(minuet_device_synchronize(device, NULL));
  int32_t count = -1;
  read_device(world, &count, base.count, sizeof(count));
  EXPECT(count == 0);
  poison_device(world);
}

void call_select(world* world) {
  select_ops ops;
  create_of_rows(world);
  create_of_cells(world);
  make_ops(world, &ops);
  ask_for_bytes(world, &ops);
  select_rows(world, &ops);
  select_cells(world, &ops);
  minuet_select_op_destroy(ops.best);
  minuet_select_op_destroy(ops.mask);
  minuet_select_op_destroy(ops.cells);
  minuet_select_op_destroy(ops.flat);
  MUST(minuet_device_free(world->device, ops.workspace));
}
