// Implements the functions of the C ABI for values of parameters.
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

llvm::Expected<std::vector<ParameterValue>> read_values(const int32_t* indices, const minuet_array* values,
                                                        int32_t count) {
  std::vector<ParameterValue> read;
  for (int32_t i = 0; i < count; ++i) {
    llvm::Expected<GivenArray> array = read_array(values[i], ArrayUse::Parameter);
    if (!array) return annotate(array.takeError(), "values[" + std::to_string(i) + "]");
    read.push_back({indices ? indices[i] : i, std::move(*array)});
  }
  return read;
}

}  // namespace

llvm::Expected<WeightsOrder> read_weights_order(minuet_weights_order order, const Plan& plan) {
  if (order == MINUET_WEIGHTS_AS_DESCRIBED) {
    return plan.network ? plan.network->problem.description.weights_order : WeightsOrder::Minuet;
  }
  if (order > 0 && order <= static_cast<i32>(kLastWeightsOrder)) return static_cast<WeightsOrder>(order);
  return make_error(StatusCode::InvalidArgument, "order is {0}; it must be 0 to {1}", order,
                    static_cast<i32>(kLastWeightsOrder));
}

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
    MINUET_TRY(check_flags({{given.master, "master"}, {given.set_by_each_run, "set_by_each_run"}}));
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded, plan->store->loaded_on(*device->open->device()));
    ParameterSetOptions own;
    own.keeps_master = given.master != 0;
    own.is_set_by_each_run = given.set_by_each_run != 0;
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
    MINUET_ASSIGN(const WeightsOrder own_order, read_weights_order(order, *parameters->set->loaded().plan));
    MINUET_ASSIGN(const std::vector<ParameterValue> read, read_values(indices, values, count));
    return parameters->set->set(read, own_order, stream);
  });
}

minuet_status minuet_parameters_get(minuet_parameters* parameters, int32_t index, const minuet_array* value,
                                    void* stream) {
  return guarded("minuet_parameters_get", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(parameters, "parameters"));
    MINUET_TRY(check_pointer(value, "value"));
    llvm::Expected<GivenArray> array = read_array(*value, ArrayUse::Parameter);
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
