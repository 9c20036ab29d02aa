/* Rows of jobs, of compiling ahead with its bundles, and of tuning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void job_ends(minuet_status status, void* user) {
  if (status == MINUET_OK) *(int*)user = 1;
}

void call_jobs(world* world) {
  const minuet_convolution_options options = convolution_options(world);
  minuet_plan* plan = NULL;
  int ended = 0;
  MUST(minuet_plan_create_convolution(world->context, &options, &plan));
  REFUSED(INVALID_ARGUMENT, "plan is null",
          minuet_plan_compile_async(NULL, "cpu", job_ends, &ended, &out.job));
  REFUSED(INVALID_ARGUMENT, "arch is null",
          minuet_plan_compile_async(plan, NULL, job_ends, &ended, &out.job));
  REFUSED(INVALID_ARGUMENT, "arch is an empty",
          minuet_plan_compile_async(plan, "", job_ends, &ended, &out.job));
  REFUSED(INVALID_ARGUMENT, "job is null", minuet_plan_compile_async(plan, "cpu", job_ends, &ended, NULL));
  EXPECT(!ended);
  ACCEPTED(minuet_plan_compile_async(plan, "hopper", NULL, NULL, &out.job));
  minuet_job* const wrong = out.job;
  GIVES(MINUET_INVALID_ARGUMENT, minuet_job_wait(wrong));
  DONE(minuet_job_destroy(wrong));
  ACCEPTED(minuet_plan_compile_async(plan, "cpu", job_ends, &ended, &out.job));
  minuet_job* const job = out.job;
  REFUSED(INVALID_ARGUMENT, "job is null", minuet_job_wait(NULL));
  ACCEPTED(minuet_job_wait(job));
  EXPECT(ended);
  GIVES(1, minuet_job_done(job));
  GIVES(0, minuet_job_done(NULL));
  DONE(minuet_job_cancel(job));
  DONE(minuet_job_cancel(NULL));
  DONE(minuet_job_destroy(job));
  DONE(minuet_job_destroy(NULL));
  minuet_plan_destroy(plan);
}

typedef struct told {
  const world* world;
  int steps, bundles;
} told;

static void tell_step(const minuet_precompile_step* step, void* user) {
  told* const told = user;
  if (told && step->done <= step->total) ++told->steps;
}

/* Adds the bundle that was written to the context. */
static void add_bundle(const minuet_bundle_info* bundle, void* user) {
  const told* const told = user;
  minuet_context* const context = told->world->context;
  char sha256[65];
  void* const bytes = malloc((size_t)bundle->bytes);
  const size_t size = (size_t)bundle->bytes;
  FILE* const file = fopen(bundle->path, "rb");
  EXPECT(file && fread(bytes, size, 1, file) == 1 && fclose(file) == 0);
  memcpy(sha256, bundle->sha256, sizeof(sha256));
  sha256[0] = sha256[0] == '0' ? '1' : '0';
  REFUSED(FAILED_PRECONDITION, "digest", minuet_context_add_bundle(context, bundle->path, sha256));
  REFUSED(FAILED_PRECONDITION, "digest", minuet_context_add_bundle_memory(context, bytes, size, sha256));
  REFUSED(INVALID_ARGUMENT, "100 bytes", minuet_context_add_bundle_memory(context, bytes, 100, NULL));
  ACCEPTED(minuet_context_add_bundle(context, bundle->path, bundle->sha256));
  ACCEPTED(minuet_context_add_bundle_memory(context, bytes, size, bundle->sha256));
  ACCEPTED(minuet_context_add_bundle_memory(context, bytes, size, NULL));
  free(bytes);
  ++((struct told*)user)->bundles;
}

static int32_t say_no(void* user) {
  (void)user;
  return 0;
}
static int32_t say_yes(void* user) {
  (void)user;
  return 1;
}

static void add_wrong_bundles(const world* world) {
  minuet_context* const context = world->context;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_context_add_bundle(NULL, "/nowhere", NULL));
  REFUSED(INVALID_ARGUMENT, "path is null", minuet_context_add_bundle(context, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "/nowhere", minuet_context_add_bundle(context, "/nowhere", NULL));
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_context_add_bundle_memory(NULL, "bundle", 7, NULL));
  REFUSED(INVALID_ARGUMENT, "bytes is null", minuet_context_add_bundle_memory(context, NULL, 7, NULL));
  REFUSED(INVALID_ARGUMENT, "0 bytes", minuet_context_add_bundle_memory(context, "bundle", 0, NULL));
  REFUSED(INVALID_ARGUMENT, "7 bytes", minuet_context_add_bundle_memory(context, "bundle", 7, NULL));
  REFUSED(INVALID_ARGUMENT, "sha256", minuet_context_add_bundle_memory(context, "bundle", 7, "12"));
  REFUSED(INVALID_ARGUMENT, "sha256", minuet_context_add_bundle(context, "/nowhere", "12"));
}

static void precompile_wrongly(const world* world, const minuet_precompile_options* good) {
  static const char* const cpu[] = {"cpu"};
  static const char* const empty[] = {""};
  static const char* const unknown[] = {"hopper"};
  static minuet_plan* const no_plan[] = {NULL};
  minuet_context* const own = world->context;
  minuet_precompile_options given, base = *good;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_precompile(NULL, &base, INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_precompile(own, NULL, INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_precompile(own, WITH(struct_size = 0), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_precompile(own, WITH(ext = &base), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "reserved is 1", minuet_precompile(own, WITH(reserved = 1), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "plans is null", minuet_precompile(own, WITH(plans = NULL), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "a plan is null",
          minuet_precompile(own, WITH(plans = no_plan), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "plan_count is 0",
          minuet_precompile(own, WITH(plan_count = 0), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "plan_count is -1",
          minuet_precompile(own, WITH(plan_count = -1), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "archs is null", minuet_precompile(own, WITH(archs = NULL), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "archs[0] is cpu", minuet_precompile(own, WITH(archs = cpu), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "archs[0] is an empty",
          minuet_precompile(own, WITH(archs = empty), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "hopper", minuet_precompile(own, WITH(archs = unknown), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "arch_count is 0",
          minuet_precompile(own, WITH(arch_count = 0), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "arch_count is -1",
          minuet_precompile(own, WITH(arch_count = -1), INFO(precompile)));
  REFUSED(NOT_FOUND, "/nowhere", minuet_precompile(own, WITH(requests_path = "/nowhere"), INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "jobs is -1", minuet_precompile(own, WITH(jobs = -1), INFO(precompile)));
}

static void precompile_tuned_wrongly(const world* world, const minuet_precompile_options* good) {
  minuet_context* const own = world->context;
  minuet_precompile_options given, base = *good;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_precompile_tuned(NULL, &base, NULL, INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_precompile_tuned(own, NULL, NULL, INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "absolute", minuet_precompile_tuned(own, &base, "here", INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_precompile_tuned(own, WITH(ext = &base), NULL, INFO(precompile)));
  REFUSED(INVALID_ARGUMENT, "struct_size is 7",
          minuet_precompile_tuned(own, &base, NULL, INFO_WITH(precompile, struct_size = 7)));
  base.archs = NULL;
  REFUSED(INVALID_ARGUMENT, "arch_count is 0",
          minuet_precompile_tuned(own, WITH(arch_count = 0), NULL, INFO(precompile)));
}

/* Writes the list of one kernel that the pooling needs on `arch`: the shortest one that is recorded where
 * nothing may be compiled. */
static void record_kernel(const char* arch, const char* path) {
  static char line[1 << 16], shortest[1 << 16];
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  minuet_pooling_options pooling = MINUET_POOLING_OPTIONS_INIT;
  minuet_context* context = NULL;
  minuet_plan* plan = NULL;
  options.jit = MINUET_JIT_OFF;
  options.disable_disk_cache = 1;
  options.bundle_path = "";
  options.record_path = path;
  pooling.channels = IN;
  remove(path);
  MUST(minuet_context_create(&options, &context));
  MUST(minuet_plan_create_pooling(context, &pooling, &plan));
  GIVES(MINUET_FAILED_PRECONDITION, minuet_plan_compile(plan, arch, NULL, NULL));
  minuet_plan_destroy(plan);
  minuet_context_destroy(context);
  FILE* file = fopen(path, "r");
  while (file && fgets(line, sizeof(line), file)) {
    if (line[0] != '{') continue; /* lines that threads write at once may have an empty one between them */
    if (!shortest[0] || strlen(line) < strlen(shortest)) memcpy(shortest, line, sizeof(line));
  }
  EXPECT(file && fclose(file) == 0);
  file = fopen(path, "w");
  EXPECT(shortest[0] && file && fputs(shortest, file) >= 0 && fclose(file) == 0);
}

/* The right uses: one kernel is compiled into a bundle, which is added to the context. */
static void precompile(const world* world, const minuet_precompile_options* good) {
  told told = {world, 0, 0};
  minuet_context* const own = world->context;
  minuet_precompile_options given, base = *good;
  base.step = tell_step;
  base.bundle = add_bundle;
  base.user = &told;
  /* Refused before anything is written. */
  REFUSED(INVALID_ARGUMENT, "result: struct_size is 4",
          minuet_precompile(own, &base, INFO_WITH(precompile, struct_size = 4)));
  EXPECT(told.steps == 0 && told.bundles == 0);
  TRIED(OK, minuet_precompile(own, WITH(user = &told), INFO(precompile)));
  EXPECT(told.steps == told.bundles);
  TRIED(OK, minuet_precompile(own, WITH(step = NULL), NULL));
  base.bundle = NULL;
  TRIED(OK, minuet_precompile(own, WITH(cancelled = say_no), NULL));
  TRIED(OK, minuet_precompile(own, WITH(bundle = NULL), NULL));
  TRIED(OK, minuet_precompile(own, WITH(output_directory = NULL), NULL));
  /* There are no results of tuning for any GPU. */
  TRIED(NOT_FOUND, minuet_precompile_tuned(own, &base, good->output_directory, NULL));
}

void call_precompile(world* world) {
  const char* const archs[] = {strcmp(world->arch, "cpu") == 0 ? "sm_90a" : world->arch};
  minuet_precompile_options base = MINUET_PRECOMPILE_OPTIONS_INIT;
  base.plans = &world->pooling;
  base.plan_count = 1;
  base.archs = archs;
  base.arch_count = 1;
  base.output_directory = path_in(world, "bundles");
  add_wrong_bundles(world);
  precompile_wrongly(world, &base);
  precompile_tuned_wrongly(world, &base);
  base.plans = NULL;
  base.plan_count = 0;
  base.requests_path = path_in(world, "requests");
  record_kernel(archs[0], base.requests_path);
  precompile(world, &base);
}

static void tell_progress(const minuet_tuning_progress* progress, void* user) {
  (void)user;
  EXPECT(progress->step != NULL);
}
static void tell_skip(const minuet_tuning_skip* skip, void* user) {
  (void)user;
  EXPECT(skip->reason != NULL);
}
static void tell_choice(const minuet_tuned_choice* choice, void* user) {
  EXPECT(choice->chosen != NULL);
  ++*(int*)user;
}

static void tune_wrongly(const world* world, const minuet_tuning_options* good) {
  minuet_context* const own = world->context;
  minuet_plan* const plan = world->network;
  minuet_device* const device = world->device;
  const minuet_tuning_cloud none = {NULL, ROWS}, empty = {world->coordinates, 0},
                            double_row = {world->duplicates, 4},
                            odd = {(const int32_t*)((const char*)world->coordinates + 1), 1};
  minuet_tuning_options given, base = *good;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_tune(NULL, plan, device, &base, INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_tune(own, NULL, device, &base, INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_tune(own, plan, NULL, &base, INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "options is null", minuet_tune(own, plan, device, NULL, INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_tune(own, plan, device, &base, INFO_WITH(tuning, struct_size = 0)));
  REFUSED(INVALID_ARGUMENT, "struct_size",
          minuet_tune(own, plan, device, WITH(struct_size = 0), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_tune(own, plan, device, WITH(ext = &base), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "training is 3",
          minuet_tune(own, plan, device, WITH(training = 3), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "clouds", minuet_tune(own, plan, device, WITH(clouds = NULL), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "cloud 0", minuet_tune(own, plan, device, WITH(clouds = &none), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "cloud 0", minuet_tune(own, plan, device, WITH(clouds = &empty), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "coordinates of cloud 0",
          minuet_tune(own, plan, device, WITH(clouds = &odd), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "duplicates",
          minuet_tune(own, plan, device, WITH(clouds = &double_row), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "cloud_count",
          minuet_tune(own, plan, device, WITH(cloud_count = 0), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "cloud_count",
          minuet_tune(own, plan, device, WITH(cloud_count = -1), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "repeats is -1",
          minuet_tune(own, plan, device, WITH(repeats = -1), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "repeats is 2", minuet_tune(own, plan, device, WITH(repeats = 2), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "budget_seconds is -1",
          minuet_tune(own, plan, device, WITH(budget_seconds = -1), INFO(tuning)));
  REFUSED(INVALID_ARGUMENT, "absolute",
          minuet_tune(own, plan, device, WITH(directory = "here"), INFO(tuning)));
  REFUSED(UNIMPLEMENTED, "single op", minuet_tune(own, world->convolution, device, &base, INFO(tuning)));
}

static void load_tuning(const world* world, const char* directory) {
  const minuet_convolution_options options = convolution_options(world);
  minuet_context* own = NULL;
  int choices = 0;
  MUST(minuet_context_create(NULL, &own));
  REFUSED(INVALID_ARGUMENT, "context is null",
          minuet_context_load_tuning(NULL, world->device, directory, out.numbers));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_context_load_tuning(own, NULL, directory, out.numbers));
  REFUSED(INVALID_ARGUMENT, "absolute", minuet_context_load_tuning(own, world->device, "here", out.numbers));
  ACCEPTED(minuet_context_load_tuning(own, world->device, NULL, NULL));
  ACCEPTED(minuet_context_load_tuning(own, world->device, directory, out.numbers));
  EXPECT(out.numbers[0] >= 0);
  MUST(minuet_plan_create_convolution(own, &options, &out.plan));
  minuet_plan* const plan = out.plan;
  REFUSED(INVALID_ARGUMENT, "plan is null", minuet_plan_visit_tuning(NULL, tell_choice, &choices));
  REFUSED(INVALID_ARGUMENT, "visit is null", minuet_plan_visit_tuning(plan, NULL, &choices));
  EXPECT(choices == 0);
  ACCEPTED(minuet_plan_visit_tuning(plan, tell_choice, &choices));
  minuet_plan_destroy(plan);
  minuet_context_destroy(own);
}

void call_tuning(world* world) {
  const minuet_tuning_cloud cloud = {world->coordinates, ROWS};
  const int is_cpu = strcmp(world->arch, "cpu") == 0;
  minuet_tuning_options given, base = MINUET_TUNING_OPTIONS_INIT;
  base.clouds = &cloud;
  base.cloud_count = 1;
  base.directory = path_in(world, "tuning");
  tune_wrongly(world, &base);
  base.repeats = 3;
  base.budget_seconds = 1;
  base.progress = tell_progress;
  base.skipped = tell_skip;
  REFUSED(CANCELLED, "stopped",
          minuet_tune(world->context, world->network, world->device, WITH(cancelled = say_yes), NULL));
  /* A GPU would compile every candidate first. */
  base.cancelled = is_cpu ? say_no : say_yes;
  REFUSED(INVALID_ARGUMENT, "exhaustive is 2",
          minuet_tune(world->context, world->network, world->device, WITH(exhaustive = 2), INFO(tuning)));
  GIVES(is_cpu ? MINUET_OK : MINUET_CANCELLED,
        minuet_tune(world->context, world->network, world->device, WITH(exhaustive = 1), INFO(tuning)));
  EXPECT(out.info.tuning.seconds > 0);
  GIVES(is_cpu ? MINUET_OK : MINUET_CANCELLED,
        minuet_tune(world->context, world->network, world->device, WITH(progress = NULL), NULL));
  GIVES(is_cpu ? MINUET_OK : MINUET_CANCELLED,
        minuet_tune(world->context, world->network, world->device, WITH(skipped = NULL), NULL));
  GIVES(is_cpu ? MINUET_OK : MINUET_CANCELLED,
        minuet_tune(world->context, world->network, world->device, WITH(user = world), NULL));
  load_tuning(world, base.directory);
}
