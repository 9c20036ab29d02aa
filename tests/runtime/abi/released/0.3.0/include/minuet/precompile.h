/* Minuet: compiling in the background, and compiling ahead of time for GPUs that are elsewhere. Part of the C
 * ABI, beside minuet.h, whose rules hold here too. */
#ifndef MINUET_PRECOMPILE_H_
#define MINUET_PRECOMPILE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compiling in the background ------------------------------------------------------------------- */

/* A compile in a thread of its own. */
typedef struct minuet_job minuet_job;
/* Is called once, from the job's own thread, when the compile has ended. On this thread, minuet_last_error
 * has the text of a failure. The call may come before minuet_plan_compile_async has returned, but `*job` is
 * set by then. The callback may destroy the job. In the callback, minuet_job_wait is FAILED_PRECONDITION. */
typedef void (*minuet_job_callback)(minuet_status status, void* user);

/* Starts minuet_plan_compile(plan, arch) in a thread of its own, and returns at once. The caller destroys the
 * job with minuet_job_destroy. The plan may be destroyed before the job has ended.
 *
 * `done` is optional, and gets `user`. Wrong arguments are errors of this call; failures of the compile are
 * those of minuet_job_wait and `done`. RESOURCE_EXHAUSTED: the system has no more threads. */
MINUET_API minuet_status minuet_plan_compile_async(minuet_plan* plan, const char* arch,
                                                   minuet_job_callback done, void* user, minuet_job** job);
/* Asks the job to stop, and returns at once. A compile that is running is stopped too. Null is ignored. */
MINUET_API void minuet_job_cancel(minuet_job* job);
/* Returns 1 if the job has ended, and 0 if it has not or if `job` is null. */
MINUET_API int32_t minuet_job_done(const minuet_job* job);
/* Waits until the job has ended, and returns the status of its compile: CANCELLED if it was stopped before
 * the end. Several threads may wait, and a job may be waited for more than once. FAILED_PRECONDITION: the job
 * has not ended, and the call comes from its callback or from a forked child. */
MINUET_API minuet_status minuet_job_wait(minuet_job* job);
/* Cancels the job, waits until it has ended, and releases it. In the job's callback and in a forked child it
 * does not wait. */
MINUET_API void minuet_job_destroy(minuet_job* job);

/* ---- compiling ahead, for GPUs that are elsewhere -------------------------------------------------- */

/* The outcome for one kernel. The strings and `kernel` are valid during the callback only. */
typedef struct minuet_precompile_step {
  size_t struct_size;
  int64_t done, total; /* kernels that are done, this one included; all kernels of the call */
  const char* name;    /* of the kernel */
  const char* arch;
  const minuet_kernel_info* kernel; /* null if the kernel failed */
  const char* error;                /* the reason if the kernel failed, else null */
} minuet_precompile_step;

/* A bundle that was written. The strings are valid during the callback only. */
typedef struct minuet_bundle_info {
  size_t struct_size;
  const char* arch;
  const char* path;
  const char* sha256;     /* of the whole file, 64 hex digits, for minuet_context_add_bundle */
  int64_t bytes, kernels; /* size of the file; kernels in it, those of earlier calls included */
} minuet_bundle_info;

/* Selects the kernels: those of `plans`, those of the list at requests_path, or both. */
typedef struct minuet_precompile_options {
  size_t struct_size;
  void* ext;
  minuet_plan* const* plans; /* optional if requests_path is given */
  int32_t plan_count;
  int32_t reserved;
  const char* requests_path; /* optional: a file that minuet_context_options.record_path made */
  const char* const* archs;  /* "sm_80", "sm_90a", or "compute_90" for PTX. Required with plans; without
                                archs, recorded kernels are compiled as they were recorded. "cpu" has no
                                kernels and is INVALID_ARGUMENT */
  int32_t arch_count;
  int32_t jobs;                 /* helper programs at once; 0: as many as the cores and the memory allow */
  const char* output_directory; /* optional: the folder that gets minuet-<arch>.bundle; it is created if it
                                   does not exist. Null: no bundle is written, and kernels go to the cache
                                   folder only */
  /* Optional callbacks. `step` is called for every kernel, by a thread of the library, one call at a time.
   * The others are called by the calling thread: `bundle` at the end, for every bundle that was written;
   * `cancelled` about every 100 ms, and 1 stops the call soon. */
  void (*step)(const minuet_precompile_step* step, void* user);
  void (*bundle)(const minuet_bundle_info* bundle, void* user);
  int32_t (*cancelled)(void* user);
  void* user; /* is passed to the callbacks */
} minuet_precompile_options;
#define MINUET_PRECOMPILE_OPTIONS_INIT \
  { sizeof(minuet_precompile_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Counts of the kernels of one call; each kernel counts once for every arch. */
typedef struct minuet_precompile_result {
  size_t struct_size;
  /* All kernels; those that were compiled; those that were found in the cache folder or in the bundle that
   * was there; those that failed. */
  int64_t kernels, compiled, found, failed;
  int64_t bytes; /* of all cubins */
  double seconds;
} minuet_precompile_result;

/* Compiles, for every arch, every kernel that any cloud may need, in helper programs (minuet-compile), and
 * writes one bundle for each arch. It needs NVRTC, but no GPU and no driver.
 *
 * The same kernels give a bundle of the same bytes. A bundle that is already there keeps its other kernels.
 * Several calls may write to one directory at the same time, also from several processes. After a failure or
 * a cancel the bundles hold what is done. `result` is optional; it is filled in with every status once work
 * has begun.
 *
 * CANCELLED: `cancelled` stopped the call before all kernels were done.
 * INVALID_ARGUMENT: also if neither plans nor requests_path are given, if plans come without archs, or if the
 * directory cannot be created or written to.
 * NOT_FOUND: the file at requests_path cannot be read.
 * UNIMPLEMENTED: Minuet's kernels do not support an arch.
 * UNAVAILABLE: also if another process holds the lock of a bundle for too long.
 *
 * If kernels or bundles are missing at the end, the status is that of the first failure, and
 * minuet_last_error tells how many kernels failed. */
MINUET_API minuet_status minuet_precompile(minuet_context* context, const minuet_precompile_options* options,
                                           minuet_precompile_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PRECOMPILE_H_ */
