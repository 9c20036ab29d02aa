/* Rows of the forward and the backward call of a training plan. */
#include <string.h>

#include "tests/runtime/abi/conformance/training.h"

static minuet_training_forward_arguments forward_of(const training_step* step) {
  minuet_training_forward_arguments base = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
  base.pyramid = step->pyramid;
  base.buffer = step->buffer, base.buffer_bytes = step->buffer_bytes;
  base.parameters = step->parameters, base.parameter_count = PARAMETERS;
  base.weights_order = MINUET_WEIGHTS_MINUET;
  base.new_statistics = step->new_statistics;
  base.batch_count = (const int64_t*)(step->memory + 14 * PLACE_BYTES);
  base.new_batch_count = (int64_t*)(step->memory + 15 * PLACE_BYTES);
  base.inputs = &step->input, base.outputs = &step->output;
  base.input_count = base.output_count = 1;
  base.kept = step->kept, base.kept_bytes = step->sizes.kept;
  base.workspace = step->forward_workspace, base.workspace_bytes = step->sizes.forward_workspace;
  return base;
}

static minuet_training_backward_arguments backward_of(const training_step* step) {
  minuet_training_backward_arguments base = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
  base.pyramid = step->pyramid;
  base.buffer = step->buffer, base.buffer_bytes = step->buffer_bytes;
  base.parameters = step->parameters, base.parameter_count = PARAMETERS;
  base.weights_order = MINUET_WEIGHTS_MINUET;
  base.out_gradients = &step->out_gradient, base.out_gradient_count = 1;
  base.parameter_gradients = step->gradients;
  base.input_gradients = &step->input_gradient;
  base.kept = step->kept, base.kept_bytes = step->sizes.kept;
  base.workspace = step->backward_workspace, base.workspace_bytes = step->sizes.backward_workspace;
  return base;
}

#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_training_forward(own, device, WITH(change), NULL))
#define REFUSED_ARRAY(words, list, number, change)                    \
  (memcpy(arrays, step->list, sizeof(arrays)), arrays[number].change, \
   REFUSED(INVALID_ARGUMENT, words, minuet_training_forward(own, device, WITH(list = arrays), NULL)))

static void refuse_forward(const world* world, const training_step* step) {
  minuet_training* const own = step->own;
  minuet_device* const device = world->device;
  minuet_training_forward_arguments given, base = forward_of(step);
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_forward(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_training_forward(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_training_forward(own, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "call minuet_training_load",
          minuet_training_forward(step->unloaded, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "the batch norms are frozen",
          minuet_training_forward(step->frozen, device, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "pyramid is null", pyramid = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "plan has 3 axes", pyramid = world->flat_pyramid);
  REFUSED_WITH(INVALID_ARGUMENT, "buffer is null", buffer = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has", buffer_bytes = step->buffer_bytes - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "parameters is null", parameters = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "parameter_count is 4; it must be 5", parameter_count = 4);
  REFUSED_WITH(INVALID_ARGUMENT, "weights_order is 99", weights_order = (minuet_weights_order)99);
  REFUSED_WITH(INVALID_ARGUMENT, "new_statistics is null", new_statistics = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "batch_count is null", batch_count = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "new_batch_count begins",
               new_batch_count = (int64_t*)(step->memory + 15 * PLACE_BYTES + 4));
  REFUSED_WITH(INVALID_ARGUMENT, "inputs is null", inputs = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "input_count is 2; it must be 1", input_count = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "outputs is null", outputs = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "output_count is 0; it must be 1", output_count = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "kept is null", kept = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "kept has", kept_bytes = step->sizes.kept - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = step->sizes.forward_workspace - 1);
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", workspace = step->buffer);
}

static void refuse_forward_arrays(const world* world, const training_step* step) {
  minuet_training* const own = step->own;
  minuet_device* const device = world->device;
  minuet_training_forward_arguments given, base = forward_of(step);
  minuet_array arrays[PARAMETERS];
  REFUSED_ARRAY("parameters[1] has no data", parameters, 1, data = NULL);
  REFUSED_ARRAY("parameters[1]: its rank is 0", parameters, 1, rank = 0);
  REFUSED_ARRAY("\"a.conv.weight\": its element is f16", parameters, 0, element = MINUET_ELEMENT_F16);
  REFUSED_ARRAY("\"a.conv.weight\": its shape", parameters, 0, shape[0] = 26);
  REFUSED_ARRAY("\"a.bn.bias\": its element is f16", parameters, 2, element = MINUET_ELEMENT_F16);
  REFUSED_ARRAY("new_statistics[3] has no data", new_statistics, 3, data = NULL);
  memcpy(arrays, step->new_statistics, sizeof(arrays));
  arrays[1] = step->gradients[1];
  REFUSED_WITH(INVALID_ARGUMENT, "new_statistics[1] has data", new_statistics = arrays);
  arrays[0] = step->input;
  arrays[0].data = NULL;
  REFUSED_WITH(INVALID_ARGUMENT, "inputs[0] has no data", inputs = arrays);
  arrays[0] = step->output;
  arrays[0].data = step->memory;
  REFUSED_WITH(INVALID_ARGUMENT, "outputs[0] and parameters[0] overlap", outputs = arrays);
  arrays[0].data = step->kept;
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", outputs = arrays);
}
#undef REFUSED_WITH
#undef REFUSED_ARRAY

#define REFUSED_WITH(wanted, words, change) \
  REFUSED(wanted, words, minuet_training_backward(own, device, WITH(change), NULL))

static void refuse_backward(const world* world, const training_step* step) {
  minuet_training* const own = step->own;
  minuet_device* const device = world->device;
  minuet_training_backward_arguments given, base = backward_of(step);
  REFUSED(INVALID_ARGUMENT, "training is null", minuet_training_backward(NULL, device, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "device is null", minuet_training_backward(own, NULL, &base, NULL));
  REFUSED(INVALID_ARGUMENT, "arguments is null", minuet_training_backward(own, device, NULL, NULL));
  REFUSED(FAILED_PRECONDITION, "call minuet_training_load",
          minuet_training_backward(step->unloaded, device, &base, NULL));
  REFUSED_WITH(INVALID_ARGUMENT, "struct_size is 8", struct_size = 8);
  REFUSED_WITH(INVALID_ARGUMENT, "ext", ext = &given);
  REFUSED_WITH(INVALID_ARGUMENT, "pyramid is null", pyramid = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "buffer is null", buffer = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "buffer has", buffer_bytes = 0);
  REFUSED_WITH(INVALID_ARGUMENT, "parameters is null", parameters = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "parameter_count is -1", parameter_count = -1);
  REFUSED_WITH(INVALID_ARGUMENT, "weights_order is -1", weights_order = (minuet_weights_order)-1);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradients is null", out_gradients = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "out_gradient_count is 2", out_gradient_count = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "accumulate is 2", accumulate = 2);
  REFUSED_WITH(INVALID_ARGUMENT, "parameter_gradients is null", parameter_gradients = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "input_gradients[0] has no data", input_gradients = NULL);
  REFUSED_WITH(INVALID_ARGUMENT, "kept is null", kept = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "kept has", kept_bytes = 1);
  REFUSED_WITH(INVALID_ARGUMENT, "workspace is null", workspace = NULL);
  REFUSED_WITH(RESOURCE_EXHAUSTED, "workspace has", workspace_bytes = -1);
}

static void refuse_backward_arrays(const world* world, const training_step* step) {
  minuet_training* const own = step->own;
  minuet_device* const device = world->device;
  minuet_training_backward_arguments given, base = backward_of(step);
  minuet_array arrays[PARAMETERS];
#define REFUSED_GRADIENT(words, number, change)                            \
  (memcpy(arrays, step->gradients, sizeof(arrays)), arrays[number].change, \
   REFUSED_WITH(INVALID_ARGUMENT, words, parameter_gradients = arrays))
  REFUSED_GRADIENT("parameter_gradients[0]: its element is f16", 0, element = MINUET_ELEMENT_F16);
  REFUSED_GRADIENT("\"a.conv.weight\"", 0, shape[0] = VOLUME - 1);
  REFUSED_GRADIENT("\"a.bn.weight\"", 1, shape[0] = OUT + 1);
  memcpy(arrays, step->gradients, sizeof(arrays));
  arrays[OF_MEAN] = step->new_statistics[OF_MEAN];
  REFUSED_WITH(INVALID_ARGUMENT, "a running statistic has no gradient", parameter_gradients = arrays);
  memcpy(arrays, step->gradients, sizeof(arrays));
  arrays[0].has_strides = 1;
  REFUSED_WITH(INVALID_ARGUMENT, "parameter_gradients[0]: two of its elements", parameter_gradients = arrays);
#undef REFUSED_GRADIENT
  arrays[0] = step->out_gradient;
  arrays[0].element = MINUET_ELEMENT_F32;
  REFUSED_WITH(INVALID_ARGUMENT, "f32", out_gradients = arrays);
  arrays[0] = step->input_gradient;
  arrays[0].shape[0] = ROWS;
  REFUSED_WITH(INVALID_ARGUMENT, "shape", input_gradients = arrays);
  arrays[0] = step->input_gradient;
  arrays[0].data = step->out_gradient.data;
  REFUSED_WITH(INVALID_ARGUMENT, "overlap", input_gradients = arrays);
}
#undef REFUSED_WITH

static void run_rightly(const world* world, const training_step* step) {
  minuet_training* const own = step->own;
  minuet_device* const device = world->device;
  minuet_training_forward_arguments forward = forward_of(step);
  minuet_training_backward_arguments given, base = backward_of(step);
  minuet_array none[PARAMETERS] = {{0}};
  int64_t batches = 7;
  ACCEPTED(minuet_training_forward(own, device, &forward, NULL));
  read_device(world, &batches, forward.new_batch_count, sizeof(batches));
  EXPECT(batches == 1);
  ACCEPTED(minuet_training_backward(own, device, &base, NULL));
  ACCEPTED(minuet_training_backward(own, device, WITH(parameter_gradients = none), NULL));
  ACCEPTED(minuet_training_backward(own, device, WITH(out_gradients = none), NULL));
  forward.new_statistics = NULL;
  forward.batch_count = forward.new_batch_count = NULL;
  forward.workspace_bytes = step->frozen_sizes.forward_workspace;
  ACCEPTED(minuet_training_forward(step->frozen, device, &forward, NULL));
  ACCEPTED(minuet_training_backward(step->frozen, device, WITH(accumulate = 1), NULL));
}

void call_training_steps(const world* world, const training_step* step) {
  refuse_forward(world, step);
  refuse_forward_arrays(world, step);
  refuse_backward(world, step);
  refuse_backward_arrays(world, step);
  run_rightly(world, step);
}
