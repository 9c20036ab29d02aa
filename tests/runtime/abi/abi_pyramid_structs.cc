#include "tests/runtime/abi/abi_pyramid_structs.h"

#include <optional>

#include "include/minuet/pyramid.h"
#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

using PyramidHandle = Handle<minuet_pyramid>;

constexpr int64_t kCapacity = 8;

/// The pyramid of a network with one level, in memory of just the bytes that it needs.
class SmallPyramid {
 public:
  SmallPyramid(Machine& machine, minuet_plan* network)
      : machine_(machine), coordinates_(machine, std::vector<int32_t>{0, 0, 0, 0, /**/ 0, 1, 0, 0}) {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = network;
    options.level_capacity = &kCapacity;
    options.level_count = 1;
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine.context(), &options, &made));
    pyramid_.reset(made);
    check(minuet_pyramid_load(made, machine.device()));
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, machine.arch().c_str(), &bytes, &workspace_bytes));
    buffer_.emplace(machine, bytes), workspace_.emplace(machine, workspace_bytes);
  }

  minuet_pyramid* get() const { return pyramid_.get(); }
  const Buffer& buffer() const { return *buffer_; }
  minuet_pyramid_arguments arguments() const {
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer_->data(), given.buffer_bytes = buffer_->bytes();
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    given.coordinates = coordinates_.integers(), given.most = 2;
    return given;
  }
  minuet_status build(const minuet_pyramid_arguments* arguments) const {
    return minuet_pyramid_build(get(), machine_.device(), arguments, nullptr);
  }

 private:
  Machine& machine_;
  Buffer coordinates_;
  PyramidHandle pyramid_{nullptr, {minuet_pyramid_destroy}};
  std::optional<Buffer> buffer_, workspace_;
};

}  // namespace

void check_pyramid_options(Machine& machine) {
  minuet_pyramid_level level{};
  level.capacity = kCapacity;
  level.parent = -1;
  minuet_pyramid_map map{};
  map.kernel_size[0] = 3;
  map.purposes = MINUET_PURPOSE_CONVOLUTION;
  minuet_pyramid_options given = MINUET_PYRAMID_OPTIONS_INIT;
  given.ndim = 2;
  given.keep_first_duplicate = 1;
  given.has_bounds = 1;
  for (int f = 0; f < 3; ++f) given.greatest[f] = 9;
  given.keep_coordinates = 1;
  given.levels = &level;
  given.maps = &map;
  given.level_capacity = &kCapacity;  // refused without a network
  given.level_count = given.map_count = 1;
  given.batch_size = 20;
  check_options<minuet_pyramid_options>(given, MINUET_PYRAMID_OPTIONS_INIT, [&](const auto* options) {
    minuet_pyramid* made = nullptr;
    const minuet_status status = minuet_pyramid_create(machine.context(), options, &made);
    minuet_pyramid_destroy(made);
    return status;
  });
}

void check_pyramid_arguments(Machine& machine, minuet_plan* network) {
  const SmallPyramid pyramid(machine, network);
  const Buffer words(machine, std::vector<int32_t>{1, 0, 0});
  minuet_pyramid_arguments given = pyramid.arguments();
  given.count = words.integers();
  given.status = static_cast<uint32_t*>(words.data()) + 1;
  given.counts = static_cast<int32_t*>(words.data()) + 1;  // refused beside this status
  check_options<minuet_pyramid_arguments>(given, MINUET_PYRAMID_ARGUMENTS_INIT,
                                          [&](const auto* arguments) { return pyramid.build(arguments); });
}

void check_run_arguments(Machine& machine, minuet_plan* network) {
  const SmallPyramid pyramid(machine, network);
  const minuet_pyramid_arguments built = pyramid.arguments();
  check(pyramid.build(&built));
  minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
  given.pyramid = pyramid.get();
  int64_t bytes = 0;
  check(minuet_plan_run_bytes(network, machine.arch().c_str(), &given, &bytes));
  const Buffer workspace(machine, bytes), input(machine, std::vector<float>(kCapacity * 4)),
      output(machine, kCapacity * 8 * 4);
  const minuet_array in = array_of(tensor(input, kCapacity, 4, DType::F32));
  const minuet_array out = array_of(tensor(output, kCapacity, 8, DType::F32));
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(network, machine.device(), nullptr, &made));
  const Handle<minuet_parameters> parameters(made, {minuet_parameters_destroy});
  given.buffer = pyramid.buffer().data(), given.buffer_bytes = pyramid.buffer().bytes();
  given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
  given.inputs = &in, given.outputs = &out;
  given.input_count = given.output_count = 1;
  given.parameters = made;  // refused, because they are not set
  check_options<minuet_run_arguments>(given, MINUET_RUN_ARGUMENTS_INIT, [&](const auto* arguments) {
    return minuet_plan_run(network, machine.device(), arguments, nullptr);
  });
}

}  // namespace minuet::abi
