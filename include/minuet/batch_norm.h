/* Minuet: batch norm in training. Part of the C ABI, beside minuet.h, whose rules hold here too.
 *
 * For each channel, with the mean and the biased variance of all rows in use (n of them, on all ranks):
 *   output = (input - mean) * inverse_std * weight + bias   with inverse_std = 1 / sqrt(variance + eps),
 * optionally plus `residual` and then max(0, x), all in one pass. Statistics and parameters are fp32, and the
 * output is rounded to the dtype once. At inference a batch norm is part of a convolution (`scale` and
 * `shift`) or a step of minuet/pointwise.h.
 *
 * Rows from the count on (`row_count`) are padding: they are not read, they enter no statistic, and what a
 * call writes there is 0. A count that is not 0 to the number of rows counts as 0. Without rows (n = 0) the
 * running statistics and the batch count keep their values. One row (n = 1) has the variance 0: each output
 * is the bias, the running variance takes in 0, and the gradient of the input is 0. A device count cannot
 * raise an error.
 *
 * One rank calls minuet_batch_norm_forward and minuet_batch_norm_backward. Several ranks share statistics:
 * - Forward: minuet_batch_norm_sum, then the caller gathers `moments` of all ranks in their order, then
 *   minuet_batch_norm_apply. Moments are not added, because sums of squares would lose the variance where
 *   the mean is large. Each rank merges them in the same order, so that all have the same statistics.
 * - Backward: minuet_batch_norm_sum_gradients, then the caller adds `sums` of all ranks, then
 *   minuet_batch_norm_apply_gradients.
 * With one rank, the four calls give the bits of _forward and _backward.
 *
 * Sums have a fixed order, by blocks of rows, that does not depend on the capacity: results repeat bit by
 * bit. All GPUs give the same bits, and so does the CPU device with any number of threads, but the CPU's bits
 * may differ from those of GPUs. Calls only enqueue, allocate nothing, and may be captured: every replay
 * reads all memory anew.
 *
 * The road: minuet_batch_norm_create -> minuet_batch_norm_load on the device, once -> memory of
 * minuet_batch_norm_bytes -> the calls of each step.
 */
#ifndef MINUET_BATCH_NORM_H_
#define MINUET_BATCH_NORM_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A batch norm in training. It is immutable, and any thread may use it. */
typedef struct minuet_batch_norm_op minuet_batch_norm_op;

typedef struct minuet_batch_norm_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3. Results do not depend on it. An op shares what minuet_batch_norm_load makes
                   with all ops for coordinates of as many axes */
  minuet_dtype dtype;       /* of input, residual, output and their gradients */
  int32_t channels;         /* required: 1 to 65536 */
  float eps;                /* added to the variance: positive and finite; 0: 1e-5 */
  int32_t has_running_mean; /* 1: minuet_batch_norm_forward and _apply update running statistics; else 0 */
  float momentum;        /* with has_running_mean, the share of this batch in the running statistics: above 0,
                            at most 1; 0 with is_cumulative and without has_running_mean */
  int32_t is_cumulative; /* 1: the share is 1 divided by the batches so far, this one included */
  int32_t has_residual;  /* 1: a residual is added to the normalized input */
  int32_t has_relu;      /* 1: negative results become 0, NaN stays NaN */
  int32_t reserved;      /* 0 */
} minuet_batch_norm_options;
#define MINUET_BATCH_NORM_OPTIONS_INIT \
  { sizeof(minuet_batch_norm_options), 0, 3, 0, 0, 1e-5f, 0, 0, 0, 0, 0, 0 }

/* Makes a batch norm. Needs no device. INVALID_ARGUMENT: the message names the option. */
MINUET_API minuet_status minuet_batch_norm_create(minuet_context* context,
                                                  const minuet_batch_norm_options* options,
                                                  minuet_batch_norm_op** op);
MINUET_API void minuet_batch_norm_destroy(minuet_batch_norm_op* op);
/* Compiles, if they are nowhere to be found, and loads the kernels of the op on the device. It may be slow;
 * the calls below need it once for a device: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_batch_norm_load(minuet_batch_norm_op* op, minuet_device* device);
/* Tells the size of the workspace of each call with at most `most_rows` rows. It depends on `arch` ("cpu", or
 * any GPU's as for minuet_plan_compile) and on the library's version, and grows with the rows. */
MINUET_API minuet_status minuet_batch_norm_bytes(minuet_batch_norm_op* op, const char* arch,
                                                 int64_t most_rows, int64_t* workspace_bytes);

/* Holds the arguments of minuet_batch_norm_sum, _apply and _forward; one struct can serve all three, because
 * a call does not look at what it does not use. Memory is the device's. The workspace begins on a multiple of
 * 16 bytes, int64 memory on a multiple of 8, float and int32 memory on a multiple of 4. Nothing that a call
 * writes shares a byte with other memory of the call, except that each `new_...` may be the memory of the old
 * one. */
typedef struct minuet_batch_norm_arguments {
  size_t struct_size;
  void* ext;
  minuet_tensor input;      /* read by each call: [most_rows, channels] of the dtype */
  const int32_t* row_count; /* optional, read by each call: int32 [1]; null: all rows are in use */
  /* read by _apply and _forward: */
  minuet_tensor residual;    /* as `input`, with has_residual; else all zeros */
  const float* weight;       /* optional: float [channels]; null: 1 */
  const float* bias;         /* optional: float [channels]; null: 0 */
  const float* running_mean; /* float [channels], with has_running_mean; else null, as the next ones. Where
                                the share of this batch is 1, its values do not count, even if NaN */
  const float* running_variance; /* float [channels], of unbiased variances */
  const int64_t* batch_count;    /* int64 [1]: the batches before this one; required with is_cumulative */
  const float* all_moments;      /* for _apply: float [ranks, 2 * channels + 1], `moments` of each rank */
  int64_t ranks;                 /* for _apply: 1 to 65536 */
  /* written by _sum: */
  float* moments; /* float [2 * channels + 1]: the means of this rank's rows, the sums of their squared
                     differences from the mean, and the number of rows, rounded to fp32 */
  /* written by _apply and _forward: */
  minuet_tensor output;        /* as `input` */
  float* saved;                /* float [2 * channels + 1], for the gradients: mean, inverse_std, and n */
  float* new_running_mean;     /* float [channels] */
  float* new_running_variance; /* float [channels] */
  int64_t* new_batch_count;    /* int64 [1], with batch_count, which is 1 less */
  /* used by _sum and _forward: */
  void* workspace;
  int64_t workspace_bytes;
} minuet_batch_norm_arguments;
#define MINUET_BATCH_NORM_ARGUMENTS_INIT                                                                 \
  {                                                                                                      \
    sizeof(minuet_batch_norm_arguments), 0, {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, \
        {0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0                                                                \
  }

/* Computes the moments of this rank's rows. RESOURCE_EXHAUSTED where the workspace is too small, here and
 * below; FAILED_PRECONDITION without minuet_batch_norm_load. */
MINUET_API minuet_status minuet_batch_norm_sum(minuet_batch_norm_op* op, minuet_device* device,
                                               const minuet_batch_norm_arguments* arguments, void* stream);
/* Merges the moments of all ranks and normalizes this rank's rows. Each rank may have another number of rows.
 * Needs no workspace. */
MINUET_API minuet_status minuet_batch_norm_apply(minuet_batch_norm_op* op, minuet_device* device,
                                                 const minuet_batch_norm_arguments* arguments, void* stream);
/* Does the work of both with the moments of this rank alone. Reads the input twice. */
MINUET_API minuet_status minuet_batch_norm_forward(minuet_batch_norm_op* op, minuet_device* device,
                                                   const minuet_batch_norm_arguments* arguments,
                                                   void* stream);

/* Holds the arguments of minuet_batch_norm_sum_gradients, _apply_gradients and _backward; all else is as for
 * minuet_batch_norm_arguments. With g as `out_gradient`, or 0 where a ReLU made the output 0
 * (where the output is NaN, the gradient passes):
 *   gradient of the bias = sum of g, gradient of the weight = sum of g * normalized,
 *   gradient of the input = inverse_std * weight * (g - mean of g - normalized * mean of (g * normalized)),
 * where normalized = (input - mean) * inverse_std, and the means are over all ranks. */
typedef struct minuet_batch_norm_gradient_arguments {
  size_t struct_size;
  void* ext;
  minuet_tensor input;        /* read by each call, as the next five: that of the forward call */
  minuet_tensor out_gradient; /* the gradient of the output, as `input`. With both has_relu and has_residual,
                                 _apply_gradients does not read it */
  const int32_t* row_count;   /* that of the forward call, as weight and bias */
  const float* weight;
  const float* bias;  /* read with has_relu and without has_residual only */
  const float* saved; /* float [2 * channels + 1] of the forward call */
  /* read by _sum_gradients and _backward: */
  minuet_tensor output; /* of the forward call, with both has_relu and has_residual; else all zeros */
  int32_t accumulate; /* 1: the gradients of weight and bias are added to what is there; 0: they replace it */
  int32_t reserved;   /* 0 */
  /* written by _sum_gradients and _backward: */
  float* weight_gradient; /* optional: float [channels], of this rank's rows alone */
  float* bias_gradient;   /* optional: float [channels], of this rank's rows alone */
  /* with has_residual, g as the gradient of the residual; else all zeros. With has_relu it is required, and
   * _apply_gradients reads it. Without has_relu it is optional, because it equals out_gradient in the rows in
   * use */
  minuet_tensor residual_gradient;
  /* written by _sum_gradients, read by _apply_gradients: */
  float* sums; /* float [2 * channels]: the sums of g, and those of g * normalized */
  /* written by _apply_gradients and _backward: */
  minuet_tensor input_gradient; /* as `input` */
  /* used by _sum_gradients and _backward: */
  void* workspace;
  int64_t workspace_bytes;
} minuet_batch_norm_gradient_arguments;
#define MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT                                                  \
  {                                                                                                \
    sizeof(minuet_batch_norm_gradient_arguments), 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 0, 0, 0, 0, \
        {0, 0, 0, 0, 0}, 0, 0, 0, 0, {0, 0, 0, 0, 0}, 0, {0, 0, 0, 0, 0}, 0, 0                     \
  }

/* Computes the sums of this rank's rows, and from them the gradients of weight and bias. */
MINUET_API minuet_status
minuet_batch_norm_sum_gradients(minuet_batch_norm_op* op, minuet_device* device,
                                const minuet_batch_norm_gradient_arguments* arguments, void* stream);
/* Computes the gradient of the input from the sums over all ranks. Needs no workspace. */
MINUET_API minuet_status
minuet_batch_norm_apply_gradients(minuet_batch_norm_op* op, minuet_device* device,
                                  const minuet_batch_norm_gradient_arguments* arguments, void* stream);
/* Does the work of both with the sums of this rank alone. Reads input and out_gradient twice, or, with
 * has_relu and has_residual, residual_gradient in place of out_gradient the second time. */
MINUET_API minuet_status minuet_batch_norm_backward(minuet_batch_norm_op* op, minuet_device* device,
                                                    const minuet_batch_norm_gradient_arguments* arguments,
                                                    void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_BATCH_NORM_H_ */
