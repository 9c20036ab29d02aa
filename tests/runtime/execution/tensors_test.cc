// What run takes: ranges of columns of wider matrices, tensors that do not fit, calls of several threads. On
// every device, single convolutions and networks.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/poison.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The largest power of two, at most 16, that divides a row: what a row stride is a multiple of.
int64_t row_alignment(int32_t channels, DType dtype) {
  int64_t bytes = 16;
  while (channels * dtype_bytes(dtype) % bytes != 0) bytes /= 2;
  return bytes;
}

/// Columns of a wider matrix, with poison on both sides. The rows lie no better than they have to.
class Columns {
 public:
  /// values: dense, or none where they are still to be written.
  Columns(Machine& machine, int64_t rows, int32_t channels, DType dtype, const std::vector<char>& values = {})
      : rows_(rows),
        channels_(channels),
        dtype_(dtype),
        first_(16 / dtype_bytes(dtype)),
        stride_(first_ + channels + 2 * row_alignment(channels, dtype) / dtype_bytes(dtype)),
        memory_(machine, around(values)) {}

  minuet_tensor tensor() const {
    char* const data = static_cast<char*>(memory_.data()) + first_ * dtype_bytes(dtype_);
    return abi::tensor(data, rows_, channels_, abi_dtype(dtype_), stride_);
  }
  /// The whole matrix as it is when the range holds `values` and nothing else was ever written.
  std::vector<char> around(const std::vector<char>& values) const {
    const size_t element = dtype_bytes(dtype_), row = channels_ * element, pitch = stride_ * element;
    std::vector<char> whole(rows_ * pitch);
    if (!whole.empty()) std::memcpy(whole.data(), poison(static_cast<int64_t>(whole.size())), whole.size());
    for (size_t r = 0; r * row < values.size(); ++r) {
      std::memcpy(whole.data() + r * pitch + first_ * element, values.data() + r * row, row);
    }
    return whole;
  }
  std::vector<char> whole() const { return memory_.read<char>(); }

 private:
  int64_t rows_;
  int32_t channels_;
  DType dtype_;
  int64_t first_, stride_;  // elements
  Buffer memory_;
};

/// A matrix either way: dense, or columns of a wider one.
class Matrix {
 public:
  Matrix(Machine& machine, bool wide, int64_t rows, int32_t channels, DType dtype,
         const std::vector<char>& values = {}) {
    if (wide) {
      columns_ = std::make_unique<Columns>(machine, rows, channels, dtype, values);
      tensor_ = columns_->tensor();
      return;
    }
    dense_ = std::make_unique<Buffer>(machine, rows * channels * dtype_bytes(dtype));
    if (!values.empty()) dense_ = std::make_unique<Buffer>(machine, values);
    tensor_ = abi::tensor(*dense_, rows, channels, dtype);
  }
  const minuet_tensor& tensor() const { return tensor_; }
  /// It holds `values`, bit by bit, and what lies between its rows is as it was.
  bool holds(const std::vector<char>& values) const {
    return dense_ ? dense_->read<char>() == values : columns_->whole() == columns_->around(values);
  }

 private:
  std::unique_ptr<Buffer> dense_;
  std::unique_ptr<Columns> columns_;
  minuet_tensor tensor_{};
};

/// A network that reads its input, and writes its output, in a way of its own.
struct Shape {
  const char* what;
  int in_channels;
  const char* channels;
  const char* layers;

  NetworkSpec spec(DType dtype) const {
    NetworkSpec spec;
    spec.dtype = dtype;
    spec.description = R"({"name": "shape", "ndim": 3, "in_channels": )" + std::to_string(in_channels) +
                       R"(, "channels": [)" + channels + R"(], "layers": [)" + layers + "]}";
    return spec;
  }
};

constexpr Shape kDerived{"ends in a derived level", 16, "64, 5",
                         R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "stride": 2},
                            {"op": "block", "name": "b", "width": 1, "kernel_size": 3})"};
constexpr Shape kFirstResidual{"adds its input", 16, "16", R"({"op": "residual", "name": "a", "width": 0})"};
constexpr Shape kOthers[] = {
    {"two blocks", 5, "16, 64",
     R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3},
        {"op": "block", "name": "b", "width": 1, "kernel_size": 3})"},
    {"one GEMM", 64, "16", R"({"op": "block", "name": "a", "width": 0, "kernel_size": 1})"},
    {"ends in a concatenation", 5, "16, 5",
     R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
        {"op": "block", "name": "b", "width": 1, "kernel_size": 3}, {"op": "concat", "with": "s"})"},
    {"ends in a transposed layer", 5, "16, 5",
     R"({"op": "block", "name": "a", "width": 0, "kernel_size": 1, "save": "s"},
        {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2},
        {"op": "up", "name": "c", "width": 1, "kernel_size": 2, "stride": 2, "onto": "s"})"}};

class TensorsTest : public DeviceTest {
 protected:
  int64_t points() { return machine().is_software() ? 40 : 300; }

  /// A convolution with sets of its own that are as large as they need to be to tell rows apart.
  ConvolutionCase with_residual(int in, int out) {
    ConvolutionCase test = small_case(dtype(), ConvolutionKind::Strided, in, out, points());
    test.residual = true;
    return test;
  }

  std::vector<ConvolutionCase> cases() {
    std::vector<ConvolutionCase> all;
    for (const ConvolutionKind kind : all_kinds()) {
      for (const auto& [in, out] : {std::pair{16, 64}, {5, 16}, {64, 5}, {16, 16}}) {
        if (machine().is_software() && (in != 16 || out != 64)) continue;
        for (const bool residual : {false, true}) {
          all.push_back(small_case(dtype(), kind, in, out, points()));
          all.back().residual = residual;
          all.back().coarse_side = CoarseSide::Derived;
        }
      }
    }
    return all;
  }

  /// As in any order of inputs, the output last: the text names the tensor and has the words.
  void expect_refused(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                      const minuet_tensor& output, const std::vector<std::string>& words) {
    EXPECT_EQ(run_tensors(execution, inputs, output), MINUET_INVALID_ARGUMENT);
    for (const std::string& word : words) EXPECT_THAT(last_error(), HasSubstr(word));
  }
  void expect_each_refused(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                           const minuet_tensor& output);
  void expect_other_counts_refused(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                                   const minuet_tensor& output);
  void check_network(const Shape& shape);
};

TEST_P(TensorsTest, AConvolutionTakesColumnsOfWiderMatrices) {
  for (const ConvolutionCase& test : cases()) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    Convolution convolution(machine(), test, data);
    const Execution execution = convolution.execution();
    const std::vector<char> expected = map.to_output(convolution.run(execution.get(), map, data));
    const std::vector<char> features = encode(dtype(), map.to_input(data.features)),
                            added = encode(dtype(), map.to_output(data.residual));
    for (int wide = 1; wide < 8; ++wide) {
      if (!test.residual && (wide & 2) != 0) continue;
      const Matrix input(machine(), (wide & 1) != 0, data.in_rows(), test.in_channels, dtype(), features);
      const Matrix residual(machine(), (wide & 2) != 0, test.residual ? data.out_rows() : 0,
                            test.out_channels, dtype(), added);
      const Matrix output(machine(), (wide & 4) != 0, data.out_rows(), test.out_channels, dtype());
      std::vector<minuet_tensor> inputs = {input.tensor()};
      if (test.residual) inputs.push_back(residual.tensor());
      check(run_tensors(execution.get(), inputs, output.tensor()));
      EXPECT_TRUE(output.holds(expected)) << "wide: " << wide;
      EXPECT_TRUE(input.holds(features)) << "wide: " << wide;
      EXPECT_TRUE(residual.holds(added)) << "wide: " << wide;
    }
    if (HasFailure()) return;
  }
}

void TensorsTest::check_network(const Shape& shape) {
  SCOPED_TRACE(shape.what);
  const Plan network = make_network(machine(), shape.spec(dtype()));
  const Execution execution = make_execution(machine(), network.get());
  const std::vector<int32_t> scene = make_scene(points(), 401);
  const auto count = static_cast<int64_t>(scene.size()) / 4;
  const std::vector<char> features = encode(dtype(), oracle::draw_features(count * shape.in_channels, 402));
  const NetworkRun dense =
      run_network(machine(), execution.get(), scene, features, dtype(), 3, shape.in_channels);
  for (int wide = 1; wide < 4; ++wide) {
    const Matrix input(machine(), (wide & 1) != 0, count, shape.in_channels, dtype(), features);
    const Matrix output(machine(), (wide & 2) != 0, dense.rows, dense.channels, dtype());
    check(run_tensors(execution.get(), {input.tensor()}, output.tensor()));
    EXPECT_TRUE(output.holds(dense.bytes)) << "wide: " << wide;
    EXPECT_TRUE(input.holds(features)) << "wide: " << wide;
  }
}

TEST_P(TensorsTest, ANetworkTakesColumnsOfWiderMatrices) {
  check_network(kDerived);
  check_network(kFirstResidual);
  if (machine().is_software()) return;  // where a kernel takes long to compile
  for (const Shape& shape : kOthers) check_network(shape);
}

struct Refusal {
  const char* what;
  std::function<void(minuet_tensor&)> change;
  std::string expected;  // what the text has besides the tensor's name
};

char* moved(void* data, int bytes) { return static_cast<char*>(data) + bytes; }

std::vector<Refusal> refusals(const minuet_tensor& good) {
  const std::string rows = std::to_string(good.rows), channels = std::to_string(good.channels);
  const minuet_dtype other = good.dtype == MINUET_F16 ? MINUET_BF16 : MINUET_F16;
  return {
      {"a row more", [](minuet_tensor& tensor) { ++tensor.rows; }, rows},
      {"a row less", [](minuet_tensor& tensor) { --tensor.rows; }, rows},
      {"no rows", [](minuet_tensor& tensor) { tensor.rows = 0; }, rows},
      {"negative rows", [](minuet_tensor& tensor) { tensor.rows = -1; }, ""},
      {"a channel more", [](minuet_tensor& tensor) { ++tensor.channels; }, channels},
      {"a channel less", [](minuet_tensor& tensor) { --tensor.channels; }, channels},
      {"no channels", [](minuet_tensor& tensor) { tensor.channels = 0; }, channels},
      {"negative channels", [](minuet_tensor& tensor) { tensor.channels = -tensor.channels; }, ""},
      {"another dtype", [=](minuet_tensor& tensor) { tensor.dtype = other; }, "dtype"},
      {"no dtype", [](minuet_tensor& tensor) { tensor.dtype = 17; }, "dtype"},
      {"4 bytes off", [](minuet_tensor& tensor) { tensor.data = moved(tensor.data, 4); }, "16"},
      {"8 bytes off", [](minuet_tensor& tensor) { tensor.data = moved(tensor.data, 8); }, "16"},
      {"null", [](minuet_tensor& tensor) { tensor.data = nullptr; }, "null"},
      {"rows that overlap", [](minuet_tensor& tensor) { tensor.row_stride = tensor.channels / 2; }, channels},
      {"a stride of 1", [](minuet_tensor& tensor) { tensor.row_stride = 1; }, channels},
      {"an odd stride", [](minuet_tensor& tensor) { tensor.row_stride = tensor.channels + 1; }, "multiple"},
      {"a stride past 2^28", [](minuet_tensor& tensor) { tensor.row_stride = (1 << 28) + 8; }, "268435456"},
      {"a negative stride", [](minuet_tensor& tensor) { tensor.row_stride = -tensor.channels; }, "stride"},
  };
}

/// Every tensor in turn, spoilt in every way. All have as many channels as make a stride's alignment 16.
void TensorsTest::expect_each_refused(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                                      const minuet_tensor& output) {
  for (size_t i = 0; i <= inputs.size(); ++i) {
    const bool is_input = i < inputs.size();
    const std::string name = is_input ? "input " + std::to_string(i) : "output 0";
    for (const Refusal& refusal : refusals(is_input ? inputs[i] : output)) {
      SCOPED_TRACE(name + ": " + refusal.what);
      std::vector<minuet_tensor> changed = inputs;
      minuet_tensor changed_output = output;
      refusal.change(is_input ? changed[i] : changed_output);
      expect_refused(execution, changed, changed_output, {name, refusal.expected});
    }
  }
}

void TensorsTest::expect_other_counts_refused(minuet_execution* execution,
                                              const std::vector<minuet_tensor>& inputs,
                                              const minuet_tensor& output) {
  const auto count = static_cast<int32_t>(inputs.size());
  std::vector<minuet_tensor> more = inputs;
  more.push_back(output);
  const std::array<minuet_tensor, 2> outputs = {output, output};
  EXPECT_EQ(minuet_execution_run(execution, inputs.data(), -1, &output, 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("input_count"));
  EXPECT_EQ(minuet_execution_run(execution, inputs.data(), count, &output, -1, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("output_count"));
  for (const int32_t wrong : {0, count - 1, count + 1}) {
    EXPECT_EQ(minuet_execution_run(execution, more.data(), wrong, &output, 1, nullptr),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("input"), HasSubstr(std::to_string(count)))) << wrong;
  }
  for (const int32_t wrong : {0, 2}) {
    EXPECT_EQ(minuet_execution_run(execution, inputs.data(), count, outputs.data(), wrong, nullptr),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("output"), HasSubstr("1"))) << wrong;
  }
  EXPECT_EQ(minuet_execution_run(execution, nullptr, count, &output, 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("inputs"));
  EXPECT_EQ(minuet_execution_run(execution, inputs.data(), count, nullptr, 1, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("outputs"));
}

/// And after all that the execution works as before.
TEST_P(TensorsTest, WhatDoesNotFitAConvolutionIsRefused) {
  for (const bool has_residual : {true, false}) {
    ConvolutionCase test = with_residual(16, 32);
    test.residual = has_residual;
    const ConvolutionData data = make_data(test);
    ASSERT_NE(data.in_rows(), data.out_rows());
    const Map map = make_map(machine(), test, data);
    Convolution convolution(machine(), test, data);
    const Execution execution = convolution.execution();
    const std::vector<char> expected = map.to_output(convolution.run(execution.get(), map, data));
    const Matrix input(machine(), false, data.in_rows(), 16, dtype(), encode(dtype(), data.features));
    const Matrix residual(machine(), false, has_residual ? data.out_rows() : 0, 32, dtype(),
                          encode(dtype(), map.to_output(data.residual)));
    const Matrix output(machine(), false, data.out_rows(), 32, dtype());
    std::vector<minuet_tensor> inputs = {input.tensor()};
    if (has_residual) inputs.push_back(residual.tensor());
    expect_each_refused(execution.get(), inputs, output.tensor());
    expect_other_counts_refused(execution.get(), inputs, output.tensor());
    check(run_tensors(execution.get(), inputs, output.tensor()));
    EXPECT_TRUE(output.holds(expected));
  }
}

/// An input too few is told as what it is.
TEST_P(TensorsTest, AMissingResidualIsCalledSo) {
  const ConvolutionCase test = with_residual(16, 32);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  const Execution execution = convolution.execution();
  check(prepare_map(execution.get(), map.map.get()));
  const Matrix input(machine(), false, data.in_rows(), 16, dtype(), encode(dtype(), data.features));
  const Matrix output(machine(), false, data.out_rows(), 32, dtype());
  expect_refused(execution.get(), {input.tensor()}, output.tensor(), {"residual", "2"});
}

TEST_P(TensorsTest, WhatDoesNotFitANetworkIsRefused) {
  const Shape shape{"refuses", 16, "16, 32",
                    R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "stride": 2},
                       {"op": "block", "name": "b", "width": 1, "kernel_size": 3})"};
  const Plan network = make_network(machine(), shape.spec(dtype()));
  const Execution execution = make_execution(machine(), network.get());
  const std::vector<int32_t> scene = make_scene(points(), 403);
  const auto count = static_cast<int64_t>(scene.size()) / 4;
  const std::vector<char> features = encode(dtype(), oracle::draw_features(count * 16, 404));
  const NetworkRun expected = run_network(machine(), execution.get(), scene, features, dtype(), 3, 16);
  ASSERT_NE(expected.rows, count);
  const Matrix input(machine(), false, count, 16, dtype(), features);
  const Matrix output(machine(), false, expected.rows, 32, dtype());
  expect_each_refused(execution.get(), {input.tensor()}, output.tensor());
  expect_other_counts_refused(execution.get(), {input.tensor()}, output.tensor());
  check(run_tensors(execution.get(), {input.tensor()}, output.tensor()));
  EXPECT_TRUE(output.holds(expected.bytes));
}

/// prepare is for networks and prepare_maps for convolutions; prepare_maps takes as many as it needs.
TEST_P(TensorsTest, AConvolutionIsPreparedWithItsMap) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, points());
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  int64_t bytes = 0;
  EXPECT_EQ(minuet_plan_workspace_bytes(convolution.get(), machine().arch().c_str(), nullptr,
                                        int64_t{1} << 40, 27, &bytes),
            MINUET_OUT_OF_RANGE);
  check(minuet_plan_workspace_bytes(convolution.get(), machine().arch().c_str(), nullptr, 1000, 27, &bytes));
  EXPECT_GT(bytes, 1000 * 16);
  const Execution execution = convolution.execution();
  const std::vector<char> expected = convolution.run(execution.get(), map, data);
  EXPECT_EQ(prepare(machine(), execution.get(), data.in_coordinates), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("a single op"), HasSubstr("prepare_maps")));
  Buffer where(machine(), data.in_rows() * 16);
  EXPECT_EQ(
      minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(where.data()), nullptr),
      MINUET_FAILED_PRECONDITION);

  minuet_kernel_map* const two[] = {map.map.get(), map.map.get()};
  for (const int32_t wrong : {-1, 0, 2}) {
    EXPECT_EQ(minuet_execution_prepare_maps(execution.get(), two, wrong, nullptr), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("map"), HasSubstr("1"))) << wrong;
  }
  EXPECT_EQ(minuet_execution_prepare_maps(execution.get(), nullptr, 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(prepare_map(execution.get(), nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(convolution.run(execution.get(), map, data), expected);
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(execution.get(), &rows, &channels));
  EXPECT_EQ(rows, data.out_rows());
  EXPECT_EQ(channels, 16);
}

/// What another thread is in is refused, and all else goes well: no call spoils another's.
TEST_P(TensorsTest, OneExecutionInManyThreads) {
  const int wanted = machine().is_software() ? 5 : machine().is_cpu() && !kSanitized ? 300 : 60;
  constexpr int kThreads = 3;
  const ConvolutionCase test = with_residual(16, 16);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  const Execution execution = convolution.execution();

  struct Caller {
    std::unique_ptr<Matrix> input, residual, output;
    std::vector<char> expected;
    int succeeded = 0, in_use = 0, wrong_bits = 0;
    std::string strange;  // the first answer that is neither
  };
  std::vector<Caller> callers(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    ConvolutionData own = data;
    own.features =
        oracle::draw_features(static_cast<int64_t>(data.features.size()), 405 + static_cast<uint64_t>(t));
    Caller& caller = callers[static_cast<size_t>(t)];
    caller.expected = map.to_output(convolution.run(execution.get(), map, own));
    caller.input = std::make_unique<Matrix>(machine(), false, data.in_rows(), 16, dtype(),
                                            encode(dtype(), own.features));
    caller.residual = std::make_unique<Matrix>(machine(), false, data.out_rows(), 16, dtype(),
                                               encode(dtype(), map.to_output(own.residual)));
    caller.output = std::make_unique<Matrix>(machine(), false, data.out_rows(), 16, dtype());
  }
  ASSERT_NE(callers[0].expected, callers[1].expected);

  std::atomic<int> ready{0};
  const auto work = [&](Caller& caller) {
    // True where it went well; counts what did not.
    const auto answered = [&](minuet_status status) {
      if (status == MINUET_OK) return true;
      const std::string text = last_error();
      if (status == MINUET_FAILED_PRECONDITION && text.find("in use") != std::string::npos) {
        ++caller.in_use;
      } else if (caller.strange.empty()) {
        caller.strange = std::to_string(status) + ": " + text;
      }
      std::this_thread::yield();
      return false;
    };
    ++ready;
    while (ready < kThreads) std::this_thread::yield();
    const std::vector<minuet_tensor> inputs = {caller.input->tensor(), caller.residual->tensor()};
    for (int call = 0; caller.succeeded < wanted && caller.strange.empty(); ++call) {
      // The same map again changes nothing but what a run must not see halfway.
      if (call % 8 == 0) answered(prepare_map(execution.get(), map.map.get()));
      if (!answered(run_tensors(execution.get(), inputs, caller.output->tensor()))) continue;
      ++caller.succeeded;
      if (!machine().is_cpu()) continue;  // its memory is ours, and what a call enqueues is done
      caller.wrong_bits +=
          std::memcmp(caller.output->tensor().data, caller.expected.data(), caller.expected.size()) != 0;
    }
  };
  std::vector<std::thread> threads;
  for (Caller& caller : callers) threads.emplace_back(work, std::ref(caller));
  for (std::thread& thread : threads) thread.join();
  int refused = 0;
  for (const Caller& caller : callers) {
    EXPECT_EQ(caller.strange, "");
    EXPECT_EQ(caller.succeeded, wanted) << caller.in_use << " calls found it in use";
    EXPECT_EQ(caller.wrong_bits, 0);
    EXPECT_TRUE(caller.output->holds(caller.expected));
    refused += caller.in_use;
  }
  RecordProperty("in_use", refused);
}

MINUET_INSTANTIATE_DEVICE_TEST(TensorsTest);

}  // namespace
}  // namespace minuet::abi
