#include "tests/support/pointwise_oracle.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

namespace minuet::oracle {
namespace {

constexpr double kUlp = 0x1p-21;  // a few units in the last place of fp32, as functions of its library have
// Returns the error of a sum, relative to the sum of the terms' sizes. Up to 1/16 of the terms may be added
// to one number, one by one.
double sum_error(int64_t terms) { return static_cast<double>(terms) * 0x1p-28; }

// Its limit for -infinity is 0.
double gelu(double x) { return std::isinf(x) && x < 0 ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x / (1 + std::exp(-x)); }

struct Function {
  std::function<double(double x, double number)> value;
  double steepest;  // the largest slope
  bool is_exact;    // up to a product
};
const Function& function_of(const std::string& op) {
  static const std::map<std::string, Function> functions{
      {"relu", {[](double x, double) { return x < 0 ? 0.0 : x; }, 1, true}},
      {"leaky_relu", {[](double x, double slope) { return x < 0 ? slope * x : x; }, 0, true}},
      {"gelu", {[](double x, double) { return gelu(x); }, 1.13, false}},
      {"gelu_tanh", {[](double x, double) { return gelu_tanh(x); }, 1.13, false}},
      {"silu", {[](double x, double) { return silu(x); }, 1.1, false}},
      {"sigmoid", {[](double x, double) { return 1 / (1 + std::exp(-x)); }, 0.25, false}},
      {"tanh", {[](double x, double) { return std::tanh(x); }, 1, false}}};
  return functions.at(op);
}

struct Derivative {
  std::function<double(double kept, double number)> value;
  double error;  // what fp32 makes of it, absolutely, beside some units in the last place
};
const Derivative& derivative_of(const std::string& op) {
  static const std::map<std::string, Derivative> derivatives{
      {"relu_gradient", {[](double k, double) { return k <= 0 ? 0.0 : 1.0; }, 0}},
      {"leaky_relu_gradient", {[](double k, double slope) { return k <= 0 ? slope : 1.0; }, 0}},
      {"gelu_gradient",
       {[](double k, double) {
          if (std::isinf(k)) return k > 0 ? 1.0 : 0.0;
          return 0.5 * std::erfc(-k / std::sqrt(2.0)) + k * std::exp(-k * k / 2) / std::sqrt(2 * M_PI);
        },
        1e-6}},
      {"gelu_tanh_gradient",
       {[](double k, double) {
          if (std::abs(k) > 1e3) return k > 0 ? 1.0 : 0.0;
          const double a = std::sqrt(2 / M_PI), t = std::tanh(a * (k + 0.044715 * k * k * k));
          return 0.5 * (1 + t) + 0.5 * k * (1 - t * t) * a * (1 + 3 * 0.044715 * k * k);
        },
        1e-6}},
      {"silu_gradient",
       {[](double k, double) {
          if (std::abs(k) > 700) return k > 0 ? 1.0 : 0.0;
          const double s = 1 / (1 + std::exp(-k));
          return s * (1 + k * (1 - s));
        },
        1e-6}},
      {"sigmoid_gradient", {[](double y, double) { return y * (1 - y); }, 0}},
      {"tanh_gradient", {[](double y, double) { return 1 - y * y; }, 0}}};
  return derivatives.at(op);
}

/// One row on its way through a chain.
struct Row {
  double* values;
  double* errors;
  int64_t channels;

  double largest_error() const { return *std::max_element(errors, errors + channels); }
  double largest_size() const {
    double largest = 0;
    for (int64_t c = 0; c < channels; ++c) largest = std::max(largest, std::abs(values[c]));
    return largest;
  }

  void apply(const ChainStep& step, int64_t number) {
    if (step.op == "add" || step.op == "multiply") {
      combine(step.op == "add", step.operand.data() + number * channels);
    } else if (step.op == "affine") {
      for (int64_t c = 0; c < channels; ++c) {
        const double product = values[c] * step.scale[c];
        values[c] = product + step.shift[c];
        errors[c] =
            errors[c] * std::abs(step.scale[c]) + kUlp / 4 * (std::abs(product) + std::abs(step.shift[c]));
      }
    } else if (step.op == "layer_norm") {
      normalize(step.number);
    } else if (step.op == "softmax") {
      softmax();
    } else if (step.op == "layer_norm_gradient") {
      normalize_gradient(step.number, step.operand.data() + number * channels);
    } else if (step.op == "softmax_gradient") {
      softmax_gradient(step.operand.data() + number * channels);
    } else if (is_gradient(step.op)) {
      multiply_by_derivative(step, step.operand.data() + number * channels);
    } else {
      map(step);
    }
  }

  void map(const ChainStep& step) {
    const Function& function = function_of(step.op);
    const double steepest =
        step.op == "leaky_relu" ? std::max(1.0, std::abs(step.number)) : function.steepest;
    for (int64_t c = 0; c < channels; ++c) {
      const double x = values[c];
      values[c] = function.value(x, step.number);
      // A function computes with numbers of the size of x, of the result, and (tanh, sigmoid) of 1.
      const double size = function.is_exact ? std::abs(values[c]) / 4 : std::abs(values[c]) + std::abs(x) / 4;
      errors[c] = errors[c] * steepest + kUlp * size;
    }
  }

  void combine(bool is_sum, const float* operand) {
    for (int64_t c = 0; c < channels; ++c) {
      const double other = operand[c], x = values[c];
      values[c] = is_sum ? x + other : x * other;
      errors[c] = errors[c] * (is_sum ? 1 : std::abs(other)) + kUlp / 4 * std::abs(values[c]);
    }
  }

  void multiply_by_derivative(const ChainStep& step, const float* kept) {
    const Derivative& derivative = derivative_of(step.op);
    for (int64_t c = 0; c < channels; ++c) {
      const double x = values[c], slope = derivative.value(kept[c], step.number);
      if (step.op == "relu_gradient") {  // Zero times a gradient that is not finite would be NaN.
        if (kept[c] <= 0) values[c] = errors[c] = 0;
        continue;
      }
      values[c] = x * slope;
      errors[c] = errors[c] * std::abs(slope) + std::abs(x) * derivative.error + kUlp * std::abs(values[c]);
    }
  }

  void normalize_gradient(double epsilon, const float* kept) {
    const auto count = static_cast<double>(channels);
    std::vector<double> normal(kept, kept + channels), normal_errors(static_cast<size_t>(channels));
    Row row{normal.data(), normal_errors.data(), channels};
    row.normalize(epsilon);
    double mean = 0, square = 0;
    for (int64_t c = 0; c < channels; ++c) mean += kept[c] / count;
    for (int64_t c = 0; c < channels; ++c) square += (kept[c] - mean) * (kept[c] - mean) / count;
    const double factor = 1 / std::sqrt(square + epsilon);
    // The means of x and of x * n, and the errors of both.
    double of_x = 0, of_product = 0, error_of_x = 0, error_of_product = 0;
    for (size_t c = 0; c < normal.size(); ++c) {
      const double x = values[c], n = normal[c];
      of_x += x / count, of_product += x * n / count;
      error_of_x += (errors[c] + (kUlp + sum_error(channels)) * std::abs(x)) / count;
      error_of_product += (errors[c] * std::abs(n) + std::abs(x) * normal_errors[c] +
                           (kUlp + sum_error(channels)) * std::abs(x * n)) /
                          count;
    }
    for (size_t c = 0; c < normal.size(); ++c) {
      const double n = normal[c], terms = std::abs(values[c]) + std::abs(of_x) + std::abs(n * of_product);
      // The factor is off as much as a normalized number, relatively.
      const double relative = kUlp + normal_errors[c] / (1 + std::abs(n));
      const double inner = errors[c] + error_of_x + std::abs(n) * error_of_product +
                           normal_errors[c] * std::abs(of_product) + (kUlp + relative) * terms;
      values[c] = factor * (values[c] - of_x - n * of_product);
      errors[c] = factor * inner;
    }
  }

  void softmax_gradient(const float* result) {
    double sum = 0, error = 0;
    for (int64_t c = 0; c < channels; ++c) {
      sum += values[c] * result[c];
      error +=
          errors[c] * std::abs(result[c]) + (kUlp + sum_error(channels)) * std::abs(values[c] * result[c]);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const double y = result[c], terms = std::abs(values[c]) + std::abs(sum);
      errors[c] = std::abs(y) * (errors[c] + error + kUlp * terms);
      values[c] = y * (values[c] - sum);
    }
  }

  void normalize(double epsilon) {
    const double error = largest_error() + (kUlp + sum_error(channels)) * largest_size();
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < channels; ++c) mean += values[c] / static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c) {
      variance += (values[c] - mean) * (values[c] - mean) / static_cast<double>(channels);
    }
    const double deviation = std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < channels; ++c) {
      values[c] = (values[c] - mean) / deviation;
      errors[c] = 2 * error / deviation * (1 + std::abs(values[c])) + 2 * kUlp * std::abs(values[c]);
    }
  }

  void softmax() {
    const double error = largest_error(), largest = *std::max_element(values, values + channels);
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += std::exp(values[c] - largest);
    for (int64_t c = 0; c < channels; ++c) {
      const double distance = values[c] - largest;
      values[c] = std::exp(distance) / sum;
      const double relative = 2 * error + kUlp * (4 + std::abs(distance)) + sum_error(channels);
      errors[c] = (values[c] == 0 ? 0 : values[c] * relative) + 0x1p-126;
    }
  }
};

/// The distance of neighbouring numbers of the type, relative, and the smallest one.
double rounding_error(DType type, double value) {
  const double relative = type == DType::F16 ? 0x1p-11 : type == DType::BF16 ? 0x1p-8 : 0x1p-24;
  const double least = type == DType::F16 ? 0x1p-25 : 0x1p-126;
  return std::max(std::abs(value) * relative, least) * 1.001;
}

double largest_of(DType type) {
  return type == DType::F16 ? 65504 : type == DType::BF16 ? 0x1.fep127 : 0x1.fffffep127;
}

/// Returns what is wrong, or nothing.
std::string mistake(double out, double value, double error, DType type, int roundings) {
  const std::string text = std::to_string(out) + " for " + std::to_string(value);
  if (std::isnan(value)) return std::isnan(out) ? "" : text;
  const double bound = error + roundings * rounding_error(type, value);
  if (std::isinf(value)) return out == value ? "" : text;
  if (std::isinf(out) && std::abs(value) + bound > largest_of(type)) return "";
  return std::abs(out - value) <= bound ? "" : text + ", which may be off by " + std::to_string(bound);
}

}  // namespace

bool is_gradient(const std::string& op) { return op.size() > 9 && op.substr(op.size() - 9) == "_gradient"; }
bool reads_operand(const std::string& op) { return op == "add" || op == "multiply" || is_gradient(op); }

double apply_function(const std::string& op, double x, double number) {
  if (op == "none") return x;
  // Minus infinity times a slope of 0 would be NaN.
  return function_of(op == "leaky_relu" && number == 0 ? "relu" : op).value(x, number);
}

ChainResult evaluate_chain(const std::vector<ChainStep>& steps, const std::vector<float>& input,
                           int64_t channels) {
  ChainResult result{{input.begin(), input.end()}, std::vector<double>(input.size())};
  const int64_t rows = static_cast<int64_t>(input.size()) / channels;
  for (int64_t r = 0; r < rows; ++r) {
    Row row{result.values.data() + r * channels, result.errors.data() + r * channels, channels};
    for (const ChainStep& step : steps) {
      if (step.op != "argmax") row.apply(step, r);
    }
  }
  return result;
}

void apply_step(const ChainStep& step, double* values, int64_t channels) {
  std::vector<double> errors(static_cast<size_t>(channels));
  Row{values, errors.data(), channels}.apply(step, 0);
}

testing::AssertionResult is_chain(const std::vector<float>& out, const ChainResult& expected, DType type,
                                  int roundings) {
  if (out.size() != expected.values.size()) {
    return testing::AssertionFailure() << out.size() << " numbers for " << expected.values.size();
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string what = mistake(out[i], expected.values[i], expected.errors[i], type, roundings);
    if (!what.empty()) return testing::AssertionFailure() << "number " << i << ": " << what;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult is_argmax_of(const std::vector<int32_t>& out, const ChainResult& expected,
                                      int64_t channels) {
  for (size_t row = 0; row < out.size(); ++row) {
    const double* const values = expected.values.data() + row * static_cast<size_t>(channels);
    const double* const errors = expected.errors.data() + row * static_cast<size_t>(channels);
    const int64_t found = out[row];
    if (found < 0 || found >= channels) return testing::AssertionFailure() << "row " << row << ": " << found;
    for (int64_t c = 0; c < channels; ++c) {
      const double gap = values[c] - values[found], doubt = errors[c] + errors[found];
      const bool is_nan = std::isnan(values[c]), is_found_nan = std::isnan(values[found]);
      const bool beats = is_nan || is_found_nan ? is_nan && (!is_found_nan || c < found)
                                                : gap > doubt || (gap == 0 && doubt == 0 && c < found);
      if (beats) return testing::AssertionFailure() << "row " << row << ": " << found << " and not " << c;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace minuet::oracle
