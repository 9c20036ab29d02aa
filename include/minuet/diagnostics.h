/* Minuet: diagnostics. The functions tell what a system has, where kernels came from, the counts and times of
 * executions and their layers, and which layer exceeded the range of its dtype. This header is part of the C
 * ABI, and the rules of minuet.h hold here too. */
#ifndef MINUET_DIAGNOSTICS_H_
#define MINUET_DIAGNOSTICS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describes what Minuet finds on a system. A string is "" if its library is missing. */
typedef struct minuet_system_info {
  size_t struct_size;
  char driver[32]; /* CUDA version of the driver, "13.0" */
  int32_t cuda_devices;
  char nvrtc[32]; /* "13.0" */
  char nvrtc_path[512];
  char cublaslt_path[512];
  char llvm[32];      /* version that the library was built with */
  char missing[1024]; /* what is missing and how to get it, one line for each */
  int32_t reserved;
} minuet_system_info;
/* Looks for the driver, the GPUs, NVRTC and cuBLASLt, and describes them. A missing library is not an
 * error. The call needs no context, and runs minuet-compile to look for NVRTC. */
MINUET_API minuet_status minuet_query_system(minuet_system_info* info);

/* Counts where the kernels of a context came from. Those of minuet_precompile count too. */
typedef struct minuet_kernel_counters {
  size_t struct_size;
  int64_t compiled, disk_hits, memory_hits; /* kernels; a disk hit is one of the cache folder */
  double compile_ms;                        /* milliseconds of compiles, summed over threads */
  int64_t bundle_hits;
  int64_t failures;      /* compiles that failed or were cancelled */
  int64_t waits;         /* waits for a compile of the same kernel by another thread or process */
  int64_t lock_timeouts; /* waits for another process that took too long and were given up */
  int64_t cubin_bytes;   /* bytes of kernels from bundles, the cache folder and compiles */
  double wait_ms;        /* milliseconds of waits, summed over threads */
} minuet_kernel_counters;
#define MINUET_KERNEL_COUNTERS_INIT \
  { sizeof(minuet_kernel_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Gives the counts since the context was created. */
MINUET_API minuet_status minuet_context_kernel_counters(minuet_context* context,
                                                        minuet_kernel_counters* counters);

/* Writes a trace file that ui.perfetto.dev opens. It has the times, on the host's clock, of the look-ups,
 * compiles, loads and runs of the context since it was created, and of each run's layers. An existing file is
 * replaced. FAILED_PRECONDITION: the context was created without `trace`, or the file cannot be written. */
MINUET_API minuet_status minuet_context_write_trace(minuet_context* context, const char* path);

/* Counts what the calls on one execution did, such as prepare and run. */
typedef struct minuet_execution_counters {
  size_t struct_size;
  int64_t kernels, copies, fills, matmuls; /* what the calls enqueued; matmuls are GEMMs of cuBLASLt */
  int64_t host_syncs;                      /* waits for the device inside the calls */
  int64_t allocations;                     /* of device memory, pinned memory and events; 0 when warm */
  int64_t workspace_bytes;                 /* size of the execution's workspace now; not a count */
  /* Look-ups of cuBLASLt's algorithms. minuet_plan_load makes those that layers need, so that calls make
   * none; the exception is a single convolution whose rows are further apart than its channels. */
  int64_t gemm_lookups;
} minuet_execution_counters;
#define MINUET_EXECUTION_COUNTERS_INIT \
  { sizeof(minuet_execution_counters), 0, 0, 0, 0, 0, 0, 0, 0 }
/* Gives the counts since the last reset, or since create. */
MINUET_API minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                                         minuet_execution_counters* counters);
/* Sets the counts to 0. */
MINUET_API minuet_status minuet_execution_reset_counters(minuet_execution* execution);

/* Milliseconds that the last prepare and the last run since profiling was turned on spent in each stage,
 * summed over both. A layer of the fused dataflow counts as gemm, and a pooling as gather. */
typedef struct minuet_stage_times {
  size_t struct_size;
  double sort, map, gather, gemm, scatter, other;
} minuet_stage_times;
#define MINUET_STAGE_TIMES_INIT \
  { sizeof(minuet_stage_times), 0, 0, 0, 0, 0, 0 }
/* Turns profiling on (1) or off (0, as at first), and discards the times so far. Profiling adds events
 * between the stages of later calls. */
MINUET_API minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on);
/* Gives the times of the stages; they are 0 before the first call that was timed. Waits for the work that was
 * timed. FAILED_PRECONDITION: profiling is off. */
MINUET_API minuet_status minuet_execution_query_stages(minuet_execution* execution,
                                                       minuet_stage_times* times);

/* Describes a layer for what is prepared. Before a prepare the counts are 0. `name` and `kernel` live as long
 * as the execution. */
typedef struct minuet_layer_info {
  size_t struct_size;
  const char* name;                                            /* prefix of its parameters' names */
  int32_t kernel_size[MINUET_MAX_DIM], stride[MINUET_MAX_DIM]; /* on the axes of the plan; 0 if it has none */
  int32_t in_channels, out_channels, transposed;
  /* Useful rows of the GEMMs, which are 0 in capacity mode because only the device knows them, and the rows
   * that padding adds. */
  int64_t pairs, padded_rows;
  int32_t gemm_groups;      /* number of GEMMs, one for each group of offsets */
  minuet_dataflow dataflow; /* the chosen one; MINUET_DATAFLOW_AUTO before prepare, and for other ops */
  /* The name of the kernel, with its Spec, that runs the layer on a GPU; "" if several do, and before
   * prepare. If the kernel of the layer before it computes this layer too (a shortcut or a chain of pointwise
   * steps), it is that kernel. */
  const char* kernel;
  double gather, gemm, scatter; /* milliseconds that the last minuet_execution_query_stages found; else 0 */
  /* The number of offsets of a cross or a list, whose kernel_size is 1 on each axis. It is 0 for a box, and
   * for a cross or a list that has the offset 0 alone and is thus the same as a box of size 1. */
  int64_t offset_count;
  int32_t is_int8; /* 1: a convolution that computes in 8 bits (quantize.h) */
  int32_t reserved;
} minuet_layer_info;
/* Describes layer number `layer`, from 0. If a single op's kernel map has a queue and its pairs are not known
 * yet, the call waits for them (minuet_kernel_map_query_pairs). OUT_OF_RANGE: `layer` is past the last. */
MINUET_API minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                                      minuet_layer_info* info);

/* Finds the first layer that wrote a number outside the range of its dtype (infinite or NaN) in any run since
 * the last prepare. *layer gets its number for minuet_execution_query_layer, or -1 if there is none. Outputs
 * of later layers mean nothing then, even if they are finite, because a ReLU turns minus infinity into 0.
 * Waits for the stream. FAILED_PRECONDITION: nothing is prepared.
 *
 * If layers make levels in each run (voxelize, prune, subdivide, from_dense with new_level), only the last
 * run counts for layers on these levels, and the call fails with FAILED_PRECONDITION before a run. Those
 * layers and devoxelize are not checked themselves: an infinite or NaN number that one of them writes is
 * found in the first layer that computes with it. */
MINUET_API minuet_status minuet_execution_find_overflow(minuet_execution* execution, void* stream,
                                                        int32_t* layer);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_DIAGNOSTICS_H_ */
