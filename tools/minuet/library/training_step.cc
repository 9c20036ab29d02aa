#include "tools/minuet/library/training_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {
namespace {

minuet_array array_of(void* data, const int64_t* shape, int32_t rank, minuet_element element) {
  minuet_array array = {};
  array.data = data;
  array.rank = rank;
  std::copy_n(shape, rank, array.shape);
  array.element = element;
  return array;
}

int64_t elements_of(const minuet_array& array) {
  return std::accumulate(array.shape, array.shape + array.rank, int64_t{1}, std::multiplies<>());
}

/// Returns numbers with which activations keep their size from layer to layer.
std::vector<float> draw(const minuet_parameter_info& info) {
  int64_t count = 1, inputs = 1;
  for (int32_t axis = 0; axis < info.rank; ++axis) count *= info.shape[axis];
  if (info.rank > 1) inputs = info.shape[0] * info.shape[1];
  const auto scale = static_cast<float>(2 / std::sqrt(static_cast<double>(inputs)));
  std::vector<float> values(static_cast<size_t>(count), 1.0f);
  if (info.rank == 1) return values;
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
  return values;
}

}  // namespace

TrainingStep::~TrainingStep() = default;

llvm::Expected<std::unique_ptr<TrainingStep>> TrainingStep::create(
    minuet_context* context, minuet_plan* network, minuet_device* device, const DeviceFacts& facts,
    minuet_dtype dtype, std::vector<int64_t> capacities, int64_t batch_size, int32_t branches) {
  std::unique_ptr<TrainingStep> step(new TrainingStep(device, facts, dtype, std::move(capacities)));
  MINUET_TRY(step->open(context, network, batch_size, branches));
  return step;
}

llvm::Error TrainingStep::open(minuet_context* context, minuet_plan* network, int64_t batch_size,
                               int32_t branches) {
  minuet_training_options options = MINUET_TRAINING_OPTIONS_INIT;
  options.branches = branches;
  minuet_training* made = nullptr;
  MINUET_TRY(check(minuet_training_create(context, network, &options, &made)));
  training_.reset(made);
  MINUET_TRY(check(minuet_training_load(made, device_)));
  MINUET_TRY(open_pyramid(batch_size));
  MINUET_TRY(add_parameters(network));
  MINUET_TRY(add_tensors(network, batch_size));
  MINUET_ASSIGN(void* const kept, allocate(sizes_.kept));
  MINUET_ASSIGN(void* const workspace,
                allocate(std::max(sizes_.forward_workspace, sizes_.backward_workspace)));
  const auto set = [&](auto& arguments, int64_t workspace_bytes) {
    arguments.pyramid = pyramid_.get();
    arguments.buffer = build_.buffer, arguments.buffer_bytes = build_.buffer_bytes;
    arguments.parameters = parameters_.data();
    arguments.parameter_count = static_cast<int32_t>(parameters_.size());
    arguments.weights_order = MINUET_WEIGHTS_MINUET;
    arguments.kept = kept, arguments.kept_bytes = sizes_.kept;
    arguments.workspace = workspace, arguments.workspace_bytes = workspace_bytes;
  };
  set(forward_, sizes_.forward_workspace);
  set(backward_, sizes_.backward_workspace);
  forward_.new_statistics = new_statistics_.data();
  forward_.inputs = inputs_.data(), forward_.outputs = outputs_.data();
  forward_.input_count = static_cast<int32_t>(inputs_.size());
  forward_.output_count = backward_.out_gradient_count = static_cast<int32_t>(outputs_.size());
  backward_.out_gradients = out_gradients_.data();
  backward_.parameter_gradients = gradients_.data();
  return llvm::Error::success();
}

llvm::Expected<void*> TrainingStep::allocate(int64_t bytes) {
  MINUET_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(device_, static_cast<size_t>(bytes)));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

llvm::Expected<void*> TrainingStep::upload(const void* data, size_t bytes) {
  MINUET_ASSIGN(DeviceBuffer buffer, DeviceBuffer::upload(device_, data, bytes));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

llvm::Error TrainingStep::open_pyramid(int64_t batch_size) {
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.level_capacity = capacities_.data();
  options.level_count = static_cast<int32_t>(capacities_.size());
  options.batch_size = batch_size;
  minuet_pyramid* made = nullptr;
  MINUET_TRY(check(minuet_training_create_pyramid(training_.get(), &options, &made)));
  pyramid_.reset(made);
  MINUET_TRY(check(minuet_pyramid_load(made, device_)));
  const std::string arch = facts_.is_cpu() ? "cpu" : facts_.arch;
  MINUET_TRY(check(minuet_pyramid_bytes(made, arch.c_str(), &build_.buffer_bytes, &build_.workspace_bytes)));
  MINUET_TRY(check(minuet_training_bytes(training_.get(), arch.c_str(), made, &sizes_)));
  MINUET_ASSIGN(build_.buffer, allocate(build_.buffer_bytes));
  MINUET_ASSIGN(build_.workspace, allocate(build_.workspace_bytes));
  constexpr int64_t kFields = 4;
  MINUET_ASSIGN(coordinates_, allocate(capacities_[0] * kFields * static_cast<int64_t>(sizeof(int32_t))));
  MINUET_ASSIGN(count_, allocate(sizeof(int32_t)));
  MINUET_ASSIGN(status_, allocate(sizeof(uint32_t)));
  build_.coordinates = static_cast<const int32_t*>(coordinates_);
  build_.most = capacities_[0];
  build_.count = static_cast<const int32_t*>(count_);
  build_.status = static_cast<uint32_t*>(status_);
  return llvm::Error::success();
}

llvm::Error TrainingStep::add_parameters(minuet_plan* network) {
  minuet_plan_info plan = {};
  plan.struct_size = sizeof(plan);
  MINUET_TRY(check(minuet_plan_query(network, &plan)));
  for (int32_t i = 0; i < plan.parameter_tensors; ++i) {
    minuet_parameter_info info = {};
    info.struct_size = sizeof(info);
    MINUET_TRY(check(minuet_plan_query_parameter(network, i, &info)));
    const std::vector<float> values = draw(info);
    const size_t bytes = values.size() * sizeof(float);
    MINUET_ASSIGN(void* const given, upload(values.data(), bytes));
    MINUET_ASSIGN(void* const written, allocate(static_cast<int64_t>(bytes)));
    parameters_.push_back(array_of(given, info.shape, info.rank, MINUET_ELEMENT_F32));
    const minuet_array array = array_of(written, info.shape, info.rank, MINUET_ELEMENT_F32), none = {};
    const std::string name = info.name;
    const bool is_statistic = name.ends_with(".running_mean") || name.ends_with(".running_var");
    new_statistics_.push_back(is_statistic ? array : none);
    gradients_.push_back(is_statistic ? none : array);
  }
  return llvm::Error::success();
}

llvm::Error TrainingStep::add_tensors(minuet_plan* network, int64_t batch_size) {
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> inputs, query_inputs(network));
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> outputs, query_outputs(network));
  const auto add = [&](const minuet_tensor_info& info,
                       std::vector<minuet_array>& list) -> llvm::Expected<void*> {
    minuet_array array = array_of(nullptr, info.shape, info.rank, info.element);
    // A dense tensor, and a level without axes, have a row for each batch item.
    array.shape[0] =
        info.rank > 2 || info.axes == 0 ? batch_size : capacities_[static_cast<size_t>(info.level)];
    const int64_t element =
        info.element == MINUET_ELEMENT_I32 ? static_cast<int64_t>(sizeof(int32_t)) : dtype_bytes(dtype_);
    MINUET_ASSIGN(array.data, allocate(elements_of(array) * element));
    list.push_back(array);
    return array.data;
  };
  for (const minuet_tensor_info& info : inputs) {
    MINUET_ASSIGN(features_, add(info, inputs_));
  }
  for (const minuet_tensor_info& info : outputs) {
    MINUET_TRY(add(info, outputs_).takeError());
    if (info.element == MINUET_ELEMENT_I32) {
      out_gradients_.push_back({});
      continue;
    }
    std::vector<char> ones(static_cast<size_t>(elements_of(outputs_.back())) * dtype_bytes(dtype_));
    // An element whose upper byte is 0x3c is 1 in fp16, and 2^-7 in the other types.
    const size_t step = dtype_bytes(dtype_);
    for (size_t i = step - 1; i < ones.size(); i += step) ones[i] = 0x3c;
    MINUET_ASSIGN(void* const data, upload(ones.data(), ones.size()));
    out_gradients_.push_back(outputs_.back());
    out_gradients_.back().data = data;
  }
  return llvm::Error::success();
}

llvm::Error TrainingStep::put(const VoxelCloud& cloud) {
  MINUET_ASSIGN(const std::vector<char> encoded, encode_features(cloud, dtype_));
  const auto rows = static_cast<size_t>(std::min(cloud.count(), capacities_[0]));
  const auto count = static_cast<int32_t>(cloud.count());
  const size_t row_bytes = static_cast<size_t>(inputs_[0].shape[1]) * dtype_bytes(dtype_);
  const auto copy = [&](void* target, const void* source, size_t bytes) {
    return bytes == 0 ? llvm::Error::success()
                      : check(minuet_device_copy(device_, target, source, static_cast<int64_t>(bytes), 0));
  };
  MINUET_TRY(copy(coordinates_, cloud.coordinates.data(), rows * (1 + cloud.ndim) * sizeof(int32_t)));
  MINUET_TRY(copy(features_, encoded.data(), rows * row_bytes));
  MINUET_TRY(copy(count_, &count, sizeof(count)));
  return check(minuet_device_synchronize(device_, nullptr));
}

llvm::Error TrainingStep::build(void* stream) {
  return check(minuet_pyramid_build(pyramid_.get(), device_, &build_, stream));
}
llvm::Error TrainingStep::forward(void* stream) {
  return check(minuet_training_forward(training_.get(), device_, &forward_, stream));
}
llvm::Error TrainingStep::backward(void* stream) {
  return check(minuet_training_backward(training_.get(), device_, &backward_, stream));
}

llvm::Error TrainingStep::replay() {
  if (!graph_) {
    MINUET_ASSIGN(graph_, CudaGraph::capture(facts_, [&](void* stream) -> llvm::Error {
                    MINUET_TRY(build(stream));
                    MINUET_TRY(forward(stream));
                    return backward(stream);
                  }));
  }
  return graph_->replay();
}

llvm::Expected<uint32_t> TrainingStep::status() const {
  uint32_t status = 0;
  MINUET_TRY(check(minuet_device_copy(device_, &status, status_, sizeof(status), 1)));
  return status;
}

}  // namespace minuet::tool
