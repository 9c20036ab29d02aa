/* Minuet: training plans of networks. Part of the C ABI, beside minuet.h, whose rules hold here too.
 *
 * A training plan computes a step of a network in two calls. The forward call computes the outputs, and keeps
 * in memory of the caller what the gradients need. The backward call takes the gradients of the outputs, and
 * gives those of all parameters, and of the inputs that want one. Both run on a pyramid (pyramid.h), whose
 * rules hold here too. All memory is the caller's, and nothing is kept between calls, as functional hosts
 * (XLA, torch.library) need it.
 *
 * A program makes these calls:
 * 1. minuet_plan_create_network, usually with without_values. The plan tells the parameters, inputs, outputs
 *    and levels (minuet_plan_query_...). It need not be compiled.
 * 2. minuet_training_create, and minuet_training_load for each device.
 * 3. minuet_training_create_pyramid and minuet_pyramid_load.
 * 4. minuet_pyramid_bytes and minuet_training_bytes, for the sizes of the memory. They need no device.
 * 5. For each step minuet_pyramid_build, minuet_training_forward and minuet_training_backward.
 *
 * Rules of this header:
 * - Parameters. They are those of the network's plan, with the same numbers and names, so that a trained set
 *   can be given to inference. They are f32 arrays in device memory. Weights and their gradients have the
 *   shapes of `weights_order`: MINUET_WEIGHTS_MINUET is that of minuet_plan_query_parameter. The default is
 *   what the network's description says, which may be another one. Weights may have any strides; the elements
 *   of vectors are side by side.
 * - Batch norms. By default each uses the mean and the biased variance of the rows of the batch. The forward
 *   call gives new running statistics, with the unbiased variance; a batch without rows leaves them as they
 *   are, and a batch of one row has a variance of 0. With frozen_batch_norms the running statistics take the
 *   place of those of the batch, and do not change. No batch norm is folded into a convolution.
 * - Types. Tensors have the dtype of the plan. The result of each op is rounded to it, where an op is a
 *   convolution with its bias, a batch norm with the residual and the ReLU that follow it, or a step of a
 *   chain. An add and a relu of the description that follow a batch norm belong to it if nothing else reads
 *   what lies between. Gradients of features have the dtype of the features, and those of parameters are
 *   fp32. The gradients that meet in a tensor are added in fp32, in the order in which the ops that read it
 *   run. Each of them is rounded before, and each sum of up to 9 is rounded after, so that the sum of more
 *   than 9 is rounded more than once. Where a convolution is the first of two readers, it adds the gradient
 *   of the other one before it rounds its own.
 * - Repeatability. All sums have a fixed order, so that results repeat bit by bit. If the network's plan was
 *   made with tuning results (minuet/tuning.h), the order of the sums of a weight's gradient depends on them
 *   and on the capacities of the levels.
 * - Rows. Rows of inputs, outputs and their gradients are in the caller's order, and have as many rows as the
 *   capacity of their level. Rows past the count are not read, and are 0 in results. A dense output and its
 *   gradient are contiguous, and begin with the batch size of the pyramid. Dense tensors and global poolings
 *   need one.
 * - A cloud that does not fit (minuet_pyramid_arguments.status) gives zeros as outputs and gradients.
 *
 * These ops of a network can be trained: block, up, inverse, generative_up, head, linear, residual and
 * bottleneck; batch_norm, layer_norm and scale_shift; relu, leaky_relu, gelu, silu, sigmoid, tanh, softmax,
 * add, multiply and concat; max_pool, average_pool, sum_pool, unpool, upsample and global_pool; union,
 * intersection and collapse; to_dense and birds_eye. An argmax may be an output, and has no gradient. For
 * other ops minuet_training_create returns UNIMPLEMENTED and names the layer.
 */
#ifndef MINUET_TRAINING_H_
#define MINUET_TRAINING_H_

#include <minuet/pyramid.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The forward and the backward pass of a network. It is immutable, and any thread may use it. */
typedef struct minuet_training minuet_training;

typedef struct minuet_training_options {
  size_t struct_size;
  void* ext;
  uint32_t input_gradients;   /* bit i: the backward call gives the gradient of input i of the plan */
  int32_t frozen_batch_norms; /* 1: batch norms use their running statistics, which do not change */
  float momentum;        /* the share of a batch in the running statistics, above 0 and at most 1; 0: 0.1 */
  int32_t is_cumulative; /* 1: all batches have the same share instead, and momentum is 0 */
  int32_t recompute_blocks; /* 1: the backward call computes again what lies inside the residual and
                               bottleneck blocks, so that only their inputs are kept. The bits are the same */
  /* 2: on a GPU, both calls use a stream of their own, which waits for the caller's stream and for which the
   * caller's stream waits. The forward call computes shortcuts beside their blocks, and the backward call the
   * gradients of parameters beside those of the inputs of layers. That is faster where the kernels of a cloud
   * do not fill the GPU. On a stream of a green context, all work stays on that stream. 1: all work is on the
   * caller's stream, and the workspaces are smaller. The bits are the same. 0: the library chooses, and
   * chooses 2 so far */
  int32_t branches;
  /* optional: names of segments. The backward call computes again what lies inside them too, so that only
   * their inputs and the winners of maxima are kept. A segment is a block, a convolution, linear layer or
   * pooling of this name, or all neighbouring ones whose names begin with this one and a dot, such as
   * "encoder.1" for a stage, with the pointwise layers between them. The bits are the same */
  const char* const* recompute;
  int32_t recompute_count;
  int32_t reserved; /* 0 */
} minuet_training_options;
#define MINUET_TRAINING_OPTIONS_INIT \
  { sizeof(minuet_training_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Creates the training plan of the network of `network`. Needs no device. The plan may be destroyed
 * afterwards, and its values are not read. Convolutions run in the fused dataflow.
 *
 * INVALID_ARGUMENT: the plan is of a single op, or was created with MINUET_DATAFLOW_GATHER_GEMM_SCATTER; or
 * an option is wrong. UNIMPLEMENTED: a layer cannot be trained; the message names it. */
MINUET_API minuet_status minuet_training_create(minuet_context* context, minuet_plan* network,
                                                const minuet_training_options* options,
                                                minuet_training** training);
MINUET_API void minuet_training_destroy(minuet_training* training);

/* One tensor that the forward call keeps for the backward call. Strings live as long as the training plan. */
typedef struct minuet_kept_info {
  size_t struct_size;
  const char* name; /* the layer or the input that the tensor is the result of */
  int32_t level;    /* number of its level in the network's plan */
  int32_t channels; /* channels of a row; a tensor may share memory with others that have its columns too */
  minuet_element element;
  int32_t reserved; /* 0 */
} minuet_kept_info;
#define MINUET_KEPT_INFO_INIT \
  { sizeof(minuet_kept_info), 0, 0, 0, 0, 0 }
/* Describes the tensor of this number, counted from 0. OUT_OF_RANGE past the last one. */
MINUET_API minuet_status minuet_training_query_kept(minuet_training* training, int32_t tensor,
                                                    minuet_kept_info* info);

/* Creates a pyramid with the levels and maps of the network, for all that both passes and inference read.
 * `options` are those of minuet_pyramid_create for a network, but `network` is null. keep_first_duplicate
 * must be 0, because the gradients of duplicates would have to be added. */
MINUET_API minuet_status minuet_training_create_pyramid(minuet_training* training,
                                                        const minuet_pyramid_options* options,
                                                        minuet_pyramid** pyramid);

/* Sizes of the memory of one step on one pyramid, in bytes. */
typedef struct minuet_training_sizes {
  size_t struct_size;
  int64_t kept;               /* from a forward call to its backward call; on a GPU the weights that the
                               * backward call reads are in it too, unless any layer is computed again */
  int64_t forward_workspace;  /* used only during a forward call */
  int64_t backward_workspace; /* used only during a backward call */
} minuet_training_sizes;
#define MINUET_TRAINING_SIZES_INIT \
  { sizeof(minuet_training_sizes), 0, 0, 0 }
/* Tells the sizes. Needs no device, and nothing need be compiled. `arch` is as for minuet_pyramid_bytes. The
 * sizes grow with each capacity. They depend on `arch`, the tuning results and the library's version, for
 * "cpu" also on the number of threads. */
MINUET_API minuet_status minuet_training_bytes(minuet_training* training, const char* arch,
                                               minuet_pyramid* pyramid, minuet_training_sizes* sizes);

/* Compiles, if they are nowhere to be found, and loads all kernels of both passes on the device. It may be
 * slow. The calls below need it once for a device: FAILED_PRECONDITION.
 *
 * FAILED_PRECONDITION here: a kernel is missing and no kernel may be compiled. Tuning results (tuning.h) may
 * be the reason, because a tuned kernel for the gradient of a weight is not replaced by the default: add the
 * kernels to a bundle (minuet_precompile_tuned with requests_path), or do not load the results. */
MINUET_API minuet_status minuet_training_load(minuet_training* training, minuet_device* device);

/* The arguments of minuet_training_forward. All memory is the device's. Memory that the call writes overlaps
 * no other memory of the call, except that new statistics may be stored in place. */
typedef struct minuet_training_forward_arguments {
  size_t struct_size;
  void* ext;
  minuet_pyramid* pyramid; /* required: one of minuet_training_create_pyramid */
  const void* buffer;      /* required: a buffer that minuet_pyramid_build wrote, or a copy of it */
  int64_t buffer_bytes;
  const minuet_array* parameters; /* required: one for each parameter of the plan */
  int32_t parameter_count;
  minuet_weights_order weights_order;
  /* optional: one for each parameter of the plan. Those of a running_mean or running_var get the new
   * statistics; the data of the others is null. Null here: there are no new statistics */
  const minuet_array* new_statistics;
  /* int64 [1]: the batches before this one. Only with new_statistics, where is_cumulative requires it if the
   * network has batch norms */
  const int64_t* batch_count;
  /* optional, only with batch_count, for networks with batch norms: int64 [1] gets 1 more, or as many if the
   * batch has no rows. It may be batch_count */
  int64_t* new_batch_count;
  const minuet_array* inputs;  /* as for minuet_plan_run */
  const minuet_array* outputs; /* the same */
  int32_t input_count, output_count;
  void* kept; /* required: memory of minuet_training_sizes.kept bytes for the backward call */
  int64_t kept_bytes;
  void* workspace; /* required; it may be used for other data after the call */
  int64_t workspace_bytes;
} minuet_training_forward_arguments;
#define MINUET_TRAINING_FORWARD_ARGUMENTS_INIT \
  { sizeof(minuet_training_forward_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Computes the outputs. Only enqueues, and may be captured: every replay reads its memory anew. Any number of
 * threads may make calls at the same time, on any streams, if the memory that they write differs.
 *
 * INVALID_ARGUMENT: an array does not fit the plan, or the pyramid lacks what the passes read.
 * RESOURCE_EXHAUSTED: a block is too small. FAILED_PRECONDITION: minuet_training_load was not called. */
MINUET_API minuet_status minuet_training_forward(minuet_training* training, minuet_device* device,
                                                 const minuet_training_forward_arguments* arguments,
                                                 void* stream);

/* The arguments of minuet_training_backward. All memory is the device's. Memory that the call writes overlaps
 * no other memory of the call. */
typedef struct minuet_training_backward_arguments {
  size_t struct_size;
  void* ext;
  minuet_pyramid* pyramid; /* required: these and the parameters are those of the forward call */
  const void* buffer;
  int64_t buffer_bytes;
  const minuet_array* parameters;
  int32_t parameter_count;
  minuet_weights_order weights_order;
  /* required: one for each output of the plan, with its shape and dtype. Null data stands for zeros, and is
   * required for an output of integers */
  const minuet_array* out_gradients;
  int32_t out_gradient_count;
  int32_t accumulate; /* 1: gradients of parameters are added to what is there; 0: they replace it */
  /* required: one for each parameter, f32, with the shape and any strides of which no two elements share
   * memory. With null data the gradient is not computed, as for a running_mean and a running_var */
  const minuet_array* parameter_gradients;
  /* one for each input of the plan, with its shape and dtype; with null data where minuet_training_options
   * want no gradient. Null if they want none */
  const minuet_array* input_gradients;
  const void* kept; /* required: what the forward call of this training plan wrote on a device of the same
                     * architecture, or a copy of it */
  int64_t kept_bytes;
  void* workspace; /* required; it may be used for other data after the call */
  int64_t workspace_bytes;
} minuet_training_backward_arguments;
#define MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT \
  { sizeof(minuet_training_backward_arguments), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Computes the gradients. Only enqueues, and may be captured. It reads `kept` and does not change it, so that
 * a second call gives the same gradients. Every element of a gradient is written; gradients on which no
 * output depends are 0. The errors and threads are as for minuet_training_forward. */
MINUET_API minuet_status minuet_training_backward(minuet_training* training, minuet_device* device,
                                                  const minuet_training_backward_arguments* arguments,
                                                  void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_TRAINING_H_ */
