#include "runtime/cuda/matmul.h"

#include <set>

#include "tests/runtime/cuda/gpu.h"
#include "tests/support/compare.h"
#include "tests/support/layer_run.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet {
namespace {

struct MatmulCase {
  MatmulProblem problem;
  i64 lead = 0;  // rows before the first member, so that addresses are no better aligned than said
};

std::vector<float> random_values(Random& random, DType type, i64 count, double scale) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return round_to(type, std::move(values));
}

std::vector<double> expected(const MatmulProblem& problem, const std::vector<float>& input,
                             const std::vector<float>& weight) {
  const i64 in = problem.shape.in_channels, out = problem.shape.out_channels;
  std::vector<double> result(static_cast<std::size_t>(problem.batch * problem.height * out));
  for (i64 row = 0; row < problem.batch * problem.height; ++row) {
    const float* slice = weight.data() + row / problem.height * in * out;
    for (i64 i = 0; i < in; ++i) {
      const double value = input[row * problem.input_ld + i];
      for (i64 o = 0; o < out; ++o) result[row * out + o] += value * slice[i * out + o];
    }
  }
  return result;
}

class MatmulTest : public GpuTest {
 protected:
  /// False where cuBLASLt has no algorithm.
  bool check_case(MatmulCase test, u64 seed) {
    MatmulProblem& problem = test.problem;
    const MatmulShape shape = problem.shape;
    Random random(seed);
    const i64 rows = problem.batch * problem.height, in = shape.in_channels, out = shape.out_channels;
    const std::vector<float> input = random_values(random, shape.io, rows * problem.input_ld, 1);
    const std::vector<float> weight =
        random_values(random, shape.io, problem.batch * in * out, 1 / std::sqrt(static_cast<double>(in)));
    const i64 input_lead = test.lead * problem.input_ld * dtype_bytes(shape.io);
    const i64 output_lead = test.lead * out * dtype_bytes(DType::F32);
    std::vector<char> stored = encode(shape.io, input);
    stored.insert(stored.begin(), static_cast<std::size_t>(input_lead), char{-1});
    TestBuffer x(device(), stored), w(device(), encode(shape.io, weight));
    TestBuffer y(device(), output_lead + rows * out * dtype_bytes(DType::F32));
    problem.weight_alignment = alignment_of(in * out * dtype_bytes(shape.io));
    problem.input_alignment = std::min(
        alignment_of(input_lead), alignment_of(problem.height * problem.input_ld * dtype_bytes(shape.io)));
    problem.output_alignment =
        std::min(alignment_of(output_lead), alignment_of(problem.height * out * dtype_bytes(DType::F32)));
    if (!run(problem, w.as<char>(), x.as<char>() + input_lead, y.as<char>() + output_lead)) return false;

    std::vector<char> result = y.read<char>();
    result.erase(result.begin(), result.begin() + output_lead);
    // 16-bit operands are exact, and their products' sums fp32.
    const DType bound = shape.io == DType::TF32 ? DType::TF32 : DType::F32;
    EXPECT_TRUE(
        is_close(decode(DType::F32, result), expected(problem, input, weight), out, error_bound(bound)));
    return true;
  }

  bool run(const MatmulProblem& problem, char* weight, char* input, char* output) {
    Matmuls* matmuls = take(device().matmuls());
    const ContextScope scope(device().driver(), device().context());
    i64 lookups = 0;
    const MatmulAlgorithm* algorithm = take(matmuls->find(key_of(problem), lookups));
    if (!algorithm->found) return false;
    BoundMatmul bound;
    bound.problem = problem;
    bound.algorithm = algorithm->algorithm;
    bound.weight = weight, bound.input = input, bound.output = output;
    EXPECT_EQ(llvm::toString(matmuls->lay_out(problem, bound.layouts)), "");
    std::unique_ptr<TestBuffer> pointers;
    if (problem.mode == BatchMode::Pointers) {
      pointers = std::make_unique<TestBuffer>(device(), pointers_of(problem, weight, input, output));
      char** table = pointers->as<char*>();
      bound.weight = table, bound.input = table + problem.batch, bound.output = table + 2 * problem.batch;
    }
    if (!workspace_) workspace_ = std::make_unique<TestBuffer>(device(), kMatmulWorkspaceBytes);
    take(matmuls->run(bound, workspace_->as(), nullptr, lookups));
    take(device().synchronize(nullptr));
    return true;
  }

  static std::vector<char*> pointers_of(const MatmulProblem& problem, char* weight, char* input,
                                        char* output) {
    const MatmulShape& shape = problem.shape;
    std::vector<char*> table;
    for (i64 i = 0; i < problem.batch; ++i) {
      table.push_back(weight + i * shape.in_channels * shape.out_channels * dtype_bytes(shape.io));
    }
    for (i64 i = 0; i < problem.batch; ++i) {
      table.push_back(input + i * problem.height * problem.input_ld * dtype_bytes(shape.io));
    }
    for (i64 i = 0; i < problem.batch; ++i) {
      table.push_back(output + i * problem.height * shape.out_channels * dtype_bytes(DType::F32));
    }
    return table;
  }

  /// All shapes in one mode; how many cuBLASLt has an algorithm for.
  void check_mode(BatchMode mode, bool must_exist) {
    i32 found = 0, asked = 0;
    u64 seed = 1;
    for (DType type : kDTypes) {
      for (auto [in, out] : {std::pair{1, 1},
                             {1, 32},
                             {3, 24},
                             {4, 16},
                             {5, 7},
                             {32, 32},
                             {48, 96},
                             {96, 3},
                             {128, 128},
                             {255, 33},
                             {256, 256}}) {
        // The software device multiplies as said, however large a matrix is.
        if (on_software_device() && in + out > 150) continue;
        for (i64 height : {1, 7, 64, on_software_device() ? 130 : 1000}) {
          MatmulCase test;
          test.problem.shape = {in, out, type};
          test.problem.mode = mode;
          test.problem.height = height;
          test.problem.batch = mode == BatchMode::Single ? 1 : 5;
          test.problem.input_ld = mode == BatchMode::Single && height == 7 ? in + 5 : in;
          test.lead = height == 7 ? 3 : 0;
          SCOPED_TRACE(testing::Message()
                       << "mode " << static_cast<int>(mode) << " dtype " << static_cast<int>(type) << " "
                       << in << "->" << out << " height " << height << " seed " << seed);
          const bool exists = check_case(test, seed++);
          found += exists, ++asked;
          if (must_exist) {
            EXPECT_TRUE(exists);
          }
        }
      }
    }
    RecordProperty("algorithms", std::to_string(found) + " of " + std::to_string(asked));
    std::printf("[          ] algorithms for %d of %d shapes\n", found, asked);
  }

  std::unique_ptr<TestBuffer> workspace_;
};

TEST_F(MatmulTest, Single) { check_mode(BatchMode::Single, true); }
TEST_F(MatmulTest, Strided) { check_mode(BatchMode::Strided, true); }
/// cuBLASLt need not have them: the engine has another way.
TEST_F(MatmulTest, Pointers) { check_mode(BatchMode::Pointers, false); }

/// All of the list; where that ends, its last.
TEST_F(MatmulTest, AnotherAlgorithmMultipliesAsWell) {
  Matmuls* matmuls = take(device().matmuls());
  std::set<std::string> algorithms;
  for (i32 number = 0; number < kMostGemmAlgorithms; ++number) {
    MatmulCase test;
    test.problem.shape = {40, 24, DType::F16, number};
    test.problem.mode = BatchMode::Strided;
    test.problem.height = 130;
    test.problem.batch = 5;
    test.problem.input_ld = 40;
    EXPECT_TRUE(check_case(test, 7)) << number;
    const ContextScope scope(device().driver(), device().context());
    i64 lookups = 0;
    const MatmulAlgorithm* const found = take(matmuls->find(key_of(test.problem), lookups));
    algorithms.emplace(reinterpret_cast<const char*>(&found->algorithm), sizeof(found->algorithm));
  }
  EXPECT_GT(algorithms.size(), 1u);
  if (on_software_device()) {
    EXPECT_EQ(algorithms.size(), 3u);
  }
}

TEST_F(MatmulTest, ABucketIsLookedUpOnce) {
  Matmuls* matmuls = take(device().matmuls());
  const ContextScope scope(device().driver(), device().context());
  MatmulProblem problem;
  problem.shape = {40, 72, DType::F16};
  problem.input_ld = 40;
  i64 lookups = 0;
  for (i64 height : {1025, 1500, 4096}) {
    problem.height = height;
    take(matmuls->find(key_of(problem), lookups));
  }
  EXPECT_EQ(lookups, 1);
  problem.height = 4097;
  take(matmuls->find(key_of(problem), lookups));
  EXPECT_EQ(lookups, 2);
}

}  // namespace
}  // namespace minuet
