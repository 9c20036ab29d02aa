/* Minuet: coordinate sets that a generative op makes. Part of the C ABI, beside minuet.h, whose rules hold
 * here too. */
#ifndef MINUET_GENERATE_H_
#define MINUET_GENERATE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Describes the op whose outputs are the coordinates of a set. Offsets and the shape are in cells of the new
 * set, which are multiples of its tensor stride. */
typedef struct minuet_generate_options {
  size_t struct_size;
  void* ext;
  int32_t kernel_size[MINUET_MAX_DIM]; /* 0 counts as 1, here and in the two below */
  int32_t stride[MINUET_MAX_DIM];      /* divides the tensor stride of the parent set; 1 is legal */
  int32_t dilation[MINUET_MAX_DIM];
  int32_t dense_offsets;           /* 0: the kernel is centred; 1: its offsets begin at -padding */
  int32_t padding[MINUET_MAX_DIM]; /* 0 or more; with dense_offsets */
  int32_t shape[MINUET_MAX_DIM];   /* of the new set: its coordinates divided by its tensor stride are 0 to
                                      shape - 1; all 0: no limit, and negative coordinates are legal */
  int32_t reserved;
} minuet_generate_options;
#define MINUET_GENERATE_OPTIONS_INIT \
  { sizeof(minuet_generate_options), 0, {0}, {0}, {0}, 0, {0}, {0}, 0 }

/* Makes the set of all outputs of a transposed op that makes its own coordinates. The new set has the tensor
 * stride t of `parent` divided by `stride`, and has q + offset * t for every coordinate q of `parent` and
 * every offset of the kernel: -(K-1)/2 * dilation to K/2 * dilation on each axis, as in MinkowskiEngine's
 * generative transposed convolution, or, with dense_offsets, k * dilation - padding for k = 0 ... K-1, as in
 * spconv's SparseConvTranspose3d. There, an input of D cells has outputs of shape (D - 1) * stride - 2 *
 * padding + dilation * (kernel_size - 1) + 1 + output_padding. Coordinates of `parent` that are no multiples
 * of t make nothing. minuet_kernel_map_create with the parent as input, the new set as output, transposed =
 * 1, and the same kernel_size, dilation, dense_offsets and padding makes the map that the op reads.
 *
 * The order of rows depends on the coordinates and the tensor stride alone. Waits until the set is made; with
 * a queue it only enqueues, and takes memory for as many rows as `parent` may make at most. INVALID_ARGUMENT
 * names the axis. OUT_OF_RANGE for coordinates that the keys of the new set do not hold, RESOURCE_EXHAUSTED
 * if the set would have too many voxels. With a queue, the first call that needs the count returns these. */
MINUET_API minuet_status minuet_coordinates_generate(minuet_coordinates* parent,
                                                     const minuet_generate_options* options, void* stream,
                                                     minuet_coordinates** set);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_GENERATE_H_ */
