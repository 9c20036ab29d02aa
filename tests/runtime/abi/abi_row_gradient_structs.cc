#include "tests/runtime/abi/abi_row_gradient_structs.h"

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

using GroupOp = Handle<minuet_point_op>;

constexpr int64_t kGroupRows = 8;

GroupOp make_group_gradient(Machine& machine, const minuet_group_gradient_options* options) {
  minuet_point_op* made = nullptr;
  check(minuet_group_gradient_create(machine.context(), options, &made));
  GroupOp op(made, {minuet_point_op_destroy});
  check(minuet_point_op_load(made, machine.device()));
  return op;
}

}  // namespace

void check_group_gradient_options(Machine& machine) {
  minuet_group_gradient_options given = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  given.ndim = 2, given.dtype = MINUET_F16, given.channels = 2, given.feature = MINUET_POINT_FEATURE_SUM;
  given.rows_are_f32 = 1, given.reserved = 1;  // refused
  check_options<minuet_group_gradient_options>(
      given, MINUET_GROUP_GRADIENT_OPTIONS_INIT, [&](const auto* options) {
        minuet_point_op* made = nullptr;
        const minuet_status status = minuet_group_gradient_create(machine.context(), options, &made);
        minuet_point_op_destroy(made);
        return status;
      });
}

void check_group_gradient_arguments(Machine& machine) {
  minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  options.channels = 4, options.feature = MINUET_POINT_FEATURE_MAX;
  const GroupOp op = make_group_gradient(machine, &options);
  int64_t bytes = 0;
  check(minuet_group_gradient_bytes(op.get(), machine.arch().c_str(), kGroupRows, &bytes));
  const Buffer words(machine, std::vector<int32_t>(kGroupRows)), count(machine, std::vector<int32_t>{1}),
      numbers(machine, std::vector<float>(kGroupRows * 4)), workspace(machine, bytes),
      output(machine, kGroupRows * 16);
  minuet_group_gradient_arguments given = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
  given.groups = words.integers(), given.groups_ld = 1;
  given.row_count = given.group_count = count.integers();
  given.most_rows = given.most_groups = kGroupRows;
  given.group_sizes = words.integers();  // refused for a maximum
  given.input = numbers.data(), given.input_ld = 4;
  given.out_gradient = numbers.data(), given.input_gradient = output.data();
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check_options<minuet_group_gradient_arguments>(
      given, MINUET_GROUP_GRADIENT_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_group_gradient(op.get(), machine.device(), arguments, nullptr);
      });
}

std::vector<float> group_gradient_with(Machine& machine, const minuet_group_gradient_options* options) {
  const GroupOp op = make_group_gradient(machine, options);
  int64_t bytes = 0;
  check(minuet_group_gradient_bytes(op.get(), machine.arch().c_str(), 2, &bytes));
  const Buffer groups(machine, std::vector<int32_t>{1, -1, 1}),
      gradient(machine, std::vector<float>{1, 2, 3, 4}), workspace(machine, bytes),
      output(machine, 3 * 2 * 4);
  minuet_group_gradient_arguments given = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
  given.groups = groups.integers(), given.groups_ld = 1, given.most_rows = 3, given.most_groups = 2;
  given.out_gradient = gradient.data(), given.input_gradient = output.data();
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check(minuet_group_gradient(op.get(), machine.device(), &given, nullptr));
  return output.read<float>();
}

}  // namespace minuet::abi
