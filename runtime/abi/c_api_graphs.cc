// The inputs and outputs of plans and executions, and the description of a network.
#include <algorithm>
#include <new>

#include "runtime/abi/c_api_internal.h"
#include "runtime/network/network_description.h"

using namespace minuet;

namespace {

// The size of an axis that is known only for a prepared cloud.
constexpr int64_t kUnknownSize = -1;

/// Returns OutOfRange if there is no input or output of this number. `what` is "input" or "output".
llvm::Error check_number(const char* what, int32_t number, std::size_t count) {
  if (number >= 0 && static_cast<std::size_t>(number) < count) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "there is no {0} {1}; the plan has {2} {0}s, numbered from 0",
                    what, number, count);
}

minuet_tensor_info tensor_info(const Program& program, const std::string& name, i32 number) {
  const TensorSpec& tensor = program.tensors[number];
  const AxisArray stride =
      on_axes_of(program, tensor.level, program.levels[tensor.level].tensor_stride, /*beyond=*/1);
  const StorageSpec& storage = program.storages[tensor.storage];
  minuet_tensor_info info{};
  info.name = name.c_str();
  info.rank = 2;
  info.shape[0] = kUnknownSize;
  info.shape[1] = tensor.channels;
  if (tensor.is_dense()) {
    info.rank = static_cast<int32_t>(1 + tensor.dims.size());
    std::copy(tensor.dims.begin(), tensor.dims.end(), info.shape + 1);
  }
  if (storage.holds_integers && program.takes_points() && llvm::is_contained(program.inputs, number)) {
    // These are `batch`, with a number for each point, and `count`, with one number.
    info.rank = 1;
    if (number == program.inputs.back()) info.shape[0] = 1;
  }
  std::copy(stride.begin(), stride.end(), info.tensor_stride);
  info.level = tensor.level;
  info.channels = tensor.channels;
  info.element = storage.holds_integers ? MINUET_ELEMENT_I32
                 : storage.holds_points ? MINUET_ELEMENT_F32
                 : storage.holds_mask   ? MINUET_ELEMENT_U8
                                        : static_cast<minuet_element>(storage_type(program.dtype));
  for (const i32 axis : axes_of(program, tensor.level)) ++info.ndim, info.axes |= 1 << axis;
  return info;
}

llvm::Error give_shape(PlanExecution& own, int32_t output, int64_t* rows, int32_t* channels) {
  MINUET_TRY(check_pointer(rows, "rows"));
  MINUET_TRY(check_pointer(channels, "channels"));
  MINUET_TRY(check_answers("rows", rows, sizeof(*rows), "channels", channels, sizeof(*channels)));
  const Program& program = own.plan().program;
  MINUET_TRY(check_number("output", output, program.outputs.size()));
  MINUET_TRY(own.check_output(static_cast<std::size_t>(output)));
  if (program.tensors[program.outputs[static_cast<std::size_t>(output)]].is_dense()) {
    return make_error(
        StatusCode::FailedPrecondition,
        "output {0} is a dense array, which has no rows: minuet_plan_query_output tells its shape", output);
  }
  *rows = own.output_rows(static_cast<std::size_t>(output));
  *channels = program.tensors[program.outputs[static_cast<std::size_t>(output)]].channels;
  return llvm::Error::success();
}

llvm::Error give_coordinates(PlanExecution& own, int32_t output, int32_t* coordinates, void* stream) {
  MINUET_TRY(check_number("output", output, own.plan().program.outputs.size()));
  const auto number = static_cast<std::size_t>(output);
  if (own.output_rows(number) > 0) MINUET_TRY(check_pointer(coordinates, "coordinates"));
  MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
  return own.output_coordinates(number, coordinates, stream);
}

}  // namespace

extern "C" {

minuet_status minuet_plan_query_input(minuet_plan* plan, int32_t input, minuet_tensor_info* info) {
  return guarded("minuet_plan_query_input", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    const Program& program = plan->store->plan().program;
    MINUET_TRY(check_number("input", input, program.inputs.size()));
    return write_info(tensor_info(program, program.input_names[input], program.inputs[input]), info, "info");
  });
}

minuet_status minuet_plan_query_output(minuet_plan* plan, int32_t output, minuet_tensor_info* info) {
  return guarded("minuet_plan_query_output", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    const Program& program = plan->store->plan().program;
    MINUET_TRY(check_number("output", output, program.outputs.size()));
    return write_info(tensor_info(program, program.output_names[output], program.outputs[output]), info,
                      "info");
  });
}

size_t minuet_plan_description(minuet_plan* plan, char* buffer, size_t size) {
  try {
    const std::optional<NetworkRecord>* const network = plan ? &plan->store->plan().network : nullptr;
    if (!network || !*network) return give_text("", buffer, size);
    const std::string text = print_network((*network)->problem.description, (*network)->head_channels);
    return give_text(text, buffer, size);
  } catch (const std::bad_alloc&) {
    return give_text("", buffer, size);
  }
}

minuet_status minuet_execution_output_shape(minuet_execution* execution, int64_t* rows, int32_t* channels) {
  return in_execution("minuet_execution_output_shape", execution,
                      [&](PlanExecution& own) { return give_shape(own, 0, rows, channels); });
}

minuet_status minuet_execution_output_shape_of(minuet_execution* execution, int32_t output, int64_t* rows,
                                               int32_t* channels) {
  return in_execution("minuet_execution_output_shape_of", execution,
                      [&](PlanExecution& own) { return give_shape(own, output, rows, channels); });
}

minuet_status minuet_execution_output_coordinates(minuet_execution* execution, int32_t* coordinates,
                                                  void* stream) {
  return in_execution("minuet_execution_output_coordinates", execution,
                      [&](PlanExecution& own) { return give_coordinates(own, 0, coordinates, stream); });
}

minuet_status minuet_execution_output_coordinates_of(minuet_execution* execution, int32_t output,
                                                     int32_t* coordinates, void* stream) {
  return in_execution("minuet_execution_output_coordinates_of", execution,
                      [&](PlanExecution& own) { return give_coordinates(own, output, coordinates, stream); });
}
}
