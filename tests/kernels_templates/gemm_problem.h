// Random problems for the kernels of gemm_kernels.h, and what they must come to in fp64. Without the shim, so
// that tests on a GPU have them too.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "kernels_templates/core/convert.h"
#include "tests/support/random.h"

namespace minuet {

struct GemmProblem {
  DType io = DType::F16;
  i32 rows = 0, columns = 0, steps = 0, step_words = 0;
  std::vector<u32> a, b;                     // as GemmParams says
  std::vector<double> expected, magnitudes;  // [rows][columns]: sums of products, and of their magnitudes
};

/// `count` random elements, as words in `stored` and as numbers.
inline std::vector<double> random_elements(Random& random, DType io, i64 count, std::vector<u32>& stored) {
  std::vector<double> values;
  const bool wide = dtype_bytes(io) == 4;
  for (i64 i = 0; i < count; ++i) {
    const auto value = static_cast<float>(random.uniform(-2, 2));
    if (wide) {
      stored.push_back(round_to_tf32(bits_of(value)));
      values.push_back(static_cast<double>(float_of(stored.back())));
      continue;
    }
    const u16 bits = io == DType::BF16 ? to_bf16(value) : to_f16(value);
    if (i % 2 == 0) stored.push_back(bits);
    if (i % 2 == 1) stored.back() |= static_cast<u32>(bits) << 16;
    values.push_back(static_cast<double>(io == DType::BF16 ? from_bf16(bits) : from_f16(bits)));
  }
  return values;
}

inline GemmProblem random_gemm(u64 seed, DType io, i32 rows, i32 columns, i32 steps, i32 step_words) {
  GemmProblem problem{io, rows, columns, steps, step_words, {}, {}, {}, {}};
  Random random(seed);
  const i64 step = static_cast<i64>(step_words) * 4 / dtype_bytes(io), depth = steps * step;
  const std::vector<double> a = random_elements(random, io, rows * depth, problem.a);
  const std::vector<double> b = random_elements(random, io, columns * depth, problem.b);
  for (i64 row = 0; row < rows; ++row) {
    for (i64 column = 0; column < columns; ++column) {
      double sum = 0, magnitude = 0;
      for (i64 k = 0; k < depth; ++k) {
        const double product = a[row * depth + k] * b[(k / step * columns + column) * step + k % step];
        sum += product;
        magnitude += std::fabs(product);
      }
      problem.expected.push_back(sum);
      problem.magnitudes.push_back(magnitude);
    }
  }
  return problem;
}

/// Of an element: the sum of its products' magnitudes. A tensor core cuts off what is below 2^-23 of its
/// largest addend, 16 times a step; one product among a thousand is 2^-10.
constexpr double kGemmBound = 0x1p-18;

/// The greatest error of an element, as a share of that sum; infinity where one is not a number.
inline double worst_error(const GemmProblem& problem, const std::vector<float>& out) {
  double worst = 0;
  for (std::size_t i = 0; i < problem.expected.size(); ++i) {
    const double error = std::fabs(static_cast<double>(out[i]) - problem.expected[i]) / problem.magnitudes[i];
    if (!(error <= worst)) worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  return worst;
}

}  // namespace minuet
