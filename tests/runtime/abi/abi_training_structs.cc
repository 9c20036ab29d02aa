#include "tests/runtime/abi/abi_training_structs.h"

#include <optional>

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {
namespace {

constexpr const char* kTrainedBlock =
    R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 1}]})";
constexpr int64_t kTrainedRows = 2;
constexpr int32_t kTrainedParameters = 5;

/// A training plan of one block in fp32 on the CPU device, whose memory is the host's, with all that a step
/// takes.
class SmallTraining {
 public:
  SmallTraining(Machine& machine, const minuet_training_options* options) : machine_(machine) {
    NetworkSpec spec;
    spec.description = kTrainedBlock;
    spec.seed = 0;
    spec.without_values = true;
    check(create_network(machine, spec, network_));
    minuet_training* made = nullptr;
    check(minuet_training_create(machine.context(), network_.get(), options, &made));
    training_.reset(made);
    check(minuet_training_load(made, machine.device()));
    minuet_pyramid_options levels = MINUET_PYRAMID_OPTIONS_INIT;
    levels.level_capacity = &kTrainedRows;
    levels.level_count = 1;
    minuet_pyramid* pyramid = nullptr;
    check(minuet_training_create_pyramid(made, &levels, &pyramid));
    pyramid_.reset(pyramid);
    check(minuet_pyramid_load(pyramid, machine.device()));
    build();
    add_arrays();
  }

  minuet_training* get() const { return training_.get(); }
  minuet_pyramid* pyramid() const { return pyramid_.get(); }

  minuet_training_forward_arguments forward() const {
    minuet_training_forward_arguments given = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
    set(given);
    given.new_statistics = statistics_;
    given.batch_count = static_cast<const int64_t*>(count_.data());
    given.new_batch_count = static_cast<int64_t*>(new_count_.data());
    given.inputs = &input_, given.outputs = &output_, given.input_count = given.output_count = 1;
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    return given;
  }
  minuet_training_backward_arguments backward() const {
    minuet_training_backward_arguments given = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
    set(given);
    given.out_gradients = &input_of_backward_, given.out_gradient_count = 1;
    given.accumulate = 1;
    given.parameter_gradients = gradients_;
    given.input_gradients = &no_gradient_;
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    return given;
  }
  std::vector<float> numbers() const { return memory_.read<float>(); }

 private:
  /// The places of arrays in the memory, in floats.
  enum : int64_t { kInput = 0, kOutput = 64, kOutGradient = 128, kFirst = 192, kWritten = 192 + 5 * 64 };

  void build() {
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(pyramid_.get(), "cpu", &bytes, &workspace_bytes));
    buffer_.emplace(machine_, bytes);
    const Buffer workspace(machine_, workspace_bytes),
        coordinates(machine_, std::vector<int32_t>{0, 0, 0, 0, /**/ 0, 1, 0, 0});
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer_->data(), given.buffer_bytes = bytes;
    given.workspace = workspace.data(), given.workspace_bytes = workspace_bytes;
    given.coordinates = coordinates.integers(), given.most = kTrainedRows;
    check(minuet_pyramid_build(pyramid_.get(), machine_.device(), &given, nullptr));
    minuet_training_sizes sizes = MINUET_TRAINING_SIZES_INIT;
    check(minuet_training_bytes(training_.get(), "cpu", pyramid_.get(), &sizes));
    kept_.emplace(machine_, sizes.kept);
    workspace_.emplace(machine_, std::max(sizes.forward_workspace, sizes.backward_workspace));
  }
  minuet_array at(int64_t place, const std::vector<int64_t>& shape) const {
    return array_of(static_cast<float*>(memory_.data()) + place, shape, MINUET_ELEMENT_F32);
  }
  void add_arrays() {
    for (int32_t i = 0; i < kTrainedParameters; ++i) {
      const std::vector<int64_t> shape = i == 0 ? std::vector<int64_t>{1, 4, 8} : std::vector<int64_t>{8};
      parameters_[i] = at(kFirst + 64 * i, shape);
      (i < 3 ? gradients_ : statistics_)[i] = at(kWritten + 64 * i, shape);
    }
    input_ = at(kInput, {kTrainedRows, 4});
    output_ = at(kOutput, {kTrainedRows, 8});
    input_of_backward_ = at(kOutGradient, {kTrainedRows, 8});
  }
  template <class Given>
  void set(Given& given) const {
    given.pyramid = pyramid_.get();
    given.buffer = buffer_->data(), given.buffer_bytes = buffer_->bytes();
    given.parameters = parameters_, given.parameter_count = kTrainedParameters;
    given.weights_order = MINUET_WEIGHTS_MINUET;
    given.kept = kept_->data(), given.kept_bytes = kept_->bytes();
  }
  static std::vector<float> values() {
    std::vector<float> values;
    for (int64_t i = 0; i < kWritten + 5 * 64; ++i) values.push_back(static_cast<float>(i % 7) * 0.25f);
    return values;
  }

  Machine& machine_;
  Plan network_{nullptr, {minuet_plan_destroy}};
  Handle<minuet_training> training_{nullptr, {minuet_training_destroy}};
  Handle<minuet_pyramid> pyramid_{nullptr, {minuet_pyramid_destroy}};
  std::optional<Buffer> buffer_, kept_, workspace_;
  const Buffer memory_{machine_, values()};
  const Buffer count_{machine_, std::vector<int64_t>{3}}, new_count_{machine_, std::vector<int64_t>{0}};
  minuet_array parameters_[kTrainedParameters] = {}, gradients_[kTrainedParameters] = {},
               statistics_[kTrainedParameters] = {};
  minuet_array input_{}, output_{}, input_of_backward_{}, no_gradient_{};
};

}  // namespace

void check_training_options(Machine& machine) {
  NetworkSpec spec;
  spec.description = kTrainedBlock;
  Plan network{nullptr, {minuet_plan_destroy}};
  check(create_network(machine, spec, network));
  minuet_training_options given = MINUET_TRAINING_OPTIONS_INIT;
  given.input_gradients = 1;
  given.frozen_batch_norms = 2;  // refused
  given.momentum = 0.5f;
  given.is_cumulative = 1;
  given.recompute_blocks = 2;  // refused
  given.branches = 3;          // refused
  const char* const names[] = {"other"};
  given.recompute = names;
  given.recompute_count = 1;
  check_options<minuet_training_options>(given, MINUET_TRAINING_OPTIONS_INIT, [&](const auto* options) {
    minuet_training* made = nullptr;
    const minuet_status status = minuet_training_create(machine.context(), network.get(), options, &made);
    minuet_training_destroy(made);
    return status;
  });
}

void check_training_forward_arguments(Machine& machine) {
  const SmallTraining training(machine, nullptr);
  check_options<minuet_training_forward_arguments>(
      training.forward(), MINUET_TRAINING_FORWARD_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_training_forward(training.get(), machine.device(), arguments, nullptr);
      });
}

void check_training_backward_arguments(Machine& machine) {
  const SmallTraining training(machine, nullptr);
  const minuet_training_forward_arguments forward = training.forward();
  check(minuet_training_forward(training.get(), machine.device(), &forward, nullptr));
  check_options<minuet_training_backward_arguments>(
      training.backward(), MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT, [&](const auto* arguments) {
        return minuet_training_backward(training.get(), machine.device(), arguments, nullptr);
      });
}

void check_kept_info(Machine& machine) {
  const SmallTraining training(machine, nullptr);
  check_info<minuet_kept_info>(
      [&](auto* info) { return minuet_training_query_kept(training.get(), 0, info); });
}

void check_training_sizes(Machine& machine) {
  const SmallTraining training(machine, nullptr);
  check_info<minuet_training_sizes>(
      [&](auto* sizes) { return minuet_training_bytes(training.get(), "cpu", training.pyramid(), sizes); });
}

std::vector<float> step_with(Machine& machine, const minuet_training_options* options) {
  const SmallTraining training(machine, options);
  const minuet_training_forward_arguments forward = training.forward();
  check(minuet_training_forward(training.get(), machine.device(), &forward, nullptr));
  const minuet_training_backward_arguments backward = training.backward();
  check(minuet_training_backward(training.get(), machine.device(), &backward, nullptr));
  return training.numbers();
}

}  // namespace minuet::abi
