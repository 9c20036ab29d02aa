/* Minuet: weights as data, for training, adapters and compilers whose weights are operands. Part of the C
 * ABI, beside minuet.h, whose rules hold here too. */
#ifndef MINUET_PARAMETERS_H_
#define MINUET_PARAMETERS_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minuet_parameters_options {
  size_t struct_size;
  void* ext;
  int64_t master; /* 1: also keeps weights in f32, as minuet_parameters_get gives them back then */
} minuet_parameters_options;
#define MINUET_PARAMETERS_OPTIONS_INIT \
  { sizeof(minuet_parameters_options), 0, 0 }

/* One set of values of a plan's parameters on a device, in memory of the device, for any number of executions
 * (minuet_execution_options.parameters): training, adapters, weights that are operands of a compiler. It
 * starts with no values, whatever the plan has. The plan must be loaded on the device: FAILED_PRECONDITION.
 * INVALID_ARGUMENT where the plan has no parameters. options is optional. */
MINUET_API minuet_status minuet_parameters_create(minuet_plan* plan, minuet_device* device,
                                                  const minuet_parameters_options* options,
                                                  minuet_parameters** parameters);
/* Waits for what it has enqueued. Executions keep it alive. When both are gone, no graph that captured
 * minuet_parameters_set, minuet_parameters_get or a run with these values may be replayed. */
MINUET_API void minuet_parameters_destroy(minuet_parameters* parameters);
/* Sets `count` parameters, numbered as for minuet_plan_query_parameter, to values[i]: arrays of
 * f32, f16, bf16 or f64 of the parameter's shape, weights in the shape and order of `order` (0: as the
 * network's description says, else Minuet's). indices is optional: the first `count`. Numbers become f32,
 * weights then the plan's dtype; they are taken as they are, not finite too. Batch norms are folded again.
 *
 * For device memory it only enqueues, and may be captured: each replay reads the same arrays anew. Where an
 * array is on the host it waits, and a capture is FAILED_PRECONDITION. A captured call counts as setting,
 * though values come with the replays only. Its graph writes what the kernels read that executions had
 * selected before: a prepare that selects another kernel for such a weight is FAILED_PRECONDITION, until
 * minuet_parameters_release_captures.
 *
 * Calls of this and of minuet_parameters_get, from any thread and on any streams, are ordered among
 * themselves, but for captured ones. Runs see the values that were set before them on the device: with them
 * the caller orders. OUT_OF_RANGE for a number that is no parameter's, INVALID_ARGUMENT, with the parameter's
 * name, for an array that does not fit: nothing is set. */
MINUET_API minuet_status minuet_parameters_set(minuet_parameters* parameters, const int32_t* indices,
                                               const minuet_array* values, int32_t count,
                                               minuet_weights_order order, void* stream);
/* Copies a value to an array of f32, f16 or bf16, contiguous, of the shape that minuet_plan_query_parameter
 * gives. With `master`, f32 has the same bits that were set as f32; without it, weights are as rounded to the
 * plan's dtype. Enqueued, or waiting, as set is. FAILED_PRECONDITION where the parameter was never set. */
MINUET_API minuet_status minuet_parameters_get(minuet_parameters* parameters, int32_t index,
                                               const minuet_array* value, void* stream);
/* Says that no graph which captured minuet_parameters_set or a run with these parameters is replayed any
 * more, and frees what only such graphs use. */
MINUET_API minuet_status minuet_parameters_release_captures(minuet_parameters* parameters);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_PARAMETERS_H_ */
