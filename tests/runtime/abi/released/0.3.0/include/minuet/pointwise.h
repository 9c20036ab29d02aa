/* Minuet: chains of pointwise steps as single ops. Part of the C ABI, beside minuet.h, whose rules hold here
 * too.
 *
 * A chain computes each row of its output from the same row of its inputs, step by step, in one kernel: for
 * example the batch norm, the sum with a shortcut and the ReLU behind a convolution, or a layer norm and a
 * GELU. Networks have the same steps as ops of their description (share/doc/minuet/networks/README.md). All
 * arithmetic is fp32, and only the result is rounded to the dtype. Results repeat bit by bit on a device. The
 * two kinds of device follow different orders of sums, so that their results differ within the rounding of
 * fp32.
 */
#ifndef MINUET_POINTWISE_H_
#define MINUET_POINTWISE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a step computes of x, the result of the step before it; the first step reads the first input. NaN
 * stays NaN. */
typedef int32_t minuet_pointwise_kind;
enum {
  MINUET_POINTWISE_RELU = 1,       /* x, or 0 where x is negative */
  MINUET_POINTWISE_LEAKY_RELU = 2, /* x, or x * number where x is negative */
  MINUET_POINTWISE_GELU = 3,       /* x / 2 * (1 + erf(x / sqrt(2))), off by at most 2.2e-7 * |x| */
  MINUET_POINTWISE_GELU_TANH =
      4,                        /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); NaN for -infinity */
  MINUET_POINTWISE_SILU = 5,    /* x / (1 + exp(-x)); NaN for -infinity */
  MINUET_POINTWISE_SIGMOID = 6, /* 1 / (1 + exp(-x)) */
  MINUET_POINTWISE_TANH = 7,
  MINUET_POINTWISE_ADD = 8,         /* x + the next input's element of the same row and channel */
  MINUET_POINTWISE_MULTIPLY = 9,    /* x * the next input's element of the same row and channel */
  MINUET_POINTWISE_AFFINE = 10,     /* x * scale[channel] + shift[channel] */
  MINUET_POINTWISE_LAYER_NORM = 11, /* (x - mean) / sqrt(variance + number), with the mean and the variance
                                       (of divisor C) of the row. An AFFINE step behind it gives it a weight
                                       and a bias */
  MINUET_POINTWISE_SOFTMAX = 12, /* exp(x - m) / sum of exp(x - m) over the row, with m the row's maximum; a
                                    row with NaN or +infinity, or of -infinity only, becomes NaN */
  MINUET_POINTWISE_ARGMAX = 13   /* the last step only: the channel of the row's maximum. Of equal channels
                                    the lowest wins, and NaN counts as the largest number */
};

/* This struct never grows. */
typedef struct minuet_pointwise_step {
  minuet_pointwise_kind kind;
  float number; /* of LEAKY_RELU the slope, of LAYER_NORM the epsilon, above 0; else 0 */
  /* Of AFFINE, [channels] numbers each in host memory, which the call copies; null: a scale of 1, a shift of
   * 0. Else null. */
  const float* scale;
  const float* shift;
} minuet_pointwise_step;

typedef struct minuet_pointwise_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3 */
  minuet_dtype dtype;
  int32_t channels;                   /* must be given: 1 to 65536; to 16384 with a step that combines the
                                         channels of a row (LAYER_NORM, SOFTMAX, ARGMAX) */
  int32_t step_count;                 /* 1 to 8 */
  const minuet_pointwise_step* steps; /* read during the call only */
  int32_t without_values;             /* 1: AFFINE steps have no scale and shift yet; executions get them from
                                         minuet_parameters, where they are called "steps[i].scale" and "steps[i].shift" */
  int32_t allow_non_finite_parameters; /* 1: scales and shifts may be infinite or NaN */
} minuet_pointwise_options;
#define MINUET_POINTWISE_OPTIONS_INIT \
  { sizeof(minuet_pointwise_options), 0, 3, 0, 0, 0, 0, 0, 0 }

/* A plan of one chain. Needs no device; the caller destroys it with minuet_plan_destroy. Compile, load and
 * run it as a plan of a convolution: its kernel map has one offset and leads from a coordinate set to itself
 * (minuet_kernel_map_create with a kernel_size of 1), and costs no search.
 *
 * Inputs are matrices [rows, channels] of the dtype: first the one that the chain starts from, then one for
 * each ADD and MULTIPLY, in the order of the steps. On a pyramid, MINUET_SET_ORDER_RESIDUAL is for all
 * inputs behind the first. The output is [rows, channels] of the dtype, or with ARGMAX [rows, 1] of i32,
 * which minuet_execution_run_arrays and minuet_plan_run give and minuet_execution_run refuses. Rows that do
 * not exist, in capacity mode, are 0, or -1 with ARGMAX. The output must not overlap an input.
 *
 * INVALID_ARGUMENT names the step and the field that is wrong, and a scale or shift that is infinite or NaN
 * unless allow_non_finite_parameters is 1. UNIMPLEMENTED where a row has too many channels. Any thread may
 * call this function. */
MINUET_API minuet_status minuet_plan_create_pointwise(minuet_context* context,
                                                      const minuet_pointwise_options* options,
                                                      minuet_plan** plan);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_POINTWISE_H_ */
