#include "tests/support/by_hand.h"

#include <cmath>

namespace minuet::abi {
namespace {

constexpr int kLevels = 5;
// Where the maps lie: of 27 offsets and of one onto the same level, down from it, and up to it.
size_t threes(int level) { return static_cast<size_t>(level); }
size_t ones(int level) { return static_cast<size_t>(kLevels + level); }
size_t downs(int level) { return static_cast<size_t>(2 * kLevels + level); }
size_t ups(int level) { return static_cast<size_t>(3 * kLevels - 1 + level); }

std::string numbered(const char* part, int i, const char* rest) {
  return std::string(part) + "." + std::to_string(i) + "." + rest;
}

minuet_convolution_options convolution(int32_t kernel, int32_t stride) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  std::fill_n(options.kernel_size, 3, kernel);
  std::fill_n(options.stride, 3, stride);
  options.submanifold = stride == 1;
  options.activation = MINUET_ACTIVATION_RELU;
  return options;
}

}  // namespace

Queue make_queue(Machine& machine, void* stream) {
  minuet_queue* queue = nullptr;
  check(minuet_queue_create(machine.device(), stream, &queue));
  return {queue, {minuet_queue_destroy}};
}

ByHand::ByHand(Machine& machine, DType dtype, const std::vector<int32_t>& widths,
               const std::map<std::string, FileTensor>& tensors, minuet_queue* queue, void* stream,
               Plans plans, minuet_dataflow dataflow)
    : machine_(machine),
      dtype_(dtype),
      dataflow_(dataflow),
      tensors_(tensors),
      queue_(queue),
      stream_(stream),
      plans_(std::move(plans)) {
  const std::vector<int32_t>& c = widths;
  // A skip's level has one matrix for what comes up beside it: [up, skip].
  std::vector<Tensor> both, skips, ups;
  for (int level = 0; level < kLevels - 1; ++level) {
    const int up = c[8 - level], skip = c[level];
    both.push_back(add_tensor(level, up + skip));
    ups.push_back({both.back().matrix, 0, up});
    skips.push_back({both.back().matrix, up, skip});
  }
  skips.push_back(add_tensor(kLevels - 1, c[kLevels - 1]));
  Tensor x = submanifold("stem.0", add_tensor(0, 4), add_tensor(0, c[0]));
  x = submanifold("stem.1", x, skips[0]);
  for (int i = 0; i < 4; ++i) {
    x = down(numbered("encoder", i, "down"), x, add_tensor(i + 1, c[i]));
    x = residual(numbered("encoder", i, "residual.0"), x, add_tensor(i + 1, c[i + 1]));
    x = residual(numbered("encoder", i, "residual.1"), x, skips[i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    const int level = 3 - i;
    up(numbered("decoder", i, "up"), x, ups[level]);
    x = residual(numbered("decoder", i, "residual.0"), both[level], add_tensor(level, c[i + 5]));
    x = residual(numbered("decoder", i, "residual.1"), x, add_tensor(level, c[i + 5]));
  }
}

ByHand::Tensor ByHand::add_tensor(int level, int channels) {
  matrices_.push_back({level, channels, 0, nullptr});
  return {matrices_.size() - 1, 0, channels};
}

void ByHand::add_layer(const std::string& convolution, const std::string& batch_norm,
                       minuet_convolution_options options, size_t map, const Tensor& input,
                       const Tensor& output, const Tensor* residual) {
  if (layers_.size() == plans_.size())
    plans_.push_back(make_plan(convolution, batch_norm, options, input, output, residual != nullptr));
  minuet_execution_options execution_options = MINUET_EXECUTION_OPTIONS_INIT;
  execution_options.queue = queue_;
  minuet_execution* execution = nullptr;
  check(minuet_execution_create(plans_[layers_.size()].get(), machine_.device(), &execution_options,
                                &execution));
  Layer layer;
  layer.execution.reset(execution);
  layer.map = map;
  layer.input = input;
  layer.output = output;
  layer.has_residual = residual != nullptr;
  if (residual) layer.residual = *residual;
  layers_.push_back(std::move(layer));
}

std::shared_ptr<minuet_plan> ByHand::make_plan(const std::string& convolution, const std::string& batch_norm,
                                               minuet_convolution_options options, const Tensor& input,
                                               const Tensor& output, bool has_residual) const {
  std::vector<float> scale, shift;
  for (int channel = 0; channel < output.channels; ++channel) {
    const auto of = [&](const char* part) { return values(batch_norm + part)[channel]; };
    const double factor = of(".weight") / std::sqrt(static_cast<double>(of(".running_var")) + 1e-5);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(of(".bias") - of(".running_mean") * factor));
  }
  options.dtype = abi_dtype(dtype_);
  options.dataflow = dataflow_;
  options.in_channels = input.channels;
  options.out_channels = output.channels;
  const std::vector<float>& weight = values(convolution + ".weight");
  options.weight = weight.data();
  options.weight_count = static_cast<int64_t>(weight.size());
  options.scale = scale.data();
  options.shift = shift.data();
  options.scale_count = options.shift_count = output.channels;
  options.residual = has_residual;
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_convolution(machine_.context(), &options, &plan));
  std::shared_ptr<minuet_plan> made(plan, minuet_plan_destroy);
  check(minuet_plan_compile(plan, machine_.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(plan, machine_.device()));
  return made;
}

ByHand::Tensor ByHand::submanifold(const std::string& name, const Tensor& input, const Tensor& output) {
  add_layer(name + ".conv", name + ".bn", convolution(3, 1), threes(level_of(input)), input, output);
  return output;
}

ByHand::Tensor ByHand::down(const std::string& name, const Tensor& input, const Tensor& output) {
  add_layer(name + ".conv", name + ".bn", convolution(2, 2), downs(level_of(input)), input, output);
  return output;
}

void ByHand::up(const std::string& name, const Tensor& input, const Tensor& output) {
  minuet_convolution_options options = convolution(2, 2);
  options.transposed = 1;
  add_layer(name + ".conv", name + ".bn", options, ups(level_of(output)), input, output);
}

ByHand::Tensor ByHand::residual(const std::string& name, const Tensor& input, const Tensor& output) {
  const int level = level_of(input);
  const Tensor middle = add_tensor(level, output.channels);
  add_layer(name + ".conv1", name + ".bn1", convolution(3, 1), threes(level), input, middle);
  Tensor shortcut = input;
  if (input.channels != output.channels) {
    shortcut = add_tensor(level, output.channels);
    minuet_convolution_options options = convolution(1, 1);
    options.activation = MINUET_ACTIVATION_NONE;
    add_layer(name + ".shortcut.conv", name + ".shortcut.bn", options, ones(level), input, shortcut);
  }
  add_layer(name + ".conv2", name + ".bn2", convolution(3, 1), threes(level), middle, output, &shortcut);
  return output;
}

void ByHand::make_level(int level, const int32_t* coordinates, int64_t count) {
  minuet_coordinates* set = nullptr;
  if (level == 0) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue_;
    check(minuet_coordinates_create(machine_.device(), &options, coordinates, count, stream_, &set));
  } else {
    const int32_t two[MINUET_MAX_DIM] = {2, 2, 2, 1};
    check(minuet_coordinates_downsample(sets_.back().get(), two, stream_, &set));
  }
  sets_.emplace_back(set, Destroy<minuet_coordinates>{minuet_coordinates_destroy});
}

/// Of a level onto itself, and of the finer one to it and back.
void ByHand::make_maps(int level) {
  const auto keep = [&](size_t place, minuet_kernel_map* map) {
    maps_[place] = KernelMap(map, {minuet_kernel_map_destroy});
  };
  const auto make = [&](size_t place, int from, int32_t kernel) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(options.kernel_size, 3, kernel);
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(sets_[from].get(), sets_[level].get(), &options, stream_, &map));
    keep(place, map);
  };
  make(threes(level), level, 3);
  make(ones(level), level, 1);
  if (level == 0) return;
  make(downs(level - 1), level - 1, 2);
  minuet_kernel_map* map = nullptr;
  check(minuet_kernel_map_transpose(maps_[downs(level - 1)].get(), &map));
  keep(ups(level - 1), map);
}

void ByHand::make_geometry(const int32_t* coordinates, int64_t count) {
  maps_.clear();
  sets_.clear();
  maps_.resize(ups(kLevels - 1));
  // Of a queue all coarser sets are on their way before the first of them is waited for.
  for (int level = 0; level < kLevels; ++level) make_level(level, coordinates, count);
  for (int level = 0; level < kLevels; ++level) make_maps(level);
  for (Matrix& matrix : matrices_) {
    matrix.rows = minuet_coordinates_rows(sets_[matrix.level].get());
    const int64_t bytes = matrix.rows * matrix.channels * dtype_bytes(dtype_);
    if (!matrix.memory || matrix.memory->bytes() < bytes) {
      matrix.memory = std::make_unique<Buffer>(machine_, bytes + bytes / 4);
    }
  }
}

void ByHand::prepare(const int32_t* coordinates, int64_t count) {
  make_geometry(coordinates, count);
  if (!queue_) {
    for (size_t layer = 0; layer < layers_.size(); ++layer) check(prepare_layer(layer));
    return;
  }
  std::vector<minuet_execution*> executions;
  std::vector<minuet_kernel_map*> maps;
  for (const Layer& layer : layers_) {
    executions.push_back(layer.execution.get());
    maps.push_back(maps_[layer.map].get());
  }
  check(minuet_executions_prepare_maps(executions.data(), maps.data(),
                                       static_cast<int32_t>(executions.size()), stream_));
}

minuet_status ByHand::prepare_layer(size_t layer) {
  return prepare_map(layers_[layer].execution.get(), maps_[layers_[layer].map].get(), stream_);
}

void ByHand::infer(const int32_t* coordinates, int64_t count, void* features, void* output) {
  prepare(coordinates, count);
  run(features, output);
}

minuet_tensor ByHand::view(const Tensor& place) const {
  const Matrix& matrix = matrices_[place.matrix];
  char* const data = static_cast<char*>(matrix.memory->data()) + place.column * dtype_bytes(dtype_);
  return tensor(data, matrix.rows, place.channels, abi_dtype(dtype_), matrix.channels);
}

void ByHand::run_layer(Layer& layer, void* features, void* output) {
  minuet_tensor inputs[] = {view(layer.input), minuet_tensor{}}, result = view(layer.output);
  if (&layer == &layers_.front()) inputs[0].data = features;
  if (&layer == &layers_.back()) result.data = output;
  if (layer.has_residual) inputs[1] = view(layer.residual);
  check(minuet_execution_run(layer.execution.get(), inputs, layer.has_residual ? 2 : 1, &result, 1, stream_));
}

void ByHand::run(void* features, void* output) {
  for (Layer& layer : layers_) run_layer(layer, features, output);
}

void ByHand::use_pyramid(const std::vector<int64_t>& capacities) {
  std::vector<minuet_pyramid_level> levels;
  std::vector<minuet_pyramid_map> maps(downs(kLevels - 1));
  const auto add = [&](size_t place, int fine, int coarse, int32_t kernel, uint32_t purposes) {
    maps[place].fine = fine, maps[place].coarse = coarse;
    std::fill_n(maps[place].kernel_size, 3, kernel);
    maps[place].purposes = purposes;
  };
  for (int level = 0; level < kLevels; ++level) {
    minuet_pyramid_level one{};
    one.capacity = capacities[static_cast<size_t>(level)];
    one.parent = level - 1;
    std::fill_n(one.stride, 3, level == 0 ? 1 : 2);
    levels.push_back(one);
    add(threes(level), level, level, 3, MINUET_PURPOSE_CONVOLUTION);
    add(ones(level), level, level, 1, MINUET_PURPOSE_CONVOLUTION);
    if (level == 0) continue;
    add(downs(level - 1), level - 1, level, 2,
        MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_TRANSPOSED_CONVOLUTION);
  }
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = levels.data(), options.level_count = kLevels;
  options.maps = maps.data(), options.map_count = static_cast<int32_t>(maps.size());
  minuet_pyramid* made = nullptr;
  check(minuet_pyramid_create(machine_.context(), &options, &made));
  pyramid_.reset(made);
  check(minuet_pyramid_load(made, machine_.device()));
  int64_t bytes = 0, workspace_bytes = 0, run_bytes = 0;
  check(minuet_pyramid_bytes(made, machine_.arch().c_str(), &bytes, &workspace_bytes));
  buffer_ = std::make_unique<Buffer>(machine_, bytes);
  workspace_ = std::make_unique<Buffer>(machine_, workspace_bytes);
  capacity_ = capacities[0];
  for (Matrix& matrix : matrices_) {
    matrix.rows = capacities[static_cast<size_t>(matrix.level)];
    matrix.memory = std::make_unique<Buffer>(machine_, matrix.rows * matrix.channels * dtype_bytes(dtype_));
  }
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const minuet_run_arguments given = arguments_of(layer);
    check(minuet_plan_run_bytes(plans_[layer].get(), machine_.arch().c_str(), &given, &bytes));
    run_bytes = std::max(run_bytes, bytes);
  }
  run_workspace_ = std::make_unique<Buffer>(machine_, run_bytes);
}

void ByHand::build_pyramid(const int32_t* coordinates, const int32_t* count) {
  minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
  given.buffer = buffer_->data();
  given.buffer_bytes = buffer_->bytes();
  given.workspace = workspace_->data();
  given.workspace_bytes = workspace_->bytes();
  given.coordinates = coordinates;
  given.most = capacity_;
  given.count = count;
  check(minuet_pyramid_build(pyramid_.get(), machine_.device(), &given, stream_));
}

minuet_run_arguments ByHand::arguments_of(size_t layer) const {
  minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
  given.pyramid = pyramid_.get();
  const size_t map = layers_[layer].map;
  given.map = static_cast<int32_t>(map < ups(0) ? map : downs(static_cast<int>(map - ups(0))));
  // The first layer reads, and the last one writes, the caller's rows.
  if (layer > 0) given.set_order |= MINUET_SET_ORDER_INPUT;
  if (layer + 1 < layers_.size()) given.set_order |= MINUET_SET_ORDER_OUTPUT;
  if (layers_[layer].has_residual) given.set_order |= MINUET_SET_ORDER_RESIDUAL;
  return given;
}

void ByHand::run_on_pyramid(void* features, void* output) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    minuet_array inputs[] = {array_of(view(layer.input)), minuet_array{}},
                 result = array_of(view(layer.output));
    if (i == 0) inputs[0].data = features;
    if (i + 1 == layers_.size()) result.data = output;
    if (layer.has_residual) inputs[1] = array_of(view(layer.residual));
    minuet_run_arguments given = arguments_of(i);
    given.buffer = buffer_->data();
    given.buffer_bytes = buffer_->bytes();
    given.workspace = run_workspace_->data();
    given.workspace_bytes = run_workspace_->bytes();
    given.inputs = inputs, given.outputs = &result;
    given.input_count = layer.has_residual ? 2 : 1, given.output_count = 1;
    check(minuet_plan_run(plans_[i].get(), machine_.device(), &given, stream_));
  }
}

}  // namespace minuet::abi
