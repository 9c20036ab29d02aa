// A batch norm in training with its gradients, by plain loops in float64. Means and variances are computed in
// two passes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace minuet::oracle {

/// The rows in use of one batch, [rows, channels], and what normalizes them.
struct NormBatch {
  int channels = 0;
  double eps = 0;
  bool has_relu = false;
  std::vector<double> input, residual, out_gradient;  // residual is empty if there is none
  std::vector<double> weight, bias;                   // empty: 1 and 0

  std::size_t width() const { return static_cast<std::size_t>(channels); }
  std::size_t rows() const { return input.size() / width(); }
  double weight_of(std::size_t c) const { return weight.empty() ? 1 : weight[c]; }
  double bias_of(std::size_t c) const { return bias.empty() ? 0 : bias[c]; }
};

struct NormResult {
  std::vector<double> mean, variance, inverse_std;
  std::vector<double> output;  // before the ReLU, which passed_of() applies
};

inline NormResult normalize(const NormBatch& batch) {
  const std::size_t width = batch.width(), rows = batch.rows();
  NormResult result;
  result.mean.resize(width), result.variance.resize(width), result.inverse_std.resize(width);
  for (std::size_t c = 0; c < width; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += batch.input[r * width + c];
    result.mean[c] = rows > 0 ? sum / static_cast<double>(rows) : 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const double difference = batch.input[r * width + c] - result.mean[c];
      squares += difference * difference;
    }
    result.variance[c] = rows > 0 ? squares / static_cast<double>(rows) : 0;
    result.inverse_std[c] = 1 / std::sqrt(result.variance[c] + batch.eps);
  }
  result.output.resize(batch.input.size());
  for (std::size_t i = 0; i < batch.input.size(); ++i) {
    const std::size_t c = i % width;
    const double normalized = (batch.input[i] - result.mean[c]) * result.inverse_std[c];
    result.output[i] = normalized * batch.weight_of(c) + batch.bias_of(c);
    if (!batch.residual.empty()) result.output[i] += batch.residual[i];
  }
  return result;
}

struct NormGradients {
  std::vector<double> weight, bias, residual, input;
  // Sums of the sizes of what is added, to which errors are relative.
  std::vector<double> weight_sizes, bias_sizes, input_sizes;
};

/// `passes` says for each element whether a ReLU passes its gradient on.
inline NormGradients gradients_of(const NormBatch& batch, const std::vector<bool>& passes) {
  const std::size_t width = batch.width();
  const auto rows = static_cast<double>(batch.rows());
  const NormResult forward = normalize(batch);
  NormGradients result;
  for (auto* sums : {&result.weight, &result.bias, &result.weight_sizes, &result.bias_sizes})
    sums->resize(width);
  result.residual.resize(batch.input.size());
  const auto normalized = [&](std::size_t i) {
    return (batch.input[i] - forward.mean[i % width]) * forward.inverse_std[i % width];
  };
  for (std::size_t i = 0; i < batch.input.size(); ++i) {
    const double gradient = passes[i] ? batch.out_gradient[i] : 0;
    const std::size_t c = i % width;
    result.residual[i] = gradient;
    result.bias[c] += gradient, result.bias_sizes[c] += std::abs(gradient);
    result.weight[c] += gradient * normalized(i);
    result.weight_sizes[c] += std::abs(gradient * normalized(i));
  }
  result.input.resize(batch.input.size()), result.input_sizes.resize(batch.input.size());
  for (std::size_t i = 0; i < batch.input.size(); ++i) {
    const std::size_t c = i % width;
    const double scale = forward.inverse_std[c] * batch.weight_of(c);
    const double rest = result.residual[i] - result.bias[c] / rows - normalized(i) * result.weight[c] / rows;
    result.input[i] = scale * rest;
    result.input_sizes[i] = std::abs(scale) * (std::abs(result.residual[i]) + result.bias_sizes[c] / rows +
                                               (std::abs(normalized(i)) + 1) * result.weight_sizes[c] / rows);
  }
  return result;
}

}  // namespace minuet::oracle
