/* Runs on the machine that compiles: it needs NVRTC, but neither a GPU nor a driver.
 *
 *   farm NETWORK.json FOLDER ARCH...     writes FOLDER/minuet-ARCH.bundle for each architecture */
#include <minuet/precompile.h>

#include "common.h"

static void print_step(const minuet_precompile_step* step, void* user) {
  (void)user;
  if (step->error) fprintf(stderr, "%s for %s: %s\n", step->name, step->arch, step->error);
}

/* The digest lets the other machine check that it has the very file that was made here. */
static void print_bundle(const minuet_bundle_info* bundle, void* user) {
  (void)user;
  printf("%s  %s\n", bundle->sha256, bundle->path);
}

int main(int argument_count, char** arguments) {
  if (argument_count < 4) fail("usage: farm NETWORK.json FOLDER ARCH...");
  minuet_context* context = NULL;
  check(minuet_context_create(NULL, &context));
  minuet_plan* const plan = read_network(context, arguments[1]);

  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.plans = &plan;
  options.plan_count = 1;
  options.archs = (const char* const*)(arguments + 3);
  options.arch_count = argument_count - 3;
  options.output_directory = arguments[2];
  options.step = print_step;
  options.bundle = print_bundle;
  minuet_precompile_result result = {.struct_size = sizeof(result)};
  check(minuet_precompile(context, &options, &result));
  fprintf(stderr, "%lld kernels, %lld of them compiled now\n", (long long)result.kernels,
          (long long)result.compiled);

  minuet_plan_destroy(plan);
  minuet_context_destroy(context);
  return 0;
}
