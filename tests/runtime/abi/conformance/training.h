/* A training plan with all that its calls take, for the rows of training.h. */
#ifndef MINUET_TESTS_CONFORMANCE_TRAINING_H_
#define MINUET_TESTS_CONFORMANCE_TRAINING_H_

#include "tests/runtime/abi/conformance/conformance.h"

enum { PARAMETERS = 5, OF_WEIGHT = 0, OF_MEAN = 3, OF_VARIANCE = 4, PLACE_BYTES = 4096, PLACES = 16 };

/* `own` wants the gradient of the input and is loaded on the device. */
typedef struct training_step {
  minuet_training *own, *frozen, *unloaded;
  minuet_pyramid* pyramid;
  char* memory; /* PLACES places of PLACE_BYTES bytes */
  char *buffer, *build_workspace, *kept, *forward_workspace, *backward_workspace;
  int64_t buffer_bytes, build_workspace_bytes;
  minuet_training_sizes sizes, frozen_sizes; /* the latter are at least the former */
  minuet_array parameters[PARAMETERS], new_statistics[PARAMETERS], gradients[PARAMETERS];
  minuet_array input, output, out_gradient, input_gradient;
} training_step;

/* Rows of the two calls of a step. */
void call_training_steps(const world* world, const training_step* step);

#endif
