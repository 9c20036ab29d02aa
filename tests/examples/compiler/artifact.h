/* The file that backend.cc writes and runtime.c reads. It is the example's own: the library knows nothing of
 * it, and a real compiler has a container of its own. Offsets are in bytes from the start of the file. Tables
 * follow the header in the order of its counts; their structs have no padding. */
#ifndef TOY_ARTIFACT_H_
#define TOY_ARTIFACT_H_

#include <stdint.h>

#define TOY_MAGIC "toyart01"
enum { TOY_MOST_INPUTS = 2 };

typedef struct toy_header {
  char magic[8];
  int32_t levels;        /* minuet_pyramid_level, level_bytes each */
  int32_t maps;          /* minuet_pyramid_map, map_bytes each */
  int32_t tensors;       /* toy_tensor */
  int32_t calls;         /* toy_call */
  int32_t samples;       /* toy_sample */
  int32_t input, output; /* tensors */
  int32_t reserved;
  int32_t level_bytes, map_bytes; /* the sizes of the two structs in the minuet/pyramid.h of the backend */
} toy_header;

/* A tensor of f32, [capacity of its level, channels]. */
typedef struct toy_tensor {
  int32_t level, channels;
} toy_tensor;

/* One run of one plan. */
typedef struct toy_call {
  char name[32];
  uint64_t plan_offset, plan_bytes; /* what minuet_plan_serialize gave */
  int32_t inputs[TOY_MOST_INPUTS];  /* tensors */
  int32_t input_count, output;
  int32_t map;        /* of the pyramid */
  uint32_t set_order; /* MINUET_SET_ORDER_... */
} toy_call;

/* A cloud to try the artifact with, and what the backend's interpreter makes of it. */
typedef struct toy_sample {
  uint64_t coordinates; /* int32 [rows, 4] */
  uint64_t features;    /* f32 [rows, channels of the input] */
  uint64_t places;      /* int32 [output_rows, 4], in any order */
  uint64_t results;     /* f32 [output_rows, channels of the output] */
  int32_t rows, output_rows;
} toy_sample;

#endif /* TOY_ARTIFACT_H_ */
