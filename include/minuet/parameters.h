/* Minuet: weights as data, for training, for adapters, and for compilers whose weights are operands. This
 * header is part of the C ABI, and the rules of minuet.h hold here too. */
#ifndef MINUET_PARAMETERS_H_
#define MINUET_PARAMETERS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minuet_parameters_options {
  size_t struct_size;
  void* ext;
  int64_t master; /* 1: also keeps weights in f32, so that minuet_parameters_get gives back the same bits */
  int64_t set_by_each_run; /* 1: the caller sets all values before each run, in captures too (see below) */
} minuet_parameters_options;
#define MINUET_PARAMETERS_OPTIONS_INIT \
  { sizeof(minuet_parameters_options), 0, 0, 0 }

/* Creates one set of values of a plan's parameters, in memory of the device. Any number of executions may use
 * it (minuet_execution_options.parameters). It has no values at first, even if the plan has some. The plan
 * must be loaded on the device. options is optional.
 *
 * A captured minuet_parameters_set writes weights only for the kernels that earlier runs have selected. A
 * later run that selects another kernel is refused, because replays would leave the weights of that kernel as
 * they are. With `set_by_each_run` it is accepted. The library does not check that each run sets all values:
 * one that does not may compute with old weights.
 *
 * Allocates device memory for the values, for folded batch norms and, with `master`, for weights in f32.
 * FAILED_PRECONDITION: the plan is not loaded on the device. INVALID_ARGUMENT: the plan has no parameters. */
MINUET_API minuet_status minuet_parameters_create(minuet_plan* plan, minuet_device* device,
                                                  const minuet_parameters_options* options,
                                                  minuet_parameters** parameters);
/* Releases the set and waits for its own work. Executions that use it keep it alive. When all of them are
 * gone too, graphs that captured minuet_parameters_set, minuet_parameters_get or a run with these values must
 * not be replayed any more. */
MINUET_API void minuet_parameters_destroy(minuet_parameters* parameters);
/* Sets `count` parameters: number indices[i] of minuet_plan_query_parameter gets values[i]. Parameters that
 * are not given keep their values.
 *
 * - indices is optional: null sets the first `count`. A parameter may be given once.
 * - values are arrays of f32, f16, bf16 or f64 with the parameter's shape, and with any strides. Weights have
 *   the shape and order of `order`. 0 means the order that the network's description names, else Minuet's.
 * - Numbers are converted to f32, and weights then to the plan's dtype. Infinite numbers and NaN are taken as
 *   they are. Batch norms are folded again.
 * - If all arrays are in device memory, the call only enqueues, and may be captured. Each replay then reads
 *   the same arrays again. If an array is in host memory, the call waits, and allocates device memory while
 *   it runs.
 * - A captured call counts as setting, although values come with the replays only. Its graph writes the
 *   forms of a weight that executions had selected before, for their kernels to read. Until
 *   minuet_parameters_release_captures, a prepare that selects another kernel for such a weight is
 *   FAILED_PRECONDITION.
 * - Calls of this function and of minuet_parameters_get, from any thread and on any streams, are ordered
 *   among themselves, except captured ones. A run sees the values that were set before it on the device; the
 *   caller orders these calls with runs.
 *
 * Nothing is set after these errors. OUT_OF_RANGE: an index is not the number of a parameter.
 * INVALID_ARGUMENT: an array does not fit (the message has the parameter's name), a parameter is given twice,
 * or weights cannot be carried over from `order`. FAILED_PRECONDITION: an array is on the host in a capture.
 */
MINUET_API minuet_status minuet_parameters_set(minuet_parameters* parameters, const int32_t* indices,
                                               const minuet_array* values, int32_t count,
                                               minuet_weights_order order, void* stream);
/* Copies the value of one parameter to the caller's array, for example for a checkpoint. The array is f32,
 * f16 or bf16, contiguous, and has the shape that minuet_plan_query_parameter gives; weights are in Minuet's
 * order. With `master`, an f32 array gets the same bits that were set as f32. Without it, weights are as they
 * were rounded to the plan's dtype.
 *
 * Enqueues, and may be captured, if the array is in device memory. If it is in host memory, the call waits,
 * and allocates device memory while it runs. OUT_OF_RANGE: `index` is not the number of a parameter.
 * FAILED_PRECONDITION: the parameter was never set, or the array is on the host in a capture. */
MINUET_API minuet_status minuet_parameters_get(minuet_parameters* parameters, int32_t index,
                                               const minuet_array* value, void* stream);
/* Frees the memory that only captured graphs use. The caller thereby says that it will not replay any graph
 * that captured minuet_parameters_set or a run with these parameters. */
MINUET_API minuet_status minuet_parameters_release_captures(minuet_parameters* parameters);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PARAMETERS_H_ */
