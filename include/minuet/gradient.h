/* Minuet: gradients of a convolution, and of the parameters of an affine step. Part of the C ABI, beside
 * minuet.h, whose rules hold here too.
 *
 * A convolution without activation gives output[q] = sum over the pairs (k, p, q) of its kernel map of
 * input[p] * weight[k], plus the bias. From `out_gradient`, the gradient of the output:
 * - The gradient of weight[k] is the sum over the pairs (k, p, q) of input[p]^T * out_gradient[q], and that
 *   of the bias the sum of the rows of out_gradient. minuet_gradient_compute computes both, from a list of
 * the pairs.
 * - The gradient of the input is a convolution over the map with input and output swapped, and a plan like
 *   any other: minuet_plan_create_convolution_gradient with MINUET_GRADIENT_INPUT. Its options are those of
 *   the convolution, whose weight and its order it takes too, and whose scale and shift have no effect. Its
 *   map is minuet_kernel_map_transpose of the convolution's, for a submanifold convolution too. Its input is
 *   out_gradient, its output the gradient of the input. If the strides are 1, the two sets of the map have
 *   the same tensor stride. A convolution with a scale multiplies out_gradient by it first.
 *   The sets have no duplicates, whose gradients it would have to add: a set that dropped some, or a pyramid
 *   with keep_first_duplicate, is INVALID_ARGUMENT.
 *
 * An affine step gives output = n * scale + shift, for each row and channel: AFFINE of minuet/pointwise.h, or
 * a batch norm whose statistics are constant. n is its input, or the layer norm of its input. The gradient of
 * the scale is the sum over the rows of n * out_gradient, and that of the shift the sum of the rows of
 * out_gradient. The gradient of the input is a chain of minuet/pointwise.h.
 *
 * Any kernel map serves: of submanifold, strided, transposed and inverse convolutions, of given outputs and
 * of generative ones. Sums are fp32. Their order depends on the list, the options and the library's version
 * alone, so that results repeat bit by bit with any capacity: all GPUs of an architecture give the same bits,
 * and so does the CPU device with any number of threads, but the bits of two architectures may differ. With
 * tuning results (minuet/tuning.h) the order depends on them too, and with them on the rows of out_gradient
 * and on the capacity of the list.
 *
 * The road: minuet_gradient_create -> minuet_gradient_op_load on the device, once -> for each map a list of
 * its pairs, by minuet_kernel_map_list_pairs or minuet_pyramid_export_pairs -> memory of
 * minuet_gradient_bytes -> minuet_gradient_compute for each layer and step.
 */
#ifndef MINUET_GRADIENT_H_
#define MINUET_GRADIENT_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a plan that computes the gradient of a pooling's input: a plan like any other, whose options are
 * those of the pooling, with `winners` 0. Its map is minuet_kernel_map_transpose of the pooling's, for a
 * submanifold pooling too, as for the gradient of a convolution's input; on a pyramid it is the same map,
 * whose purposes have MINUET_PURPOSE_TRANSPOSED_POOLING, or MINUET_PURPOSE_POOLING if the pooling is
 * transposed. The sets have no duplicates.
 *
 * Its input is out_gradient [output rows, channels], and its output the gradient of the input [input rows,
 * channels]. Each row is the sum, in fp32 and in the order of the offsets, of the rows of out_gradient whose
 * outputs read it:
 * - of a sum as they are, which is the gradient of unpooling and of upsampling too;
 * - of an average divided by the number of inputs of the output;
 * - of a maximum only the elements that the row has won.
 *
 * The plan of a maximum has a second input, the winners of the pooling, i32 [output rows, channels], so that
 * it runs with minuet_execution_run_arrays or minuet_plan_run. They are numbers of rows as the pooling wrote
 * them: MINUET_SET_ORDER_OUTPUT here belongs to MINUET_SET_ORDER_INPUT there. MINUET_SET_ORDER_RESIDUAL is
 * for the rows of the winners. */
MINUET_API minuet_status minuet_plan_create_pooling_gradient(minuet_context* context,
                                                             const minuet_pooling_options* options,
                                                             minuet_plan** plan);

/* Writes the pairs of a map to device memory, int32 [capacity, 3], each as (k, input row, output row), in
 * ascending order of k and always in the same order, and the number of all pairs to `count`, int32 [1]. Rows
 * are in the caller's order. If there are more than `capacity` pairs, only the first ones are written, and
 * minuet_gradient_compute treats such a count as 0: compare `count` with `capacity`.
 * `pairs` is optional: null with a capacity of 0 only counts them. minuet_kernel_map_query_pairs tells a
 * capacity that suffices.
 *
 * Enqueues. As for minuet_kernel_map_query_pairs, the first call for a map of a queue makes what is needed
 * and may allocate. May not be captured: FAILED_PRECONDITION. INVALID_ARGUMENT if a set of the map has
 * duplicates, of which the list has the first rows only. */
MINUET_API minuet_status minuet_kernel_map_list_pairs(minuet_kernel_map* map, int32_t* pairs,
                                                      int64_t capacity, int32_t* count, void* stream);

/* An op that computes gradients of the parameters of a convolution or of an affine step. It is immutable, and
 * any thread may use it. */
typedef struct minuet_gradient_op minuet_gradient_op;

/* Makes an op that computes the gradients of a convolution that `which` names: MINUET_GRADIENT_WEIGHT,
 * MINUET_GRADIENT_BIAS, or both, or-ed. Needs no device. The options are those of the convolution; its
 * parameters are not read. On a GPU, tuning results of the context choose the kernel of the weight's gradient
 * (minuet_context_load_tuning). INVALID_ARGUMENT for an activation and a residual, whose gradients are ops of
 * their own. UNIMPLEMENTED for kernels of more than 4096 offsets. */
MINUET_API minuet_status minuet_gradient_create(minuet_context* context,
                                                const minuet_convolution_options* convolution,
                                                minuet_gradient which, minuet_gradient_op** op);

typedef struct minuet_affine_gradient_options {
  size_t struct_size;
  void* ext;
  minuet_dtype dtype; /* of the input and of out_gradient */
  int32_t channels;   /* required: 1 to 65536 */
  /* 0: n is the input. Above 0: n is the layer norm of the input with this epsilon, without rounding: the
   * input is that of the layer norm, too */
  float epsilon;
  int32_t reserved; /* 0 */
} minuet_affine_gradient_options;
#define MINUET_AFFINE_GRADIENT_OPTIONS_INIT \
  { sizeof(minuet_affine_gradient_options), 0, 0, 0, 0, 0 }
/* Makes an op that computes the gradients of an affine step's parameters that `which` names:
 * MINUET_GRADIENT_WEIGHT, the scale, MINUET_GRADIENT_BIAS, the shift, or both, or-ed. Needs no device.
 *
 * The op is used like that of a convolution. It reads no pairs, so most_pairs, weights_order and swapped are
 * 0. The input and out_gradient have [rows, channels] each, and row_count counts for both gradients.
 * weight_gradient, the gradient of the scale, is a contiguous array [channels], and bias_gradient that of the
 * shift. */
MINUET_API minuet_status minuet_gradient_create_affine(minuet_context* context,
                                                       const minuet_affine_gradient_options* affine,
                                                       minuet_gradient which, minuet_gradient_op** op);
MINUET_API void minuet_gradient_op_destroy(minuet_gradient_op* op);
/* Compiles, if they are nowhere to be found, and loads the kernels of the op on the device. It may be slow;
 * minuet_gradient_compute needs it once for a device: FAILED_PRECONDITION. */
MINUET_API minuet_status minuet_gradient_op_load(minuet_gradient_op* op, minuet_device* device);
/* Tells the size of the workspace for at most `most_pairs` pairs and `most_rows` rows of out_gradient. It
 * depends on `arch` ("cpu", or any GPU's as for minuet_plan_compile), on the tuning results of the op's
 * context and on the library's version, for "cpu" also on the number of threads (cpu_threads), and grows with
 * both numbers. Give the architecture that minuet_device_query tells of the device that computes: others,
 * such as sm_90 for sm_90a, may need less. */
MINUET_API minuet_status minuet_gradient_bytes(minuet_gradient_op* op, const char* arch, int64_t most_pairs,
                                               int64_t most_rows, int64_t* workspace_bytes);

/* Holds the arguments of minuet_gradient_compute. Memory is the device's. The workspace begins on a multiple
 * of 16 bytes, int32 and float memory on a multiple of 4. */
typedef struct minuet_gradient_arguments {
  size_t struct_size;
  void* ext;
  const int32_t* pairs;       /* int32 [most_pairs, 3]: k, input row, output row, in ascending order of k; for
                                 the gradient of the weight, else null */
  int64_t most_pairs;         /* 0 to 2^31 - 1 */
  const int32_t* pair_count;  /* optional: int32 [1], at most most_pairs; null: there are most_pairs pairs */
  minuet_tensor input;        /* [input rows, in_channels] of the dtype; for the gradient of the weight, else
                                 all zeros */
  minuet_tensor out_gradient; /* [output rows, out_channels] of the dtype */
  const int32_t* row_count;   /* optional: int32 [1], at most the rows of out_gradient, how many of them count
                                 for the gradients of the bias, the scale and the shift; null: all */
  const minuet_array* weight_gradient; /* f32, with any strides of which no two elements share memory; null
                                          without this gradient */
  minuet_weights_order weights_order;  /* the shape and order of weight_gradient; 0: Minuet's */
  int32_t accumulate;                  /* 1: both gradients are added to what is there; 0: they replace it */
  int32_t swapped; /* only for the gradient of the weight, else 0. 1: a pair is (k, output row, input row), as
                      minuet_pyramid_export_pairs gives the pairs of a transposed convolution */
  int32_t reserved;     /* 0 */
  float* bias_gradient; /* float [out_channels]; null without this gradient */
  void* workspace;
  int64_t workspace_bytes;
} minuet_gradient_arguments;
#define MINUET_GRADIENT_ARGUMENTS_INIT                                                                       \
  {                                                                                                          \
    sizeof(minuet_gradient_arguments), 0, 0, 0, 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, \
        0                                                                                                    \
  }
/* Computes the gradients. Only enqueues, and may be captured: every replay reads pairs, counts and tensors
 * anew. Every element of a gradient is written; that of an offset without pairs gets 0 or keeps its value.
 * Pairs whose rows are not there are left out. A count that is not 0 to its limit counts as 0,
 * and the call succeeds all the same: compare the count of a list with its capacity before a gradient is
 * used. RESOURCE_EXHAUSTED where the workspace is too small; FAILED_PRECONDITION without
 * minuet_gradient_op_load.
 */
MINUET_API minuet_status minuet_gradient_compute(minuet_gradient_op* op, minuet_device* device,
                                                 const minuet_gradient_arguments* arguments, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_GRADIENT_H_ */
