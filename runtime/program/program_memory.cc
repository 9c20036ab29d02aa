#include "runtime/program/program_memory.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace minuet {
namespace {

/// Finds the first layer that writes each storage and the last layer that reads it. The layer before one that
/// may join it may already write the latter's result.
void find_lives(Program& program) {
  const i32 layers = static_cast<i32>(program.layers.size());
  for (StorageSpec& storage : program.storages) storage.first = layers, storage.last = -1;
  const auto touch = [&](i32 tensor, i32 time) {
    StorageSpec& storage = program.storages[program.tensors[tensor].storage];
    storage.first = std::min(storage.first, time);
    storage.last = std::max(storage.last, time);
  };
  for (const i32 input : program.inputs) touch(input, -1);
  for (i32 i = 0; i < layers; ++i) {
    const ProgramLayer& layer = program.layers[i];
    touch(layer.input, i), touch(layer.output, layer.may_join_last ? i - 1 : i);
    if (layer.residual >= 0) touch(layer.residual, i);
    for (const i32 operand : layer.operands) touch(operand, i);
  }
  for (const i32 output : program.outputs) touch(output, layers);
}

bool meet(const StorageSpec& a, const StorageSpec& b) { return a.first <= b.last && b.first <= a.last; }

/// Estimates the number of elements of each storage, for an input of one row. A coordinate set is assumed to
/// have a quarter of its parent's rows, as is typical of surfaces, or as many rows if it is reached. A union
/// is assumed to have the rows of both parents. There are few batch items.
std::vector<double> likely_sizes(const Program& program) {
  std::vector<double> rows, sizes;
  for (const LevelSpec& level : program.levels) {
    const double of_other = level.is_union() ? rows[level.other_parent] : 0;
    const double of_parent =
        level.parent < 0 ? 1 : rows[level.parent] / (level.is_reached_or_combined() ? 1 : 4) + of_other;
    rows.push_back(level.holds_items ? 0 : of_parent);
  }
  for (const StorageSpec& storage : program.storages) {
    // A dense tensor is assumed to have as many elements as features of level 0 with its channels.
    sizes.push_back((storage.item_elements > 0 ? 1 : rows[storage.level]) * storage.ld);
  }
  return sizes;
}

}  // namespace

void assign_columns(Program& program) {
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    ProgramLayer& layer = program.layers[i];
    OperandColumns columns{columns_of(program, layer.input), columns_of(program, layer.output), {}, {}};
    if (layer.residual >= 0) columns.residual = columns_of(program, layer.residual);
    for (const i32 operand : layer.operands) columns.operands.push_back(columns_of(program, operand));
    if (i + 1 < program.layers.size() && program.layers[i + 1].may_join_last) {
      columns.covered_output = columns_of(program, program.layers[i + 1].output);
    }
    layer.problem = layer.problem.kind().at_columns(layer.problem, columns);
  }
}

void stack_storages(Program& program) {
  find_lives(program);
  stack_by_lives(program);
}

/// The storages are stacked by size, large ones first, each as low as it fits without overlapping storages
/// that are in use at the same time.
void stack_by_lives(Program& program) {
  std::vector<StorageSpec>& storages = program.storages;
  const std::vector<double> size = likely_sizes(program);
  std::vector<double> begin(storages.size());
  std::vector<i32> by_size, &stack = program.stack;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    // A storage that is never in use belonged to a tensor that a concatenation moved, or to the result of a
    // convolution that now computes the whole chain behind it.
    const auto number = static_cast<i32>(i);
    const bool is_used = storages[i].first <= storages[i].last;
    if (is_used && !llvm::is_contained(program.kept, number)) by_size.push_back(number);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [&](i32 a, i32 b) { return size[a] > size[b]; });
  const auto is_lower = [&](i32 a, i32 b) { return begin[a] < begin[b]; };
  for (const i32 storage : by_size) {
    for (const i32 other : stack) {
      if (!meet(storages[storage], storages[other])) continue;
      if (begin[storage] + size[storage] <= begin[other]) break;
      begin[storage] = std::max(begin[storage], begin[other] + size[other]);
    }
    stack.insert(std::upper_bound(stack.begin(), stack.end(), storage, is_lower), storage);
  }
  for (std::size_t i = 0; i < stack.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (meet(storages[stack[i]], storages[stack[j]])) storages[stack[i]].below.push_back(stack[j]);
    }
  }
}

}  // namespace minuet
