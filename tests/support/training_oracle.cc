#include "tests/support/training_oracle.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "llvm/Support/Error.h"
#include "tests/support/rounding.h"

namespace minuet::oracle {
namespace {

constexpr Axes kOnes{1, 1, 1, 1};

std::string text(const llvm::json::Object& object, const char* field, const std::string& usual = "") {
  const auto found = object.getString(field);
  return found ? found->str() : usual;
}
bool flag(const llvm::json::Object& object, const char* field, bool usual) {
  const auto found = object.getBoolean(field);
  return found ? *found : usual;
}
double number(const llvm::json::Object& object, const char* field, double usual) {
  const auto found = object.getNumber(field);
  return found ? *found : usual;
}

}  // namespace

double TrainingStep::round(double value) const {
  return static_cast<double>(round_to(storage_type(options_.dtype), value));
}
double TrainingStep::operand(double value) const {
  return static_cast<double>(round_to(options_.dtype, value));
}

const std::vector<float>& TrainingStep::parameter(const std::string& name) const {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) throw std::out_of_range("there is no parameter " + name);
  return found->second.values;
}

TrainingStep::TrainingStep(const std::string& description,
                           const std::map<std::string, FileTensor>& parameters,
                           const std::vector<int32_t>& coordinates,
                           const std::vector<std::vector<float>>& inputs, const TrainingStepOptions& options)
    : options_(options),
      description_(llvm::cantFail(llvm::json::parse(description))),
      parameters_(parameters) {
  const Object& network = *description_.getAsObject();
  ndim_ = static_cast<int>(number(network, "ndim", 3));
  epsilon_ = number(network, "batch_norm_epsilon", epsilon_);
  if (const auto* widths = network.getArray("channels")) {
    for (const auto& width : *widths) channels_.push_back(*width.getAsInteger());
  }
  levels_.push_back({coordinates, kOnes, static_cast<int64_t>(coordinates.size()) / (1 + ndim_)});
  const auto* const list = network.getArray("inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Object* const input = list ? (*list)[i].getAsObject() : nullptr;
    const int64_t channels = input ? *input->getInteger("channels") : *network.getInteger("in_channels");
    inputs_.push_back(new_value(0, channels));
    inputs_.back()->values.assign(inputs[i].begin(), inputs[i].end());
    results_[input ? text(*input, "name") : "input"] = inputs_.back();
    values_.push_back(inputs_.back());
  }
  current_ = inputs_.front();
  for (const auto& layer : *network.getArray("layers")) run(*layer.getAsObject());
  if (const auto* names = network.getArray("outputs")) {
    for (const auto& name : *names) outputs_.push_back(results_.at(name.getAsString()->str()));
  } else {
    outputs_.push_back(current_);
  }
}

void TrainingStep::run(const Object& layer) {
  const std::string op = text(layer, "op"), input = text(layer, "input");
  if (!input.empty()) current_ = results_.at(input);
  if (op == "block") {
    block(layer);
  } else if (op == "residual" || op == "bottleneck") {
    residual(layer, op == "bottleneck");
  } else {
    run_other(layer, op);
  }
  const std::string saved = text(layer, "save", text(layer, "output"));
  if (!saved.empty()) results_[saved] = current_;
}

void TrainingStep::run_other(const Object& layer, const std::string& op) {
  const std::string name = text(layer, "name");
  const auto partner = [&](const char* field) { return results_.at(text(layer, field)); };
  const auto activation = [&](const char* usual) { return text(layer, "activation", usual); };
  const int level = current_->level;
  if (op == "up" || op == "inverse") {
    Map map;
    if (op == "inverse") {
      map = maps_.at(text(layer, "of"));
    } else {
      map = {partner("onto")->level, level, axes(layer, "kernel_size", 1), axes(layer, "dilation", 1)};
    }
    const Tensor x = convolve(current_, name + ".conv", width(layer, "width", "out_channels"), map,
                              /*transposed=*/true, flag(layer, "bias", false));
    current_ = normalize_and_activate(x, layer, name + ".bn", nullptr, activation("relu"),
                                      number(layer, "slope", 0.01));
  } else if (op == "head" || op == "linear") {
    // Without a number of classes and without weights, the head is left out.
    if (op == "head" && number(layer, "classes", 0) == 0) return;
    const int64_t out = op == "head" ? *layer.getInteger("classes") : width(layer, "width", "out_channels");
    current_ = convolve(current_, name, out, {level, level}, false, flag(layer, "bias", true));
    if (activation("none") != "none") {
      current_ = activate(current_, activation("none"), number(layer, "slope", 0.01));
    }
  } else if (op == "concat") {
    current_ = concat(current_, partner("with"));
  } else if (op == "add") {
    current_ = add(current_, partner("with"), false);
  } else if (op == "multiply") {
    current_ = multiply(current_, partner("with"));
  } else if (op == "softmax") {
    current_ = softmax(current_);
  } else if (op == "batch_norm") {
    current_ = normalize(current_, name, number(layer, "epsilon", epsilon_), flag(layer, "affine", true),
                         nullptr, false);
  } else if (op == "layer_norm" || op == "scale_shift") {
    current_ = scale(current_, name, number(layer, "epsilon", 1e-5), op == "layer_norm",
                     flag(layer, "affine", true));
  } else if (op == "max_pool" || op == "average_pool" || op == "sum_pool") {
    const Map map = map_below(level, layer, axes(layer, "stride", 1));
    maps_[name] = map;
    current_ = pool(current_, map, false, op.substr(0, op.size() - 5));
  } else if (op == "unpool") {
    current_ = pool(current_, maps_.at(text(layer, "of")), true, text(layer, "reduction", "average"));
  } else if (op == "upsample") {
    Map map{partner("onto")->level, level};
    map.starts_at_zero = true;
    for (int a = 0; a < ndim_; ++a) {
      map.kernel_size[a] = levels_[level].tensor_stride[a] / levels_[map.fine].tensor_stride[a];
    }
    current_ = pool(current_, map, true, "sum");
  } else {
    current_ = activate(current_, op, number(layer, "slope", 0.01));
  }
}

void TrainingStep::block(const Object& layer) {
  const std::string name = text(layer, "name");
  const Map map = map_below(current_->level, layer, axes(layer, "stride", 1));
  maps_[name] = map;
  const Tensor x = convolve(current_, name + ".conv", width(layer, "width", "out_channels"), map, false,
                            flag(layer, "bias", false));
  current_ = normalize_and_activate(x, layer, name + ".bn", nullptr, text(layer, "activation", "relu"),
                                    number(layer, "slope", 0.01));
}

void TrainingStep::residual(const Object& layer, bool is_bottleneck) {
  const std::string name = text(layer, "name");
  const int64_t out = width(layer, "width", "out_channels");
  const int64_t inner = is_bottleneck ? width(layer, "inner_width", "inner_channels") : out;
  const Tensor x = current_;
  const Axes stride = axes(layer, "stride", 1);
  const std::string activation = text(layer, "activation", "relu");
  const int count = is_bottleneck ? 3 : 2, strided = is_bottleneck ? 2 : 1;
  Tensor y = x;
  // The shortcut is computed before the last convolution, as its batch norm is in the order of the library's.
  const auto part = [&](int i) {
    const bool is_wide = !is_bottleneck || i == 2;
    Map map = map_below(y->level, layer, i == strided ? stride : kOnes);
    map.kernel_size = is_wide ? axes(layer, "kernel_size", 3) : kOnes;
    if (!is_wide) map.dilation = kOnes;
    return convolve(y, name + ".conv" + std::to_string(i), i == count ? out : inner, map, false,
                    flag(layer, "bias", false));
  };
  const auto norm = [&](int i) { return name + ".bn" + std::to_string(i); };
  for (int i = 1; i < count; ++i) {
    y = normalize_and_activate(part(i), layer, norm(i), nullptr, activation, number(layer, "slope", 0.01));
  }
  Tensor shortcut = x;
  if (x->channels != out || stride != kOnes) {
    Map map = map_below(x->level, layer, stride);
    map.kernel_size = map.dilation = kOnes;
    shortcut = normalize_and_activate(
        convolve(x, name + ".shortcut.conv", out, map, false, flag(layer, "bias", false)), layer,
        name + ".shortcut.bn", nullptr, "none", 0);
  }
  current_ = normalize_and_activate(part(count), layer, norm(count), shortcut, activation,
                                    number(layer, "slope", 0.01));
}

Axes TrainingStep::axes(const Object& layer, const char* field, int usual) const {
  Axes result = kOnes;
  const auto* const value = layer.get(field);
  for (int a = 0; a < ndim_; ++a) {
    result[a] = !value                  ? usual
                : value->getAsInteger() ? static_cast<int>(*value->getAsInteger())
                                        : static_cast<int>(*(*value->getAsArray())[a].getAsInteger());
  }
  return result;
}

int64_t TrainingStep::width(const Object& layer, const char* index, const char* number) const {
  if (const auto given = layer.getInteger(number)) return *given;
  return channels_.at(static_cast<size_t>(*layer.getInteger(index)));
}

int TrainingStep::level_below(int level, const Axes& stride) {
  if (stride == kOnes) return level;
  Axes tensor_stride = levels_[level].tensor_stride;
  for (int a = 0; a < ndim_; ++a) tensor_stride[a] *= stride[a];
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].tensor_stride == tensor_stride) return static_cast<int>(i);
  }
  Level below{downsample(ndim_, levels_[level].coordinates, tensor_stride), tensor_stride};
  below.rows = static_cast<int64_t>(below.coordinates.size()) / (1 + ndim_);
  levels_.push_back(std::move(below));
  return static_cast<int>(levels_.size()) - 1;
}

TrainingStep::Map TrainingStep::map_below(int level, const Object& layer, const Axes& stride) {
  return {level, level_below(level, stride), axes(layer, "kernel_size", 1), axes(layer, "dilation", 1),
          stride};
}

TrainingStep::Tensor TrainingStep::new_value(int level, int64_t channels) const {
  auto value = std::make_shared<Value>();
  value->level = level;
  value->channels = channels;
  const auto size = static_cast<size_t>(levels_[level].rows * channels);
  value->values.assign(size, 0.0);
  value->gradients.assign(size, 0.0);
  return value;
}

std::vector<Pair> TrainingStep::pairs_of(const Map& map, bool transposed) const {
  const Level &fine = levels_[map.fine], &coarse = levels_[map.coarse];
  const Geometry geometry{ndim_,      map.kernel_size,   map.dilation, fine.tensor_stride,
                          transposed, map.starts_at_zero};
  return find_pairs(geometry, transposed ? coarse.coordinates : fine.coordinates,
                    transposed ? fine.coordinates : coarse.coordinates);
}

TrainingStep::Tensor TrainingStep::finish(Tensor result, std::function<void()> rule) {
  for (double& value : result->values) value = round(value);
  values_.push_back(result);
  rules_.push_back([this, result, rule] {
    for (double& gradient : result->gradients) gradient = round(gradient);
    rule();
  });
  return result;
}

std::vector<double>& TrainingStep::gradient_of(const std::string& name, size_t size) {
  std::vector<double>& gradient = gradients_[name];
  gradient.resize(size);
  return gradient;
}

void TrainingStep::backward(const std::vector<std::vector<float>>& out_gradients) {
  gradients_.clear();
  for (const auto& [name, tensor] : parameters_) gradients_[name].assign(tensor.values.size(), 0.0);
  for (const Tensor& value : values_) std::fill(value->gradients.begin(), value->gradients.end(), 0.0);
  for (size_t i = 0; i < out_gradients.size(); ++i) {
    for (size_t j = 0; j < out_gradients[i].size(); ++j) {
      outputs_[i]->gradients[j] += static_cast<double>(out_gradients[i][j]);
    }
  }
  for (size_t i = rules_.size(); i-- > 0;) rules_[i]();
  for (const Tensor& input : inputs_) {
    for (double& gradient : input->gradients) gradient = round(gradient);
  }
}

TrainingStep::Tensor TrainingStep::normalize_and_activate(Tensor x, const Object& fields,
                                                          const std::string& norm, const Tensor& other,
                                                          const std::string& activation, double slope) {
  const bool has_relu = activation == "relu";
  if (text(fields, "norm", "batch_norm") != "none") {
    x = normalize(x, norm, number(fields, "epsilon", epsilon_), flag(fields, "affine", true), other,
                  has_relu);
  } else if (other) {
    x = add(x, other, has_relu);
  } else if (has_relu) {
    x = activate(x, activation, slope);
  }
  return has_relu || activation == "none" ? x : activate(x, activation, slope);
}

}  // namespace minuet::oracle
