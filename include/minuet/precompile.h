/* Minuet: compiling in the background, and ahead of time for GPUs that are elsewhere. Part of the C ABI,
 * beside minuet.h, whose rules hold here too. */
#ifndef MINUET_PRECOMPILE_H_
#define MINUET_PRECOMPILE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compiling in the background ------------------------------------------------------------------- */

typedef struct minuet_job minuet_job;
/* Called once at the end, from the job's own thread, with minuet_last_error of that thread; maybe before the
 * call that started the job has returned, but after it has stored the job. It may destroy the job, and must
 * not wait for it. */
typedef void (*minuet_job_callback)(minuet_status status, void* user);

/* minuet_plan_compile in a thread of its own. done is optional. The plan may be destroyed before. */
MINUET_API minuet_status minuet_plan_compile_async(minuet_plan* plan, const char* arch,
                                                   minuet_job_callback done, void* user, minuet_job** job);
/* Asks the job to stop; a compile that is running is stopped too. Returns at once. */
MINUET_API void minuet_job_cancel(minuet_job* job);
/* 1 where it has ended. */
MINUET_API int32_t minuet_job_done(const minuet_job* job);
/* Waits for the end; gives its status: CANCELLED where it was stopped before. */
MINUET_API minuet_status minuet_job_wait(minuet_job* job);
/* Cancels and waits. */
MINUET_API void minuet_job_destroy(minuet_job* job);

/* ---- compiling ahead, for GPUs that are elsewhere -------------------------------------------------- */

/* What has become of one kernel. Strings live during the call. */
typedef struct minuet_precompile_step {
  size_t struct_size;
  int64_t done, total; /* this kernel counted */
  const char* name;
  const char* arch;
  const minuet_kernel_info* kernel; /* null where it failed */
  const char* error;                /* null where it did not */
} minuet_precompile_step;

typedef struct minuet_bundle_info {
  size_t struct_size;
  const char* arch;
  const char* path;
  const char* sha256; /* of the whole file, 64 hex digits */
  int64_t bytes, kernels;
} minuet_bundle_info;

typedef struct minuet_precompile_options {
  size_t struct_size;
  void* ext;
  minuet_plan* const* plans;
  int32_t plan_count;
  int32_t reserved;
  const char* requests_path; /* list that record_path made, or null */
  const char* const* archs;  /* "sm_80", "sm_90a", "compute_90" for PTX; none: as recorded. "cpu" has no
                                kernels  and is INVALID_ARGUMENT */
  int32_t arch_count;
  int32_t jobs;                 /* helper programs; 0: as many as there are cores, and memory for */
  const char* output_directory; /* gets minuet-<arch>.bundle; made where it is not there; null: no bundle is
                                   written, and kernels go to the cache folder alone */
  /* Optional callbacks: step comes from a thread of the library's, never two at once; the others come from
   * the calling thread. */
  void (*step)(const minuet_precompile_step* step, void* user);
  void (*bundle)(const minuet_bundle_info* bundle, void* user);
  int32_t (*cancelled)(void* user); /* asked every 100 ms or so; 1 stops soon */
  void* user;
} minuet_precompile_options;
#define MINUET_PRECOMPILE_OPTIONS_INIT \
  { sizeof(minuet_precompile_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct minuet_precompile_result {
  size_t struct_size;
  int64_t kernels, compiled, found, failed; /* found: in the cache folder or in the bundle that was there */
  int64_t bytes;                            /* of all cubins */
  double seconds;
} minuet_precompile_result;

/* Compiles every kernel that any cloud may need, for every arch, in helper programs (minuet-compile, which
 * is installed beside the library), and writes one bundle an arch: no GPU, no driver. The same kernels give
 * the same bytes. A bundle that is already there keeps its other kernels. result is optional and is filled in
 * once work has begun: OK where all are there; the first failure's status where kernels or bundles are
 * missing; CANCELLED where it was stopped. The bundles then hold what is done. Two calls may write to one
 * directory. */
MINUET_API minuet_status minuet_precompile(minuet_context* context, const minuet_precompile_options* options,
                                           minuet_precompile_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PRECOMPILE_H_ */
