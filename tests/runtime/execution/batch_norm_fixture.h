// This file makes random batches and memory for the tests of batch norms in training, and compares results
// with float64.
#pragma once

#include <limits>

#include "include/minuet/batch_norm.h"
#include "tests/support/abi.h"
#include "tests/support/batch_norm_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

using BatchNormOp = Handle<minuet_batch_norm_op>;

/// A batch norm, and the rows that it normalizes.
struct NormCase {
  int channels = 16;
  int64_t rows = 700, capacity = 700;  // in use, and all
  int64_t gap = 0;                     // elements between rows
  bool has_residual = false, has_relu = false, is_affine = true, has_running_mean = false;
  bool is_cumulative = false;
  float eps = 1e-5f, momentum = 0.1f;
  double mean = 0.5, deviation = 2, weight = 1;  // sizes of the random numbers
  uint64_t seed = 1;
};

/// Numbers as they are stored, [rows, channels], and parameters.
struct NormData {
  std::vector<float> input, residual, out_gradient, weight, bias, running_mean, running_variance;

  NormData(const NormCase& of, DType dtype) {
    Random random(of.seed);
    const auto numbers = [&](int64_t count, double mean, double deviation, DType stored) {
      std::vector<float> values;
      values.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i)
        values.push_back(round_to(stored, mean + deviation * random.normal()));
      return values;
    };
    const DType stored = storage_type(dtype);
    const int64_t elements = of.rows * of.channels;
    input = numbers(elements, of.mean, of.deviation, stored);
    if (of.has_residual) residual = numbers(elements, 0, 1, stored);
    out_gradient = numbers(elements, 0.1, 1, stored);
    if (of.is_affine) {
      weight = numbers(of.channels, of.weight, of.weight / 3, DType::F32);
      bias = numbers(of.channels, 0, of.weight / 2, DType::F32);
    }
    running_mean = numbers(of.channels, 1, 1, DType::F32);
    running_variance = numbers(of.channels, 20, 2, DType::F32);
  }
};

inline std::vector<double> widened(const std::vector<float>& values) {
  return std::vector<double>(values.begin(), values.end());
}
inline oracle::NormBatch batch_of(const NormCase& of, const NormData& data) {
  oracle::NormBatch batch;
  batch.channels = of.channels;
  batch.eps = static_cast<double>(of.eps);
  batch.has_relu = of.has_relu;
  batch.input = widened(data.input), batch.residual = widened(data.residual);
  batch.out_gradient = widened(data.out_gradient);
  batch.weight = widened(data.weight), batch.bias = widened(data.bias);
  return batch;
}

/// Device memory of a matrix. The rows behind those that are given, and the gaps, are NaN.
class NormMatrix {
 public:
  NormMatrix(Machine& machine, const NormCase& of, DType dtype, const std::vector<float>* values)
      : of_(of), dtype_(storage_type(dtype)), buffer_(machine, encode(dtype_, spread(of, values))) {}
  minuet_tensor tensor(minuet_dtype dtype) const {
    return abi::tensor(buffer_.data(), of_.capacity, of_.channels, dtype, of_.channels + of_.gap);
  }
  const Buffer& buffer() const { return buffer_; }
  /// The rows in use. All others must be 0, and the gaps untouched.
  std::vector<float> read() const {
    const std::vector<float> all = decode(dtype_, buffer_.read<char>());
    std::vector<float> used;
    const int64_t ld = of_.channels + of_.gap;
    for (int64_t i = 0; i < of_.capacity * ld; ++i) {
      const float value = all[static_cast<size_t>(i)];
      if (i % ld >= of_.channels) {
        EXPECT_TRUE(std::isnan(value)) << "a gap of row " << i / ld << " is written";
      } else if (i / ld < of_.rows) {
        used.push_back(value);
      } else {
        EXPECT_EQ(value, 0) << "row " << i / ld << " is padding";
      }
    }
    return used;
  }

 private:
  static std::vector<float> spread(const NormCase& of, const std::vector<float>* values) {
    const int64_t ld = of.channels + of.gap;
    std::vector<float> all(static_cast<size_t>(std::max<int64_t>(of.capacity * ld, 1)),
                           std::numeric_limits<float>::quiet_NaN());
    if (!values) return all;
    for (size_t i = 0; i < values->size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      all[static_cast<size_t>(place / of.channels * ld + place % of.channels)] = (*values)[i];
    }
    return all;
  }

  NormCase of_;
  DType dtype_;
  Buffer buffer_;
};

class BatchNorm : public DeviceTest {
 protected:
  static minuet_batch_norm_options options_of(const NormCase& of, DType dtype) {
    minuet_batch_norm_options options = MINUET_BATCH_NORM_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype), options.channels = of.channels;
    options.eps = of.eps;
    if (of.has_running_mean && !of.is_cumulative) options.momentum = of.momentum;
    options.has_running_mean = of.has_running_mean ? 1 : 0;
    options.is_cumulative = of.is_cumulative ? 1 : 0;
    options.has_residual = of.has_residual ? 1 : 0, options.has_relu = of.has_relu ? 1 : 0;
    return options;
  }
  static BatchNormOp make_op(Machine& machine, const NormCase& of, DType dtype) {
    const minuet_batch_norm_options options = options_of(of, dtype);
    minuet_batch_norm_op* made = nullptr;
    check(minuet_batch_norm_create(machine.context(), &options, &made));
    BatchNormOp op(made, {minuet_batch_norm_destroy});
    check(minuet_batch_norm_load(made, machine.device()));
    return op;
  }
  BatchNormOp make_op(const NormCase& of) { return make_op(machine(), of, dtype()); }

  /// The memory of the calls for one batch, all of it poisoned but what calls read.
  struct Room {
    Room(Machine& machine, minuet_batch_norm_op* op, const NormCase& of, const NormData& data, DType dtype)
        : machine(machine),
          of(of),
          input(machine, of, dtype, &data.input),
          residual(machine, of, dtype, &data.residual),
          out_gradient(machine, of, dtype, &data.out_gradient),
          output(machine, of, dtype, nullptr),
          residual_gradient(machine, of, dtype, nullptr),
          input_gradient(machine, of, dtype, nullptr),
          count(machine, std::vector<int32_t>{static_cast<int32_t>(of.rows)}),
          weight(machine, padded(data.weight)),
          bias(machine, padded(data.bias)),
          running_mean(machine, data.running_mean),
          running_variance(machine, data.running_variance),
          batches(machine, std::vector<int64_t>{2}),
          new_running_mean(machine, of.channels * 4),
          new_running_variance(machine, of.channels * 4),
          new_batches(machine, 8),
          moments(machine, (2 * of.channels + 1) * 4),
          saved(machine, (2 * of.channels + 1) * 4),
          sums(machine, 2 * of.channels * 4),
          weight_gradient(machine, of.channels * 4),
          bias_gradient(machine, of.channels * 4),
          workspace(machine, bytes_of(machine, op, of.capacity)) {
      const minuet_dtype type = abi_dtype(dtype);
      forward.input = input.tensor(type), forward.output = output.tensor(type);
      forward.row_count = of.rows == of.capacity ? nullptr : count.integers();
      if (of.has_residual) forward.residual = residual.tensor(type);
      if (of.is_affine) forward.weight = floats(weight), forward.bias = floats(bias);
      if (of.has_running_mean) {
        forward.running_mean = floats(running_mean), forward.running_variance = floats(running_variance);
        forward.batch_count = static_cast<const int64_t*>(batches.data());
        forward.new_running_mean = floats(new_running_mean);
        forward.new_running_variance = floats(new_running_variance);
        forward.new_batch_count = static_cast<int64_t*>(new_batches.data());
      }
      forward.moments = floats(moments), forward.all_moments = floats(moments), forward.ranks = 1;
      forward.saved = floats(saved);
      forward.workspace = workspace.data(), forward.workspace_bytes = workspace.bytes();
      backward.input = forward.input, backward.row_count = forward.row_count;
      backward.out_gradient = out_gradient.tensor(type);
      backward.weight = forward.weight, backward.bias = forward.bias, backward.saved = forward.saved;
      if (of.has_relu && of.has_residual) backward.output = forward.output;
      if (of.has_residual) backward.residual_gradient = residual_gradient.tensor(type);
      backward.weight_gradient = floats(weight_gradient), backward.bias_gradient = floats(bias_gradient);
      backward.sums = floats(sums);
      backward.input_gradient = input_gradient.tensor(type);
      backward.workspace = workspace.data(), backward.workspace_bytes = workspace.bytes();
    }
    static float* floats(const Buffer& buffer) { return static_cast<float*>(buffer.data()); }
    static std::vector<float> padded(std::vector<float> values) {
      if (values.empty()) values.push_back(std::numeric_limits<float>::quiet_NaN());
      return values;
    }
    static int64_t bytes_of(Machine& machine, minuet_batch_norm_op* op, int64_t most_rows) {
      int64_t bytes = 0;
      check(minuet_batch_norm_bytes(op, machine.arch().c_str(), most_rows, &bytes));
      return bytes;
    }
    /// All results, bit by bit.
    std::vector<std::vector<float>> results() const {
      std::vector<std::vector<float>> all{output.read(), input_gradient.read(), saved.read<float>(),
                                          weight_gradient.read<float>(), bias_gradient.read<float>()};
      if (of.has_residual) all.push_back(residual_gradient.read());
      if (of.has_running_mean) {
        all.push_back(new_running_mean.read<float>());
        all.push_back(new_running_variance.read<float>());
      }
      return all;
    }

    Machine& machine;
    NormCase of;
    NormMatrix input, residual, out_gradient, output, residual_gradient, input_gradient;
    Buffer count, weight, bias, running_mean, running_variance, batches, new_running_mean,
        new_running_variance, new_batches, moments, saved, sums, weight_gradient, bias_gradient, workspace;
    minuet_batch_norm_arguments forward = MINUET_BATCH_NORM_ARGUMENTS_INIT;
    minuet_batch_norm_gradient_arguments backward = MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT;
  };

  static void run(minuet_batch_norm_op* op, const Room& room, void* stream = nullptr) {
    check(minuet_batch_norm_forward(op, room.machine.device(), &room.forward, stream));
    check(minuet_batch_norm_backward(op, room.machine.device(), &room.backward, stream));
  }

  /// Half a unit in the last place, relative to a number.
  double rounding() const {
    const DType stored = storage_type(dtype());
    return stored == DType::F16 ? 0x1p-11 : stored == DType::BF16 ? 0x1p-8 : 0x1p-24;
  }
  double smallest() const { return storage_type(dtype()) == DType::F16 ? 0x1p-25 : 1e-37; }
  /// The relative error that sums in fp32 may have.
  static constexpr double kSumError = 4e-6;

  void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                   const std::vector<double>& sizes, double factor, double unit, const char* name) {
    ASSERT_EQ(got.size(), expected.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) {
      const double bound = kSumError * factor * sizes[i] + unit * std::abs(expected[i]) + smallest();
      ASSERT_NEAR(static_cast<double>(got[i]), expected[i], bound) << name << " " << i;
    }
  }

  /// Compares what run() made with float64. `all` are the rows of all ranks, of which those of the room begin
  /// at row `first`.
  void expect_forward(const Room& room, const oracle::NormBatch& all, size_t first = 0) {
    const oracle::NormResult expected = oracle::normalize(all);
    const size_t width = all.width(), begin = first * width;
    const size_t count = static_cast<size_t>(room.of.rows) * width;
    const std::vector<float> saved = room.saved.read<float>();
    ASSERT_EQ(saved.size(), 2 * width + 1);
    EXPECT_EQ(saved.back(), static_cast<float>(all.rows()));
    std::vector<double> sizes(width);
    for (size_t c = 0; c < width; ++c)
      sizes[c] = std::abs(expected.mean[c]) / 16 + std::sqrt(expected.variance[c]);
    expect_near({saved.begin(), saved.begin() + static_cast<int64_t>(width)}, expected.mean, sizes, 1, 0,
                "mean");
    expect_near({saved.begin() + static_cast<int64_t>(width), saved.end() - 1}, expected.inverse_std,
                expected.inverse_std, 4, 0, "inverse_std");
    std::vector<double> wanted, magnitudes;
    wanted.reserve(count), magnitudes.reserve(count);
    for (size_t i = begin; i < begin + count; ++i) {
      const size_t c = i % width;
      const double value = expected.output[i];
      wanted.push_back(all.has_relu && value < 0 ? 0 : value);
      const double normalized = (all.input[i] - expected.mean[c]) * expected.inverse_std[c];
      // The mean is rounded to fp32.
      const double offset = std::abs(expected.mean[c]) * expected.inverse_std[c] / 16;
      magnitudes.push_back(std::abs(all.weight_of(c)) * (2 * std::abs(normalized) + 1 + offset) +
                           std::abs(all.bias_of(c)) + (all.residual.empty() ? 0 : std::abs(all.residual[i])));
    }
    expect_near(room.output.read(), wanted, magnitudes, 1, rounding(), "output");
  }
  /// The mask of the ReLU is that of the outputs of all ranks, as they are stored.
  void expect_backward(const Room& room, const oracle::NormBatch& all, const std::vector<float>& outputs,
                       size_t first = 0, bool sums_all = true) {
    const oracle::NormResult forward = oracle::normalize(all);
    std::vector<bool> passes;
    passes.reserve(outputs.size());
    for (const float output : outputs) passes.push_back(!all.has_relu || output > 0);
    const oracle::NormGradients expected = oracle::gradients_of(all, passes);
    const size_t width = all.width(), begin = first * width;
    const size_t count = static_cast<size_t>(room.of.rows) * width;
    double factor = 1;
    for (size_t c = 0; c < width; ++c)
      factor = std::max(factor, 1 + std::abs(forward.mean[c]) * forward.inverse_std[c] / 16);
    const auto part = [&](const std::vector<double>& values) {
      return std::vector<double>(values.begin() + static_cast<int64_t>(begin),
                                 values.begin() + static_cast<int64_t>(begin + count));
    };
    if (room.of.has_residual)
      expect_near(room.residual_gradient.read(), part(expected.residual), part(expected.residual), 0, 0,
                  "residual_gradient");
    expect_near(room.input_gradient.read(), part(expected.input), part(expected.input_sizes), factor,
                rounding(), "input_gradient");
    if (!sums_all) return;
    std::vector<double> weight_sizes = expected.weight_sizes;
    for (size_t c = 0; c < width; ++c) weight_sizes[c] += expected.bias_sizes[c];
    expect_near(room.weight_gradient.read<float>(), expected.weight, weight_sizes, factor, 0,
                "weight_gradient");
    expect_near(room.bias_gradient.read<float>(), expected.bias, expected.bias_sizes, 1, 0, "bias_gradient");
  }
  /// The running statistics after a batch, where `share` is that of the batch.
  void expect_running(const Room& room, const NormData& data, const oracle::NormBatch& all, double share) {
    const oracle::NormResult expected = oracle::normalize(all);
    const auto n = static_cast<double>(all.rows());
    const double correction = n > 1 ? n / (n - 1) : 0;
    std::vector<double> mean, variance;
    mean.reserve(all.width()), variance.reserve(all.width());
    for (size_t c = 0; c < all.width(); ++c) {
      mean.push_back((1 - share) * static_cast<double>(data.running_mean[c]) + share * expected.mean[c]);
      variance.push_back((1 - share) * static_cast<double>(data.running_variance[c]) +
                         share * correction * expected.variance[c]);
    }
    const std::vector<double> sizes(all.width(), 4);
    expect_near(room.new_running_mean.read<float>(), mean, sizes, 1, 1e-6, "running_mean");
    expect_near(room.new_running_variance.read<float>(), variance, sizes, 4, 1e-6, "running_variance");
  }

  /// Runs a batch and compares all results.
  void check_case(const NormCase& of) {
    SCOPED_TRACE(std::to_string(of.rows) + " rows of " + std::to_string(of.channels) +
                 " channels, residual " + std::to_string(of.has_residual) + ", relu " +
                 std::to_string(of.has_relu));
    const NormData data(of, dtype());
    const BatchNormOp op = make_op(of);
    const Room room(machine(), op.get(), of, data, dtype());
    run(op.get(), room);
    const oracle::NormBatch batch = batch_of(of, data);
    expect_forward(room, batch);
    expect_backward(room, batch, room.output.read());
    if (of.has_running_mean) {
      expect_running(room, data, batch, of.is_cumulative ? 1.0 / 3 : static_cast<double>(of.momentum));
      EXPECT_EQ(room.new_batches.read<int64_t>().front(), 3);
    }
  }
};

}  // namespace minuet::abi
