#include "tests/runtime/abi/abi_select_structs.h"

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

using SelectOp = Handle<minuet_select_op>;

constexpr int64_t kSelectRows = 8;

SelectOp make_op(Machine& machine, const minuet_select_options* options) {
  minuet_select_op* made = nullptr;
  check(minuet_select_create(machine.context(), options, &made));
  SelectOp op(made, {minuet_select_op_destroy});
  check(minuet_select_op_load(made, machine.device()));
  return op;
}

}  // namespace

void check_select_options(Machine& machine) {
  minuet_select_options given = MINUET_SELECT_OPTIONS_INIT;
  given.dtype = MINUET_F16, given.source = MINUET_SELECT_CELLS, given.rule = MINUET_SELECT_NONZERO;
  given.channels = 2, given.batch_size = 2;
  for (int axis = 0; axis < 3; ++axis) given.tensor_stride[axis] = given.shape[axis] = 2;
  given.axis_order[0] = 2, given.axis_order[1] = 1;
  given.channels_last = 1, given.reserved = 1;  // refused
  check_options<minuet_select_options>(given, MINUET_SELECT_OPTIONS_INIT, [&](const auto* options) {
    minuet_select_op* made = nullptr;
    const minuet_status status = minuet_select_create(machine.context(), options, &made);
    minuet_select_op_destroy(made);
    return status;
  });
}

void check_select_arguments(Machine& machine) {
  minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
  options.rule = MINUET_SELECT_MASK;
  const SelectOp op = make_op(machine, &options);
  int64_t bytes = 0;
  check(minuet_select_bytes(op.get(), machine.arch().c_str(), kSelectRows, &bytes));
  const Buffer coordinates(machine, std::vector<int32_t>(kSelectRows * 4)),
      row_count(machine, std::vector<int32_t>{kSelectRows}), mask(machine, std::vector<char>(kSelectRows)),
      workspace(machine, bytes), selected(machine, kSelectRows * 16), words(machine, 256);
  minuet_select_arguments given = MINUET_SELECT_ARGUMENTS_INIT;
  given.coordinates = coordinates.integers(), given.row_count = row_count.integers();
  given.most_rows = kSelectRows, given.mask = static_cast<const uint8_t*>(mask.data());
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  given.capacity = kSelectRows, given.selected = static_cast<int32_t*>(selected.data());
  auto* const word = static_cast<int32_t*>(words.data());
  given.sources = word, given.parents = word + 8, given.places = word + 16, given.count = word + 24;
  given.status = reinterpret_cast<uint32_t*>(word + 24);  // refused beside this count
  check_options<minuet_select_arguments>(given, MINUET_SELECT_ARGUMENTS_INIT, [&](const auto* arguments) {
    return minuet_select(op.get(), machine.device(), arguments, nullptr);
  });
}

std::vector<int32_t> selected_with(Machine& machine, const minuet_select_options* options) {
  const SelectOp op = make_op(machine, options);
  int64_t bytes = 0;
  check(minuet_select_bytes(op.get(), machine.arch().c_str(), 3, &bytes));
  const Buffer coordinates(machine, std::vector<int32_t>{0, 1, 2, 3, 0, 4, 5, 6, 2, 7, 8, 9}),
      workspace(machine, bytes), selected(machine, 3 * 16), count(machine, 4);
  minuet_select_arguments given = MINUET_SELECT_ARGUMENTS_INIT;
  given.coordinates = coordinates.integers(), given.most_rows = given.capacity = 3;
  given.workspace = workspace.data(), given.workspace_bytes = bytes;
  given.selected = static_cast<int32_t*>(selected.data()), given.count = static_cast<int32_t*>(count.data());
  check(minuet_select(op.get(), machine.device(), &given, nullptr));
  std::vector<int32_t> seen = selected.read<int32_t>();
  seen.push_back(count.read<int32_t>().front());
  seen.push_back(static_cast<int32_t>(bytes));
  return seen;
}

}  // namespace minuet::abi
