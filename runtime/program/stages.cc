#include "runtime/program/stages.h"

#include <algorithm>
#include <functional>

#include "llvm/ADT/STLExtras.h"
#include "runtime/program/program_memory.h"

namespace minuet {
namespace {

i32 position_of(const std::vector<i32>& list, i32 number) {
  const auto found = llvm::find(list, number);
  return found == list.end() ? -1 : static_cast<i32>(found - list.begin());
}

/// Returns the level on whose coordinates a level depends. That of batch items depends on the level that the
/// first global pooling reads.
i32 parent_of(const Program& program, i32 level) {
  const LevelSpec& spec = program.levels[level];
  if (!spec.holds_items) return spec.is_made_in_run() ? -1 : spec.parent;
  for (const ProgramLayer& layer : program.layers) {
    if (program.tensors[layer.output].level == level) return program.tensors[layer.input].level;
  }
  return 0;
}

/// Copies the parts of a program that belong to one of its stages, and numbers them anew.
class StageCopy {
 public:
  StageCopy(const Program& whole, const std::vector<i32>& stages, i32 number)
      : whole_(whole), stages_(stages), number_(number) {
    Program& program = stage_.program;
    program.name = whole.name;
    program.ndim = whole.ndim;
    program.dtype = whole.dtype;
    std::copy_n(whole.period, kMaxDim, program.period);
  }

  ProgramStage copy() {
    copy_levels();
    copy_tensors();
    copy_maps();
    for (std::size_t i = 0; i < whole_.layers.size(); ++i) add_layer(static_cast<i32>(i));
    add_inputs();
    add_outputs();
    stack_storages(stage_.program);
    return std::move(stage_);
  }

 private:
  bool has_level(i32 level) const { return stages_[level] == number_; }
  bool has_tensor(i32 tensor) const { return has_level(whole_.tensors[tensor].level); }
  i32 level_of(i32 level) const { return position_of(stage_.levels, level); }
  i32 tensor_of(i32 tensor) const { return position_of(stage_.tensors, tensor); }

  void copy_levels() {
    for (i32 i = 0; i < static_cast<i32>(whole_.levels.size()); ++i) {
      if (!has_level(i)) continue;
      stage_.levels.push_back(i);
      LevelSpec level = whole_.levels[i];
      level.parent = level_of(level.parent);
      level.other_parent = level_of(level.other_parent);
      level.made_by = -1;
      if (stage_.levels.size() == 1) level.reach.reset();
      stage_.program.levels.push_back(level);
    }
  }

  void copy_tensors() {
    std::vector<i32> storages;
    for (i32 i = 0; i < static_cast<i32>(whole_.tensors.size()); ++i) {
      if (!has_tensor(i)) continue;
      stage_.tensors.push_back(i);
      TensorSpec tensor = whole_.tensors[i];
      if (position_of(storages, tensor.storage) < 0) {
        storages.push_back(tensor.storage);
        StorageSpec& storage = stage_.program.storages.emplace_back(whole_.storages[tensor.storage]);
        storage.level = level_of(storage.level);
        storage.below.clear();
      }
      tensor.level = level_of(tensor.level);
      tensor.storage = position_of(storages, tensor.storage);
      stage_.program.tensors.push_back(std::move(tensor));
    }
  }

  void copy_maps() {
    for (i32 i = 0; i < static_cast<i32>(whole_.maps.size()); ++i) {
      MapSpec map = whole_.maps[i];
      if (!has_level(map.fine) || !has_level(map.coarse)) continue;
      maps_.push_back(i);
      map.fine = level_of(map.fine);
      map.coarse = level_of(map.coarse);
      stage_.program.maps.push_back(map);
    }
  }

  /// Adds a layer to the stage, or to those that lead to it, or leaves it to other stages.
  void add_layer(i32 number) {
    ProgramLayer layer = whole_.layers[number];
    const i32 level = whole_.tensors[layer.output].level;
    if (!has_level(level)) return;
    const bool makes_level = whole_.levels[level].made_by == number;
    if (makes_level || !has_tensor(layer.input)) {
      stage_.leading.insert(makes_level ? stage_.leading.begin() : stage_.leading.end(), number);
      return;
    }
    if (layer.map >= 0) layer.map = position_of(maps_, layer.map);
    if (layer.coordinates_level >= 0) layer.coordinates_level = level_of(layer.coordinates_level);
    layer.input = tensor_of(layer.input);
    layer.output = tensor_of(layer.output);
    layer.residual = tensor_of(layer.residual);
    layer.winners = tensor_of(layer.winners);
    for (i32& operand : layer.operands) operand = tensor_of(operand);
    stage_.layers.push_back(number);
    stage_.program.layers.push_back(std::move(layer));
  }

  void add_inputs() {
    Program& program = stage_.program;
    program.inputs.clear();
    const auto add = [&](i32 tensor, i32 number, const std::string& name) {
      program.inputs.push_back(tensor_of(tensor));
      program.input_names.push_back(name);
      stage_.inputs.push_back(number);
    };
    for (i32 i = 0; i < static_cast<i32>(whole_.inputs.size()); ++i) {
      const StorageSpec& storage = whole_.storages[whole_.tensors[whole_.inputs[i]].storage];
      // Only layers between the stages read points, batch indices, counts and masks.
      const bool is_of_points = whole_.takes_points() && (storage.holds_points || storage.holds_integers);
      if (has_tensor(whole_.inputs[i]) && !is_of_points && !storage.holds_mask)
        add(whole_.inputs[i], i, whole_.input_names[i]);
    }
    for (const i32 number : stage_.leading) {
      add(whole_.layers[number].output, -1, whole_.layers[number].name);
    }
  }

  /// Adds the tensors that layers to other stages read, and the whole program's outputs.
  void add_outputs() {
    Program& program = stage_.program;
    const auto add = [&](i32 tensor, i32 number, const std::string& name) {
      program.outputs.push_back(tensor_of(tensor));
      program.output_names.push_back(name);
      stage_.outputs.push_back(number);
    };
    for (std::size_t i = 0; i < whole_.layers.size(); ++i) {
      const ProgramLayer& layer = whole_.layers[i];
      const i32 level = whole_.tensors[layer.output].level;
      if (has_level(level) && whole_.levels[level].made_by != static_cast<i32>(i)) continue;
      std::vector<i32> read = layer.operands;
      read.push_back(layer.input);
      for (const i32 tensor : read) {
        const StorageSpec& storage = whole_.storages[whole_.tensors[tensor].storage];
        const bool is_the_callers = storage.holds_points || storage.holds_mask;
        if (!has_tensor(tensor) || is_the_callers || llvm::is_contained(program.outputs, tensor_of(tensor))) {
          continue;
        }
        add(tensor, -1, layer.name);
      }
    }
    for (i32 i = 0; i < static_cast<i32>(whole_.outputs.size()); ++i) {
      if (has_tensor(whole_.outputs[i])) add(whole_.outputs[i], i, whole_.output_names[i]);
    }
  }

  const Program& whole_;
  const std::vector<i32>& stages_;
  const i32 number_;
  ProgramStage stage_;
  std::vector<i32> maps_;
};

}  // namespace

i32 root_of(const Program& program, i32 level) {
  for (i32 parent = level; parent >= 0; parent = parent_of(program, level)) level = parent;
  return level;
}

bool has_stages(const Program& program) {
  return llvm::any_of(program.levels, std::mem_fn(&LevelSpec::is_made_in_run));
}

std::vector<i32> stage_numbers(const Program& program) {
  const auto levels = static_cast<i32>(program.levels.size());
  std::vector<i32> roots, numbers;
  for (i32 i = 0; i < levels; ++i) {
    if (root_of(program, i) == i) roots.push_back(i);
  }
  if (program.takes_points()) std::rotate(roots.begin(), roots.begin() + 1, roots.end());
  for (i32 i = 0; i < levels; ++i) numbers.push_back(position_of(roots, root_of(program, i)));
  return numbers;
}

std::vector<ProgramStage> stages_of(const Program& program) {
  const std::vector<i32> numbers = stage_numbers(program);
  const i32 count = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + 1;
  std::vector<ProgramStage> stages;
  stages.reserve(static_cast<std::size_t>(count));
  for (i32 i = 0; i < count; ++i) stages.push_back(StageCopy(program, numbers, i).copy());
  return stages;
}

}  // namespace minuet
