/* Minuet: pyramids, and runs that keep no state. Part of the C ABI, beside minuet.h, whose rules hold here
 * too.
 *
 * A pyramid is a set of coordinates, with all coarser sets and all kernel maps that ops need, in one buffer
 * of the caller. Only the device knows how many rows the sets have, so the caller declares capacities. One
 * call builds the pyramid from coordinates and only enqueues. minuet_plan_run then runs plans of networks and
 * of single ops on it, any number of times and from any number of threads. All memory is the caller's, and
 * nothing is kept between calls, as functional hosts (XLA, torch.library) need it.
 *
 * A program makes these calls:
 * 1. minuet_pyramid_create, which needs no device.
 * 2. minuet_pyramid_load, once for each device. The plans are compiled and loaded as always.
 * 3. minuet_pyramid_bytes and minuet_plan_run_bytes, for the sizes of the memory. They need no device.
 * 4. minuet_plan_run_load, if runs have `parameters` and are captured. Or minuet_plan_prepare_parameters, if
 *    the parameters are memory of the caller too (minuet_plan_prepared_bytes).
 * 5. minuet_pyramid_build, for each cloud.
 * 6. minuet_plan_run, for each plan.
 *
 * Rules of this header:
 * - Buffers. A buffer has the result of minuet_pyramid_build and no addresses. A copy of it elsewhere serves
 *   as well, in another process too, if the library's version, the options of the pyramid and the kind of
 *   device (a GPU, or the CPU) are the same. Nothing in a buffer says to which pyramid it belongs: the caller
 *   has to keep track.
 * - Alignment. Buffers, workspaces and prepared parameters begin on multiples of 16 bytes, int32 and uint32
 *   memory on multiples of 4. Otherwise INVALID_ARGUMENT.
 * - Capacity mode. Sets, rows, limits and the status word are those of an execution in capacity mode
 *   (minuet_execution_options.level_capacity), and maps those of MINUET_MAPS_INDEXED. Tensors have as many
 *   rows as the capacity of their level. Rows of an input past the count are not read; those of an output are
 *   0, and -1 for winners and an argmax.
 * - Numbers. Levels and maps are numbered from 0. A number past the last is OUT_OF_RANGE as an argument of a
 *   function, and INVALID_ARGUMENT in a struct.
 */
#ifndef MINUET_PYRAMID_H_
#define MINUET_PYRAMID_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The description of a pyramid: its levels, maps and capacities. It has no memory of a device. */
typedef struct minuet_pyramid minuet_pyramid;

/* The ops that read a map: one of these, or several, or-ed. Each adds one form of the map to the buffer. A
 * map of one offset within one set serves all ops with any of the first four, and takes no memory. */
enum {
  MINUET_PURPOSE_CONVOLUTION = 1,            /* from the finer set to the coarser one, or within one set */
  MINUET_PURPOSE_TRANSPOSED_CONVOLUTION = 2, /* from the coarser set to the finer one */
  /* a pooling or a space to channel, or the gradient of a transposed pooling */
  MINUET_PURPOSE_POOLING = 4,
  /* a transposed pooling or a channel to space, or the gradient of a pooling */
  MINUET_PURPOSE_TRANSPOSED_POOLING = 8,
  MINUET_PURPOSE_EXPORT = 16 /* minuet_pyramid_export_pairs; not for a map of one offset within one set */
};

/* One coordinate set. Later versions may append fields (level_bytes of minuet_pyramid_options); zero the
 * struct first, as `= {0}` does, so that they have their defaults.
 *
 * Level 0 is the set of the caller's coordinates; its tensor stride is 1. Every other level follows from its
 * parent: its tensor stride is that of the parent times `stride`, at most 2^24 on each axis. If is_reached is
 * 0, it has the coordinates of the parent rounded down to multiples of its tensor stride, as
 * minuet_coordinates_downsample. If is_reached is 1, it has the coordinates of minuet_coordinates_reach with
 * kernel_size, dilation, padding and shape, which are all 0 otherwise. */
typedef struct minuet_pyramid_level {
  int64_t capacity;               /* required: the most voxels, 1 to 2^30 - 1; for level 0 also the most
                                     coordinates */
  int32_t parent;                 /* an earlier level; -1 for level 0 */
  int32_t stride[MINUET_MAX_DIM]; /* to the parent; 0 counts as 1; 1 for level 0 */
  int32_t is_reached;             /* 0, or 1, which level 0 must not have */
  int32_t kernel_size[MINUET_MAX_DIM], dilation[MINUET_MAX_DIM], /* 0 counts as 1 */
      padding[MINUET_MAX_DIM];                                   /* 0 or more */
  int32_t shape[MINUET_MAX_DIM]; /* as in minuet_reach_options; all 0: no limit */
  int64_t slots;                 /* of the level's hash table; 0: the default (index.h) */
} minuet_pyramid_level;

/* One kernel map. Its offsets are those of kernel_shape.h, where t is the tensor stride of `fine`. Later
 * versions may append fields, as for levels (map_bytes). */
typedef struct minuet_pyramid_map {
  int32_t fine, coarse;                /* levels; the same level for maps within one set */
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1 */
  int32_t dilation[MINUET_MAX_DIM];    /* 0 counts as 1 */
  uint32_t purposes;                   /* required: MINUET_PURPOSE_..., at least one */
  int32_t dense_offsets;               /* 1: offsets are those of minuet_kernel_map_options.dense_offsets */
  int32_t padding[MINUET_MAX_DIM];     /* with dense_offsets: 0 or more */
  const int32_t* offsets;              /* these three: as in minuet_kernel_map_options */
  int32_t offset_count, kernel_shape;
} minuet_pyramid_map;

/* A pyramid is described either by `levels` and `maps`, or by the plan of a network, whose levels and maps it
 * then has, for the purposes of the network's layers. Only a pyramid that is made from a network can have
 * levels that are unions or intersections, or that a generative layer makes. */
typedef struct minuet_pyramid_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;                 /* 1 to 4; 0: 3, or that of the network */
  int32_t keep_first_duplicate; /* these four: as in minuet_execution_options, in capacity mode */
  int32_t has_bounds;
  int32_t least[1 + MINUET_MAX_DIM];
  int32_t greatest[1 + MINUET_MAX_DIM];
  uint32_t keep_coordinates;          /* bit i: the buffer has the coordinates of level i, for
                                         minuet_pyramid_coordinates */
  const minuet_pyramid_level* levels; /* 1 to 16, required without `network`; null with it */
  const minuet_pyramid_map* maps;     /* optional; null with `network` */
  minuet_plan* network;               /* optional: the plan of a network, of at most 16 different levels */
  const int64_t* level_capacity; /* required with `network`: as many as minuet_plan_info.levels, each 1 to
                                    2^30 - 1; null without it */
  int32_t level_count;           /* number of `levels`, or of level_capacity */
  int32_t map_count;
  int64_t batch_size; /* as in minuet_execution_options. Networks with dense outputs or global poolings need
                         it; made from such a network, a pyramid has the coordinates that these ops read */
  size_t level_bytes; /* sizeof(minuet_pyramid_level) in the caller's header, which the _INIT macro sets: the
                         distance between elements of `levels`; 0: that of version 0.3.0 */
  size_t map_bytes;   /* the same for minuet_pyramid_map and `maps` */
  const int64_t* level_slots; /* optional, with level_capacity: as in minuet_execution_options */
} minuet_pyramid_options;
#define MINUET_PYRAMID_OPTIONS_INIT                                               \
  {                                                                               \
    sizeof(minuet_pyramid_options), 0, 0, 0, 0, {0}, {0}, 0, 0, 0, 0, 0, 0, 0, 0, \
        sizeof(minuet_pyramid_level), sizeof(minuet_pyramid_map), 0               \
  }

/* Creates the description of a pyramid. Needs no device, and allocates host memory only. The plan in
 * `network` may be destroyed afterwards. Errors name the level or the map.
 *
 * INVALID_ARGUMENT: also for two levels with the same coordinates, for two equal maps, for a bit of
 * keep_coordinates without a level, and for the plan of a single op. Levels that are not reached have the
 * same coordinates if their tensor strides are equal. OUT_OF_RANGE: a capacity is above 2^30 - 1; the largest
 * capacity times the offsets of a map does not fit into 31 bits; or keys of 64 bits do not hold the
 * bounds. */
MINUET_API minuet_status minuet_pyramid_create(minuet_context* context, const minuet_pyramid_options* options,
                                               minuet_pyramid** pyramid);
/* Releases the pyramid, and frees what minuet_parameters objects hold for runs on it. It waits for the last
 * runs on it, except for captured ones. No other call may use the pyramid at this time. Graphs that captured
 * calls with it may still be replayed: what they read is kept until minuet_parameters_release_captures. */
MINUET_API void minuet_pyramid_destroy(minuet_pyramid* pyramid);
/* Returns the bytes of the buffer, and of the workspace that only minuet_pyramid_build uses. Needs no device.
 *
 * `arch` is "cpu", or the architecture of a GPU as for minuet_plan_compile; nothing need be compiled for it.
 * Both sizes depend on the options, on `arch` and on the library's version, and grow with each capacity. */
MINUET_API minuet_status minuet_pyramid_bytes(minuet_pyramid* pyramid, const char* arch,
                                              int64_t* buffer_bytes, int64_t* workspace_bytes);
/* Loads the kernels that build pyramids of this ndim on the device, and compiles those that are nowhere to be
 * found. This may be slow, so call it before a capture. minuet_pyramid_build, _coordinates, _rows and
 * _export_pairs need it once for each device and ndim. Runs do not need it. */
MINUET_API minuet_status minuet_pyramid_load(minuet_pyramid* pyramid, minuet_device* device);

/* The arguments of minuet_pyramid_build. All memory is the device's. */
typedef struct minuet_pyramid_arguments {
  size_t struct_size;
  void* ext;
  void* buffer; /* required; the call writes every byte that runs read */
  int64_t buffer_bytes;
  void* workspace; /* required; it may be used for other data after the build */
  int64_t workspace_bytes;
  const int32_t* coordinates; /* int32 [most, 1 + ndim]; may be null if `most` is 0 */
  int64_t most;               /* 0 to the capacity of level 0 */
  const int32_t* count;       /* optional: int32 [1], at most `most`, how many coordinates there are; null:
                                 there are `most` */
  uint32_t* status;           /* optional: uint32 [1] gets MINUET_CLOUD_... bits, 0 for a good cloud */
  int32_t* counts;            /* optional: int32 [1 + levels] gets the number of coordinates that were taken
                                 and the number of voxels of each level */
} minuet_pyramid_arguments;
#define MINUET_PYRAMID_ARGUMENTS_INIT \
  { sizeof(minuet_pyramid_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Builds the sets and maps of a cloud in the buffer. It only enqueues, and may be captured: every replay
 * reads the coordinates and the count again.
 *
 * A cloud that does not fit is not an error of the call. The pyramid then has no rows, runs on it give zeros,
 * and the status word says why.
 *
 * OUT_OF_RANGE: `most` is negative or above the capacity of level 0. RESOURCE_EXHAUSTED: the buffer or the
 * workspace is too small. FAILED_PRECONDITION: minuet_pyramid_load was not called. */
MINUET_API minuet_status minuet_pyramid_build(minuet_pyramid* pyramid, minuet_device* device,
                                              const minuet_pyramid_arguments* arguments, void* stream);

/* The next three functions read a buffer that minuet_pyramid_build wrote, or a copy of it. They only enqueue,
 * and may be captured. RESOURCE_EXHAUSTED: buffer_bytes is too small. FAILED_PRECONDITION: also if
 * minuet_pyramid_load was not called.
 *
 * Copies the coordinates of a level to device memory, int32 [capacity of the level, 1 + ndim], in the order
 * of the set. Rows past the count are zeros. FAILED_PRECONDITION: the level's bit of keep_coordinates is not
 * set. */
MINUET_API minuet_status minuet_pyramid_coordinates(minuet_pyramid* pyramid, minuet_device* device,
                                                    const void* buffer, int64_t buffer_bytes, int32_t level,
                                                    int32_t* coordinates, void* stream);
/* Copies the two orders of the rows of level 0 to device memory, int32 [capacity of level 0] each. Either
 * pointer is optional. Row i of the set is the caller's row source_row[i], and the caller's row i is row
 * set_row[i] of the set. Elements past the counts have no meaning. */
MINUET_API minuet_status minuet_pyramid_rows(minuet_pyramid* pyramid, minuet_device* device,
                                             const void* buffer, int64_t buffer_bytes, int32_t* source_row,
                                             int32_t* set_row, void* stream);
/* Writes the pairs of a map to device memory, int32 [capacity, 3], each as (k, row of the finer set, row of
 * the coarser set), in ascending order of k, and the number of all pairs to `count`, int32 [1]. Rows of level
 * 0 are in the caller's order. If there are more than `capacity` pairs, only the first ones are written.
 * `pairs` is optional: null with a capacity of 0 only counts them. A capacity of the map's offsets times the
 * capacity of `coarse` always suffices. FAILED_PRECONDITION: the map lacks MINUET_PURPOSE_EXPORT. */
MINUET_API minuet_status minuet_pyramid_export_pairs(minuet_pyramid* pyramid, minuet_device* device,
                                                     const void* buffer, int64_t buffer_bytes, int32_t map,
                                                     int32_t* pairs, int64_t capacity, int32_t* count,
                                                     void* stream);

/* ---- runs ------------------------------------------------------------------------------------------ */

/* Selects the tensors of level 0 whose rows are in the order of the set (minuet_pyramid_rows), and not in the
 * caller's: one of these, or several, or-ed. This is for single ops; networks take and give rows in the
 * caller's order. On other levels, which have only one order, it has no effect. A chain of ops on level 0
 * saves the copies from one order to the other with it. Winners are rows of the input, and lie in the order
 * of the output: both as selected here. */
enum {
  MINUET_SET_ORDER_INPUT = 1,
  MINUET_SET_ORDER_OUTPUT = 2,
  MINUET_SET_ORDER_RESIDUAL = 4 /* the residual, and all inputs of a chain (pointwise.h) behind the first */
};

/* The arguments of minuet_plan_run. */
typedef struct minuet_run_arguments {
  size_t struct_size;
  void* ext;
  minuet_pyramid* pyramid; /* required */
  int32_t map;             /* for a single op: the map of the pyramid that it uses. 0 for a network, whose
                              maps are found by their kernels (kernel_shape.h) and tensor strides */
  uint32_t set_order;      /* MINUET_SET_ORDER_...; 0 for a network */
  const void* buffer;      /* required: a buffer that minuet_pyramid_build wrote, or a copy of it */
  int64_t buffer_bytes;
  void* workspace; /* required: minuet_plan_run_bytes; it may be used for other data after the run */
  int64_t workspace_bytes;
  const minuet_array* inputs;  /* as for minuet_execution_run_arrays, with as many rows as the capacities */
  const minuet_array* outputs; /* the same */
  int32_t input_count, output_count;
  minuet_parameters* parameters; /* optional: the values of the parameters; null: the plan's own. A caller
                                    whose weights are inputs of the call sets them before it on the same
                                    stream, with one object for each of the runs that may overlap */
  /* optional, in place of parameters: memory that minuet_plan_prepare_parameters wrote for the same plan,
   * pyramid, map and set_order, or a copy of it on a device of the same architecture, in a process with the
   * same version of the library, the same tuning results and the same tuned kernels at hand. Its layout
   * depends on all of these, and nothing in the memory tells them: the caller has to keep track */
  const void* prepared;
  int64_t prepared_bytes;
} minuet_run_arguments;
#define MINUET_RUN_ARGUMENTS_INIT \
  { sizeof(minuet_run_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Returns the bytes of workspace that a run needs. It needs no device, and reads the pyramid, map and
 * set_order of `arguments` only.
 *
 * The size grows with each capacity. It depends on the compiled plan with its tuning and on the library's
 * version, for "cpu" also on the number of threads (minuet_context_options.cpu_threads).
 *
 * FAILED_PRECONDITION: the plan is not compiled for `arch`, or as for minuet_plan_run. The errors that a
 * pyramid, a map or a set_order causes in minuet_plan_run come here too. */
MINUET_API minuet_status minuet_plan_run_bytes(minuet_plan* plan, const char* arch,
                                               const minuet_run_arguments* arguments, int64_t* bytes);
/* Returns the bytes of memory that minuet_plan_prepare_parameters writes. It is for callers whose parameters
 * are memory of their own too. The rules are those of minuet_plan_run_bytes, except that the size does not
 * grow with each capacity, because other kernels may read other forms. */
MINUET_API minuet_status minuet_plan_prepared_bytes(minuet_plan* plan, const char* arch,
                                                    const minuet_run_arguments* arguments, int64_t* bytes);
/* Writes the parameters of a plan to `prepared`, in the forms that the kernels of its runs on a pyramid read:
 * weights are rounded to the dtype of the plan, and batch norms are folded. Any number of runs may then read
 * this memory (minuet_run_arguments.prepared), whose results have the same bits as with a minuet_parameters
 * of the same values. The plan must be loaded on the device. The call reads only the pyramid, map and
 * set_order of `arguments`.
 *
 * `values` has an f32 array in device memory for each parameter of the plan, with any strides and in the
 * order of their numbers. Weights have the shape and order of `order`, as for minuet_parameters_set.
 * `prepared` overlaps none of them. The call only enqueues, keeps nothing, and may be captured: every replay
 * reads the arrays anew. All this memory must live until the work is done, and in a graph for every replay.
 * For a plan without parameters, whose size is 0, the call writes nothing, and `prepared` may be null.
 *
 * INVALID_ARGUMENT: an array does not fit, or one of the reasons of minuet_plan_run. RESOURCE_EXHAUSTED:
 * prepared_bytes is too small. FAILED_PRECONDITION: the plan is not loaded on the device. */
MINUET_API minuet_status minuet_plan_prepare_parameters(minuet_plan* plan, minuet_device* device,
                                                        const minuet_run_arguments* arguments,
                                                        const minuet_array* values, int32_t value_count,
                                                        minuet_weights_order order, void* prepared,
                                                        int64_t prepared_bytes, void* stream);
/* Makes in advance what the first run would make. It reads the pyramid, map, set_order and parameters of
 * `arguments` only. The call is optional for runs that are not captured.
 *
 * With `parameters`, this call allocates the form of the values that the kernels read, and waits. Without it,
 * the first run of these parameters on this pyramid does so, which is FAILED_PRECONDITION in a capture. No
 * other run allocates device memory or waits. The errors are those of minuet_plan_run. */
MINUET_API minuet_status minuet_plan_run_load(minuet_plan* plan, minuet_device* device,
                                              const minuet_run_arguments* arguments);
/* Runs a plan on a pyramid. The plan must be loaded on the device.
 *
 * The memory that a run reads, the plan and the parameters must live until the run is done, and in a graph
 * for every replay. The run only enqueues, except for the first one with `parameters` (minuet_plan_run_load),
 * and may be captured. Any number of threads may run a plan at the same time, on any streams, if outputs and
 * workspaces differ.
 *
 * Kernels are selected by the capacities, so that results may differ from exact mode in the last bits. They
 * equal those of capacity mode with the same capacities and kernels.
 *
 * INVALID_ARGUMENT, also in these cases:
 * - The pyramid has another ndim, or lacks a level, a map or a purpose that the plan needs.
 * - A network has dense outputs or global poolings, and the pyramid lacks the batch size, the coordinates or
 *   the shape that they need.
 * - `map` or set_order is not 0 for a network.
 * - The parameters are of another plan or device, or `prepared` is given too.
 * RESOURCE_EXHAUSTED: the buffer, the workspace or `prepared` is too small.
 * FAILED_PRECONDITION, in these cases:
 * - The plan is not loaded on the device.
 * - The plan has no values and none are given, or one of `parameters` was never set.
 * - The first run with `parameters` is captured, without minuet_plan_run_load.
 * - The capacities select gather-GEMM-scatter for a layer: make the plan with MINUET_DATAFLOW_FUSED. */
MINUET_API minuet_status minuet_plan_run(minuet_plan* plan, minuet_device* device,
                                         const minuet_run_arguments* arguments, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PYRAMID_H_ */
