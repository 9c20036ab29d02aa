// What tests of training plans share: steps of a network with all memory poisoned before each call, and their
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
  // Of outputs on coarser levels, rows are in ascending order of the coordinates. Empty ones are left out.
  std::vector<std::vector<float>> out_gradients = {};
  int64_t rows() const { return static_cast<int64_t>(coordinates.size()) / 4; }
};

/// What a step computes. Rows past the count are left out. Rows of coarser levels are in ascending order of
/// their coordinates.
struct StepResult {
  std::vector<std::vector<char>> outputs, input_gradients;
  std::map<std::string, std::vector<float>> gradients, statistics;
  uint32_t status = 0;
  bool operator==(const StepResult&) const = default;
};

/// Says how the memory of a step is.
struct StepOptions {
  int64_t capacity = 0;  // of each level
  int32_t count = -1;    // what the device says of the coordinates; -1: as many as there are
  float before = NAN;    // what the gradients of parameters hold before the call, to which they are added
  minuet_weights_order order = MINUET_WEIGHTS_MINUET;
  bool shifts_vectors = false;  // Vectors of parameters begin 4 bytes behind an aligned address.
};

/// A training plan, with parameters drawn at random where the case has none.
class TrainingRun {
 public:
  TrainingRun(Machine& machine, DType dtype, TrainingCase& test);
  Machine& machine() const { return machine_; }
  DType dtype() const { return dtype_; }
  const TrainingCase& test() const { return test_; }
  minuet_plan* network() const { return network_.get(); }
  minuet_training* get() const { return training_.get(); }
  const std::vector<std::string>& names() const { return names_; }

  std::unique_ptr<TestPyramid> pyramid(int64_t capacity) const;
  minuet_training_sizes sizes(const TestPyramid& pyramid) const {
    minuet_training_sizes sizes = MINUET_TRAINING_SIZES_INIT;
    check(minuet_training_bytes(training_.get(), machine_.arch().c_str(), pyramid.get(), &sizes));
    return sizes;
  }
  StepResult step(const StepOptions& options) const;

 private:
  Machine& machine_;
  const DType dtype_;
  TrainingCase& test_;
  Plan network_{nullptr, {minuet_plan_destroy}};
  TrainingHandle training_{nullptr, {minuet_training_destroy}};
  std::vector<std::string> names_;
};

/// The memory of one step, of exactly the sizes that the library tells.
class StepRoom {
 public:
  StepRoom(const TrainingRun& run, const StepOptions& options);

  void build();
  void enqueue_build(void* stream);
  minuet_status forward_on(void* stream = nullptr) {
    return minuet_training_forward(run_.get(), run_.machine().device(), &forward, stream);
  }
  minuet_status backward_on(void* stream = nullptr) {
    return minuet_training_backward(run_.get(), run_.machine().device(), &backward, stream);
  }
  /// Poisons all that the calls write.
  void poison();
  StepResult read() const;
  TestPyramid& pyramid() { return *pyramid_; }

  minuet_training_forward_arguments forward = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
  minuet_training_backward_arguments backward = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
  std::vector<minuet_array> parameters, new_statistics, gradients;
  std::vector<minuet_array> inputs, outputs, out_gradients, input_gradients;

 private:
  void add_parameters();
  void add_tensors();
  Buffer& written(int64_t bytes) {
    written_.push_back(&buffers_.emplace_back(run_.machine(), bytes));
    return *written_.back();
  }
  Buffer& features(const std::vector<float>& values, int32_t channels);
  minuet_array rows_of(const Buffer& buffer, const minuet_tensor_info& info) const {
    return array_of(buffer.data(), {options_.capacity, info.channels}, info.element);
  }
  std::vector<char> used(const minuet_array& array, int64_t rows) const;
  std::vector<int32_t> level_rows(int32_t level) const;

  const TrainingRun& run_;
  const StepOptions options_;
  std::unique_ptr<TestPyramid> pyramid_;
  std::deque<Buffer> buffers_;
  std::vector<Buffer*> written_;
  std::optional<Buffer> coordinates_, count_, status_, counts_;
};

inline TrainingRun::TrainingRun(Machine& machine, DType dtype, TrainingCase& test)
    : machine_(machine), dtype_(dtype), test_(test) {
  NetworkSpec spec;
  spec.description = test.description;
  spec.dtype = dtype;
  spec.seed = 0;
  spec.without_values = true;
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  check(create_network(machine, spec, network_));
  const bool draws = test.parameters.empty();
  for (int32_t i = 0; i < info_of(network_.get()).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(network_.get(), i, &info));
    const std::string& name = names_.emplace_back(info.name);
    if (!draws) continue;
    FileTensor& tensor = test.parameters[name];
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
  minuet_training* made = nullptr;
  check(minuet_training_create(machine.context(), network_.get(), &test.options, &made));
  training_.reset(made);
  check(minuet_training_load(made, machine.device()));
}

inline std::unique_ptr<TestPyramid> TrainingRun::pyramid(int64_t capacity) const {
  const Capacities capacities(static_cast<size_t>(info_of(network_.get()).levels), capacity);
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_count = static_cast<int32_t>(capacities.size());
  options.keep_coordinates = (1u << capacities.size()) - 1;
  minuet_pyramid* made = nullptr;
  check(minuet_training_create_pyramid(training_.get(), &options, &made));
  return std::make_unique<TestPyramid>(machine_, made);
}

inline StepResult TrainingRun::step(const StepOptions& options) const {
  StepRoom room(*this, options);
  room.build();
  check(room.forward_on());
  check(room.backward_on());
  return room.read();
}

/// A weight in Minuet's order as spconv 2 has it, [out, kernel sizes, in], and back. The memory of a kernel
/// of one offset is the same in both.
inline std::vector<float> reordered(const std::vector<float>& weight, const std::vector<int64_t>& shape,
                                    bool to_spconv) {
  if (shape[0] == 1) return weight;
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

inline StepRoom::StepRoom(const TrainingRun& run, const StepOptions& options) : run_(run), options_(options) {
  Machine& machine = run.machine();
  pyramid_ = run.pyramid(options.capacity);
  std::vector<int32_t> coordinates = run.test().coordinates;
  coordinates.resize(static_cast<size_t>(4 * std::max(options.capacity, run.test().rows())));
  const auto said = options.count < 0 ? static_cast<int32_t>(run.test().rows()) : options.count;
  coordinates_.emplace(machine, coordinates);
  count_.emplace(machine, std::vector<int32_t>{said});
  status_.emplace(machine, 4);
  counts_.emplace(machine, int64_t{4} * (1 + info_of(run.network()).levels));
  add_parameters();
  add_tensors();
  const minuet_training_sizes sizes = run.sizes(*pyramid_);
  const Buffer& kept = written(std::max<int64_t>(sizes.kept, 1));
  const Buffer &workspace = written(sizes.forward_workspace),
               &backward_workspace = written(sizes.backward_workspace);
  const auto set = [&](auto& given) {
    given.pyramid = pyramid_->get();
    given.buffer = pyramid_->buffer().data(), given.buffer_bytes = pyramid_->buffer().bytes();
    given.parameters = parameters.data();
    given.parameter_count = static_cast<int32_t>(parameters.size());
    given.weights_order = options_.order;
    given.kept = kept.data(), given.kept_bytes = kept.bytes();
  };
  set(forward), set(backward);
  if (run.test().options.frozen_batch_norms == 0) forward.new_statistics = new_statistics.data();
  forward.inputs = inputs.data(), forward.input_count = static_cast<int32_t>(inputs.size());
  forward.outputs = outputs.data(), forward.output_count = static_cast<int32_t>(outputs.size());
  forward.workspace = workspace.data(), forward.workspace_bytes = workspace.bytes();
  backward.out_gradients = out_gradients.data(), backward.out_gradient_count = forward.output_count;
  backward.accumulate = std::isnan(options.before) ? 0 : 1;
  backward.parameter_gradients = gradients.data(), backward.input_gradients = input_gradients.data();
  backward.workspace = backward_workspace.data();
  backward.workspace_bytes = backward_workspace.bytes();
}

inline void StepRoom::add_parameters() {
  for (const std::string& name : run_.names()) {
    const FileTensor& tensor = run_.test().parameters.at(name);
    std::vector<int64_t> shape = tensor.shape;
    std::vector<float> values = tensor.values;
    if (options_.order != MINUET_WEIGHTS_MINUET && shape.size() == 3) {
      values = reordered(values, shape, /*to_spconv=*/true);
      // The kernels of the case are cubes.
      const auto size = static_cast<int64_t>(std::lround(std::cbrt(static_cast<double>(shape[0]))));
      shape = {shape[2], size, size, size, shape[1]};
    }
    const bool shifts = options_.shifts_vectors && shape.size() == 1;
    std::vector<float> in_memory = values;
    if (shifts) in_memory.insert(in_memory.begin(), NAN);
    const Buffer& given = buffers_.emplace_back(run_.machine(), in_memory);
    float* const first = static_cast<float*>(given.data()) + (shifts ? 1 : 0);
    parameters.push_back(array_of(first, shape, MINUET_ELEMENT_F32));
    const Buffer& buffer =
        buffers_.emplace_back(run_.machine(), std::vector<float>(values.size(), options_.before));
    const minuet_array array = array_of(buffer.data(), shape, MINUET_ELEMENT_F32);
    const bool is_statistic = name.find(".running_") != std::string::npos;
    gradients.push_back(is_statistic ? minuet_array{} : array);
    new_statistics.push_back(is_statistic ? array : minuet_array{});
  }
}

/// Rows past those of the values are poison: no call may read them.
inline Buffer& StepRoom::features(const std::vector<float>& values, int32_t channels) {
  std::vector<char> bytes = encode(run_.dtype(), values);
  const int64_t row_bytes = channels * dtype_bytes(run_.dtype());
  bytes.resize(static_cast<size_t>(options_.capacity * row_bytes), static_cast<char>(0xff));
  return buffers_.emplace_back(run_.machine(), bytes);
}

inline void StepRoom::add_tensors() {
  const minuet_plan_info info = info_of(run_.network());
  const int64_t element = dtype_bytes(run_.dtype());
  for (int32_t i = 0; i < info.inputs; ++i) {
    const minuet_tensor_info input = input_of(run_.network(), i);
    inputs.push_back(rows_of(features(run_.test().inputs[static_cast<size_t>(i)], input.channels), input));
    const bool wants = (run_.test().options.input_gradients >> i & 1) != 0;
    input_gradients.push_back(wants ? rows_of(written(options_.capacity * input.channels * element), input)
                                    : minuet_array{});
  }
  for (int32_t i = 0; i < info.outputs; ++i) {
    const minuet_tensor_info output = output_of(run_.network(), i);
    const bool is_integer = output.element == MINUET_ELEMENT_I32;
    outputs.push_back(
        rows_of(written(options_.capacity * output.channels * (is_integer ? 4 : element)), output));
    const std::vector<float>& gradient = run_.test().out_gradients[static_cast<size_t>(i)];
    out_gradients.push_back(gradient.empty() ? minuet_array{}
                                             : rows_of(features(gradient, output.channels), output));
  }
}

inline void StepRoom::enqueue_build(void* stream) {
  minuet_pyramid_arguments given =
      pyramid_->arguments(coordinates_->integers(), options_.capacity, count_->integers());
  given.status = static_cast<uint32_t*>(status_->data());
  given.counts = static_cast<int32_t*>(counts_->data());
  check(minuet_pyramid_build(pyramid_->get(), run_.machine().device(), &given, stream));
}

/// Also brings the gradients of outputs on coarser levels into the order of their sets.
inline void StepRoom::build() {
  pyramid_->buffer().poison(), pyramid_->workspace().poison();
  enqueue_build(nullptr);
  for (size_t i = 0; i < out_gradients.size(); ++i) {
    const minuet_tensor_info output = output_of(run_.network(), static_cast<int32_t>(i));
    if (output.level == 0 || !out_gradients[i].data) continue;
    const std::vector<float>& gradient = run_.test().out_gradients[i];
    const std::vector<char> rows =
        encode(run_.dtype(), take_rows(gradient, inverse(level_rows(output.level))));
    check(minuet_device_copy(run_.machine().device(), out_gradients[i].data, rows.data(),
                             static_cast<int64_t>(rows.size()), 0));
  }
}

/// The rows of a coarser level in ascending order of their coordinates.
inline std::vector<int32_t> StepRoom::level_rows(int32_t level) const {
  const Buffer buffer(run_.machine(), options_.capacity * 16);
  check(minuet_pyramid_coordinates(pyramid_->get(), run_.machine().device(), pyramid_->buffer().data(),
                                   pyramid_->buffer().bytes(), level, static_cast<int32_t*>(buffer.data()),
                                   nullptr));
  std::vector<int32_t> coordinates = buffer.read<int32_t>();
  coordinates.resize(static_cast<size_t>(4 * counts_->read<int32_t>()[static_cast<size_t>(1 + level)]));
  return ascending_rows(coordinates, 3);
}

inline void StepRoom::poison() {
  for (Buffer* const buffer : written_) buffer->poison();
  check(minuet_device_synchronize(run_.machine().device(), nullptr));
}

/// The first `rows` rows of an array, of which the others must be zeros.
inline std::vector<char> StepRoom::used(const minuet_array& array, int64_t rows) const {
  const int64_t element = array.element == MINUET_ELEMENT_I32 ? 4 : dtype_bytes(run_.dtype());
  const auto width = static_cast<size_t>(array.shape[1] * element);
  std::vector<char> bytes(static_cast<size_t>(options_.capacity) * width);
  check(minuet_device_copy(run_.machine().device(), bytes.data(), array.data,
                           static_cast<int64_t>(bytes.size()), 1));
  const auto first = static_cast<size_t>(rows) * width;
  const char padding = array.element == MINUET_ELEMENT_I32 ? static_cast<char>(0xff) : 0;
  for (size_t i = first; i < bytes.size(); ++i) {
    if (bytes[i] == padding) continue;
    ADD_FAILURE() << "row " << i / width << " past the count " << rows << " is not padding";
    break;
  }
  bytes.resize(first);
  return bytes;
}

inline StepResult StepRoom::read() const {
  check(minuet_device_synchronize(run_.machine().device(), nullptr));
  StepResult result;
  result.status = status_->read<uint32_t>()[0];
  const std::vector<int32_t> counts = counts_->read<int32_t>();
  const auto rows_on = [&](int32_t level) {
    return result.status != 0 ? 0 : level == 0 ? counts[0] : counts[static_cast<size_t>(1 + level)];
  };
  const auto numbers = [&](const minuet_array& array, const std::vector<int64_t>& shape) {
    std::vector<float> values(numbers_of(array));
    check(minuet_device_copy(run_.machine().device(), values.data(), array.data,
                             static_cast<int64_t>(values.size() * sizeof(float)), 1));
    const bool is_other = options_.order != MINUET_WEIGHTS_MINUET && shape.size() == 3;
    return is_other ? reordered(values, shape, /*to_spconv=*/false) : values;
  };
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = run_.names()[i];
    const std::vector<int64_t>& shape = run_.test().parameters.at(name).shape;
    if (gradients[i].data) result.gradients[name] = numbers(gradients[i], shape);
    if (new_statistics[i].data && forward.new_statistics) {
      result.statistics[name] = numbers(new_statistics[i], shape);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t level = output_of(run_.network(), static_cast<int32_t>(i)).level;
    std::vector<char> rows = used(outputs[i], rows_on(level));
    const bool is_coarser = level != 0 && result.status == 0;
    result.outputs.push_back(is_coarser ? take_rows(rows, level_rows(level)) : rows);
  }
  for (const minuet_array& array : input_gradients) {
    if (array.data) result.input_gradients.push_back(used(array, rows_on(0)));
  }
  return result;
}

}  // namespace minuet::abi
