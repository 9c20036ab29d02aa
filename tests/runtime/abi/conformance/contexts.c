/* Rows of errors, contexts, counters, traces, and what a system has. Bundles are in ahead.c. */
#include <stdio.h>
#include <string.h>

#include "tests/runtime/abi/conformance/conformance.h"

static void call_names(void) {
  EXPECT(strcmp(minuet_status_name(MINUET_INVALID_ARGUMENT), "INVALID_ARGUMENT") == 0);
  EXPECT(strcmp(minuet_status_name((minuet_status)4), "UNKNOWN") == 0);
  GIVES('O', minuet_status_name(MINUET_OK)[0]);
  GIVES(MINUET_VERSION_MAJOR * 10000 + MINUET_VERSION_MINOR * 100 + MINUET_VERSION_PATCH, minuet_version());
}

void call_errors(world* world) {
  (void)world;
  call_names();
  const size_t needed = minuet_last_error(NULL, 0); /* of the call that each row begins with */
  EXPECT(needed > 10);
  GIVES(needed, minuet_last_error(NULL, 0));
  GIVES(needed, minuet_last_error(NULL, sizeof(out.text)));
  GIVES(needed, minuet_last_error(out.text, sizeof(out.text)));
  EXPECT(strlen(out.text) + 1 == needed);
  poison_outputs();
  GIVES(needed, minuet_last_error(out.text, 4));
  EXPECT(memcmp(out.text, "min\0\xa5", 5) == 0);
  poison_outputs();
  GIVES(needed, minuet_last_error(out.text, 0));
  EXPECT(out.text[0] == '\xa5');
  GIVES(1, minuet_last_error_detail(NULL, 0));
  poison_outputs();
  GIVES(1, minuet_last_error_detail(out.text, sizeof(out.text)));
  EXPECT(out.text[0] == '\0' && out.text[1] == '\xa5');
}

static void log_nothing(minuet_log_level level, const char* text, size_t length, void* user) {
  (void)level;
  (void)text;
  (void)length;
  (void)user;
}

/* One context with every option at a value other than the default. */
static void create_with_all(const world* world) {
  minuet_context_options given, base = MINUET_CONTEXT_OPTIONS_INIT;
  base.bundle_path = "";
  base.record_path = "";
  ACCEPTED(minuet_context_create(WITH(cache_directory = world->folder), &out.context));
  minuet_context_destroy(out.context);
  REFUSED(INVALID_ARGUMENT, "disable_disk_cache is 2",
          minuet_context_create(WITH(disable_disk_cache = 2), &out.context));
  ACCEPTED(minuet_context_create(WITH(disable_disk_cache = 1), &out.context));
  GIVES(1, minuet_context_cache_directory(out.context, NULL, 0));
  minuet_context_destroy(out.context);
  base.disable_disk_cache = 1;
  ACCEPTED(minuet_context_create(WITH(log = log_nothing), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(log_user = &base), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(record_path = NULL), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(cache_max_bytes = UINT64_MAX), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(bundle_path = NULL), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(nvrtc_path = "/nowhere"), &out.context));
  minuet_context_destroy(out.context);
  ACCEPTED(minuet_context_create(WITH(cublaslt_path = "/nowhere"), &out.context));
  minuet_context_destroy(out.context);
  REFUSED(INVALID_ARGUMENT, "bundle_ptx is 2", minuet_context_create(WITH(bundle_ptx = 2), &out.context));
  ACCEPTED(minuet_context_create(WITH(bundle_ptx = 1), &out.context));
  minuet_context_destroy(out.context);
}

static void create_contexts(const world* world) {
  minuet_context_options given, base = MINUET_CONTEXT_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_context_create(NULL, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_context_create(WITH(struct_size = 0), &out.context));
  REFUSED(INVALID_ARGUMENT, "struct_size", minuet_context_create(WITH(struct_size = 15), &out.context));
  REFUSED(INVALID_ARGUMENT, "ext", minuet_context_create(WITH(ext = &base), &out.context));
  REFUSED(INVALID_ARGUMENT, "jit is -1", minuet_context_create(WITH(jit = -1), &out.context));
  REFUSED(INVALID_ARGUMENT, "jit is 3", minuet_context_create(WITH(jit = 3), &out.context));
  REFUSED(INVALID_ARGUMENT, "bundle_policy is -1",
          minuet_context_create(WITH(bundle_policy = -1), &out.context));
  REFUSED(INVALID_ARGUMENT, "bundle_policy is 2",
          minuet_context_create(WITH(bundle_policy = 2), &out.context));
  REFUSED(INVALID_ARGUMENT, "cache_shared is -1",
          minuet_context_create(WITH(cache_shared = -1), &out.context));
  REFUSED(INVALID_ARGUMENT, "cache_shared is 3", minuet_context_create(WITH(cache_shared = 3), &out.context));
  REFUSED(INVALID_ARGUMENT, "cpu_threads is -1", minuet_context_create(WITH(cpu_threads = -1), &out.context));
  REFUSED(INVALID_ARGUMENT, "cpu_threads is 4097",
          minuet_context_create(WITH(cpu_threads = 4097), &out.context));
  ACCEPTED(minuet_context_create(NULL, &out.context));
  DONE(minuet_context_destroy(out.context));
  ACCEPTED(minuet_context_create(WITH(jit = MINUET_JIT_OFF), &out.context));
  DONE(minuet_context_destroy(out.context));
  DONE(minuet_context_destroy(NULL));
  create_with_all(world);
}

static void tell_of_contexts(const world* world) {
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_context_kernel_counters(NULL, INFO(kernel_counters)));
  REFUSED(INVALID_ARGUMENT, "counters is null", minuet_context_kernel_counters(world->context, NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 7",
          minuet_context_kernel_counters(world->context, INFO_WITH(kernel_counters, struct_size = 7)));
  ACCEPTED(minuet_context_kernel_counters(world->context, INFO(kernel_counters)));
  EXPECT(out.info.kernel_counters.compiled >= 0);

  GIVES(1, minuet_context_cache_directory(NULL, out.text, sizeof(out.text)));
  EXPECT(out.text[0] == '\0');
  const size_t needed = minuet_context_cache_directory(world->context, NULL, 0);
  EXPECT(needed > 1);
  poison_outputs();
  GIVES(needed, minuet_context_cache_directory(world->context, out.text, 1));
  EXPECT(out.text[0] == '\0' && out.text[1] == '\xa5');

  REFUSED(INVALID_ARGUMENT, "info is null", minuet_query_system(NULL));
  REFUSED(INVALID_ARGUMENT, "struct_size is 0", minuet_query_system(INFO_WITH(system, struct_size = 0)));
  ACCEPTED(minuet_query_system(INFO(system)));
  EXPECT(out.info.system.llvm[0] != '\0' && out.info.system.cuda_devices >= 0);
}

static void write_traces(const world* world) {
  minuet_context_options given, base = MINUET_CONTEXT_OPTIONS_INIT;
  REFUSED(INVALID_ARGUMENT, "trace is 2", minuet_context_create(WITH(trace = 2), &out.context));
  ACCEPTED(minuet_context_create(WITH(trace = 1), &out.context));
  minuet_context* const traced = out.context;
  REFUSED(INVALID_ARGUMENT, "context is null", minuet_context_write_trace(NULL, path_in(world, "trace")));
  REFUSED(INVALID_ARGUMENT, "path is null", minuet_context_write_trace(traced, NULL));
  REFUSED(FAILED_PRECONDITION, "trace", minuet_context_write_trace(world->context, path_in(world, "trace")));
  REFUSED(FAILED_PRECONDITION, "/nowhere/trace", minuet_context_write_trace(traced, "/nowhere/trace"));
  ACCEPTED(minuet_context_write_trace(traced, path_in(world, "trace")));
  EXPECT(remove(path_in(world, "trace")) == 0);
  minuet_context_destroy(traced);
}

void call_contexts(world* world) {
  create_contexts(world);
  tell_of_contexts(world);
  write_traces(world);
}
