// An op that the library does not have is run through its rooms, with tables of families of this test: a GELU
// that the candidate of a convolution covers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/ops.h"
#include "runtime/cpu/ops/convolution.h"
#include "runtime/execution/execution.h"
#include "runtime/weights/weight_image.h"

namespace minuet {

// ---- GELU, alone and behind a convolution ---------------------------------------------------------------

struct GeluProblem {
  static const OpKind kKind;
  i32 channels = 0;
  Columns input, output;
};
struct GeluChoice {
  static const OpFamily kKind;
  GeluProblem problem;
};

/// A convolution whose candidate computes the GELU behind it too.
struct CoveringProblem {
  static const OpKind kKind;
  ConvolutionProblem convolution;
};
struct CoveringChoice {
  static const OpFamily kKind;
  OpChoice convolution;
  i32 channels = 0;
};

// make_op_kind() and make_op_family() find these by their arguments.
static llvm::Error validate(const GeluProblem&) { return llvm::Error::success(); }
static llvm::Error validate(const CoveringProblem& problem) {
  return validate(OpProblem(problem.convolution));
}

template <class Choice, class Problem>
static std::vector<Candidate> one_without_map(const Problem& problem) {
  return {Candidate{Choice{problem}, {"for a test"}}};
}
static llvm::Expected<std::vector<Candidate>> candidates(const GeluProblem& problem,
                                                         const CandidateOptions&) {
  return one_without_map<GeluChoice>(problem);
}
static llvm::Expected<std::vector<Candidate>> candidates(const CoveringProblem& problem,
                                                         const CandidateOptions& options) {
  MINUET_ASSIGN(std::vector<Candidate> found, choose_candidates(problem.convolution, options));
  for (Candidate& candidate : found) {
    candidate.choice = CoveringChoice{candidate.choice, problem.convolution.out_channels};
    candidate.covers = 1;
  }
  return found;
}

static const WindowProblem* window(const GeluProblem&) { return nullptr; }
static const WindowProblem* window(const CoveringProblem& problem) { return &problem.convolution; }

static OperandShape shape(const GeluProblem& problem) { return {problem.channels, problem.channels}; }
static OperandShape shape(const CoveringProblem& problem) {
  const OpProblem convolution(problem.convolution);
  return convolution.kind().shape(convolution);
}

template <class Problem>
static Problem at_columns(Problem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  return problem;
}
static CoveringProblem at_columns(const CoveringProblem& problem, const OperandColumns& columns) {
  const OpProblem convolution(problem.convolution);
  return {convolution.kind().at_columns(convolution, columns).get<ConvolutionProblem>()};
}

template <class Choice>
static void add_sources(SourceList&, const Choice&) {}  // the CPU compiles nothing
template <class Choice>
static bool is_same(const Choice&, const Choice&) {
  return true;
}

const OpKind GeluProblem::kKind = make_op_kind<GeluProblem>("GELU");
const OpKind CoveringProblem::kKind = make_op_kind<CoveringProblem>("convolution with GELU");
const OpFamily GeluChoice::kKind = make_op_family<GeluChoice>("GELU");
const OpFamily CoveringChoice::kKind = make_op_family<CoveringChoice>("convolution with GELU");

namespace {

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

const float* row_of(const void* data, i64 row, i64 ld) { return static_cast<const float*>(data) + row * ld; }
float* row_of(void* data, i64 row, i64 ld) { return static_cast<float*>(data) + row * ld; }

void apply_gelu(const void* input, i64 input_ld, void* output, i64 output_ld, i64 rows, i32 channels) {
  for (i64 r = 0; r < rows; ++r) {
    for (i32 c = 0; c < channels; ++c) {
      row_of(output, r, output_ld)[c] = static_cast<float>(gelu(row_of(input, r, input_ld)[c]));
    }
  }
}

int covered_runs = 0, own_runs = 0;

class GeluOp final : public CpuOp {
 public:
  explicit GeluOp(const GeluProblem& problem) : channels_(problem.channels) {}
  i64 scratch_words() const override { return 0; }
  llvm::Error run(const CpuCall&, const OpRequest& request) override {
    ++own_runs;
    apply_gelu(request.input, request.input_ld, request.output, request.output_ld, *request.output_count,
               channels_);
    return llvm::Error::success();
  }

 private:
  const i32 channels_;
};

class CoveringOp final : public CpuOp {
 public:
  CoveringOp(std::unique_ptr<CpuOp> convolution, i32 channels)
      : convolution_(std::move(convolution)), channels_(channels) {}
  i64 scratch_words() const override { return convolution_->scratch_words(); }
  llvm::Error run(const CpuCall& call, const OpRequest& request) override {
    ++covered_runs;
    auto own = static_cast<const NeighbourRequest&>(request);
    own.covered.clear();
    MINUET_TRY(convolution_->run(call, own));
    const CoveredOp& behind = request.covered.front();
    apply_gelu(request.output, request.output_ld, behind.output, behind.output_ld, *request.output_count,
               channels_);
    return llvm::Error::success();
  }

 private:
  const std::unique_ptr<CpuOp> convolution_;
  const i32 channels_;
};

using NewCpuOp = llvm::Expected<std::unique_ptr<CpuOp>>;

NewCpuOp make_gelu_op(const OpChoice& choice) {
  return std::make_unique<GeluOp>(choice.get<GeluChoice>().problem);
}
NewCpuOp make_covering_op(const OpChoice& choice) {
  const auto& covering = choice.get<CoveringChoice>();
  MINUET_ASSIGN(std::unique_ptr<CpuOp> convolution, make_fused_op(covering.convolution));
  return std::make_unique<CoveringOp>(std::move(convolution), covering.channels);
}

std::vector<ParameterImage> covering_images(const OpChoice& choice, DType type, llvm::StringRef arch) {
  return parameter_images(choice.get<CoveringChoice>().convolution, type, arch);
}

}  // namespace

// ---- the tables, each in the place of the library's ----------------------------------------------------

llvm::ArrayRef<CpuFamily> cpu_families() {
  static const CpuFamily families[] = {{FusedChoice::kKind, make_fused_op},
                                       {GeluChoice::kKind, make_gelu_op},
                                       {CoveringChoice::kKind, make_covering_op}};
  return families;
}

llvm::ArrayRef<WorkOfFamily> works_of_families() {
  static const WorkOfFamily families[] = {{FusedChoice::kKind, make_view_work},
                                          {GeluChoice::kKind, make_view_work},
                                          {CoveringChoice::kKind, make_view_work}};
  return families;
}

llvm::ArrayRef<ImagesOfFamily> images_of_families() {
  static const ImagesOfFamily families[] = {{FusedChoice::kKind, fused_images},
                                            {CoveringChoice::kKind, covering_images}};
  return families;
}

namespace {

// ---- programs, and what they should give ------------------------------------------------------------------

constexpr i32 kIn = 5, kOut = 12, kRows = 60;

struct Cloud {
  std::vector<i32> coordinates;  // [kRows, 4]
  std::vector<float> features;   // [kRows, kIn]
};

/// Distinct voxels in a cube of 5^3, in no order.
Cloud random_cloud(std::mt19937& random) {
  std::vector<i32> cells(125);
  std::iota(cells.begin(), cells.end(), 0);
  std::shuffle(cells.begin(), cells.end(), random);
  Cloud cloud;
  for (i32 r = 0; r < kRows; ++r) {
    const i32 cell = cells[r];
    cloud.coordinates.insert(cloud.coordinates.end(), {0, cell / 25 - 2, cell / 5 % 5 - 2, cell % 5 - 2});
  }
  std::normal_distribution<float> normal;
  for (i32 i = 0; i < kRows * kIn; ++i) cloud.features.push_back(normal(random));
  return cloud;
}

i32 add_tensor(Program& program, i32 level, i32 channels) {
  const i32 number = static_cast<i32>(program.tensors.size());
  program.tensors.push_back({level, channels, number, 0});
  program.storages.push_back({level, channels, 0, 0, program.stack});
  program.stack.push_back(number);
  return number;
}

void add_layer(Program& program, const char* name, const OpProblem& problem, i32 map, i32 input, i32 output) {
  OperandColumns columns;
  columns.input = columns_of(program, input);
  columns.output = columns_of(program, output);
  ProgramLayer layer(problem.kind().at_columns(problem, columns));
  layer.name = name;
  layer.map = map;
  layer.input = input;
  layer.output = output;
  program.outputs = {output};
  program.layers.push_back(std::move(layer));
}

Program empty_program() {
  Program program;
  program.dtype = DType::F32;
  program.levels.push_back({});
  add_tensor(program, 0, kIn);
  return program;
}

/// A convolution of 3^3 offsets and a GELU.
Program gelu_program(bool is_covered) {
  Program program = empty_program();
  program.maps.push_back({0, 0, {3, 3, 3, 1}, {1, 1, 1, 1}});
  ConvolutionProblem convolution;
  convolution.dtype = DType::F32;
  convolution.kernel_size = {3, 3, 3, 1};
  convolution.in_channels = kIn;
  convolution.out_channels = kOut;
  convolution.dataflow = Dataflow::Fused;
  const OpProblem first = is_covered ? OpProblem(CoveringProblem{convolution}) : OpProblem(convolution);
  add_layer(program, "convolution", first, 0, 0, add_tensor(program, 0, kOut));
  add_layer(program, "gelu", GeluProblem{kOut, {}, {}}, -1, 1, add_tensor(program, 0, kOut));
  return program;
}

std::unique_ptr<Execution> make_execution(const Program& program, const std::vector<float>& weight,
                                          const ExecutionOptions& options = {}) {
  auto plan = std::make_shared<Plan>();
  plan->program = program;
  plan->parameters.resize(program.layers.size());
  plan->parameters[0].weight = weight;
  const std::shared_ptr<const CompiledPlan> compiled = llvm::cantFail(CompiledPlan::create(*plan, ""));
  const auto loaded = llvm::cantFail(
      LoadedPlan::create(plan, compiled, {}, llvm::cantFail(open_cpu_device(2)), nullptr, nullptr));
  return llvm::cantFail(Execution::create(loaded, options));
}

/// cantFail() checks nothing in a release build.
void succeed(llvm::Error error) {
  if (error) ADD_FAILURE() << llvm::toString(std::move(error));
}

/// `features`: as many rows as prepared, or fewer in capacity mode.
std::vector<float> run(Execution& execution, std::vector<float> features, i32 channels) {
  const i64 inputs = execution.level(0).caller_rows, rows = execution.output_rows();
  features.resize(static_cast<std::size_t>(inputs * kIn));
  std::vector<float> output(static_cast<std::size_t>(rows * channels), std::nanf(""));
  succeed(execution.run({Tensor{features.data(), inputs, kIn, kIn, DType::F32}},
                        {Tensor{output.data(), rows, channels, channels, DType::F32}}, nullptr));
  return output;
}

std::vector<double> gelu_of_convolution(const Cloud& cloud, const std::vector<float>& weight) {
  std::map<std::array<i32, 3>, i32> rows;
  const auto at = [&](i32 r, i32 a) { return cloud.coordinates[4 * r + 1 + a]; };
  for (i32 r = 0; r < kRows; ++r) rows[{at(r, 0), at(r, 1), at(r, 2)}] = r;
  std::vector<double> output(std::size_t{kRows} * kOut, 0.0);
  for (i32 r = 0; r < kRows; ++r) {
    for (i32 k = 0; k < 27; ++k) {
      const auto found = rows.find({at(r, 0) + k / 9 - 1, at(r, 1) + k / 3 % 3 - 1, at(r, 2) + k % 3 - 1});
      if (found == rows.end()) continue;
      for (i32 i = 0; i < kIn; ++i) {
        for (i32 o = 0; o < kOut; ++o) {
          output[r * kOut + o] +=
              double{cloud.features[found->second * kIn + i]} * weight[(k * kIn + i) * kOut + o];
        }
      }
    }
  }
  for (double& value : output) value = gelu(value);
  return output;
}

class Seam : public testing::Test {
 protected:
  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  const testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
};

TEST_F(Seam, ACandidateCoversTheOpBehindIt) {
  const Cloud cloud = random_cloud(random_);
  std::vector<float> weight(std::size_t{27} * kIn * kOut);
  std::normal_distribution<float> normal;
  for (float& value : weight) value = normal(random_) * 0.1f;
  const std::vector<double> expected = gelu_of_convolution(cloud, weight);
  for (const bool has_capacities : {false, true}) {
    ExecutionOptions options;
    if (has_capacities) {
      options.cloud.level_capacity = {kRows + 9};
      options.cloud.key_bits = 64;
    }
    std::vector<float> outputs[2];
    for (const bool is_covered : {false, true}) {
      const auto execution = make_execution(gelu_program(is_covered), weight, options);
      succeed(execution->prepare(cloud.coordinates.data(), kRows, nullptr));
      covered_runs = own_runs = 0;
      outputs[is_covered] = run(*execution, cloud.features, kOut);
      EXPECT_EQ(covered_runs, is_covered ? 1 : 0);
      EXPECT_EQ(own_runs, is_covered ? 0 : 1);
    }
    EXPECT_EQ(outputs[0], outputs[1]);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(outputs[1][i], expected[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace minuet
