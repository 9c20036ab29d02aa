/* Minuet: space to channel and back as single ops. Part of the C ABI, beside minuet.h, whose rules hold here
 * too.
 *
 * A cell of a coarser set has a child for each cell of the finer set in it: the product of the strides. Space
 * to channel puts the features of all children of a cell side by side, 0 for those that do not exist; channel
 * to space gives each voxel its part of the features of its cell. Both copy bits. Networks have the same ops
 * in their description (share/doc/minuet/networks/README.md). */
#ifndef MINUET_SPACE_H_
#define MINUET_SPACE_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minuet_space_options {
  size_t struct_size;
  void* ext;
  int32_t ndim;       /* 1 to 4; 0: 3 */
  minuet_dtype dtype; /* of the features */
  int32_t channels;   /* required: of the finer set. channels times the children are at most 65536 */
  int32_t stride[MINUET_MAX_DIM]; /* the quotient of the tensor strides of both sets; 0 counts as 1; at least
                                     one is 2 or more */
  int32_t reserved;               /* 0 */
} minuet_space_options;
#define MINUET_SPACE_OPTIONS_INIT \
  { sizeof(minuet_space_options), 0, 3, 0, 0, {0}, 0 }

/* Create a plan of one op. The caller makes the kernel map and gives it to minuet_execution_prepare_maps, as
 * for minuet_plan_create_pooling, and compiles, loads, runs and destroys the plan like that of a pooling.
 *
 * The map leads from the finer set to the coarser one, which is usually that of
 * minuet_coordinates_downsample. Its kernel_size is `stride`, its dilation 1. If an axis has a stride of 3 or
 * more, it needs dense_offsets and a padding of 0. With strides of 1 and 2 alone it may have them or not: the
 * map is the same, and that of a pooling with kernel size 2 and stride 2. On a pyramid, its purpose is
 * MINUET_PURPOSE_POOLING.
 *
 * minuet_plan_create_space_to_channel: inputs [finer rows, channels], outputs [coarser rows, children *
 * channels]. Columns k * channels to (k + 1) * channels - 1 are those of child k. Children are counted as the
 * offsets of a kernel map: the axis x is the slowest, and the child with the coordinates of the cell is 0.
 * SparseSpatial2Channel of TRELLIS.2 has x fastest. Its checkpoints need the blocks of channels in another
 * order, in the layer behind this op and in the one before channel to space: child (x S_y + y) S_z + z here
 * is child x + S_x (y + S_y z) there. With stride 2, blocks 0 to 7 are its blocks 0, 4, 2, 6, 1, 5, 3, 7.
 *
 * minuet_plan_create_channel_to_space is the way back. It takes the transposed map
 * (minuet_kernel_map_transpose), or MINUET_PURPOSE_TRANSPOSED_POOLING: inputs [coarser rows, children *
 * channels], outputs [finer rows, channels]. A voxel whose cell is not in the coarser set becomes 0.
 *
 * INVALID_ARGUMENT: the message names the field. */
MINUET_API minuet_status minuet_plan_create_space_to_channel(minuet_context* context,
                                                             const minuet_space_options* options,
                                                             minuet_plan** plan);
MINUET_API minuet_status minuet_plan_create_channel_to_space(minuet_context* context,
                                                             const minuet_space_options* options,
                                                             minuet_plan** plan);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_SPACE_H_ */
