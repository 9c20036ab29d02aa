/* Minuet: networks whose convolutions multiply 8-bit numbers. Part of the C ABI, beside minuet.h, whose rules
 * hold here too.
 *
 * A description says which convolutions compute in 8 bits, and the largest magnitude ("range") of each result
 * that is stored in 8 bits (share/doc/minuet/networks/README.md). A caller finds the ranges by a calibration:
 * 1. minuet_plan_observe describes the network with the results of all convolutions as outputs. The caller
 *    runs a plan of this description on clouds of its own, and takes the range of each result.
 * 2. minuet_plan_quantize describes the network with these ranges. A plan of this description, with the same
 *    weights, computes in 8 bits. Weights files stay as they are.
 * `minuet quantize` (share/doc/minuet/REFERENCE.md) does all of this.
 *
 * Where a result is stored in 8 bits, NaN becomes 0, and an infinite number the largest or the least number
 * that the 8 bits hold, on every device. The layers behind then compute with finite numbers, so that NaN and
 * infinity in a network's input need not reach its output: minuet_execution_find_overflow names the floating
 * convolution whose result had them. */
#ifndef MINUET_QUANTIZE_H_
#define MINUET_QUANTIZE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The limits of the range of a result. Scales follow from ranges, and within these limits, scales and their
 * inverses are normal fp32 numbers. */
#define MINUET_LEAST_RANGE 1e-30
#define MINUET_GREATEST_RANGE 1e30

/* Writes a description as JSON: that of the plan's network, with the results of all convolutions behind its
 * outputs. The output "layer:NAME" is the result of the convolution that minuet_execution_query_layer calls
 * NAME, as its kernel stores it, which is behind the activation and all else that the kernel computes.
 *
 * Writes at most `size` bytes, the terminating zero included, and cuts a longer text; `buffer` may be null if
 * `size` is 0. *needed gets the bytes that the whole text needs, terminator included.
 *
 * INVALID_ARGUMENT: the plan is of a single op, or a result of the network has the name of such an output. */
MINUET_API minuet_status minuet_plan_observe(minuet_plan* plan, char* buffer, size_t size, size_t* needed);

/* Gets a convolution that keeps floating numbers although is_int8 asked for 8 bits: its number in the list of
 * the call, and the reason as the end of a sentence, such as "it has groups". `reason` is valid during the
 * callback only. */
typedef void (*minuet_floating_visitor)(int32_t number, const char* reason, void* user);

/* Writes a description as JSON: that of the plan's network, with the precisions and ranges of `count`
 * convolutions. Their names are those of minuet_plan_observe without "layer:". All other convolutions compute
 * in the plan's dtype. `buffer`, `size` and `needed` are as for minuet_plan_observe.
 *
 * ranges[i] is the largest magnitude of the convolution's result, from MINUET_LEAST_RANGE to
 * MINUET_GREATEST_RANGE, or 0 if it is unknown; the result is then never stored in 8 bits. is_int8[i] is 1 if
 * the convolution shall compute in 8 bits, and 0 if not; the call sets it to 0 for those that cannot, and
 * gives each of them to `visitor`, by the calling thread:
 * - They have groups, or what they read has floating numbers: an input of the network, or a result without a
 *   range, of a convolution with groups, or of another op than a convolution or one that only moves features.
 * - With the plan's weights, a sum of 32-bit integers could overflow, or fp32 cannot hold a factor by which
 *   such sums are multiplied, because of which minuet_plan_create_network would refuse the description. It
 *   decides by the numbers of the weights file: give a plan of fp32, which has them as they are. Plans of
 *   other dtypes have rounded numbers, and plans without values, or in which the convolution computes in 8
 *   bits already, have none: then the description may be refused.
 * Each call takes is_int8 anew. Set it again before a second call with a larger buffer; `visitor` gets the
 * reasons of that call.
 *
 * INVALID_ARGUMENT: the plan is of a single op, no convolution has the name, it is listed twice, its range is
 * neither 0 nor within the limits, or its is_int8 is neither 0 nor 1; or a convolution that shall compute in
 * 8 bits has a weight, a bias or a number of its norm that is not finite (allow_non_finite_parameters): set
 * its is_int8 to 0. */
MINUET_API minuet_status minuet_plan_quantize(minuet_plan* plan, const char* const* layers,
                                              const float* ranges, int32_t* is_int8, int32_t count,
                                              minuet_floating_visitor visitor /* optional */, void* user,
                                              char* buffer, size_t size, size_t* needed);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_QUANTIZE_H_ */
