#include "tests/runtime/abi/abi_batch_norm_structs.h"

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

/// A batch norm with all options, and memory of which each matrix or list has 64 bytes.
struct Norm {
  explicit Norm(Machine& machine) : memory(machine, std::vector<char>(1024)) {
    minuet_batch_norm_options options = MINUET_BATCH_NORM_OPTIONS_INIT;
    options.channels = 4, options.momentum = 0.5f;
    options.has_running_mean = options.has_residual = options.has_relu = 1;
    minuet_batch_norm_op* made = nullptr;
    check(minuet_batch_norm_create(machine.context(), &options, &made));
    op.reset(made);
    check(minuet_batch_norm_load(made, machine.device()));
    check(minuet_batch_norm_bytes(made, machine.arch().c_str(), 2, &bytes));
    workspace = std::make_unique<Buffer>(machine, bytes);
  }
  float* at(int place) const { return static_cast<float*>(memory.data()) + 16 * place; }
  minuet_tensor matrix(int place) const { return tensor(at(place), 2, 4, MINUET_F32); }

  Handle<minuet_batch_norm_op> op{nullptr, {minuet_batch_norm_destroy}};
  int64_t bytes = 0;
  Buffer memory;
  std::unique_ptr<Buffer> workspace;
};

}  // namespace

void check_batch_norm_options(Machine& machine) {
  minuet_batch_norm_options given = MINUET_BATCH_NORM_OPTIONS_INIT;
  given.ndim = 2, given.dtype = MINUET_F16, given.channels = 3, given.eps = 0.5f, given.momentum = 0.25f;
  given.has_running_mean = given.has_residual = given.has_relu = 1;
  given.reserved = 1;  // refused
  check_options<minuet_batch_norm_options>(given, MINUET_BATCH_NORM_OPTIONS_INIT, [&](const auto* options) {
    minuet_batch_norm_op* made = nullptr;
    const minuet_status status = minuet_batch_norm_create(machine.context(), options, &made);
    minuet_batch_norm_destroy(made);
    return status;
  });
}

void check_batch_norm_arguments(Machine& machine) {
  const Norm norm(machine);
  minuet_batch_norm_arguments given = MINUET_BATCH_NORM_ARGUMENTS_INIT;
  given.input = norm.matrix(0), given.residual = norm.matrix(1), given.output = norm.matrix(2);
  given.row_count = reinterpret_cast<const int32_t*>(norm.at(3));
  given.weight = given.bias = norm.at(4);
  given.running_mean = norm.at(5), given.running_variance = norm.at(6);
  given.batch_count = reinterpret_cast<const int64_t*>(norm.at(7));
  given.all_moments = norm.at(8), given.ranks = 1, given.moments = norm.at(9);
  given.saved = norm.at(10);
  given.new_running_mean = norm.at(11), given.new_running_variance = norm.at(12);
  given.new_batch_count = reinterpret_cast<int64_t*>(norm.at(13));
  given.workspace = norm.workspace->data(), given.workspace_bytes = norm.bytes;
  check_options<minuet_batch_norm_arguments>(
      given, MINUET_BATCH_NORM_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_batch_norm_forward(norm.op.get(), machine.device(), arguments, nullptr);
      });
}

void check_batch_norm_gradient_arguments(Machine& machine) {
  const Norm norm(machine);
  minuet_batch_norm_gradient_arguments given = MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT;
  given.input = norm.matrix(0), given.out_gradient = norm.matrix(1), given.output = norm.matrix(2);
  given.row_count = reinterpret_cast<const int32_t*>(norm.at(3));
  given.weight = given.bias = norm.at(4), given.saved = norm.at(5);
  given.accumulate = 1;
  given.weight_gradient = norm.at(6), given.bias_gradient = norm.at(7);
  given.residual_gradient = norm.matrix(8), given.sums = norm.at(9), given.input_gradient = norm.matrix(10);
  given.workspace = norm.workspace->data(), given.workspace_bytes = norm.bytes;
  check_options<minuet_batch_norm_gradient_arguments>(
      given, MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_batch_norm_backward(norm.op.get(), machine.device(), arguments, nullptr);
      });
}

std::vector<float> normalized_with(Machine& machine, const minuet_batch_norm_options* options) {
  minuet_batch_norm_op* made = nullptr;
  check(minuet_batch_norm_create(machine.context(), options, &made));
  const Handle<minuet_batch_norm_op> op(made, {minuet_batch_norm_destroy});
  check(minuet_batch_norm_load(made, machine.device()));
  int64_t bytes = 0;
  check(minuet_batch_norm_bytes(made, machine.arch().c_str(), 2, &bytes));
  const Buffer input(machine, std::vector<float>{1, -2}), output(machine, 8), saved(machine, 12),
      workspace(machine, bytes);
  minuet_batch_norm_arguments given = MINUET_BATCH_NORM_ARGUMENTS_INIT;
  given.input = tensor(input.data(), 2, 1, MINUET_F32);
  given.output = tensor(output.data(), 2, 1, MINUET_F32);
  given.saved = static_cast<float*>(saved.data());
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check(minuet_batch_norm_forward(made, machine.device(), &given, nullptr));
  std::vector<float> seen = output.read<float>();
  for (const float number : saved.read<float>()) seen.push_back(number);
  return seen;
}

}  // namespace minuet::abi
