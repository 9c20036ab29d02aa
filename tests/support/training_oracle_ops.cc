// The ops of a training step with the rules of their gradients.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/training_oracle.h"

namespace minuet::oracle {
namespace {

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
