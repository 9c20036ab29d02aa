/* Minuet: voxels from points, and features of voxels back to points. Part of the C ABI, beside minuet.h,
 * whose rules hold here too.
 *
 * Voxelizing puts each point of a cloud into a cell of a grid and makes one row of coordinates and features
 * for each cell that has points. Devoxelizing gives each point the features of its voxel, or of the voxels
 * around it. Both run on the device, on memory of the caller, and keep nothing between calls.
 *
 * The results have the same bits on every device, apart from those of NaN: cells are computed in float32, and
 * means and sums are added in the order of the points in float64 and rounded to float32 once, and then to the
 * dtype.
 *
 * The road: minuet_voxelize_create or minuet_devoxelize_create -> minuet_point_op_load on the device, once ->
 * memory of minuet_voxelize_bytes or minuet_devoxelize_bytes -> minuet_voxelize or minuet_devoxelize for each
 * cloud.
 */
#ifndef MINUET_POINTS_H_
#define MINUET_POINTS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An op on points: voxelizing or devoxelizing. It is immutable, and any thread may use it. */
typedef struct minuet_point_op minuet_point_op;

/* How the features of a voxel follow from those of its points. */
typedef int32_t minuet_point_feature;
enum {
  MINUET_POINT_FEATURE_MEAN = 0,
  MINUET_POINT_FEATURE_MAX = 1, /* NaN counts as the largest number */
  MINUET_POINT_FEATURE_SUM = 2,
  MINUET_POINT_FEATURE_FIRST = 3 /* those of the point with the lowest index */
};

/* A point is a row of float32 numbers, which begins with its position. The coordinate of a point p on an axis
 * is floor((p - low) / voxel_size), computed in float32.
 *
 * A point is dropped if its position is not finite, or if it is outside. With a range, a point is outside
 * unless low <= p < high on every axis and its coordinate is less than round((high - low) / voxel_size).
 * Without a range, only points whose coordinates int32 cannot hold are outside, and coordinates may be
 * negative. Features that are not finite are kept. */
typedef struct minuet_voxelize_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;         /* 1 to 4; 0: 3 */
  minuet_dtype dtype;   /* of the voxels' features */
  int32_t first_column; /* the features are columns first_column to first_column + channels - 1 of a point;
                           with 0, the position is a feature too */
  int32_t channels;     /* required: 1 to 65536 */
  minuet_point_feature feature;
  int32_t has_range;
  float low[MINUET_MAX_DIM];        /* the origin of the voxels, and with a range its lower end */
  float high[MINUET_MAX_DIM];       /* with has_range, else 0 */
  float voxel_size[MINUET_MAX_DIM]; /* required */
  int64_t batch_size;               /* batch indices are less than this; 0: not limited */
  int64_t most_points_per_voxel;    /* only these many points of a voxel, those of lowest index, count for its
                                       features; 0: all */
  int64_t most_voxels;              /* only these many voxels, those of the lowest first points, are kept, and
                                       the points of the others are dropped; 0: all */
} minuet_voxelize_options;
#define MINUET_VOXELIZE_OPTIONS_INIT \
  { sizeof(minuet_voxelize_options), 0, 3, 0, 0, 0, 0, 0, {0}, {0}, {0}, 0, 0, 0 }

/* Makes an op that voxelizes. Needs no device. */
MINUET_API minuet_status minuet_voxelize_create(minuet_context* context,
                                                const minuet_voxelize_options* options, minuet_point_op** op);

/* Selects the voxels from which a point takes its features. With the two linear ones, the 2^ndim voxels
 * around the point are weighted linearly along each axis. The weights of voxels that do not exist count as 0,
 * and the others are divided by their sum; a point whose weights are all 0 gets zeros. */
typedef int32_t minuet_point_blend;
enum {
  MINUET_BLEND_NEAREST = 0, /* the row that minuet_voxelize gave for the point */
  MINUET_BLEND_CENTRES = 1, /* linear, where a voxel's features belong to the centre of its cell */
  MINUET_BLEND_CORNERS = 2  /* linear, where they belong to the corner of lowest coordinates, as in the
                               devoxelize of TorchSparse and SPVCNN */
};
typedef struct minuet_devoxelize_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3 */
  minuet_dtype dtype;
  int32_t channels; /* required: 1 to 65536 */
  minuet_point_blend blend;
  /* The following are for the linear blends; else 0. */
  float low[MINUET_MAX_DIM]; /* low and voxel_size as in minuet_voxelize_options */
  float voxel_size[MINUET_MAX_DIM];
  int32_t tensor_stride[MINUET_MAX_DIM]; /* of the level; 0 counts as 1 */
} minuet_devoxelize_options;
#define MINUET_DEVOXELIZE_OPTIONS_INIT                                \
  {                                                                   \
    sizeof(minuet_devoxelize_options), 0, 3, 0, 0, 0, {0}, {0}, { 0 } \
  }

/* Makes an op that devoxelizes. Needs no device. */
MINUET_API minuet_status minuet_devoxelize_create(minuet_context* context,
                                                  const minuet_devoxelize_options* options,
                                                  minuet_point_op** op);
MINUET_API void minuet_point_op_destroy(minuet_point_op* op);
/* Compiles, if they are nowhere to be found, and loads the kernels of the op on the device. It may be slow;
 * minuet_voxelize and minuet_devoxelize need it once for a device: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_point_op_load(minuet_point_op* op, minuet_device* device);
/* Tell the size of the workspace for at most `most` points, and at most `most_rows` rows of the level. It
 * depends on `arch` ("cpu", or any GPU's as for minuet_plan_compile) and on the library's version, for "cpu"
 * also on the number of threads (cpu_threads), and grows with both numbers. */
MINUET_API minuet_status minuet_voxelize_bytes(minuet_point_op* op, const char* arch, int64_t most,
                                               int64_t* workspace_bytes);
MINUET_API minuet_status minuet_devoxelize_bytes(minuet_point_op* op, const char* arch, int64_t most,
                                                 int64_t most_rows, int64_t* workspace_bytes);

/* The words of minuet_voxelize_arguments.counts. Every point is counted in one of the last five. */
enum {
  MINUET_VOXELIZE_VOXELS = 0,
  MINUET_VOXELIZE_KEPT = 1,        /* points that count for the features of a voxel */
  MINUET_VOXELIZE_OUTSIDE = 2,     /* points that are dropped because they are outside */
  MINUET_VOXELIZE_NOT_FINITE = 3,  /* points that are dropped because their position is not finite */
  MINUET_VOXELIZE_PAST_POINTS = 4, /* points past most_points_per_voxel, which have a row all the same */
  MINUET_VOXELIZE_PAST_VOXELS = 5, /* points that are dropped because their voxel is past most_voxels */
  MINUET_VOXELIZE_COUNTS = 6       /* the number of words */
};
/* Holds the arguments of minuet_voxelize. Memory is the device's. The workspace begins on a multiple of 16
 * bytes, all else on a multiple of 4. */
typedef struct minuet_voxelize_arguments {
  size_t struct_size;
  void* ext;
  const float* points;  /* float [most, points_ld] */
  int64_t points_ld;    /* numbers from a point to the next, at most 2^28 */
  int64_t most;         /* 0 to 2^30 - 1 */
  const int32_t* batch; /* optional: int32 [most], the batch index of each point; null: 0 */
  const int32_t* count; /* optional: int32 [1], at most `most`; null: there are `most` points */
  void* workspace;
  int64_t workspace_bytes;
  int64_t capacity;      /* the rows of the following three */
  int32_t* coordinates;  /* int32 [capacity, 1 + ndim], the batch index first; the voxels in the order of
                            their first points, then zeros */
  void* features;        /* [capacity, channels] of the dtype; zeros behind the voxels */
  int32_t* voxel_points; /* optional: int32 [capacity], how many points count for a voxel's features */
  int32_t* point_rows;   /* optional: int32 [most], the row of each point's voxel; -1: the point is dropped */
  int32_t* counts;       /* optional: int32 [MINUET_VOXELIZE_COUNTS] */
  uint32_t* status;      /* optional: uint32 [1] gets MINUET_CLOUD_... bits: OUT_OF_BOUNDS for a batch index
                            past batch_size, NEGATIVE_BATCH, and PAST_CAPACITY for more voxels than `capacity`
                            or a count that is not 0 to `most` */
} minuet_voxelize_arguments;
#define MINUET_VOXELIZE_ARGUMENTS_INIT \
  { sizeof(minuet_voxelize_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Voxelizes. Only enqueues, and may be captured: every replay reads the points and the count anew. A capacity
 * of `most`, or of most_voxels, always suffices. With a status that is not 0 there are no voxels, every point
 * is dropped, and the other counts mean nothing. RESOURCE_EXHAUSTED where the workspace is too small;
 * FAILED_PRECONDITION without minuet_point_op_load. */
MINUET_API minuet_status minuet_voxelize(minuet_point_op* op, minuet_device* device,
                                         const minuet_voxelize_arguments* arguments, void* stream);

/* Holds the arguments of minuet_devoxelize. Memory is the device's. Workspace, features and output begin on
 * multiples of 16 bytes, all else on a multiple of 4. */
typedef struct minuet_devoxelize_arguments {
  size_t struct_size;
  void* ext;
  const float* points;        /* float [most, points_ld]; null with NEAREST */
  int64_t points_ld;          /* 0 with NEAREST */
  int64_t most;               /* 0 to 2^30 - 1 */
  const int32_t* batch;       /* optional: int32 [most]; null with NEAREST */
  const int32_t* count;       /* optional: int32 [1], at most `most`; null: there are `most` points */
  const int32_t* point_rows;  /* int32 [most], the row of each point or -1; null unless NEAREST */
  const int32_t* coordinates; /* int32 [most_rows, 1 + ndim], multiples of tensor_stride, no two equal; null
                                 with NEAREST */
  const int32_t* row_count;   /* optional: int32 [1], at most most_rows; null: there are most_rows rows */
  int64_t most_rows;          /* 0 to 2^30 - 1 */
  const void* features;       /* [most_rows, channels] of the dtype */
  void* output;               /* [most, channels] of the dtype; zeros for points without a row or past the
                                 count */
  void* workspace;            /* may be null where minuet_devoxelize_bytes tells 0 */
  int64_t workspace_bytes;
} minuet_devoxelize_arguments;
#define MINUET_DEVOXELIZE_ARGUMENTS_INIT \
  { sizeof(minuet_devoxelize_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Devoxelizes. Only enqueues, and may be captured. A count that is not 0 to its limit counts as 0. Errors are
 * those of minuet_voxelize. */
MINUET_API minuet_status minuet_devoxelize(minuet_point_op* op, minuet_device* device,
                                           const minuet_devoxelize_arguments* arguments, void* stream);

/* Reads the counts of the points of the last run of a network whose first op is voxelize: `count` of the
 * MINUET_VOXELIZE_COUNTS words. Waits for the run. FAILED_PRECONDITION before the first run, after a run that
 * failed, and for other plans. In capacity mode, replays of a graph count anew.
 *
 * Such a network has no prepare. minuet_execution_run_arrays takes, in the order of minuet_plan_query_input,
 * the points, float32 [N, columns]; the other inputs of the description; `batch`, int32 [N], the batch index
 * of each point; and `count`, int32 [1] in device memory, how many of the N points there are. An empty array
 * stands for no `batch` (all points are of item 0) or no `count` (there are N points), and both may be left
 * out if no inputs follow them. A count needs an execution with level_capacity, whose arrays on the points'
 * level have level_capacity[0] rows.
 *
 * A network whose layers make levels in each run (voxelize, prune, subdivide, from_dense with new_level)
 * forgets what the last run made as soon as minuet_execution_run, _run_arrays or a prepare is called, before
 * the arguments are read. After a call that fails, queries of those levels are thus FAILED_PRECONDITION, with
 * three exceptions:
 * - If a run fails because outputs have fewer rows than it needs, minuet_execution_output_shape_of gives the
 *   needed rows of each such output whose level the run has reached.
 * - In capacity mode, minuet_execution_read_cloud and _copy_cloud give what the last prepare or run that was
 *   not refused wrote.
 * - Once a run has been captured, replays make the levels without a call, so queries give what the device
 *   holds, until minuet_execution_release_captures. */
MINUET_API minuet_status minuet_execution_read_points(minuet_execution* execution, int32_t* counts,
                                                      int32_t count, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_POINTS_H_ */
