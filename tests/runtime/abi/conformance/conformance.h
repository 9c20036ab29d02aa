/* The conformance test calls every function of the public headers once in the right way, and once for each
 * argument that may be wrong. A call is one row:
 *
 *   REFUSED(INVALID_ARGUMENT, "context", minuet_device_open(NULL, "cpu", NULL, &out.device));
 *   ACCEPTED(minuet_device_open(world->context, "cpu", NULL, &out.device));
 *
 * The text of the call names the function and the arguments, so that the program can compare its rows with
 * the headers at the end (coverage.c). Before a call that must be refused, `out` is filled with poison, as
 * the device memory `world->poisoned` is. Both must be the same after it, and the message must name the
 * function and contain the words of the row. */
#ifndef MINUET_TESTS_CONFORMANCE_H_
#define MINUET_TESTS_CONFORMANCE_H_

#include <minuet/batch_norm.h>
#include <minuet/diagnostics.h>
#include <minuet/generate.h>
#include <minuet/gradient.h>
#include <minuet/index.h>
#include <minuet/kernels.h>
#include <minuet/parameters.h>
#include <minuet/points.h>
#include <minuet/pointwise.h>
#include <minuet/precompile.h>
#include <minuet/pyramid.h>
#include <minuet/quantize.h>
#include <minuet/row_gradient.h>
#include <minuet/select.h>
#include <minuet/space.h>
#include <minuet/training.h>
#include <minuet/tuning.h>

#define COUNT_OF(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

/* A call that returns minuet_status and must fail with `wanted`. */
#define REFUSED(wanted, words, call) \
  (begin_row(__FILE__, __LINE__, #call), poison_outputs(), end_refused(MINUET_##wanted, words, call))
/* A call that returns minuet_status and must succeed. */
#define ACCEPTED(call) (begin_row(__FILE__, __LINE__, #call), end_accepted(call))
/* A call that may compile: UNAVAILABLE is fine too, where there is no NVRTC. */
#define TRIED(wanted, call) (begin_row(__FILE__, __LINE__, #call), end_tried(MINUET_##wanted, call))
/* A call that returns an integer, which must be `wanted`. */
#define GIVES(wanted, call) \
  (begin_row(__FILE__, __LINE__, #call), end_given((long long)(wanted), (long long)(call)))
/* A call that returns nothing. */
#define DONE(call) (begin_row(__FILE__, __LINE__, #call), (void)(call), end_done())
/* What must hold after a row. */
#define EXPECT(condition) expect(__FILE__, __LINE__, #condition, condition)
/* A call that prepares rows. Its failure ends the program. */
#define MUST(call) must(__FILE__, __LINE__, #call, call)

/* The options `base` with one change, for rows such as
 *   REFUSED(INVALID_ARGUMENT, "jit", minuet_context_create(WITH(jit = 3), &out.context));
 * The function that has such a row declares `given` and `base`, both of the struct's type. */
#define WITH(change) (given = base, given.change, &given)

/* A struct that the library fills in, with its right size or with another one. */
#define INFO(member) INFO_WITH(member, struct_size = sizeof(out.info.member))
#define INFO_WITH(member, size) \
  (out.info.member.size, given_size = out.info.member.struct_size, &out.info.member)
extern size_t given_size;

/* All that rows write. */
typedef struct outputs {
  union {
    minuet_kernel_counters kernel_counters;
    minuet_system_info system;
    minuet_shipped_network_info shipped_network;
    minuet_device_info device;
    minuet_plan_info plan;
    minuet_parameter_info parameter;
    minuet_tensor_info tensor;
    minuet_precompile_result precompile;
    minuet_tuning_result tuning;
    minuet_execution_info execution;
    minuet_execution_counters counters;
    minuet_stage_times stages;
    minuet_level_info level;
    minuet_layer_info layer;
    minuet_kept_info kept;
    minuet_training_sizes sizes;
    minuet_index_sizes index;
  } info;
  minuet_context* context;
  minuet_device* device;
  minuet_queue* queue;
  minuet_coordinates* set;
  minuet_kernel_map* map;
  minuet_plan* plan;
  minuet_execution* execution;
  minuet_parameters* parameters;
  minuet_pyramid* pyramid;
  minuet_point_op* point_op;
  minuet_select_op* select_op;
  minuet_gradient_op* gradient_op;
  minuet_batch_norm_op* batch_norm_op;
  minuet_training* training;
  minuet_job* job;
  void* memory;
  const uint32_t* status_word;
  const int32_t* count_words;
  int64_t numbers[8];
  int32_t small[16];
  uint32_t word;
  size_t bytes;
  char text[256];
} outputs;
extern outputs out;

enum { ROWS = 4, IN = 4, OUT = 8, SIZE = 3, VOLUME = 27, WEIGHTS = VOLUME * IN * OUT };
enum { FLOATS = WEIGHTS * 4, POISON_BYTES = 4096, CAPACITY = 8 };

/* A pyramid of two levels of CAPACITY rows, and the maps
 *   0  3 x 3 x 3 within level 0, for convolutions, poolings and minuet_pyramid_export_pairs
 *   1  2 x 2 x 2 from level 0 to level 1, for convolutions in both directions
 *   2  3 x 3 x 3 within level 1, for poolings
 * Its buffer has the coordinates of level 0. */
typedef struct pyramid_shape {
  minuet_pyramid_level levels[2];
  minuet_pyramid_map maps[3];
  minuet_pyramid_options options;
} pyramid_shape;

/* The objects that rows use. Those whose names begin with `other` belong to another device of the same
 * memory. */
typedef struct world {
  const char* device_name;
  char arch[32];
  const char* folder; /* for files that rows write */
  minuet_context* context;
  minuet_device *device, *other_device;
  minuet_queue *queue, *queue2, *other_queue;
  /* Device memory. */
  void* poisoned;       /* for outputs; POISON_BYTES bytes */
  int32_t* coordinates; /* ROWS different rows */
  int32_t* duplicates;  /* ROWS rows, the first of which is there twice */
  int32_t* negative;    /* one row with a negative batch index */
  int32_t* count;       /* ROWS */
  char* features;       /* 16 KiB of zeros */
  char* workspace;      /* workspace_bytes bytes */
  int64_t workspace_bytes;
  minuet_coordinates *set, *coarse, *queued_set, *other_set;
  minuet_kernel_map *map, *queued_map, *other_map, *coarse_map;
  /* Plans of fp32, but for the network, which is fp16 and in the fused dataflow. All are loaded on the
   * device, but for `uncompiled`. */
  minuet_plan *uncompiled, *convolution, *pooling, *network;
  float weight[FLOATS];
  /* `pyramid` has the levels and maps of pyramid_shape and is loaded on the device. `buffer` and
   * `build_workspace` have exactly the bytes that it needs. `flat_pyramid` has two axes and is not loaded. */
  minuet_pyramid *pyramid, *flat_pyramid;
  char *buffer, *build_workspace;
  int64_t buffer_bytes, build_workspace_bytes;
} world;

/* Of the network: one block from IN to OUT channels. */
extern const char* const network_description;

/* Fills `out` with bytes of 0xa5. */
void poison_outputs(void);
void begin_row(const char* file, int line, const char* call);
void end_refused(minuet_status wanted, const char* words, minuet_status status);
void end_accepted(minuet_status status);
void end_tried(minuet_status wanted, minuet_status status);
void end_given(long long wanted, long long value);
void end_done(void);
void expect(const char* file, int line, const char* condition, int holds);
void must(const char* file, int line, const char* call, minuet_status status);

/* Fills the poisoned device memory again, after a right use that wrote to it. */
void poison_device(const world* world);
/* Copies `bytes` bytes from the device, or ends the program. */
void read_device(const world* world, void* target, const void* source, int64_t bytes);
/* New device memory with a copy of `bytes` bytes, or of zeros where `source` is null. */
void* device_memory(const world* world, const void* source, int64_t bytes);
/* "<folder>/<name>", in one of a few buffers that are used in turn. */
const char* path_in(const world* world, const char* name);
/* The options of a plan of one convolution with a weight. */
minuet_convolution_options convolution_options(const world* world);
/* Describes the pyramid. The options point into the shape. */
void describe_pyramid(pyramid_shape* shape);
/* Options with room for the cloud in the network's levels, which puts an execution in capacity mode. */
minuet_execution_options capacity_options(void);

/* Makes the objects. Returns 0, and prints why, if there is no such device. */
int open_world(world* world, const char* device_name, const char* folder);
void close_world(world* world);

/* Rows of one topic each. */
void call_errors(world* world);
void call_contexts(world* world);
void call_devices(world* world);
void call_sets(world* world);
void call_maps(world* world);
void call_ops(world* world);
void call_pointwise(world* world);
void call_space(world* world);
void call_index(world* world);
void call_points(world* world);
void call_select(world* world);
void call_gradients(world* world);
void call_batch_norm(world* world);
void call_row_gradients(world* world);
void call_networks(world* world);
void call_plans(world* world);
void call_kernels(world* world);
void call_serialization(world* world);
void call_parameters(world* world);
void call_jobs(world* world);
void call_precompile(world* world);
void call_tuning(world* world);
void call_execution_create(world* world);
void call_prepare(world* world);
void call_prepare_maps(world* world);
void call_run(world* world);
void call_capacity(world* world);
void call_queries(world* world);
void call_pyramid_create(world* world);
void call_pyramids(world* world);
void call_pyramid_runs(world* world);
void call_training(world* world);

/* The rows so far: the text of each call, and whether it was refused. */
typedef struct recorded_row {
  const char* call;
  int refused;
} recorded_row;
extern recorded_row rows[];
extern int row_count;
/* The number of faults that were printed. */
extern int faults;

/* Compares the rows with the headers that are named. Prints a line for each function, argument or option
 * without a row. Returns how many there are. */
int compare_with_headers(char** headers, int count);

#endif
