/* Minuet: pyramids, and runs that keep no state. Part of the C ABI, beside minuet.h, whose rules hold here
 * too.
 *
 * A pyramid is a set of coordinates with all coarser sets and kernel maps that ops need, in one buffer of the
 * caller. Only the device knows how many rows the sets have, so the caller declares capacities. One call
 * builds it from coordinates and enqueues work only. minuet_plan_run then runs plans of networks and of
 * single ops on it, any number of times and from any number of threads. All memory is the caller's and
 * nothing is kept between calls, as functional hosts (XLA, torch.library) need it.
 *
 * The buffer holds the result of minuet_pyramid_build and no addresses: a copy of it elsewhere serves as
 * well, in another process too, as long as the library's version, the options of the pyramid and the kind of
 * device (a GPU, or the CPU) are the same. Nothing in it says which pyramid it is of, so that the caller has
 * to keep track. Sizes are known without a device. Sets, rows, limits and the status word are those of
 * capacity mode (minuet_execution_options.level_capacity), maps those of MINUET_MAPS_INDEXED. Tensors have as
 * many rows as the capacity of their level. Those of the input past the count are not read, those of the
 * output are zeros, and -1 for winners.
 *
 * The road: minuet_pyramid_create -> minuet_pyramid_load on the device, once -> memory of
 * minuet_pyramid_bytes and minuet_plan_run_bytes -> minuet_pyramid_build for each cloud -> minuet_plan_run.
 */
#ifndef MINUET_PYRAMID_H_
#define MINUET_PYRAMID_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minuet_pyramid minuet_pyramid;

/* Which ops read a map: one of these, or several, or-ed. Each adds one form of the map to the buffer. */
enum {
  MINUET_PURPOSE_CONVOLUTION = 1,            /* from the finer set to the coarser one, or within one set */
  MINUET_PURPOSE_TRANSPOSED_CONVOLUTION = 2, /* from the coarser to the finer */
  MINUET_PURPOSE_POOLING = 4,
  MINUET_PURPOSE_TRANSPOSED_POOLING = 8,
  MINUET_PURPOSE_EXPORT = 16 /* minuet_pyramid_export_pairs; not of one offset within one set */
};

/* Fields may be appended to these two structs. level_bytes and map_bytes of minuet_pyramid_options tell the
 * library how large they are for the caller. Zero them, as C does behind `= {0}`, so that new fields keep
 * their defaults. */
typedef struct minuet_pyramid_level {
  int64_t capacity;               /* the most voxels; of level 0, the most coordinates too */
  int32_t parent;                 /* an earlier level; -1 for level 0, which is the set of the coordinates */
  int32_t stride[MINUET_MAX_DIM]; /* to the parent: rows are floor(p / s) * s of its tensor stride times this;
                                     0 counts as 1; 1 for level 0, whose tensor stride is 1 */
  int32_t is_reached;             /* 1: rows are instead those of minuet_coordinates_reach from the parent */
  int32_t kernel_size[MINUET_MAX_DIM], dilation[MINUET_MAX_DIM],
      padding[MINUET_MAX_DIM];   /* with is_reached */
  int32_t shape[MINUET_MAX_DIM]; /* with is_reached, as there */
} minuet_pyramid_level;
typedef struct minuet_pyramid_map {
  int32_t fine, coarse; /* levels; the same for maps within one set. Offsets are in steps of dilation * the
                           tensor stride of `fine` */
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1, here and below */
  int32_t dilation[MINUET_MAX_DIM];
  uint32_t purposes;     /* MINUET_PURPOSE_..., at least one */
  int32_t dense_offsets; /* 1: as in minuet_kernel_map_options, with this padding */
  int32_t padding[MINUET_MAX_DIM];
} minuet_pyramid_map;

/* Levels and maps, or the plan of a network that has them. */
typedef struct minuet_pyramid_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3, or the network's */
  int32_t keep_first_duplicate;
  int32_t has_bounds; /* as for executions in capacity mode */
  int32_t least[1 + MINUET_MAX_DIM];
  int32_t greatest[1 + MINUET_MAX_DIM];
  uint32_t
      keep_coordinates; /* bit i: the buffer has the coordinates of level i (minuet_pyramid_coordinates) */
  const minuet_pyramid_level* levels; /* 1 to 16; null with `network` */
  const minuet_pyramid_map* maps;     /* optional; null with `network` */
  minuet_plan* network;               /* its levels and maps, for the purposes of its layers. Only a pyramid
                                         made from a network can have levels that are unions. */
  const int64_t* level_capacity;      /* of the network's levels; null without `network` */
  int32_t level_count;                /* of `levels`, or of level_capacity */
  int32_t map_count;
  int64_t batch_size; /* as for executions; with it, the coordinates of levels that dense tensors or
                         global poolings read are kept */
  /* sizeof(minuet_pyramid_level) and sizeof(minuet_pyramid_map) of the caller, which the _INIT macro sets:
     the distance from one element of `levels` or `maps` to the next. 0: the size that 0.3.0 has. */
  size_t level_bytes, map_bytes;
} minuet_pyramid_options;
#define MINUET_PYRAMID_OPTIONS_INIT                                               \
  {                                                                               \
    sizeof(minuet_pyramid_options), 0, 0, 0, 0, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, \
        sizeof(minuet_pyramid_level), sizeof(minuet_pyramid_map)                  \
  }

/* Describes a pyramid; needs no device. The arrays are read during the call only. Errors name the level or
 * the map. INVALID_ARGUMENT also for two levels with the same coordinates, which are those of equal tensor
 * stride where none is reached, and for two equal maps. UNIMPLEMENTED for a network in which an op makes a
 * level in each run. */
MINUET_API minuet_status minuet_pyramid_create(minuet_context* context, const minuet_pyramid_options* options,
                                               minuet_pyramid** pyramid);
/* Waits for the last runs on it, as far as they were not captured, and frees what minuet_parameters objects
 * hold for these runs alone. No call may be using it. Graphs that captured it may still be replayed. */
MINUET_API void minuet_pyramid_destroy(minuet_pyramid* pyramid);
/* Tells the size of the buffer, and of the scratch memory that minuet_pyramid_build uses. They depend on the
 * options, on `arch` ("cpu", or any GPU's as for minuet_plan_compile) and on the library's version, and grow
 * with each capacity. */
MINUET_API minuet_status minuet_pyramid_bytes(minuet_pyramid* pyramid, const char* arch,
                                              int64_t* buffer_bytes, int64_t* workspace_bytes);
/* Compiles, if they are nowhere to be found, and loads the kernels that build pyramids of this ndim on the
 * device. It may be slow; the other calls need it once for a device: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_pyramid_load(minuet_pyramid* pyramid, minuet_device* device);

/* What minuet_pyramid_build takes. Memory is the device's. Buffer and workspace begin on multiples of 16
 * bytes, here and in all calls below, all else on multiples of 4. */
typedef struct minuet_pyramid_arguments {
  size_t struct_size;
  void* ext;
  void* buffer; /* every byte that runs read is written */
  int64_t buffer_bytes;
  void* workspace;
  int64_t workspace_bytes;
  const int32_t* coordinates; /* int32 [most, 1 + ndim] */
  int64_t most;               /* 0 to the capacity of level 0 */
  const int32_t* count;       /* optional: int32 [1], at most `most`; null: there are `most` coordinates */
  uint32_t* status;           /* optional: uint32 [1] gets MINUET_CLOUD_... bits */
  int32_t* counts; /* optional: int32 [1 + levels] gets the coordinates taken and each level's voxels */
} minuet_pyramid_arguments;
#define MINUET_PYRAMID_ARGUMENTS_INIT \
  { sizeof(minuet_pyramid_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Builds the sets and maps. Only enqueues, and may be captured: every replay reads the coordinates and the
 * count anew. A cloud that does not fit leaves a pyramid without rows, whose runs give zeros, and a status.
 * RESOURCE_EXHAUSTED where buffer or workspace are too small; FAILED_PRECONDITION without
 * minuet_pyramid_load. */
MINUET_API minuet_status minuet_pyramid_build(minuet_pyramid* pyramid, minuet_device* device,
                                              const minuet_pyramid_arguments* arguments, void* stream);

/* The following three only enqueue, and may be captured. `buffer` is what build wrote, or a copy.
 *
 * Copies the coordinates of a level to int32 [capacity, 1 + ndim], in the order of the set. Rows past the
 * count are zeros. FAILED_PRECONDITION where the level is not in keep_coordinates. */
MINUET_API minuet_status minuet_pyramid_coordinates(minuet_pyramid* pyramid, minuet_device* device,
                                                    const void* buffer, int64_t buffer_bytes, int32_t level,
                                                    int32_t* coordinates, void* stream);
/* Copies the two orders of the rows of level 0, int32 [capacity] each. Either may be null. Row i of the set
 * is the caller's row source_row[i], and the caller's row i is row set_row[i] of the set. Elements past the
 * counts mean nothing. */
MINUET_API minuet_status minuet_pyramid_rows(minuet_pyramid* pyramid, minuet_device* device,
                                             const void* buffer, int64_t buffer_bytes, int32_t* source_row,
                                             int32_t* set_row, void* stream);
/* Writes the pairs of a map to int32 [capacity, 3] (k, row of the finer set, row of the coarser set), by k,
 * and their number to int32 [1]. Of more than `capacity` pairs the first are written; with pairs null and a
 * capacity of 0 they are only counted. Rows of level 0 are in the caller's order. FAILED_PRECONDITION where
 * the map lacks MINUET_PURPOSE_EXPORT.
 */
MINUET_API minuet_status minuet_pyramid_export_pairs(minuet_pyramid* pyramid, minuet_device* device,
                                                     const void* buffer, int64_t buffer_bytes, int32_t map,
                                                     int32_t* pairs, int64_t capacity, int32_t* count,
                                                     void* stream);

/* Names the tensors whose rows are in the set's order (minuet_pyramid_rows), not in the caller's. Or-ed; for
 * single ops, and without effect on other levels than 0. A chain of ops on level 0 saves its copies from one
 * order to the other with it. Winners lie in the order of the output, and are numbers of rows in that of the
 * input. */
enum {
  MINUET_SET_ORDER_INPUT = 1,
  MINUET_SET_ORDER_OUTPUT = 2,
  MINUET_SET_ORDER_RESIDUAL = 4 /* and of all inputs of a chain (pointwise.h) behind the first */
};

/* What minuet_plan_run takes. */
typedef struct minuet_run_arguments {
  size_t struct_size;
  void* ext;
  minuet_pyramid* pyramid;
  int32_t map; /* of the pyramid, for a single op; 0 for a network, whose maps are found by kernel size,
                  dilation and tensor strides */
  uint32_t set_order; /* MINUET_SET_ORDER_... */
  const void* buffer; /* what minuet_pyramid_build wrote, or a copy */
  int64_t buffer_bytes;
  void* workspace;
  int64_t workspace_bytes;
  const minuet_array* inputs; /* as for minuet_execution_run_arrays */
  const minuet_array* outputs;
  int32_t input_count, output_count;
  minuet_parameters* parameters; /* optional: the values; null: the plan's own. A caller whose weights are
                                    inputs of the call sets them before, on the same stream, with one object
                                    for each of the runs that may overlap */
} minuet_run_arguments;
#define MINUET_RUN_ARGUMENTS_INIT \
  { sizeof(minuet_run_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Tells the size of the workspace of a run, from the pyramid, map and set_order of `arguments` alone. The
 * plan must be compiled for `arch`: FAILED_PRECONDITION. It grows with each capacity, and depends on the
 * compiled plan with its tuning and on the library's version, for "cpu" also on the number of threads
 * (cpu_threads). */
MINUET_API minuet_status minuet_plan_run_bytes(minuet_plan* plan, const char* arch,
                                               const minuet_run_arguments* arguments, int64_t* bytes);
/* Optional: makes what the first run would make for the pyramid, map, set_order and parameters of
 * `arguments`, the only fields that are read. Only here and in that first run, memory is allocated and waited
 * for, and only with `parameters`, whose form for the kernels it is: so call it before a capture. */
MINUET_API minuet_status minuet_plan_run_load(minuet_plan* plan, minuet_device* device,
                                              const minuet_run_arguments* arguments);
/* Runs a plan, which must be loaded on the device, on a pyramid. Kernels are selected by the capacities, so
 * that results may differ in the last bits from exact mode. They equal those of capacity mode with the same
 * capacities and kernels. Only enqueues, from any number of threads and on any streams, and may be captured.
 * What the run reads must live until it is done, in a graph for every replay: memory, the plan and the
 * parameters. INVALID_ARGUMENT where the pyramid lacks a level, a map or a purpose that the plan needs, and
 * where outputs, workspace and what the run reads overlap. RESOURCE_EXHAUSTED where buffer or workspace are
 * too small. FAILED_PRECONDITION as for minuet_execution_create, and where the capacities select
 * gather-GEMM-scatter for a layer: make the plan with MINUET_DATAFLOW_FUSED. */
MINUET_API minuet_status minuet_plan_run(minuet_plan* plan, minuet_device* device,
                                         const minuet_run_arguments* arguments, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PYRAMID_H_ */
