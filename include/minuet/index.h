/* Minuet: the memory of the index of MINUET_MAPS_INDEXED, and how many slots its hash tables have. Part of
 * the C ABI, beside minuet.h, whose rules hold here too.
 *
 * An index has a hash table for each level. A slot of the table holds a superblock: an aligned box of 4096
 * cells of the level, at least one of which is a voxel. With one axis it is 4096 cells long; with two it has
 * 64 x 64 cells, with three 16 x 16 x 16, and with four 16 x 16 x 4 x 4.
 *
 * By default a level has two slots for each voxel of its capacity. They suffice for every cloud, even if each
 * voxel lies in a superblock of its own, but they are most of the memory of an index. The voxels of a scene
 * lie close together: over all levels, a LiDAR scan has about 35 in a superblock if they are 0.1 m long, and
 * 9 if they are 0.02 m long. So a caller who knows the clouds can declare slots in capacity mode, with
 * minuet_execution_options.level_slots, minuet_pyramid_options.level_slots or minuet_pyramid_level.slots.
 * minuet_execution_suggest_slots tells numbers for clouds like a given one.
 * - A number is rounded up to a multiple of 4096, and to at least one slot for 32 voxels of the capacity. It
 *   is at most 2^26. 0 stands for the default.
 * - A table is fast while at most half of its slots are taken. A fuller table is slower, but the results
 *   are the same. A cloud with so many superblocks that one finds no slot does not fit: it has no rows, and
 *   its status word has MINUET_CLOUD_INDEX_FULL.
 * - Sets, the order of their rows, and maps do not depend on the slots, and no result does. */
#ifndef MINUET_INDEX_H_
#define MINUET_INDEX_H_

#include <minuet/minuet.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct minuet_index_options {
  size_t struct_size;
  void* ext;
  const int64_t* level_capacity; /* required: the most voxels of each level, 1 to 2^30 - 1; for level 0 also
                                    the most coordinates */
  const int64_t* level_slots;    /* optional: the declared slots of each level, or 0; null: the default */
  int32_t level_count;           /* 1 to 16: of both arrays. Only levels that are coordinate sets count */
  int32_t reserved;              /* 0 */
} minuet_index_options;
#define MINUET_INDEX_OPTIONS_INIT \
  { sizeof(minuet_index_options), 0, 0, 0, 0, 0 }

/* The bytes of an index, as a part of what minuet_plan_workspace_bytes and minuet_pyramid_bytes tell. table
 * and rows together are at most 33 bytes for each slot and 24 bytes for each voxel of all capacities. */
typedef struct minuet_index_sizes {
  size_t struct_size;
  int64_t slots;  /* of all levels, after rounding */
  int64_t table;  /* bytes of the hash tables and of what belongs to them */
  int64_t rows;   /* bytes for the voxels of all levels */
  int64_t points; /* bytes for the caller's coordinates: 8 for each, and padding */
} minuet_index_sizes;
#define MINUET_INDEX_SIZES_INIT \
  { sizeof(minuet_index_sizes), 0, 0, 0, 0 }

/* Computes the bytes of an index from its capacities. Needs no device. OUT_OF_RANGE: a capacity is above 2^30
 * - 1, or a number of slots above 2^26. */
MINUET_API minuet_status minuet_index_bytes(const minuet_index_options* options, minuet_index_sizes* sizes);

/* Counts the superblocks of each level of the network's cloud that was prepared last, and writes level_slots
 * for clouds like it: a level's number of superblocks, times `factor`, takes at most half of them. A level
 * without an index, such as one of batch items, gets 0. `factor` is 1 to 1024, and level_count is
 * minuet_plan_info.levels. The call waits for the stream, and must not be captured.
 *
 * FAILED_PRECONDITION: for single ops, for sorted maps, and unless prepared; for a network whose levels are
 * made in each run, also unless it has run. */
MINUET_API minuet_status minuet_execution_suggest_slots(minuet_execution* execution, double factor,
                                                        int64_t* level_slots, int32_t level_count,
                                                        void* stream);

#ifdef __cplusplus
}
#endif

#endif /* MINUET_INDEX_H_ */
