/* What test_golden.py hands to golden_bits.c and golden_bits.cc: one layer problem in a folder. The file
 * `numbers` has this struct. The files `fine` and `coarse` have the int32 coordinates of the two sets, and
 * `features` and `weight` what they say. */
#pragma once
#include <stdint.h>

enum { GOLDEN_CONVOLUTION = -1 }; /* else a minuet_reduction */
/* How the coarse set comes into being; GENERATED: it is given, and the fine set is generated from it. */
enum { GOLDEN_SAME, GOLDEN_GIVEN, GOLDEN_REACHED, GOLDEN_DOWNSAMPLED, GOLDEN_GENERATED };

typedef struct golden_problem {
  int32_t ndim, dtype, reduction, in_channels, out_channels, groups, submanifold, transposed, dense_offsets;
  int32_t coarse_is; /* one of GOLDEN_SAME, ... */
  int32_t fine_rows, coarse_rows, weights;
  int32_t offset_count;
  int32_t offsets[24]; /* [offset_count, ndim], of a custom kernel */
  int32_t kernel_size[4], stride[4], dilation[4], padding[4], shape[4], tensor_stride[4], coarse_stride[4];
} golden_problem;

/* Makes the kernel of the options `to` a custom one if that of the problem `from` is. */
#define SET_GOLDEN_OFFSETS(to, from)                                                                     \
  ((to).offset_count = (from).offset_count, (to).offsets = (from).offset_count > 0 ? (from).offsets : 0, \
   (to).kernel_shape = (from).offset_count > 0 ? MINUET_KERNEL_CUSTOM : MINUET_KERNEL_BOX)
