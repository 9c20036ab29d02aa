/* Rows that make training plans, and their pyramids. */
#include "tests/runtime/abi/conformance/training.h"

static const int64_t capacity[] = {CAPACITY};

static minuet_training_options options_of(void) {
  minuet_training_options options = MINUET_TRAINING_OPTIONS_INIT;
  options.input_gradients = 1;
  return options;
}

static minuet_pyramid_options pyramid_options(void) {
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.level_capacity = capacity;
  options.level_count = 1;
  return options;
}

static void create(const world* world) {
  minuet_context* const own = world->context;
  minuet_plan* const network = world->network;
  minuet_training_options given, base = options_of();
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_training_create(NULL, network, &base, &out.training));
  REFUSED(INVALID_ARGUMENT, "network is null", minuet_training_create(own, NULL, &base, &out.training));
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_create(own, network, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the plan is of a single op",
          minuet_training_create(own, world->convolution, &base, &out.training));
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_training_create(own, network, WITH(change), &out.training))
  REFUSED_WITH("struct_size is 8", struct_size = 8);
  REFUSED_WITH("ext", ext = &given);
  REFUSED_WITH("input_gradients is 2", input_gradients = 2);
  REFUSED_WITH("frozen_batch_norms is 2", frozen_batch_norms = 2);
  REFUSED_WITH("momentum is 1.5", momentum = 1.5f);
  REFUSED_WITH("is_cumulative is 2", is_cumulative = 2);
  REFUSED_WITH("recompute_blocks is 2", recompute_blocks = 2);
  REFUSED_WITH("branches is 3", branches = 3);
  const char* const names[] = {"other", NULL};
  REFUSED_WITH("recompute_count is 0", recompute = names);
  base.recompute = names;
  REFUSED_WITH("recompute_count is -1", recompute_count = -1);
  REFUSED_WITH("recompute[0] is \"other\"", recompute_count = 1);
  REFUSED_WITH("recompute[1] is null", recompute_count = 2);
  base.recompute = NULL;
  REFUSED_WITH("recompute is null", recompute_count = 1);
  REFUSED_WITH("reserved is 1", reserved = 1);
#undef REFUSED_WITH
  ACCEPTED(minuet_training_create(own, network, NULL, &out.training));
  DONE(minuet_training_destroy(out.training));
  DONE(minuet_training_destroy(NULL));
}

static void query(const training_step* step) {
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_query_kept(NULL, 0, INFO(kept)));
  REFUSED(INVALID_ARGUMENT, "info is null", minuet_training_query_kept(step->own, 0, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 4",
          minuet_training_query_kept(step->own, 0, INFO_WITH(kept, struct_size = 4)));
  REFUSED(OUT_OF_RANGE, "tensor is -1", minuet_training_query_kept(step->own, -1, INFO(kept)));
  REFUSED(OUT_OF_RANGE, "tensor is 9", minuet_training_query_kept(step->own, 9, INFO(kept)));
  ACCEPTED(minuet_training_query_kept(step->own, 0, INFO(kept)));
  EXPECT(out.info.kept.channels == OUT && out.info.kept.element == MINUET_ELEMENT_F16);
}

static void create_pyramid(const world* world, training_step* step) {
  minuet_training* const own = step->own;
  minuet_pyramid_options given, base = pyramid_options();
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_create_pyramid(NULL, &base, &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_training_create_pyramid(own, NULL, &out.pyramid));
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_training_create_pyramid(own, &base, NULL));
#define REFUSED_WITH(words, change) \
  REFUSED(INVALID_ARGUMENT, words, minuet_training_create_pyramid(own, WITH(change), &out.pyramid))
  REFUSED_WITH("network is given", network = world->network);
  REFUSED_WITH("keep_first_duplicate is 1", keep_first_duplicate = 1);
  REFUSED_WITH("ndim is 2", ndim = 2);
  REFUSED_WITH("level_capacity is null", level_capacity = NULL);
  REFUSED_WITH("level_count is 2", level_count = 2);
#undef REFUSED_WITH
  ACCEPTED(minuet_training_create_pyramid(own, &base, &step->pyramid));
  MUST(minuet_pyramid_load(step->pyramid, world->device));
  MUST(minuet_pyramid_bytes(step->pyramid, world->arch, &step->buffer_bytes, &step->build_workspace_bytes));
}

static void ask_for_bytes(const world* world, training_step* step) {
  minuet_training* const own = step->own;
  minuet_pyramid* const pyramid = step->pyramid;
  const char* const arch = world->arch;
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_bytes(NULL, arch, pyramid, INFO(sizes)));
  REFUSED(INVALID_ARGUMENT, "arch is null", minuet_training_bytes(own, NULL, pyramid, INFO(sizes)));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_training_bytes(own, "hopper", pyramid, INFO(sizes)));
  REFUSED(INVALID_ARGUMENT, "pyramid is null", minuet_training_bytes(own, arch, NULL, INFO(sizes)));
  REFUSED(INVALID_ARGUMENT, "plan has 3 axes, but the pyramid has 2",
          minuet_training_bytes(own, arch, world->flat_pyramid, INFO(sizes)));
  REFUSED(INVALID_ARGUMENT, "sizes is null", minuet_training_bytes(own, arch, pyramid, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 4",
          minuet_training_bytes(own, arch, pyramid, INFO_WITH(sizes, struct_size = 4)));
  ACCEPTED(minuet_training_bytes(own, "sm_90a", pyramid, INFO(sizes)));
  EXPECT(out.info.sizes.kept > 0);
  ACCEPTED(minuet_training_bytes(own, arch, pyramid, INFO(sizes)));
  step->sizes = out.info.sizes;
  MUST(minuet_training_bytes(step->frozen, arch, pyramid, INFO(sizes)));
  step->frozen_sizes = out.info.sizes;
}

static void load(const world* world, const training_step* step) {
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_load(NULL, world->device));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_training_load(step->own, NULL));
  ACCEPTED(minuet_training_load(step->own, world->device));
  ACCEPTED(minuet_training_load(step->frozen, world->device));
}

static minuet_array array_at(const training_step* step, int place, int rank, const int64_t* shape,
                             minuet_element element) {
  minuet_array array = {0};
  array.data = step->memory + place * PLACE_BYTES;
  array.rank = rank;
  for (int i = 0; i < rank; ++i) array.shape[i] = shape[i];
  array.element = element;
  return array;
}

static void make_memory(const world* world, training_step* step) {
  const int64_t weight[] = {VOLUME, IN, OUT}, vector[] = {OUT}, in[] = {CAPACITY, IN}, to[] = {CAPACITY, OUT};
  minuet_pyramid_arguments build = MINUET_PYRAMID_ARGUMENTS_INIT;
  step->memory = device_memory(world, NULL, PLACES * PLACE_BYTES);
  step->buffer = device_memory(world, NULL, step->buffer_bytes);
  step->build_workspace = device_memory(world, NULL, step->build_workspace_bytes);
  step->kept = device_memory(world, NULL, step->sizes.kept);
  step->forward_workspace = device_memory(world, NULL, step->frozen_sizes.forward_workspace);
  step->backward_workspace = device_memory(world, NULL, step->sizes.backward_workspace);
  for (int i = 0; i < PARAMETERS; ++i) {
    const int rank = i == OF_WEIGHT ? 3 : 1, is_statistic = i == OF_MEAN || i == OF_VARIANCE;
    const int64_t* const shape = rank == 3 ? weight : vector;
    const minuet_array none = {0}, written = array_at(step, 5 + i, rank, shape, MINUET_ELEMENT_F32);
    step->parameters[i] = array_at(step, i, rank, shape, MINUET_ELEMENT_F32);
    step->gradients[i] = is_statistic ? none : written;
    step->new_statistics[i] = is_statistic ? written : none;
  }
  step->input = array_at(step, 10, 2, in, MINUET_ELEMENT_F16);
  step->output = array_at(step, 11, 2, to, MINUET_ELEMENT_F16);
  step->out_gradient = array_at(step, 12, 2, to, MINUET_ELEMENT_F16);
  step->input_gradient = array_at(step, 13, 2, in, MINUET_ELEMENT_F16);
  build.buffer = step->buffer, build.buffer_bytes = step->buffer_bytes;
  build.workspace = step->build_workspace, build.workspace_bytes = step->build_workspace_bytes;
  build.coordinates = world->coordinates, build.most = ROWS;
  MUST(minuet_pyramid_build(step->pyramid, world->device, &build, NULL));
}

static void free_memory(const world* world, const training_step* step) {
  char* const blocks[] = {step->memory,
                          step->buffer,
                          step->build_workspace,
                          step->kept,
                          step->forward_workspace,
                          step->backward_workspace};
  MUST(minuet_device_synchronize(world->device, NULL));
  for (int i = 0; i < COUNT_OF(blocks); ++i) MUST(minuet_device_free(world->device, blocks[i]));
}

void call_training(world* world) {
  training_step step = {0};
  minuet_training_options options = options_of();
  create(world);
  ACCEPTED(minuet_training_create(world->context, world->network, &options, &step.own));
  MUST(minuet_training_create(world->context, world->network, &options, &step.unloaded));
  options.frozen_batch_norms = 1;
  MUST(minuet_training_create(world->context, world->network, &options, &step.frozen));
  query(&step);
  create_pyramid(world, &step);
  ask_for_bytes(world, &step);
  load(world, &step);
  make_memory(world, &step);
  call_training_steps(world, &step);
  free_memory(world, &step);
  minuet_pyramid_destroy(step.pyramid);
  minuet_training_destroy(step.own);
  minuet_training_destroy(step.frozen);
  minuet_training_destroy(step.unloaded);
}
