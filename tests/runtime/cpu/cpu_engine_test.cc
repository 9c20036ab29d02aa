#include <gtest/gtest.h>

#include <thread>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/permute_rows.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"
#include "tests/support/layer_run.h"
#include "tests/support/rounding.h"

namespace minuet {
namespace {

std::shared_ptr<Device> cpu(i32 threads = 0, VectorSet vectors = VectorSet::Best) {
  CpuOptions options;
  options.threads = threads;
  options.vectors = vectors;
  return take(CpuDevice::create(options));
}

void check_case(Device& device, const ConvolutionCase& test, const LayerRunOptions& options = {}) {
  SCOPED_TRACE(test.name());
  const ConvolutionData data = make_data(test);
  const LayerResult result = run_layer(device, test, data, options);
  EXPECT_EQ(result.pairs, oracle::find_pairs(data.geometry, data.in_coordinates, data.out_coordinates));
  EXPECT_TRUE(result.padding_clean);
  EXPECT_TRUE(result.padding_rows_zero);
  std::vector<double> magnitudes;
  const std::vector<double> expected = expected_output(test, data, &magnitudes);
  EXPECT_TRUE(is_close(select_rows(result.output, test.out_channels, data.rows), expected, magnitudes,
                       test.out_channels, test.dtype));
}

TEST(CpuEngine, SmallClouds) {
  const auto device = cpu();
  for (ConvolutionKind kind : all_kinds()) {
    for (DType dtype : all_dtypes()) {
      for (i64 points : small_counts()) {
        for (auto [in, out] : {std::pair{1, 1}, {3, 24}, {48, 4}, {32, 32}}) {
          check_case(*device, small_case(dtype, kind, in, out, points));
        }
      }
    }
  }
}

TEST(CpuEngine, PairwiseCases) {
  const auto device = cpu();
  LayerRunOptions options;
  for (ConvolutionCase test : pairwise_cases()) {
    if (kSanitized) test.points = std::min<int64_t>(test.points, 300);
    options.key = options.key == KeyType::U32 ? KeyType::U64 : KeyType::U32;
    options.row_padding = (options.row_padding + 3) % 8;
    check_case(*device, test, options);
    if (HasFailure()) break;  // the first case is enough to go on
  }
}

TEST(CpuEngine, WholeNumbersAreExact) {
  const auto device = cpu();
  for (ConvolutionKind kind : all_kinds()) {
    for (DType dtype : all_dtypes()) {
      for (auto [in, out] : {std::pair{1, 3}, {4, 16}, {8, 24}}) {
        ConvolutionCase test = small_case(dtype, kind, in, out, kSanitized ? 300 : 1000);
        SCOPED_TRACE(test.name());
        const ConvolutionData data = make_data(test, true);
        const std::vector<double> expected = expected_output(test, data);
        const std::vector<float> exact(expected.begin(), expected.end());
        const LayerResult result = run_layer(*device, test, data);
        // -0 and 0 are the same number.
        EXPECT_EQ(result.output, exact);
      }
    }
  }
}

/// What the GPU does too: features are rounded to the nearest tf32 on their way into a GEMM.
TEST(CpuEngine, RoundsTf32Operands) {
  const auto device = cpu();
  ConvolutionCase test = small_case(DType::TF32, ConvolutionKind::Submanifold, 1, 1, 1);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  ConvolutionData data = make_data(test);
  std::fill(data.weight.begin(), data.weight.end(), 1.0f);
  for (float value : {1 + 0x1p-11f, 1 + 0x1p-11f + 0x1p-20f, 1 + 0x1p-12f, -3 - 0x1p-10f, 1 + 0x1.8p-10f}) {
    data.features = {value};
    EXPECT_EQ(run_layer(*device, test, data).output[0], round_to(DType::TF32, value)) << value;
  }
}

TEST(CpuEngine, DoesNotDependOnThreads) {
  for (DType dtype : all_dtypes()) {
    ConvolutionCase test = small_case(dtype, ConvolutionKind::Submanifold, 48, 64, kSanitized ? 1500 : 5000);
    const ConvolutionData data = make_data(test);
    const LayerResult first = run_layer(*cpu(1), test, data);
    for (i32 threads : {2, 3, 7}) EXPECT_EQ(run_layer(*cpu(threads), test, data).bytes, first.bytes);
    const auto device = cpu();
    for (int repeat = 0; repeat < (kSanitized ? 2 : 5); ++repeat)
      EXPECT_EQ(run_layer(*device, test, data).bytes, first.bytes);
  }
}

TEST(CpuEngine, EveryInstructionSet) {
  for (VectorSet vectors : {VectorSet::Baseline, VectorSet::Avx2, VectorSet::Avx512}) {
    if (vector_kernels(vectors) == nullptr) continue;
    const auto device = cpu(2, vectors);
    for (DType dtype : all_dtypes()) {
      const int64_t points = kSanitized ? 300 : 1000;
      check_case(*device, small_case(dtype, ConvolutionKind::Submanifold, 24, 48, points));
      check_case(*device, small_case(dtype, ConvolutionKind::Transposed, 3, 96, points));
    }
  }
}

TEST(CpuEngine, ServesExecutionsOfManyThreads) {
  const auto device = cpu(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ConvolutionCase test = small_case(all_dtypes()[t], all_kinds()[t], 16, 32, kSanitized ? 500 : 2000);
      const ConvolutionData data = make_data(test);
      const std::vector<double> expected = expected_output(test, data);
      for (int repeat = 0; repeat < 5; ++repeat) {
        EXPECT_TRUE(is_close(run_layer(*device, test, data).output, expected, 32, error_bound(test.dtype)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CpuDevice, DescribesItself) {
  const auto device = take(open_cpu_device());
  EXPECT_EQ(device->info().name, "cpu");
  EXPECT_EQ(device->info().arch, "");
  EXPECT_NE(device->info().description.find("thread"), std::string::npos);
  EXPECT_GT(device->info().memory_bytes, 0);
  for (DType dtype : all_dtypes()) EXPECT_EQ(device->weight_type(dtype), DType::F32);
}

TEST(CpuDevice, MemoryIsAlignedAndRefusalsSayHowMuch) {
  const auto device = take(open_cpu_device());
  for (i64 bytes : {0, 1, 255, 4096}) {
    void* memory = take(device->allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
    device->release(memory);
  }
  llvm::Expected<void*> impossible = device->allocate(i64{1} << 62);
  ASSERT_FALSE(static_cast<bool>(impossible));
  const StatusError error = take_status(impossible.takeError());
  EXPECT_EQ(error.code(), StatusCode::ResourceExhausted);
  EXPECT_NE(error.message().find("4611686018427387904"), std::string::npos) << error.message();
}

TEST(CpuEngine, CountsAndTimesWhatItDid) {
  const auto device = cpu();
  const auto engine = take(device->create_engine({3, {}, {}}, nullptr));
  llvm::Expected<PassTimes> off = engine->pass_times();
  ASSERT_FALSE(static_cast<bool>(off));
  EXPECT_EQ(take_status(off.takeError()).code(), StatusCode::FailedPrecondition);
  engine->set_profiling(true);
  take(engine->begin(nullptr));
  const std::vector<i32> coordinates(4 * 100000, 3);
  u32 status = 0;
  i32 points = 0, bounds[2 * kMaxFields];
  CloudLayout layout;
  LayoutRequest request;
  request.coordinates = coordinates.data();
  request.most = 100000;
  request.cloud = {&status, &points, bounds, &layout};
  take(engine->maps().find_layout(request));
  const StageTimes times = take(engine->pass_times()).all;
  EXPECT_GT(times.sort, 0);
  EXPECT_EQ(times.gemm, 0);
  EXPECT_EQ(engine->counters().kernels + engine->counters().host_syncs + engine->counters().matmuls, 0);
  void* pinned = take(engine->allocate_pinned(64));
  EXPECT_NE(pinned, nullptr);
  EXPECT_EQ(engine->counters().allocations, 1);
  engine->reset_counters();
  EXPECT_EQ(engine->counters().allocations, 0);
}

TEST(CpuEngine, RefusesWhatCannotBe) {
  const auto device = cpu();
  const auto engine = take(device->create_engine({3, {}, {}}, nullptr));
  ConvolutionCase test = small_case(DType::F32, ConvolutionKind::Submanifold, 16, 16, 10);
  GmasChoice choice = choose_gmas(problem_of(test));
  choice.problem.output.ld = 15;
  llvm::Expected<i32> short_rows = engine->add_op(choice);
  ASSERT_FALSE(static_cast<bool>(short_rows));
  EXPECT_EQ(take_status(short_rows.takeError()).code(), StatusCode::InvalidArgument);
}

TEST(CpuEngine, RowsOfNegativeIndicesArePadding) {
  ThreadPool pool(2);
  const std::vector<float> input{1, 2, 3, 4, 5, 6};
  const std::vector<i32> index{2, -1, 0, -1, 1};
  const i32 count = 4;
  std::vector<float> output(10, 77);
  PermuteRequest request;
  request.input = input.data(), request.input_ld = 2;
  request.index = index.data(), request.rows = 5;
  request.output = output.data(), request.output_ld = 2;
  permute_rows_cpu(pool, {.io = DType::F32, .channels = 2}, request);
  EXPECT_EQ(output, (std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0, 3, 4}));
  request.count = &count;
  permute_rows_cpu(pool, {.io = DType::F32, .channels = 2}, request);
  EXPECT_EQ(output, (std::vector<float>{5, 6, 0, 0, 1, 2, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace minuet
