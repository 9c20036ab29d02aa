/* Minuet: the offsets of a kernel. Part of the C ABI; minuet.h includes this header. */
#ifndef MINUET_KERNEL_SHAPE_H_
#define MINUET_KERNEL_SHAPE_H_

#include <stdint.h>

/* Names the offsets that the kernel of a map, a convolution or a pooling has. They lead from a coordinate of
 * the coarser set to those of the finer one, and a kernel numbers them from 0. Weights and the pairs of a
 * kernel map are in the order of these numbers. Below, K is the kernel size of an axis, and t the
 * axis's tensor stride of the input set (of the output set if transposed).
 *
 * - BOX: all combinations of the steps 0 to K - 1 of the axes, the first axis slowest: K_x * K_y * ...
 *   offsets. Step i leads (i - floor((K - 1) / 2)) * dilation * t away or, with dense_offsets,
 *   (i * dilation - padding) * t.
 * - CROSS: the centre and the offsets along one axis. These are the offsets of the box, without
 *   dense_offsets, that are 0 on all axes but at most one, in the order of the box: 1 + the sum of K - 1 over
 *   the axes. With K = 3 on three axes they are (-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 0), (0, 0, 1),
 *   (0, 1, 0) and (1, 0, 0), times dilation * t.
 * - CUSTOM: the list at `offsets`, int32 [offset_count, ndim] in host memory, in its order; each times t. The
 *   kernel size and the dilation of each axis are 0 or 1, and dense_offsets is 0. The library copies the
 * list.
 *
 * INVALID_ARGUMENT unless these conditions hold:
 * - A kernel has at least 1 and at most 2^20 offsets, and a list has each offset once.
 * - On each axis, dilation is at most 2^24. K * dilation * t and padding * t of a box, and |offset| * t of a
 *   cross (dilation included) or of a list, are at most 2^28.
 *
 * A cross is the same kernel as the list of its offsets in its order. A list with the offset 0 alone, and a
 * cross with K = 1 on each axis, are the same kernel as a box with K = 1. Any other list is never the same
 * kernel as a box, even if it has the offsets of one. Two lists are the same kernel only if they have the
 * same order. */
typedef int32_t minuet_kernel_shape;
enum { MINUET_KERNEL_BOX = 0, MINUET_KERNEL_CROSS = 1, MINUET_KERNEL_CUSTOM = 2 };

#endif /* MINUET_KERNEL_SHAPE_H_ */
