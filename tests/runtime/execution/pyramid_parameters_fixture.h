// A pyramid of the network of ParametersTest, with all memory of a run on it.
#pragma once

#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/runtime/execution/pyramid_fixture.h"

namespace minuet::abi {

class PyramidParametersTest : public ParametersTest {
 protected:
  void SetUp() override {
    ParametersTest::SetUp();
    if (IsSkipped()) return;
    cloud_.emplace(scene(200));
    capacities_ = suggested(*cloud_);
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = network_.get();
    options.level_capacity = capacities_.data();
    options.level_count = kLevels;
    pyramid_.emplace(machine(), options);
    room_.emplace(machine(), capacities_[0], dtype());
    room_->fill(*cloud_);
    input_ = array_of(features_of(room_->features.data(), capacities_[0]));
    output_ = array_of(tensor(room_->output.data(), capacities_[0], kWidths.back(), abi_dtype(dtype())));
    pyramid_->build(cloud_->coordinates);
    workspace_.emplace(machine(), run_bytes(machine(), network_.get(), pyramid_->run_arguments()));
  }

  minuet_run_arguments arguments(const minuet_parameters* parameters) {
    minuet_run_arguments given = pyramid_->run_arguments();
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    given.inputs = &input_, given.outputs = &output_, given.input_count = given.output_count = 1;
    given.parameters = const_cast<minuet_parameters*>(parameters);
    return given;
  }
  std::vector<char> run_with(minuet_plan* plan, const minuet_parameters* parameters) {
    room_->output.poison();
    const minuet_run_arguments given = arguments(parameters);
    check(minuet_plan_run(plan, machine().device(), &given, nullptr));
    return room_->output.read<char>();
  }

  std::optional<Cloud> cloud_;
  Capacities capacities_;
  std::optional<TestPyramid> pyramid_;
  std::optional<Room> room_;
  std::optional<Buffer> workspace_;
  minuet_array input_{}, output_{};
};

}  // namespace minuet::abi
