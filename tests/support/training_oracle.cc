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

/// The derivative of a function at x, of which y is the result.
double derivative(const std::string& function, double x, double y, double slope) {
  if (function == "relu") return y > 0 ? 1 : 0;
  if (function == "leaky_relu") return x > 0 ? 1 : slope;
  if (function == "sigmoid") return y * (1 - y);
  if (function == "tanh") return 1 - y * y;
  if (function == "silu") {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  if (function == "gelu") {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846);
    return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * density;
  }
  throw std::runtime_error("no such function: " + function);
}
double apply(const std::string& function, double x, double slope) {
  if (function == "relu") return x > 0 ? x : 0;
  if (function == "leaky_relu") return x > 0 ? x : x * slope;
  if (function == "sigmoid") return 1 / (1 + std::exp(-x));
  if (function == "tanh") return std::tanh(x);
  if (function == "silu") return x / (1 + std::exp(-x));
  if (function == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  throw std::runtime_error("no such function: " + function);
}

}  // namespace

double TrainingStep::round(double value) const {
  return static_cast<double>(round_to(storage_type(options_.dtype), value));
}
double TrainingStep::operand(double value) const {
  return static_cast<double>(round_to(options_.dtype, value));
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

TrainingStep::Tensor TrainingStep::convolve(const Tensor& x, const std::string& name, int64_t out,
                                            const Map& map, bool transposed, bool has_bias) {
  const std::vector<Pair> pairs = pairs_of(map, transposed);
  const Tensor y = new_value(transposed ? map.fine : map.coarse, out);
  const std::vector<float>& weight = parameter(name + ".weight");
  const int64_t in = x->channels;
  const auto visit = [=](const auto& work) {
    for (const Pair& pair : pairs) {
      for (int64_t i = 0; i < in; ++i) {
        for (int64_t o = 0; o < out; ++o) {
          work(static_cast<size_t>(pair.in * in + i), static_cast<size_t>((pair.k * in + i) * out + o),
               static_cast<size_t>(pair.out * out + o));
        }
      }
    }
  };
  visit([&](size_t i, size_t w, size_t o) { y->values[o] += operand(x->values[i]) * operand(weight[w]); });
  if (has_bias) {
    const std::vector<float>& bias = parameter(name + ".bias");
    for (size_t i = 0; i < y->values.size(); ++i) y->values[i] += bias[i % static_cast<size_t>(out)];
  }
  return finish(y, [=, this, &weight] {
    std::vector<double>& of_weight = gradient_of(name + ".weight", weight.size());
    visit([&](size_t i, size_t w, size_t o) {
      const double gradient = operand(y->gradients[o]);
      x->gradients[i] += gradient * operand(weight[w]);
      of_weight[w] += gradient * operand(x->values[i]);
    });
    if (!has_bias) return;
    std::vector<double>& of_bias = gradient_of(name + ".bias", static_cast<size_t>(out));
    for (size_t i = 0; i < y->gradients.size(); ++i) of_bias[i % static_cast<size_t>(out)] += y->gradients[i];
  });
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

TrainingStep::Tensor TrainingStep::normalize(const Tensor& x, const std::string& name, double epsilon,
                                             bool is_affine, const Tensor& other, bool has_relu) {
  const auto width = static_cast<size_t>(x->channels);
  const size_t rows = x->values.size() / width;
  const std::vector<float>& running_mean = parameter(name + ".running_mean");
  const std::vector<float>& running_var = parameter(name + ".running_var");
  std::vector<double> weight(width, 1.0), bias(width, 0.0), mean(width), inverse(width);
  if (is_affine) {
    const std::vector<float>&w = parameter(name + ".weight"), &b = parameter(name + ".bias");
    weight.assign(w.begin(), w.end()), bias.assign(b.begin(), b.end());
  }
  std::vector<double>&new_mean = statistics_[name + ".running_mean"],
  &new_var = statistics_[name + ".running_var"];
  new_mean.assign(running_mean.begin(), running_mean.end());
  new_var.assign(running_var.begin(), running_var.end());
  const Tensor y = new_value(x->level, x->channels);
  for (size_t c = 0; c < width; ++c) {
    double variance = running_var[c];
    mean[c] = running_mean[c];
    if (!options_.has_frozen_norms) {
      double sum = 0, squares = 0;
      for (size_t r = 0; r < rows; ++r) sum += x->values[r * width + c];
      mean[c] = rows > 0 ? sum / static_cast<double>(rows) : 0;
      for (size_t r = 0; r < rows; ++r) squares += std::pow(x->values[r * width + c] - mean[c], 2);
      variance = rows > 0 ? squares / static_cast<double>(rows) : 0;
      if (rows > 0) {
        const double unbiased = rows > 1 ? squares / static_cast<double>(rows - 1) : 0;
        new_mean[c] += options_.momentum * (mean[c] - new_mean[c]);
        new_var[c] += options_.momentum * (unbiased - new_var[c]);
      }
    }
    inverse[c] = 1 / std::sqrt(variance + epsilon);
    for (size_t i = c; i < x->values.size(); i += width) {
      double value = (x->values[i] - mean[c]) * inverse[c] * weight[c] + bias[c];
      if (other) value += other->values[i];
      y->values[i] = has_relu && value < 0 ? 0 : value;
    }
  }
  return finish(y, [=, this] {
    for (size_t c = 0; c < width; ++c) {
      double sum = 0, product = 0;
      for (size_t i = c; i < x->values.size(); i += width) {
        double& gradient = y->gradients[i];
        if (has_relu && y->values[i] <= 0) gradient = 0;
        if (other) other->gradients[i] += gradient;
        sum += gradient;
        product += gradient * (x->values[i] - mean[c]) * inverse[c];
      }
      if (is_affine) {
        gradient_of(name + ".weight", width)[c] += product;
        gradient_of(name + ".bias", width)[c] += sum;
      }
      const double count = static_cast<double>(std::max<size_t>(rows, 1));
      const double shift = options_.has_frozen_norms ? 0 : sum / count;
      const double slope = options_.has_frozen_norms ? 0 : product / count;
      for (size_t i = c; i < x->values.size(); i += width) {
        const double normalized = (x->values[i] - mean[c]) * inverse[c];
        x->gradients[i] += inverse[c] * weight[c] * (y->gradients[i] - shift - normalized * slope);
      }
    }
  });
}

TrainingStep::Tensor TrainingStep::add(const Tensor& x, const Tensor& other, bool has_relu) {
  const Tensor y = new_value(x->level, x->channels);
  for (size_t i = 0; i < y->values.size(); ++i) {
    y->values[i] = x->values[i] + other->values[i];
    if (has_relu) y->values[i] = std::max(y->values[i], 0.0);
  }
  return finish(y, [=] {
    for (size_t i = 0; i < y->values.size(); ++i) {
      if (has_relu && y->values[i] <= 0) continue;
      x->gradients[i] += y->gradients[i];
      other->gradients[i] += y->gradients[i];
    }
  });
}

TrainingStep::Tensor TrainingStep::multiply(const Tensor& x, const Tensor& other) {
  const Tensor y = new_value(x->level, x->channels);
  for (size_t i = 0; i < y->values.size(); ++i) y->values[i] = x->values[i] * other->values[i];
  return finish(y, [=] {
    for (size_t i = 0; i < y->values.size(); ++i) {
      x->gradients[i] += y->gradients[i] * other->values[i];
      other->gradients[i] += y->gradients[i] * x->values[i];
    }
  });
}

TrainingStep::Tensor TrainingStep::activate(const Tensor& x, const std::string& function, double number) {
  const Tensor y = new_value(x->level, x->channels);
  for (size_t i = 0; i < y->values.size(); ++i) y->values[i] = apply(function, x->values[i], number);
  return finish(y, [=] {
    for (size_t i = 0; i < y->values.size(); ++i) {
      x->gradients[i] += y->gradients[i] * derivative(function, x->values[i], y->values[i], number);
    }
  });
}

TrainingStep::Tensor TrainingStep::softmax(const Tensor& x) {
  const Tensor y = new_value(x->level, x->channels);
  const auto width = static_cast<size_t>(x->channels);
  for (size_t first = 0; first < y->values.size(); first += width) {
    const double* const row = x->values.data() + first;
    const double most = *std::max_element(row, row + width);
    double sum = 0;
    for (size_t c = 0; c < width; ++c) sum += std::exp(row[c] - most);
    for (size_t c = 0; c < width; ++c) y->values[first + c] = std::exp(row[c] - most) / sum;
  }
  return finish(y, [=] {
    for (size_t first = 0; first < y->values.size(); first += width) {
      double product = 0;
      for (size_t i = first; i < first + width; ++i) product += y->values[i] * y->gradients[i];
      for (size_t i = first; i < first + width; ++i) {
        x->gradients[i] += y->values[i] * (y->gradients[i] - product);
      }
    }
  });
}

TrainingStep::Tensor TrainingStep::scale(const Tensor& x, const std::string& name, double epsilon,
                                         bool normalizes, bool is_affine) {
  const auto width = static_cast<size_t>(x->channels);
  std::vector<double> weight(width, 1.0), bias(width, 0.0);
  if (is_affine) {
    const std::vector<float>&w = parameter(name + ".weight"), &b = parameter(name + ".bias");
    weight.assign(w.begin(), w.end()), bias.assign(b.begin(), b.end());
  }
  const Tensor y = new_value(x->level, x->channels);
  auto rows = std::make_shared<std::vector<double>>(x->values);  // what the weight multiplies
  auto inverses = std::make_shared<std::vector<double>>();
  for (size_t first = 0; first < x->values.size(); first += width) {
    double mean = 0, squares = 0;
    for (size_t i = first; i < first + width; ++i) mean += x->values[i] / static_cast<double>(width);
    for (size_t i = first; i < first + width; ++i) squares += std::pow(x->values[i] - mean, 2);
    inverses->push_back(1 / std::sqrt(squares / static_cast<double>(width) + epsilon));
    for (size_t i = first; i < first + width; ++i) {
      if (normalizes) (*rows)[i] = (x->values[i] - mean) * inverses->back();
      y->values[i] = (*rows)[i] * weight[i - first] + bias[i - first];
    }
  }
  return finish(y, [=, this] {
    for (size_t first = 0; first < x->values.size(); first += width) {
      double sum = 0, product = 0;
      for (size_t i = first; i < first + width; ++i) {
        const double gradient = y->gradients[i] * weight[i - first];
        sum += gradient, product += gradient * (*rows)[i];
        if (!is_affine) continue;
        gradient_of(name + ".weight", width)[i - first] += y->gradients[i] * (*rows)[i];
        gradient_of(name + ".bias", width)[i - first] += y->gradients[i];
      }
      for (size_t i = first; i < first + width; ++i) {
        const double gradient = y->gradients[i] * weight[i - first], count = static_cast<double>(width);
        x->gradients[i] +=
            normalizes ? (*inverses)[first / width] * (gradient - sum / count - (*rows)[i] * product / count)
                       : gradient;
      }
    }
  });
}

TrainingStep::Tensor TrainingStep::concat(const Tensor& first, const Tensor& second) {
  const Tensor y = new_value(first->level, first->channels + second->channels);
  const auto visit = [=](const auto& work) {
    for (int64_t row = 0; row < static_cast<int64_t>(y->values.size()) / y->channels; ++row) {
      int64_t column = 0;
      for (const Tensor& part : {first, second}) {
        for (int64_t c = 0; c < part->channels; ++c, ++column) {
          work(*part, static_cast<size_t>(row * part->channels + c),
               static_cast<size_t>(row * y->channels + column));
        }
      }
    }
  };
  visit([&](Value& part, size_t from, size_t to) { y->values[to] = part.values[from]; });
  return finish(y, [=] {
    visit([&](Value& part, size_t from, size_t to) { part.gradients[from] += y->gradients[to]; });
  });
}

TrainingStep::Tensor TrainingStep::pool(const Tensor& x, const Map& map, bool transposed,
                                        const std::string& reduction) {
  const std::vector<Pair> pairs = pairs_of(map, transposed);
  const Tensor y = new_value(transposed ? map.fine : map.coarse, x->channels);
  const auto width = static_cast<size_t>(x->channels);
  std::vector<double> counts(y->values.size() / width, 0.0);
  std::vector<int32_t> winners(y->values.size(), -1);
  for (const Pair& pair : pairs) counts[pair.out] += 1;
  for (const Pair& pair : pairs) {
    for (size_t c = 0; c < width; ++c) {
      const size_t to = pair.out * width + c;
      const double value = x->values[pair.in * width + c];
      if (reduction != "max") {
        y->values[to] += reduction == "average" ? value / counts[pair.out] : value;
      } else if (winners[to] < 0 || value > y->values[to]) {
        y->values[to] = value, winners[to] = pair.in;
      }
    }
  }
  return finish(y, [=] {
    for (const Pair& pair : pairs) {
      for (size_t c = 0; c < width; ++c) {
        const size_t to = pair.out * width + c;
        if (reduction == "max" && winners[to] != pair.in) continue;
        const double share = reduction == "average" ? 1 / counts[pair.out] : 1;
        x->gradients[pair.in * width + c] += y->gradients[to] * share;
      }
    }
  });
}

}  // namespace minuet::oracle
