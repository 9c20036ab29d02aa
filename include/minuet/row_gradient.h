/* Minuet: gradients of ops that gather rows, or that combine the rows of groups. Part of the C ABI, beside
 * minuet.h, whose rules hold here too.
 *
 * - minuet_devoxelize_gradient gives each voxel the sum of the gradients of the points that read it. With
 *   MINUET_BLEND_NEAREST it is the gradient of any gather of rows: of minuet_devoxelize by `sources`,
 *   `parents` or `places` of minuet_select, too.
 * - minuet_group_gradient gives each row its part of the gradient of its group. The groups are the points of
 *   each voxel, for the gradient of minuet_voxelize, or the rows of each batch item, for the gradient of a
 *   pooling over whole batch items.
 *
 * share/doc/minuet/GRADIENTS.md tells, for each op, which call computes its gradient.
 *
 * The results have the same bits on every device, apart from those of NaN: sums have a fixed order, are in
 * float64, and are rounded to float32 once, and then to the dtype. Calls only enqueue, allocate nothing, and
 * may be captured: every replay reads all memory anew.
 *
 * The road: minuet_devoxelize_gradient_create or minuet_group_gradient_create -> minuet_point_op_load on the
 * device, once -> memory of minuet_devoxelize_gradient_bytes or minuet_group_gradient_bytes -> the call of
 * each step. minuet_point_op_destroy destroys the ops.
 */
#ifndef MINUET_ROW_GRADIENT_H_
#define MINUET_ROW_GRADIENT_H_

#include <minuet/points.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an op that computes the gradient of the features that minuet_devoxelize reads. The options are those
 * of the op that devoxelizes. Needs no device. */
MINUET_API minuet_status minuet_devoxelize_gradient_create(minuet_context* context,
                                                           const minuet_devoxelize_options* options,
                                                           minuet_point_op** op);
/* Tells the size of the workspace for at most `most` points, and at most `most_rows` rows of the level. It
 * depends on `arch` ("cpu", or any GPU's as for minuet_plan_compile) and on the library's version, for "cpu"
 * also on the number of threads (cpu_threads), and grows with both numbers. OUT_OF_RANGE: the points have
 * 2^30 or more corners in all, of which each has 1 with NEAREST and else 2^ndim. */
MINUET_API minuet_status minuet_devoxelize_gradient_bytes(minuet_point_op* op, const char* arch, int64_t most,
                                                          int64_t most_rows, int64_t* workspace_bytes);
/* Computes the gradient. The arguments are those of the minuet_devoxelize whose gradient it is, but for
 * these: `features` is the gradient of its output, [most, channels], `output` receives the gradient of its
 * features, [most_rows, channels], and the workspace is always required. Gradients of points without a row,
 * or past the count, are not read. Rows that no point reads, and rows past row_count, become 0. Positions
 * have no gradient. RESOURCE_EXHAUSTED where the workspace is too small; FAILED_PRECONDITION without
 * minuet_point_op_load. */
MINUET_API minuet_status minuet_devoxelize_gradient(minuet_point_op* op, minuet_device* device,
                                                    const minuet_devoxelize_arguments* arguments,
                                                    void* stream);

typedef struct minuet_group_gradient_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;       /* 1 to 4; 0: 3. Results do not depend on it. An op shares what minuet_point_op_load
                         makes with all ops for coordinates of as many axes */
  minuet_dtype dtype; /* of the gradients of the groups */
  int32_t channels;   /* required: 1 to 65536 */
  /* How the result of a group follows from its rows, for each channel. Of equal maxima the lowest row has the
   * gradient, where NaN counts as the largest number; FIRST: the lowest row of the group */
  minuet_point_feature feature;
  int32_t rows_are_f32; /* 1: the rows and their gradients are f32, as points are; 0: of the dtype */
  int32_t reserved;     /* 0 */
} minuet_group_gradient_options;
#define MINUET_GROUP_GRADIENT_OPTIONS_INIT \
  { sizeof(minuet_group_gradient_options), 0, 3, 0, 0, 0, 0, 0 }
/* Makes an op that computes the gradients of rows from those of their groups. Needs no device.
 * INVALID_ARGUMENT: the message names the option. */
MINUET_API minuet_status minuet_group_gradient_create(minuet_context* context,
                                                      const minuet_group_gradient_options* options,
                                                      minuet_point_op** op);
/* Tells the size of the workspace for at most `most_groups` groups. It depends on `arch` and on the library's
 * version, and grows with the groups. It is 0 with SUM. */
MINUET_API minuet_status minuet_group_gradient_bytes(minuet_point_op* op, const char* arch,
                                                     int64_t most_groups, int64_t* workspace_bytes);

/* Holds the arguments of minuet_group_gradient. Memory is the device's. Workspace, out_gradient and
 * input_gradient begin on multiples of 16 bytes, `input` on a multiple of the size of an element, all else on
 * a multiple of 4. */
typedef struct minuet_group_gradient_arguments {
  size_t struct_size;
  void* ext;
  /* The group of row r is at r * groups_ld. A row whose group is negative, or not less than the number of
   * groups, has none. For points: point_rows of minuet_voxelize and 1, where most_points_per_voxel is 0. For
   * batch items: the coordinates of the rows and 1 + ndim, so that the batch index is the group. */
  const int32_t* groups;
  int64_t groups_ld;          /* 1 to 2^28 */
  const int32_t* row_count;   /* optional: int32 [1], at most most_rows; null: there are most_rows rows */
  int64_t most_rows;          /* 0 to 2^30 - 1 */
  const int32_t* group_count; /* optional: int32 [1], at most most_groups; null: there are most_groups */
  int64_t most_groups;        /* 0 to 2^30 - 1 */
  const int32_t* group_sizes; /* optional, for MEAN: int32 [most_groups], the number of rows of each group, as
                                 voxel_points of minuet_voxelize; null: the call counts them. Else null */
  const void* input;        /* for MAX: the rows, of which channel c of row r is at r * input_ld + c; f32, or
                               of the dtype (rows_are_f32). Else null */
  int64_t input_ld;         /* for MAX: `channels` to 2^28; else 0 */
  const void* out_gradient; /* [most_groups, channels] of the dtype */
  void* input_gradient; /* [most_rows, channels], f32 or of the dtype (rows_are_f32); zeros for rows without a
                           group or past the count */
  void* workspace;      /* may be null with SUM, and with group_sizes */
  int64_t workspace_bytes;
} minuet_group_gradient_arguments;
#define MINUET_GROUP_GRADIENT_ARGUMENTS_INIT \
  { sizeof(minuet_group_gradient_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Computes the gradients. A count that is not 0 to its limit counts as 0. RESOURCE_EXHAUSTED where the
 * workspace is too small; FAILED_PRECONDITION without minuet_point_op_load. */
MINUET_API minuet_status minuet_group_gradient(minuet_point_op* op, minuet_device* device,
                                               const minuet_group_gradient_arguments* arguments,
                                               void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_ROW_GRADIENT_H_ */
