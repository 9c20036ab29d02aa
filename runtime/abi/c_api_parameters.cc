// Implements the functions of the C ABI for values of parameters.
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

/// Returns the element type of an array of parameters.
llvm::Expected<ArrayElement> read_element(minuet_element element) {
  switch (element) {
    case MINUET_ELEMENT_F32:
    case MINUET_ELEMENT_F16:
    case MINUET_ELEMENT_BF16:
    case MINUET_ELEMENT_F64:
      return static_cast<ArrayElement>(element);
    default:
      return make_error(StatusCode::InvalidArgument,
                        "its element is {0}; parameters are f32 (0), f16 (2), bf16 (3) or f64 (4)", element);
  }
}

llvm::Error check_axes(const minuet_array& given) {
  if (given.rank < 1 || given.rank > MINUET_MAX_RANK) {
    return make_error(StatusCode::InvalidArgument, "its rank is {0}; it must be 1 to {1}", given.rank,
                      MINUET_MAX_RANK);
  }
  for (i32 axis = 0; axis < given.rank; ++axis) {
    if (given.shape[axis] < 1 || given.shape[axis] > INT32_MAX) {
      return make_error(StatusCode::InvalidArgument, "its shape[{0}] is {1}; it must be 1 to {2}", axis,
                        given.shape[axis], INT32_MAX);
    }
    if (given.stride[axis] < 0 || (given.has_strides == 0 && given.stride[axis] != 0)) {
      return make_error(StatusCode::InvalidArgument,
                        "its stride[{0}] is {1}; it must not be negative, and must be 0 if has_strides is 0",
                        axis, given.stride[axis]);
    }
  }
  return llvm::Error::success();
}

/// Reads the shape and the strides of an array, whose element type is already known.
llvm::Error read_shape(const minuet_array& given, GivenArray& array) {
  MINUET_TRY(check_axes(given));
  array.shape.assign(given.shape, given.shape + given.rank);
  array.strides.assign(given.stride, given.stride + given.rank);
  // Distances in bytes are computed in 64 bits.
  constexpr i64 kMostBytes = i64{1} << 62;
  i64 elements = 1, reach = 1;
  for (i32 axis = given.rank - 1; axis >= 0; --axis) {
    if (given.has_strides == 0) array.strides[axis] = elements;
    i64 distance = 0;
    if (__builtin_mul_overflow(elements, given.shape[axis], &elements) ||
        __builtin_mul_overflow(given.shape[axis] - 1, array.strides[axis], &distance) ||
        __builtin_add_overflow(reach, distance, &reach) ||
        reach > kMostBytes / element_bytes(array.element)) {
      return make_error(StatusCode::InvalidArgument, "its shape and strides reach farther than any memory");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<GivenArray> read_array(const minuet_array& given) {
  GivenArray array;
  MINUET_ASSIGN(array.element, read_element(given.element));
  MINUET_TRY(read_shape(given, array));
  for (const auto& [name, flag] :
       {std::pair("on_host", given.on_host), std::pair("has_strides", given.has_strides)}) {
    if (flag == 0 || flag == 1) continue;
    return make_error(StatusCode::InvalidArgument, "its {0} is {1}; it must be 0 or 1", name, flag);
  }
  MINUET_TRY(check_pointer(given.data, "data"));
  MINUET_TRY(
      check_alignment(given.data, static_cast<std::uintptr_t>(element_bytes(array.element)), "its data"));
  array.data = given.data;
  array.on_host = given.on_host != 0;
  return array;
}

/// Reads an order, of which 0 means the one that the plan's description names.
llvm::Expected<WeightsOrder> read_order(minuet_weights_order order, const ParameterSet& set) {
  if (order == MINUET_WEIGHTS_AS_DESCRIBED) return set.described_order();
  if (order > 0 && order <= MINUET_WEIGHTS_SPCONV_XYZ) return static_cast<WeightsOrder>(order);
  return make_error(StatusCode::InvalidArgument, "order is {0}; it must be 0 to {1}", order,
                    static_cast<int>(MINUET_WEIGHTS_SPCONV_XYZ));
}

llvm::Expected<std::vector<ParameterValue>> read_values(const int32_t* indices, const minuet_array* values,
                                                        int32_t count) {
  std::vector<ParameterValue> read;
  for (int32_t i = 0; i < count; ++i) {
    llvm::Expected<GivenArray> array = read_array(values[i]);
    if (!array) return annotate(array.takeError(), "values[" + std::to_string(i) + "]");
    read.push_back({indices ? indices[i] : i, std::move(*array)});
  }
  return read;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_parameters_create(minuet_plan* plan, minuet_device* device,
                                       const minuet_parameters_options* options,
                                       minuet_parameters** parameters) {
  return guarded("minuet_parameters_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(parameters, "parameters"));
    MINUET_ASSIGN(const minuet_parameters_options given,
                  read_options(options, minuet_parameters_options(MINUET_PARAMETERS_OPTIONS_INIT)));
    if (given.master != 0 && given.master != 1) {
      return make_error(StatusCode::InvalidArgument, "master is {0}; it must be 0 or 1", given.master);
    }
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded, plan->store->loaded_on(*device->open->device()));
    ParameterSetOptions own;
    own.keeps_master = given.master != 0;
    MINUET_ASSIGN(std::shared_ptr<ParameterSet> set, ParameterSet::create(std::move(loaded), own));
    *parameters = new minuet_parameters{device->open, std::move(set)};
    return llvm::Error::success();
  });
}

void minuet_parameters_destroy(minuet_parameters* parameters) { delete parameters; }

minuet_status minuet_parameters_set(minuet_parameters* parameters, const int32_t* indices,
                                    const minuet_array* values, int32_t count, minuet_weights_order order,
                                    void* stream) {
  return guarded("minuet_parameters_set", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parameters, "parameters"));
    MINUET_TRY(check_list(values, "values", count, "count"));
    MINUET_ASSIGN(const WeightsOrder own_order, read_order(order, *parameters->set));
    MINUET_ASSIGN(const std::vector<ParameterValue> read, read_values(indices, values, count));
    return parameters->set->set(read, own_order, stream);
  });
}

minuet_status minuet_parameters_get(minuet_parameters* parameters, int32_t index, const minuet_array* value,
                                    void* stream) {
  return guarded("minuet_parameters_get", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parameters, "parameters"));
    MINUET_TRY(check_pointer(value, "value"));
    llvm::Expected<GivenArray> array = read_array(*value);
    if (!array) return annotate(array.takeError(), "value");
    return parameters->set->get(index, *array, stream);
  });
}

minuet_status minuet_parameters_release_captures(minuet_parameters* parameters) {
  return guarded("minuet_parameters_release_captures", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parameters, "parameters"));
    parameters->set->release_captures();
    return llvm::Error::success();
  });
}
}
