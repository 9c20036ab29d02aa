/* Minuet: levels of rows, children or cells that a rule keeps. Part of the C ABI, beside minuet.h, whose
 * rules hold here too.
 *
 * Selecting lists the candidates that a rule keeps, in their order, as the rows of a new level. The
 * candidates are the rows of a level (pruning), the children of its rows (subdivision), or the cells of a
 * dense tensor (from dense to sparse). It runs on the device, on memory of the caller, and keeps nothing
 * between calls. The results have the same bits on every device.
 *
 * The road: minuet_select_create -> minuet_select_op_load on the device, once -> memory of
 * minuet_select_bytes -> minuet_select for each cloud. minuet_devoxelize (points.h) with
 * MINUET_BLEND_NEAREST gathers features onto the new level, with `sources` or `parents` as its point_rows,
 * and brings features of the new level back to the candidates, with `places` as its point_rows.
 *
 * Networks have the ops prune and subdivide (share/doc/minuet/networks). An input of type mask, by which they
 * may keep rows, is an array [rows, channels] of u8 or bool in minuet_execution_run_arrays.
 */
#ifndef MINUET_SELECT_H_
#define MINUET_SELECT_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An op that selects. It is immutable, and any thread may use it. */
typedef struct minuet_select_op minuet_select_op;

/* What the candidates are. */
typedef int32_t minuet_select_source;
enum {
  MINUET_SELECT_ROWS =
      0, /* the children of each row of a level, or the rows, if each has one child. Candidate
            row * children + child is child number `child`, with the first axis slowest */
  MINUET_SELECT_CELLS = 1 /* the cells of a dense tensor. They are numbered by batch item and then by cell,
                             with the first axis slowest */
};
/* Which candidates are kept. */
typedef int32_t minuet_select_rule;
enum {
  MINUET_SELECT_ALL = 0,
  MINUET_SELECT_MASK = 1,  /* those whose byte of `mask` is not 0 */
  MINUET_SELECT_ABOVE = 2, /* those whose score is greater than `threshold`; NaN is not */
  MINUET_SELECT_BEST =
      3, /* of each batch item, the `best` candidates with the highest scores: of equal scores
            (0 and -0 are equal) the lower candidates, and never those whose score is NaN */
  MINUET_SELECT_NONZERO = 4 /* cells in which a channel of the dense tensor is not 0; NaN is not 0 */
};

typedef struct minuet_select_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;       /* 1 to 4; 0: 3 */
  minuet_dtype dtype; /* of the scores or the dense tensor. It must be a dtype, but has no effect for MASK and
                         ALL */
  minuet_select_source source;
  minuet_select_rule rule;
  float threshold;  /* for ABOVE, else 0 */
  int32_t channels; /* of the dense tensor, for NONZERO: 1 to 65536; else 0 */
  int64_t best;     /* for BEST: 1 or more; else 0 */
  /* For CELLS, the number of batch items, which is required. For BEST of ROWS, batch indices are less than
   * this, and a small number makes the call faster; 0: not limited. Else 0: the other rules copy the batch
   * indices of rows unchecked, negative ones too. */
  int64_t batch_size;
  int32_t children[MINUET_MAX_DIM]; /* for ROWS, the children of a row on each axis, at most 2^20 in all; 0
                                       counts as 1 */
  /* Of the new level, for ROWS at most 2^24; 0 counts as 1. Coordinates are those of the row plus the number
   * of the child on the axis times this, or the number of the cell on the axis times this. */
  int32_t tensor_stride[MINUET_MAX_DIM];
  int32_t shape[MINUET_MAX_DIM];      /* for CELLS, the number of cells on each axis; else 0 */
  int32_t axis_order[MINUET_MAX_DIM]; /* for NONZERO, the axes in the order in which the dense tensor stores
                                         them, as {2, 1, 0} for [Z, Y, X]; all 0: in their own order */
  int32_t channels_last;              /* for NONZERO, 1: the dense tensor is [batch_size, cells, channels]; 0:
                                         [batch_size, channels, cells] */
  int32_t reserved;                   /* 0 */
} minuet_select_options;
#define MINUET_SELECT_OPTIONS_INIT \
  { sizeof(minuet_select_options), 0, 3, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, {0}, 0, 0 }

/* Makes an op that selects. Needs no device. */
MINUET_API minuet_status minuet_select_create(minuet_context* context, const minuet_select_options* options,
                                              minuet_select_op** op);
MINUET_API void minuet_select_op_destroy(minuet_select_op* op);
/* Compiles, if they are nowhere to be found, and loads the kernels of the op on the device. It may be slow;
 * minuet_select needs it once for a device: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_select_op_load(minuet_select_op* op, minuet_device* device);
/* Tells the size of the workspace for at most `most_rows` rows. For CELLS, `most_rows` is 0. The size depends
 * on `arch` ("cpu", or any GPU's as for minuet_plan_compile) and on the library's version, and grows with the
 * number of candidates. There can be at most 2^30 - 1 candidates: OUT_OF_RANGE. */
MINUET_API minuet_status minuet_select_bytes(minuet_select_op* op, const char* arch, int64_t most_rows,
                                             int64_t* workspace_bytes);

/* Holds the arguments of minuet_select. Memory is the device's. Workspace and features begin on multiples of
 * 16 bytes, scores and dense on a multiple of the size of an element, and all else but the mask on a multiple
 * of 4. What the op has no use for is null and 0. */
typedef struct minuet_select_arguments {
  size_t struct_size;
  void* ext;
  const int32_t* coordinates; /* for ROWS: int32 [most_rows, 1 + ndim], the batch index first */
  const int32_t* row_count; /* optional, for ROWS: int32 [1], at most most_rows; null: there are most_rows */
  int64_t most_rows;        /* for ROWS: 0 to 2^30 - 1 */
  const uint8_t* mask;      /* for MASK: uint8 [most_rows, children], or [batch_size, cells] */
  const void* scores; /* for ABOVE and BEST, of the dtype: the score of child k of row r, or of cell r, is
                         at r * scores_ld + k */
  int64_t scores_ld;  /* for ABOVE and BEST: at least the number of children, at most 2^28 */
  const void* dense;  /* for NONZERO: the dense tensor, of the dtype */
  void* workspace;
  int64_t workspace_bytes;
  int64_t capacity;  /* the rows of the following four, 0 to 2^30 - 1 */
  int32_t* selected; /* int32 [capacity, 1 + ndim], the coordinates of the candidates that are kept, the batch
                        index first, then zeros */
  int32_t* sources;  /* optional: int32 [capacity], the number of each kept candidate, then -1 */
  int32_t* parents;  /* optional, for ROWS: int32 [capacity], the row of each kept candidate, then -1 */
  void* features;    /* optional, for NONZERO: [capacity, channels] of the dtype, what the dense tensor has in
                        the kept cells, then zeros */
  int32_t* places;   /* optional: int32 [most_rows, children], or [batch_size, cells], the new row of each
                        candidate; -1: it is not kept */
  int32_t* count;    /* int32 [1] gets the number of kept candidates */
  uint32_t* status; /* optional: uint32 [1] gets MINUET_CLOUD_... bits: PAST_CAPACITY for more candidates than
                       `capacity` or a row_count that is not 0 to most_rows, TOO_FAR for a coordinate that
                       int32 cannot hold, and for BEST of ROWS OUT_OF_BOUNDS for a batch index past batch_size
                       and NEGATIVE_BATCH */
} minuet_select_arguments;
#define MINUET_SELECT_ARGUMENTS_INIT \
  { sizeof(minuet_select_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Selects. Only enqueues, and may be captured: every replay reads the inputs anew. A capacity of the number
 * of candidates always suffices. With a status that is not 0 the count is 0, and no candidate is kept.
 * RESOURCE_EXHAUSTED where the workspace is too small; FAILED_PRECONDITION without minuet_select_op_load. */
MINUET_API minuet_status minuet_select(minuet_select_op* op, minuet_device* device,
                                       const minuet_select_arguments* arguments, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_SELECT_H_ */
