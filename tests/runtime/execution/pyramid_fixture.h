// What tests of pyramids and of runs on them share.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "include/minuet/pyramid.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/capacity_fixture.h"

namespace minuet::abi {

using PyramidHandle = Handle<minuet_pyramid>;

inline minuet_pyramid_level level_of(int64_t capacity, int32_t parent = -1, int32_t stride = 1) {
  minuet_pyramid_level level{};
  level.capacity = capacity;
  level.parent = parent;
  for (int axis = 0; axis < 3; ++axis) level.stride[axis] = stride;
  return level;
}

inline minuet_pyramid_map map_between(int32_t fine, int32_t coarse, int32_t kernel_size, uint32_t purposes) {
  minuet_pyramid_map map{};
  map.fine = fine, map.coarse = coarse;
  for (int axis = 0; axis < 3; ++axis) map.kernel_size[axis] = kernel_size;
  map.purposes = purposes;
  return map;
}

/// A pyramid with its memory on a machine.
class TestPyramid {
 public:
  TestPyramid(Machine& machine, const minuet_pyramid_options& options)
      : TestPyramid(machine, create(machine, options)) {}
  /// Owns `made` from now on.
  TestPyramid(Machine& machine, minuet_pyramid* made) : machine_(machine) {
    pyramid_.reset(made);
    check(minuet_pyramid_load(made, machine.device()));
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, machine.arch().c_str(), &bytes, &workspace_bytes));
    buffer_.emplace(machine, bytes);
    workspace_.emplace(machine, workspace_bytes);
  }

  minuet_pyramid* get() const { return pyramid_.get(); }
  Buffer& buffer() { return *buffer_; }
  Buffer& workspace() { return *workspace_; }

  minuet_pyramid_arguments arguments(const int32_t* coordinates, int64_t most, const int32_t* count) const {
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer_->data();
    given.buffer_bytes = buffer_->bytes();
    given.workspace = workspace_->data();
    given.workspace_bytes = workspace_->bytes();
    given.coordinates = coordinates;
    given.most = most;
    given.count = count;
    return given;
  }
  minuet_status build(const int32_t* coordinates, int64_t most, const int32_t* count,
                      void* stream = nullptr) {
    const minuet_pyramid_arguments given = arguments(coordinates, most, count);
    return minuet_pyramid_build(get(), machine_.device(), &given, stream);
  }
  /// With the memory poisoned, as nothing may be kept from earlier clouds.
  void build(const std::vector<int32_t>& coordinates, int fields = 4) {
    buffer_->poison(), workspace_->poison();
    const Buffer given(machine_, coordinates);
    check(build(given.integers(), static_cast<int64_t>(coordinates.size()) / fields, nullptr));
    check(minuet_device_synchronize(machine_.device(), nullptr));
  }

  minuet_run_arguments run_arguments() const {
    minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
    given.pyramid = get();
    given.buffer = buffer_->data();
    given.buffer_bytes = buffer_->bytes();
    return given;
  }

 private:
  static minuet_pyramid* create(Machine& machine, const minuet_pyramid_options& options) {
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine.context(), &options, &made));
    return made;
  }
  Machine& machine_;
  PyramidHandle pyramid_{nullptr, {minuet_pyramid_destroy}};
  std::optional<Buffer> buffer_, workspace_;
};

inline int64_t run_bytes(Machine& machine, minuet_plan* plan, const minuet_run_arguments& given) {
  int64_t bytes = 0;
  check(minuet_plan_run_bytes(plan, machine.arch().c_str(), &given, &bytes));
  return bytes;
}

/// Runs with a workspace of exactly the bytes that the run needs, which are poisoned.
inline void run_on(Machine& machine, minuet_plan* plan, minuet_run_arguments given,
                   const std::vector<minuet_array>& inputs, const std::vector<minuet_array>& outputs) {
  const Buffer workspace(machine, run_bytes(machine, plan, given));
  given.workspace = workspace.data();
  given.workspace_bytes = workspace.bytes();
  given.inputs = inputs.data();
  given.outputs = outputs.data();
  given.input_count = static_cast<int32_t>(inputs.size());
  given.output_count = static_cast<int32_t>(outputs.size());
  check(minuet_plan_run(plan, machine.device(), &given, nullptr));
  check(minuet_device_synchronize(machine.device(), nullptr));
}

}  // namespace minuet::abi
