// What tests of training plans share: a step of a network with all memory poisoned before each call, and its
// comparison with the step in float64.
#pragma once

#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "include/minuet/training.h"
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/training_oracle.h"

namespace minuet::abi {

using TrainingHandle = Handle<minuet_training>;

/// A network, and a cloud with features and gradients of the outputs.
struct TrainingCase {
  std::string description;
  std::vector<int32_t> coordinates;
  std::vector<std::vector<float>> inputs;  // [rows, channels] each, on level 0
  minuet_training_options options = MINUET_TRAINING_OPTIONS_INIT;
  Values parameters = {};
  std::vector<std::vector<float>> out_gradients = {};
  int64_t rows() const { return static_cast<int64_t>(coordinates.size()) / 4; }
};

/// What one step computes. Rows past the count are left out. Rows of coarser levels are in the set's order.
struct StepResult {
  std::vector<std::vector<char>> outputs, input_gradients;
  std::map<std::string, std::vector<float>> gradients, statistics;
  uint32_t status = 0;
  bool operator==(const StepResult&) const = default;
};

/// Runs steps of one case on pyramids of several capacities.
class TrainingRun {
 public:
  TrainingRun(Machine& machine, DType dtype, TrainingCase& test)
      : machine_(machine), dtype_(dtype), test_(test) {
    NetworkSpec spec;
    spec.description = test.description;
    spec.dtype = dtype;
    spec.seed = 0;
    spec.without_values = true;
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    check(create_network(machine, spec, network_));
    draw_parameters();
    minuet_training* made = nullptr;
    check(minuet_training_create(machine.context(), network_.get(), &test.options, &made));
    training_.reset(made);
    check(minuet_training_load(made, machine.device()));
  }

  minuet_plan* network() const { return network_.get(); }
  minuet_training* get() const { return training_.get(); }

  std::unique_ptr<TestPyramid> pyramid(int64_t capacity) const {
    const Capacities capacities(static_cast<size_t>(info_of(network_.get()).levels), capacity);
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    options.keep_coordinates = (1u << capacities.size()) - 1;
    minuet_pyramid* made = nullptr;
    check(minuet_training_create_pyramid(training_.get(), &options, &made));
    return std::make_unique<TestPyramid>(machine_, made);
  }
  minuet_training_sizes sizes(const TestPyramid& pyramid) const {
    minuet_training_sizes sizes = MINUET_TRAINING_SIZES_INIT;
    check(minuet_training_bytes(training_.get(), machine_.arch().c_str(), pyramid.get(), &sizes));
    return sizes;
  }

  /// A step on a cloud of at most `capacity` voxels. `count` is what the device says of the coordinates; -1:
  /// as many as there are. With `before`, gradients are added to these numbers.
  StepResult step(int64_t capacity, int32_t count = -1, float before = NAN,
                  minuet_weights_order order = MINUET_WEIGHTS_MINUET);

 private:
  struct Slot {
    Buffer buffer;
    int64_t rows = 0;
    int32_t channels = 0;
  };
  void draw_parameters();
  minuet_array rows_of(const Buffer& buffer, const minuet_tensor_info& info, int64_t capacity) const {
    return array_of(buffer.data(), {capacity, info.channels}, info.element);
  }
  /// The first `rows` rows of a buffer of `capacity` rows, of which the others must be zeros.
  std::vector<char> used(const Buffer& buffer, const minuet_tensor_info& info, int64_t capacity,
                         int64_t rows) const;

  Machine& machine_;
  const DType dtype_;
  TrainingCase& test_;
  Plan network_{nullptr, {minuet_plan_destroy}};
  TrainingHandle training_{nullptr, {minuet_training_destroy}};
};

inline void TrainingRun::draw_parameters() {
  if (!test_.parameters.empty()) return;
  for (int32_t i = 0; i < info_of(network_.get()).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(network_.get(), i, &info));
    const std::string name = info.name;
    FileTensor& tensor = test_.parameters[name];
    tensor.shape.assign(info.shape, info.shape + info.rank);
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    Random random(static_cast<uint64_t>(i) + 17);
    const bool is_matrix = info.rank == 3, is_variance = name.ends_with(".running_var");
    const double deviation = is_matrix ? std::sqrt(1.0 / static_cast<double>(4 * tensor.shape[1])) : 0.2;
    const double mean = is_matrix || name.ends_with(".bias") || name.ends_with("_mean") ? 0 : 1;
    for (int64_t j = 0; j < count; ++j) {
      const double value = mean + deviation * random.normal();
      tensor.values.push_back(static_cast<float>(is_variance ? std::abs(value) + 0.3 : value));
    }
  }
}

inline std::vector<char> TrainingRun::used(const Buffer& buffer, const minuet_tensor_info& info,
                                           int64_t capacity, int64_t rows) const {
  std::vector<char> bytes = buffer.read<char>();
  const auto width = bytes.size() / static_cast<size_t>(capacity);
  const auto first = static_cast<size_t>(rows) * width;
  for (size_t i = first; i < bytes.size(); ++i) {
    if (info.element != MINUET_ELEMENT_I32 && bytes[i] != 0) {
      ADD_FAILURE() << "row " << i / width << " past the count " << rows << " is not 0";
      break;
    }
  }
  bytes.resize(first);
  return bytes;
}

/// A weight in Minuet's order as spconv 2 has it, [out, kernel sizes, in], and back.
inline std::vector<float> reordered(const std::vector<float>& weight, const std::vector<int64_t>& shape,
                                    bool to_spconv) {
  std::vector<float> result(weight.size());
  for (int64_t k = 0; k < shape[0]; ++k) {
    for (int64_t i = 0; i < shape[1]; ++i) {
      for (int64_t o = 0; o < shape[2]; ++o) {
        const auto ours = static_cast<size_t>((k * shape[1] + i) * shape[2] + o);
        const auto theirs = static_cast<size_t>((o * shape[0] + k) * shape[1] + i);
        result[to_spconv ? theirs : ours] = weight[to_spconv ? ours : theirs];
      }
    }
  }
  return result;
}

inline StepResult TrainingRun::step(int64_t capacity, int32_t count, float before,
                                    minuet_weights_order order) {
  StepResult result;
  const bool is_spconv = order != MINUET_WEIGHTS_MINUET;
  const std::unique_ptr<TestPyramid> pyramid = this->pyramid(capacity);
  const minuet_training_sizes sizes = this->sizes(*pyramid);
  pyramid->buffer().poison(), pyramid->workspace().poison();
  std::vector<int32_t> coordinates = test_.coordinates;
  coordinates.resize(static_cast<size_t>(4 * std::max(capacity, test_.rows())));
  const int32_t said = count < 0 ? static_cast<int32_t>(test_.rows()) : count;
  const Buffer given(machine_, coordinates), given_count(machine_, std::vector<int32_t>{said});
  const int32_t levels = info_of(network_.get()).levels;
  const Buffer status(machine_, 4), counts(machine_, 4 * (1 + levels));
  minuet_pyramid_arguments build = pyramid->arguments(given.integers(), capacity, given_count.integers());
  build.status = static_cast<uint32_t*>(status.data());
  build.counts = static_cast<int32_t*>(counts.data());
  check(minuet_pyramid_build(pyramid->get(), machine_.device(), &build, nullptr));
  const std::vector<int32_t> rows = counts.read<int32_t>();
  result.status = status.read<uint32_t>()[0];

  std::deque<Buffer> buffers;
  std::vector<minuet_array> parameters, new_statistics, gradients, inputs, outputs, out_gradients,
      input_gradients;
  const auto& shapes = test_.parameters;
  std::vector<std::string> names;
  for (int32_t i = 0; i < info_of(network_.get()).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(network_.get(), i, &info));
    const FileTensor& tensor = shapes.at(info.name);
    names.emplace_back(info.name);
    std::vector<int64_t> shape(info.shape, info.shape + info.rank);
    std::vector<float> values = tensor.values;
    if (is_spconv && info.rank == 3) {
      values = reordered(values, shape, true);
      // The kernels of the case are cubes.
      const auto size = static_cast<int64_t>(std::lround(std::cbrt(static_cast<double>(shape[0]))));
      shape = {shape[2], size, size, size, shape[1]};
    }
    parameters.push_back(array_of(buffers.emplace_back(machine_, values).data(), shape, MINUET_ELEMENT_F32));
    const bool is_statistic = names.back().find(".running_") != std::string::npos;
    const std::vector<float> old(values.size(), before);
    const Buffer& buffer = buffers.emplace_back(machine_, old);
    const minuet_array array = array_of(buffer.data(), shape, MINUET_ELEMENT_F32);
    gradients.push_back(is_statistic ? minuet_array{} : array);
    new_statistics.push_back(is_statistic ? array : minuet_array{});
  }
  const auto widened = [&](const std::vector<float>& values, int32_t channels) {
    std::vector<char> bytes = encode(dtype_, values);
    // Rows past the count are not read, whatever they hold.
    bytes.resize(static_cast<size_t>(capacity * channels * dtype_bytes(dtype_)), static_cast<char>(0xff));
    return bytes;
  };
  const minuet_plan_info info = info_of(network_.get());
  for (int32_t i = 0; i < info.inputs; ++i) {
    const minuet_tensor_info input = input_of(network_.get(), i);
    inputs.push_back(
        rows_of(buffers.emplace_back(machine_, widened(test_.inputs[static_cast<size_t>(i)], input.channels)),
                input, capacity));
    const bool wants = (test_.options.input_gradients >> i & 1) != 0;
    Buffer& gradient = buffers.emplace_back(machine_, capacity * input.channels * dtype_bytes(dtype_));
    input_gradients.push_back(wants ? rows_of(gradient, input, capacity) : minuet_array{});
  }
  std::vector<const Buffer*> written;
  for (int32_t i = 0; i < info.outputs; ++i) {
    const minuet_tensor_info output = output_of(network_.get(), i);
    const int64_t element = output.element == MINUET_ELEMENT_I32 ? 4 : dtype_bytes(dtype_);
    written.push_back(&buffers.emplace_back(machine_, capacity * output.channels * element));
    outputs.push_back(rows_of(*written.back(), output, capacity));
    const std::vector<float>& gradient = test_.out_gradients[static_cast<size_t>(i)];
    out_gradients.push_back(
        gradient.empty()
            ? minuet_array{}
            : rows_of(buffers.emplace_back(machine_, widened(gradient, output.channels)), output, capacity));
  }
  const Buffer kept(machine_, std::max<int64_t>(sizes.kept, 1));
  const Buffer forward_workspace(machine_, sizes.forward_workspace);
  const Buffer backward_workspace(machine_, sizes.backward_workspace);

  minuet_training_forward_arguments forward = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
  forward.pyramid = pyramid->get();
  forward.buffer = pyramid->buffer().data(), forward.buffer_bytes = pyramid->buffer().bytes();
  forward.parameters = parameters.data();
  forward.parameter_count = static_cast<int32_t>(parameters.size());
  forward.weights_order = order;
  if (test_.options.frozen_batch_norms == 0) forward.new_statistics = new_statistics.data();
  forward.inputs = inputs.data(), forward.outputs = outputs.data();
  forward.input_count = info.inputs, forward.output_count = info.outputs;
  forward.kept = kept.data(), forward.kept_bytes = kept.bytes();
  forward.workspace = forward_workspace.data(), forward.workspace_bytes = forward_workspace.bytes();
  check(minuet_training_forward(training_.get(), machine_.device(), &forward, nullptr));

  minuet_training_backward_arguments backward = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
  backward.pyramid = pyramid->get();
  backward.buffer = forward.buffer, backward.buffer_bytes = forward.buffer_bytes;
  backward.parameters = parameters.data(), backward.parameter_count = forward.parameter_count;
  backward.weights_order = order;
  backward.out_gradients = out_gradients.data(), backward.out_gradient_count = info.outputs;
  backward.accumulate = std::isnan(before) ? 0 : 1;
  backward.parameter_gradients = gradients.data();
  backward.input_gradients = input_gradients.data();
  backward.kept = kept.data(), backward.kept_bytes = kept.bytes();
  backward.workspace = backward_workspace.data(), backward.workspace_bytes = backward_workspace.bytes();
  check(minuet_training_backward(training_.get(), machine_.device(), &backward, nullptr));
  check(minuet_device_synchronize(machine_.device(), nullptr));

  const auto read_array = [&](const minuet_array& array, const std::vector<int64_t>& shape) {
    std::vector<float> values(numbers_of(array));
    check(minuet_device_copy(machine_.device(), values.data(), array.data,
                             static_cast<int64_t>(values.size() * sizeof(float)), 1));
    return is_spconv && shape.size() == 3 ? reordered(values, shape, false) : values;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<int64_t>& shape = shapes.at(names[i]).shape;
    if (gradients[i].data) {
      result.gradients[names[i]] = read_array(gradients[i], shape);
    } else if (forward.new_statistics) {
      result.statistics[names[i]] = read_array(new_statistics[i], shape);
    }
  }
  for (int32_t i = 0; i < info.outputs; ++i) {
    const minuet_tensor_info output = output_of(network_.get(), i);
    const int32_t in_use = output.level == 0 ? rows[0] : rows[static_cast<size_t>(1 + output.level)];
    result.outputs.push_back(used(*written[static_cast<size_t>(i)], output, capacity, in_use));
  }
  for (int32_t i = 0; i < info.inputs; ++i) {
    const minuet_array& array = input_gradients[static_cast<size_t>(i)];
    if (!array.data) continue;
    for (const Buffer& buffer : buffers) {
      if (buffer.data() == array.data) {
        result.input_gradients.push_back(
            used(buffer, input_of(network_.get(), i), capacity, result.status == 0 ? rows[0] : 0));
      }
    }
  }
  return result;
}

}  // namespace minuet::abi
