/* Minuet: chains of pointwise steps as single ops. Part of the C ABI, beside minuet.h, whose rules hold here
 * too.
 *
 * A chain computes each row of its output from the same row of its inputs, step by step, in one kernel: for
 * example the batch norm, the sum with a shortcut and the ReLU after a convolution, or a layer norm and a
 * GELU. Networks have the same steps as ops of their description (share/doc/minuet/networks/README.md). All
 * arithmetic is fp32, and only the result is rounded to the dtype. Results repeat bit by bit on a device. A
 * GPU and the CPU device add numbers in different orders, so that their results differ within the rounding of
 * fp32.
 */
#ifndef MINUET_POINTWISE_H_
#define MINUET_POINTWISE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a step, which tells its result for x. x is the result of the step before it, or the first input
 * for the first step. C is the number of channels of a row. NaN stays NaN, except in ARGMAX and
 * RELU_GRADIENT. */
typedef int32_t minuet_pointwise_kind;
enum {
  MINUET_POINTWISE_RELU = 1,       /* x, or 0 if x is negative */
  MINUET_POINTWISE_LEAKY_RELU = 2, /* x, or x * number if x is negative */
  MINUET_POINTWISE_GELU = 3,       /* x / 2 * (1 + erf(x / sqrt(2))), with an error of at most 2.2e-7 * |x| */
  /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); NaN for -infinity */
  MINUET_POINTWISE_GELU_TANH = 4,
  MINUET_POINTWISE_SILU = 5,    /* x / (1 + exp(-x)); NaN for -infinity */
  MINUET_POINTWISE_SIGMOID = 6, /* 1 / (1 + exp(-x)) */
  MINUET_POINTWISE_TANH = 7,
  MINUET_POINTWISE_ADD = 8,      /* x + the next input's element of the same row and channel */
  MINUET_POINTWISE_MULTIPLY = 9, /* x * the next input's element of the same row and channel */
  MINUET_POINTWISE_AFFINE = 10,  /* x * scale[channel] + shift[channel] */
  /* (x - mean) / sqrt(variance + number), with the mean and the variance (divisor C) of the row. An AFFINE
   * step after it adds a weight and a bias. */
  MINUET_POINTWISE_LAYER_NORM = 11,
  /* exp(x - m) / sum of exp(x - m) over the row, where m is the maximum of the row. A row with NaN or
   * +infinity, or of -infinity only, becomes NaN. */
  MINUET_POINTWISE_SOFTMAX = 12,
  /* The channel of the row's maximum; only as the last step. The lowest of equal channels wins, and NaN
   * counts as the largest number. */
  MINUET_POINTWISE_ARGMAX = 13,

  /* Gradients. A chain that starts from the gradient of a chain's output, and has the gradients of its steps
   * from the last one to the first, gives the gradient of its input. ADD passes the gradient to both
   * operands, so it has no step. MULTIPLY needs a MULTIPLY by the other operand, and AFFINE an AFFINE with
   * the same scale and a null shift. The other steps need one of those below. With x, the gradient of the
   * result of a forward step, they compute that of the forward step's input. They read a row of the next
   * input, `kept`, which is the input of the forward step, or its result where that is said. A kept NaN gives
   * NaN, except that the gradients of RELU and LEAKY_RELU take it for a positive number. minuet/gradient.h
   * has the gradients of scale and shift. */
  /* x, or 0 where kept, the input or the result, is at most 0, even if x is NaN */
  MINUET_POINTWISE_RELU_GRADIENT = 14,
  MINUET_POINTWISE_LEAKY_RELU_GRADIENT = 15, /* x, or x * number where kept is at most 0 */
  /* x times the derivative of GELU, GELU_TANH or SILU, which is off by at most 1e-6. It is 1 at infinity,
   * and within 1e-32 of 0 at -infinity */
  MINUET_POINTWISE_GELU_GRADIENT = 16,
  MINUET_POINTWISE_GELU_TANH_GRADIENT = 17,
  MINUET_POINTWISE_SILU_GRADIENT = 18,
  MINUET_POINTWISE_SIGMOID_GRADIENT = 19, /* x * y * (1 - y); kept is the result y */
  MINUET_POINTWISE_TANH_GRADIENT = 20,    /* x * (1 - y^2); kept is the result y */
  /* (x - mean(x) - n * mean(x * n)) / sqrt(variance + number), with the variance of the row of kept, the
   * input, and the row n that LAYER_NORM makes of it */
  MINUET_POINTWISE_LAYER_NORM_GRADIENT = 21,
  MINUET_POINTWISE_SOFTMAX_GRADIENT = 22 /* y * (x - sum of x * y over the row); kept is the result y */
};

/* One step of a chain. Later versions may append fields (step_bytes of minuet_pointwise_options); zero the
 * struct first, as `= {0}` does, so that they have their defaults. */
typedef struct minuet_pointwise_step {
  minuet_pointwise_kind kind; /* required */
  float number; /* LEAKY_RELU and its gradient: the slope, finite. LAYER_NORM and its gradient: the epsilon,
                   finite and above 0. Else 0 */
  /* AFFINE: [channels] numbers each, in host memory; null: a scale of 1, a shift of 0. Else null. The library
   * copies them. */
  const float* scale;
  const float* shift;
} minuet_pointwise_step;

typedef struct minuet_pointwise_options {
  size_t struct_size;
  void* ext;
  int32_t ndim; /* 1 to 4; 0: 3 */
  minuet_dtype dtype;
  int32_t channels;   /* required: 1 to 65536; at most 16384 with a step that combines the channels of a row
                         (LAYER_NORM, SOFTMAX, their gradients, ARGMAX) */
  int32_t step_count; /* required: 1 to 8 */
  const minuet_pointwise_step* steps;
  /* 1: the plan has no values, and scale and shift of all AFFINE steps are null. Executions get the values
   * from minuet_parameters, whose names are "steps[i].scale" and "steps[i].shift". */
  int32_t without_values;
  int32_t allow_non_finite_parameters; /* 1: scales and shifts may be infinite or NaN */
  size_t step_bytes; /* sizeof(minuet_pointwise_step) in the caller's header, which the _INIT macro sets: the
                        distance between elements of `steps`; 0: that of version 0.3.0 */
} minuet_pointwise_options;
#define MINUET_POINTWISE_OPTIONS_INIT \
  { sizeof(minuet_pointwise_options), 0, 3, 0, 0, 0, 0, 0, 0, sizeof(minuet_pointwise_step) }

/* Creates a plan of one chain. Needs no device.
 *
 * The caller compiles, loads, runs and destroys it like a plan of a convolution. Its kernel map has one
 * offset and leads from a coordinate set to itself: minuet_kernel_map_create with a kernel_size of 1, which
 * searches nothing, or a map of one offset within one level of a pyramid.
 *
 * Inputs are matrices [rows, channels] of the dtype: first the one with which the chain starts, then one for
 * each ADD, MULTIPLY and gradient, in the order of the steps. On a pyramid, MINUET_SET_ORDER_RESIDUAL is for
 * all inputs after the first. The output is a matrix [rows, channels] of the dtype. With ARGMAX it is [rows,
 * 1] of i32, for minuet_execution_run_arrays and minuet_plan_run; minuet_execution_run is then
 * FAILED_PRECONDITION. In capacity mode, rows past the count are 0, or -1 with ARGMAX.
 *
 * INVALID_ARGUMENT: the message names the step and the field; also for a scale or shift that is infinite or
 * NaN, unless allow_non_finite_parameters is 1. UNIMPLEMENTED: there are more than 16384 channels, and a step
 * combines the channels of a row. */
MINUET_API minuet_status minuet_plan_create_pointwise(minuet_context* context,
                                                      const minuet_pointwise_options* options,
                                                      minuet_plan** plan);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_POINTWISE_H_ */
