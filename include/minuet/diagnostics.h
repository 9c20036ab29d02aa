/* Minuet: what the library tells about itself and its work: what a system has, where kernels came from,
 * traces, counts and times of executions and their layers, and numbers past their dtype. Part of the C ABI,
 * beside minuet.h, whose rules hold here too. */
#ifndef MINUET_DIAGNOSTICS_H_
#define MINUET_DIAGNOSTICS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a system has: for `minuet info` and for error texts. Strings are "" where absent. */
typedef struct minuet_system_info {
  size_t struct_size;
  char driver[32]; /* "13.0" */
  int32_t cuda_devices;
  char nvrtc[32]; /* "13.0" */
  char nvrtc_path[512];
  char cublaslt_path[512];
  char llvm[32];
  char missing[1024]; /* what is missing and how to get it, one sentence a line */
  int32_t reserved;
} minuet_system_info;
MINUET_API minuet_status minuet_query_system(minuet_system_info* info);

/* Where this context's kernels came from so far; those of minuet_precompile count too. */
typedef struct minuet_kernel_counters {
  size_t struct_size;
  int64_t compiled, disk_hits, memory_hits;
  double compile_ms; /* summed over threads */
  int64_t bundle_hits;
  int64_t failures;      /* compiles that gave an error */
  int64_t waits;         /* for another thread's or another process's compile of the same kernel */
  int64_t lock_timeouts; /* waits for another process that were given up */
  int64_t cubin_bytes;   /* from bundles, the cache folder and compiles */
  double wait_ms;        /* summed over threads */
} minuet_kernel_counters;
#define MINUET_KERNEL_COUNTERS_INIT \
  { sizeof(minuet_kernel_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
MINUET_API minuet_status minuet_context_kernel_counters(minuet_context* context,
                                                        minuet_kernel_counters* counters);

/* Writes the times of look-ups, compiles, loads, runs and each run's layers so far (on the host's clock) as a
 * trace that ui.perfetto.dev opens. FAILED_PRECONDITION where the context was made without `trace`. */
MINUET_API minuet_status minuet_context_write_trace(minuet_context* context, const char* path);

/* What one prepare and run did. */
typedef struct minuet_execution_counters {
  size_t struct_size;
  int64_t kernels, copies, fills, matmuls;
  int64_t host_syncs;  /* waits inside the calls */
  int64_t allocations; /* of the driver: 0 when warm */
  int64_t workspace_bytes;
  int64_t gemm_lookups; /* of cuBLASLt's algorithms: load makes those that layers need, so that calls make
                           none, but for a single convolution's rows further apart than its channels */
} minuet_execution_counters;
#define MINUET_EXECUTION_COUNTERS_INIT \
  { sizeof(minuet_execution_counters), 0, 0, 0, 0, 0, 0, 0, 0 }
/* Since the last reset. */
MINUET_API minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                                         minuet_execution_counters* counters);
MINUET_API minuet_status minuet_execution_reset_counters(minuet_execution* execution);

/* Timed stages of the last prepare and the last run since profiling was turned on, milliseconds; it adds
 * events between stages. A layer of the fused dataflow is of the stage gemm, a pooling of the stage gather.
 */
typedef struct minuet_stage_times {
  size_t struct_size;
  double sort, map, gather, gemm, scatter, other;
} minuet_stage_times;
#define MINUET_STAGE_TIMES_INIT \
  { sizeof(minuet_stage_times), 0, 0, 0, 0, 0, 0 }
MINUET_API minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on);
/* Waits. FAILED_PRECONDITION without profiling. */
MINUET_API minuet_status minuet_execution_query_stages(minuet_execution* execution,
                                                       minuet_stage_times* times);

typedef struct minuet_layer_info {
  size_t struct_size;
  const char* name; /* the parameter prefix; lives as long as the execution */
  int32_t kernel_size[MINUET_MAX_DIM], stride[MINUET_MAX_DIM]; /* on the axes of the plan */
  int32_t in_channels, out_channels, transposed;
  int64_t pairs, padded_rows; /* useful rows of the GEMMs; rows added by padding */
  int32_t gemm_groups;        /* GEMMs, one for each group of offsets */
  minuet_dataflow dataflow;   /* that was chosen; MINUET_DATAFLOW_AUTO before prepare, and of other ops */
  /* The one kernel that runs the layer on a GPU, with its Spec, or "" where several do. For a shortcut
   * or a chain that the kernel of the layer before it computes, that kernel. */
  const char* kernel;
  double gather, gemm, scatter; /* milliseconds, of what minuet_execution_query_stages told last; else 0 */
} minuet_layer_info;
MINUET_API minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                                      minuet_layer_info* info);

/* The first layer, for query_layer, that wrote a number past its dtype (infinite or NaN) in any run since
 * prepare, or -1. What comes after it means nothing, finite numbers too: a ReLU makes 0 of minus infinity.
 * Waits for the stream. */
MINUET_API minuet_status minuet_execution_find_overflow(minuet_execution* execution, void* stream,
                                                        int32_t* layer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_DIAGNOSTICS_H_ */
