#include "tests/runtime/abi/abi_gradient_structs.h"

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {

void check_gradient_arguments(Machine& machine) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = options.out_channels = 4;
  minuet_gradient_op* made = nullptr;
  check(minuet_gradient_create(machine.context(), &options, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS,
                               &made));
  const Handle<minuet_gradient_op> op(made, {minuet_gradient_op_destroy});
  check(minuet_gradient_op_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_gradient_bytes(made, machine.arch().c_str(), 2, 2, &bytes));
  const Buffer pairs(machine, std::vector<int32_t>{0, 0, 0, 0, 1, 1}),
      count(machine, std::vector<int32_t>{2}), features(machine, std::vector<float>(8)), weight(machine, 64),
      bias(machine, 16), workspace(machine, bytes);
  const minuet_array array = array_of(weight.data(), {1, 4, 4}, MINUET_ELEMENT_F32);
  minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  given.pairs = pairs.integers(), given.most_pairs = 2, given.pair_count = count.integers();
  given.input = given.out_gradient = tensor(features, 2, 4, DType::F32);
  given.row_count = count.integers();
  given.weight_gradient = &array, given.weights_order = MINUET_WEIGHTS_MINUET;
  given.accumulate = given.swapped = 1;
  given.bias_gradient = static_cast<float*>(bias.data());
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check_options<minuet_gradient_arguments>(given, MINUET_GRADIENT_ARGUMENTS_INIT, [&](const auto* arguments) {
    return minuet_gradient_compute(op.get(), machine.device(), arguments, nullptr);
  });
}

std::vector<float> affine_gradient_with(Machine& machine, const minuet_affine_gradient_options* options) {
  minuet_gradient_op* made = nullptr;
  check(minuet_gradient_create_affine(machine.context(), options, MINUET_GRADIENT_WEIGHT, &made));
  const Handle<minuet_gradient_op> op(made, {minuet_gradient_op_destroy});
  check(minuet_gradient_op_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_gradient_bytes(made, machine.arch().c_str(), 0, 2, &bytes));
  const Buffer input(machine, std::vector<float>{1, 2, 3, 5}),
      gradient(machine, std::vector<float>{7, 11, 13, 17}), scale(machine, 8), workspace(machine, bytes);
  const minuet_array array = array_of(scale.data(), {2}, MINUET_ELEMENT_F32);
  minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  given.input = tensor(input, 2, 2, DType::F32), given.out_gradient = tensor(gradient, 2, 2, DType::F32);
  given.weight_gradient = &array;
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check(minuet_gradient_compute(made, machine.device(), &given, nullptr));
  return scale.read<float>();
}

void check_affine_gradient_options(Machine& machine) {
  minuet_affine_gradient_options given = MINUET_AFFINE_GRADIENT_OPTIONS_INIT;
  given.dtype = MINUET_F16, given.channels = 4, given.epsilon = 0.5f;
  check_options<minuet_affine_gradient_options>(
      given, MINUET_AFFINE_GRADIENT_OPTIONS_INIT, [&](const auto* options) {
        minuet_gradient_op* made = nullptr;
        const minuet_status status =
            minuet_gradient_create_affine(machine.context(), options, MINUET_GRADIENT_BIAS, &made);
        minuet_gradient_op_destroy(made);
        return status;
      });
}

}  // namespace minuet::abi
