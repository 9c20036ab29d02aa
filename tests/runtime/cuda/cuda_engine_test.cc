// Whole layers on the GPU, both ways for weights, and what a warm engine must not do.
#include "runtime/cuda/cuda_engine.h"

#include "runtime/engine/arena.h"
#include "tests/runtime/cuda/driver_function.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/compare.h"
#include "tests/support/layer_run.h"
#include "tests/support/poison.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/software_cuda/control.h"

namespace minuet {
namespace {

/// The GPU with engines of given options; kernels are compiled when an engine asks.
class OptionsDevice final : public Device {
 public:
  OptionsDevice(Gpu& gpu, CudaEngineOptions options) : gpu_(gpu), options_(options) {}
  const DeviceInfo& info() const override { return gpu_.device->info(); }
  DType weight_type(DType dtype) const override { return gpu_.device->weight_type(dtype); }
  llvm::Expected<void*> allocate(i64 bytes) override { return gpu_.device->allocate(bytes); }
  void release(void* memory) override { gpu_.device->release(memory); }
  llvm::Error upload(void* target, const void* host, i64 bytes) override {
    return gpu_.device->upload(target, host, bytes);
  }
  llvm::Error clear(void* target, i64 bytes) override { return gpu_.device->clear(target, bytes); }
  llvm::Error download(void* host, const void* source, i64 bytes) override {
    return gpu_.device->download(host, source, bytes);
  }
  llvm::Error synchronize(void* stream) override { return gpu_.device->synchronize(stream); }
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                   const Reload& reload) override {
    return gpu_.device->load(binaries, reload);
  }
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare>) override {
    return gpu_.device->create_engine(choice, options_);
  }
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override { return nullptr; }

 private:
  Gpu& gpu_;
  CudaEngineOptions options_;
};

class CudaEngineTest : public GpuTest {
 protected:
  void load_kernels(const ConvolutionCase& test, i32 row_padding) {
    const ConvolutionProblem problem = problem_of(test, row_padding);
    const GmasChoice choice = choose_gmas(problem);
    gpu().load_map(test.ndim);
    gpu().load(sources_of(choice));
    gpu().load({emit(choose_permute_rows(test.dtype, test.in_channels, problem.input, problem.input)),
                emit(choose_permute_rows(test.dtype, test.out_channels, problem.output, problem.output))});
  }

  void check_case(const ConvolutionCase& test, CudaEngineOptions engine = {},
                  const LayerRunOptions& options = {}) {
    SCOPED_TRACE(test.name());
    load_kernels(test, options.row_padding);
    OptionsDevice device(gpu(), engine);
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

  void check_path(WeightPath path) {
    for (ConvolutionKind kind : all_kinds()) {
      for (DType dtype : all_dtypes()) {
        if (on_software_device() && dtype != DType::F16 && dtype != DType::TF32) continue;
        for (auto [in, out] : {std::pair{1, 1}, {3, 24}, {48, 4}, {32, 32}, {96, 128}}) {
          if (on_software_device() && in + out > 60) continue;
          check_case(small_case(dtype, kind, in, out, on_software_device() ? 120 : 1000), {path});
        }
        for (i64 points : small_counts()) check_case(small_case(dtype, kind, 16, 32, points), {path});
        if (HasFailure()) return;  // the first is enough to go on
      }
    }
  }
};

TEST_F(CudaEngineTest, WeightsByPointers) { check_path(WeightPath::PointerArray); }
TEST_F(CudaEngineTest, WeightsPermuted) { check_path(WeightPath::Permute); }

TEST_F(CudaEngineTest, PairwiseCases) {
  LayerRunOptions options;
  int number = 0;
  for (ConvolutionCase test : pairwise_cases()) {
    if (on_software_device() && number++ % 6 != 0) continue;
    if (on_software_device()) test.points = std::min<std::int64_t>(test.points, 60);
    options.key = options.key == KeyType::U32 ? KeyType::U64 : KeyType::U32;
    options.row_padding = (options.row_padding + 3) % 8;
    check_case(test, {}, options);
    if (HasFailure()) break;
  }
}

TEST_F(CudaEngineTest, ListsOfOffsets) {
  for (const KeyType key : {KeyType::U32, KeyType::U64}) {
    for (const ConvolutionCase& test : listed_cases(on_software_device() ? 60 : 1000)) {
      SCOPED_TRACE(key == KeyType::U32 ? "32-bit keys" : "64-bit keys");
      check_case(test, {}, {key});
      if (HasFailure()) return;
    }
  }
}

TEST_F(CudaEngineTest, IsBitwiseRepeatable) {
  for (DType dtype : all_dtypes()) {
    const ConvolutionCase test =
        small_case(dtype, ConvolutionKind::Submanifold, 48, 64, on_software_device() ? 300 : 20000);
    load_kernels(test, 0);
    const ConvolutionData data = make_data(test);
    const LayerResult first = run_layer(device(), test, data);
    for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(run_layer(device(), test, data).bytes, first.bytes);
  }
}

TEST_F(CudaEngineTest, MissingKernelsAreNamed) {
  EngineChoice choice;
  choice.ndim = 3;
  choice.map32 = choose_map(KeyType::U32, 3, {64, 96, 32});
  choice.map64 = choose_map(KeyType::U64, 3, {64, 96, 32});
  auto engine = device().create_engine(choice, nullptr);
  ASSERT_FALSE(static_cast<bool>(engine));
  const StatusError error = take_status(engine.takeError());
  EXPECT_EQ(error.code(), StatusCode::FailedPrecondition);
  EXPECT_NE(error.message().find("is not loaded"), std::string::npos) << error.message();
}

// ---- one layer by hand: what a warm run does, and its capture ------------------------------------

/// A layer whose map is made up: each offset pairs random rows.
class LayerByHand {
 public:
  static constexpr i32 kVolume = 9, kIn = 32, kOut = 48;

  LayerByHand(Gpu& gpu, CudaEngineOptions options) : device_(*gpu.device), choice_(choose_gmas(problem())) {
    gpu.load_map(3);
    gpu.load(sources_of(choice_));
    EngineChoice engine{3, choose_map(KeyType::U32, 3), choose_map(KeyType::U64, 3)};
    engine_ = take(device_.create_engine(engine, options));
    make_map();
    make_memory();
  }

  static ConvolutionProblem problem() {
    ConvolutionProblem problem;
    problem.kind = ConvolutionKind::GivenOutputs;
    problem.in_channels = kIn, problem.out_channels = kOut;
    problem.kernel_size = {3, 3, 1, 1};
    problem.input = {kIn, 0};
    problem.output = problem.residual_input = {kOut, 0};
    return problem;
  }

  Engine& engine() { return *engine_; }
  const OpRequest& request() const { return request_; }
  void set_streams(i32 streams) { groups_.streams = streams; }

  void check_output() {
    const std::vector<float> output = decode(DType::F16, output_->read<char>());
    EXPECT_TRUE(is_close(output, expected_, kOut, error_bound(DType::F16)));
  }
  /// Returns the weight and leaves poison in its place. Requests say that it may change.
  std::vector<char> take_weight() {
    std::vector<char> bytes(static_cast<std::size_t>(kVolume * kIn * kOut * 2));
    const auto count = static_cast<i64>(bytes.size());
    take(device_.download(bytes.data(), parameter_, count));
    take(device_.upload(parameter_, poison(count), count));
    request_.parameters_change = true;
    return bytes;
  }
  void put_weight(const std::vector<char>& bytes) {
    take(device_.upload(parameter_, bytes.data(), static_cast<i64>(bytes.size())));
  }
  void poison_output() { take(device_.upload(output_->as(), poison(output_->bytes()), output_->bytes())); }

 private:
  void make_map() {
    Random random(77);
    std::vector<i32> counts(kVolume);
    std::vector<i32> map(kVolume * rows_, -1);
    for (i32 k = 0; k < kVolume; ++k) {
      const i64 shift = static_cast<i64>(random.below(rows_));  // a source serves one query an offset
      for (i64 q = 0; q < rows_; ++q) {
        if (random.below(static_cast<u64>(kVolume)) >= static_cast<u64>(k)) continue;
        map[k * rows_ + q] = static_cast<i32>((q * 7 + shift) % rows_);
        ++counts[k];
      }
    }
    groups_ = random_groups(counts, -1, 78);
    std::vector<i32> source_table(kVolume * rows_, -1), query_table(kVolume * rows_, -1);
    for (i32 k = 0; k < kVolume; ++k) {
      i32 row = groups_.row_base[k];
      for (i64 q = 0; q < rows_; ++q) {
        const i32 source = map[k * rows_ + q];
        if (source < 0) continue;
        query_table[k * rows_ + q] = source_table[k * rows_ + source] = row++;
      }
    }
    view_.geometry.volume = kVolume;
    view_.sources = view_.queries = rows_;
    tables_.source_table = keep(source_table)->as<i32>();
    tables_.query_table = keep(query_table)->as<i32>();
    tables_.groups = {keep(groups_.row_base)->as<i32>(), keep(groups_.padding_ends)->as<i32>(),
                      keep(groups_.padding_start)->as<i32>(), keep(groups_.order)->as<i32>()};
    map_ = std::move(map);
  }

  void make_memory() {
    Random random(79);
    std::vector<float> features(rows_ * kIn), weight(kVolume * kIn * kOut);
    for (float& value : features) value = static_cast<float>(random.normal());
    for (float& value : weight) value = static_cast<float>(random.normal() / 17);
    features = round_to(DType::F16, std::move(features)), weight = round_to(DType::F16, std::move(weight));
    expected_.assign(rows_ * kOut, 0);
    for (i32 k = 0; k < kVolume; ++k) {
      for (i64 q = 0; q < rows_; ++q) {
        const i32 source = map_[k * rows_ + q];
        for (i32 i = 0; source >= 0 && i < kIn; ++i) {
          const double x = features[source * kIn + i];
          for (i32 o = 0; o < kOut; ++o) expected_[q * kOut + o] += x * weight[(k * kIn + i) * kOut + o];
        }
      }
    }
    parameter_ = keep(encode(DType::F16, weight))->as();
    parameters_[0] = parameter_;
    request_.op = take(engine_->add_op(choice_));
    request_.parameters = parameters_;
    take(engine_->set_workspace(room(engine_->workspace_bytes())->as()));
    request_.map = &view_;
    request_.tables = &tables_;
    request_.input_ld = kIn;
    request_.output_ld = kOut;
    request_.groups = &groups_;
    request_.input = keep(encode(DType::F16, features))->as();
    request_.input_rows = request_.output_rows = rows_;
    output_ = room(rows_ * kOut * 2);
    request_.output = output_->as();
    request_.overflow = keep(std::vector<u32>{0})->as<u32>();
    request_.scratch = room(engine_->scratch_bytes())->as();
    request_.gather_buffer = room(groups_.gathered_rows * kIn * 2)->as();
    request_.gemm_buffer = room(groups_.gathered_rows * kOut * 4)->as<float>();
    slice_groups(groups_, groups_.gathered_rows, slices_);
    request_.slices = &slices_;
  }

  template <class T>
  TestBuffer* keep(const std::vector<T>& values) {
    buffers_.push_back(std::make_unique<TestBuffer>(device_, values));
    return buffers_.back().get();
  }
  TestBuffer* room(i64 bytes) {
    buffers_.push_back(std::make_unique<TestBuffer>(device_, bytes));
    return buffers_.back().get();
  }

  const i64 rows_ = on_software_device() ? 300 : 3000;
  CudaDevice& device_;
  GmasChoice choice_;
  std::vector<std::unique_ptr<TestBuffer>> buffers_;
  std::unique_ptr<Engine> engine_;
  GroupPlan groups_;
  GemmSlices slices_;
  MapView view_;
  GmasTables tables_;
  void* parameter_ = nullptr;
  const void* parameters_[1] = {};
  GmasRequest request_;
  std::vector<i32> map_;
  std::vector<double> expected_;
  TestBuffer* output_ = nullptr;
};

TEST_F(CudaEngineTest, AWarmRunOnlyEnqueues) {
  for (WeightPath path : {WeightPath::PointerArray, WeightPath::Permute}) {
    LayerByHand layer(gpu(), {path});
    Engine& engine = layer.engine();
    for (int round = 0; round < 3; ++round) {
      layer.poison_output();
      engine.reset_counters();
      take(engine.begin(nullptr));
      take(engine.prepare_op(layer.request()));
      take(engine.send_prepared());
      take(engine.run_op(layer.request()));
      take(device().synchronize(nullptr));
      layer.check_output();
      EXPECT_EQ(engine.counters().host_syncs, 0);
      EXPECT_EQ(engine.counters().matmuls > 0, true);
      EXPECT_EQ(engine.counters().kernels, path == WeightPath::Permute ? 3 : 2);
      if (round == 0) continue;
      EXPECT_EQ(engine.counters().allocations, 0);
      EXPECT_EQ(engine.counters().gemm_lookups, 0);
    }
  }
}

/// Weights that are set between prepare and run are used, also where the GEMMs read a permuted copy of them.
TEST_F(CudaEngineTest, ParametersMayChangeAfterPrepare) {
  for (WeightPath path : {WeightPath::PointerArray, WeightPath::Permute}) {
    LayerByHand layer(gpu(), {path});
    Engine& engine = layer.engine();
    layer.poison_output();
    const std::vector<char> weight = layer.take_weight();
    take(engine.begin(nullptr));
    take(engine.prepare_op(layer.request()));
    take(engine.send_prepared());
    take(engine.wait());
    layer.put_weight(weight);
    take(engine.run_op(layer.request()));
    take(engine.end());
    take(device().synchronize(nullptr));
    layer.check_output();
  }
}

/// The sizes of maps are equal. Those of ops may be larger on the measured GPU, because only cuBLASLt decides
/// how weights are read.
TEST_F(CudaEngineTest, AMeasuredGpuNeedsNoLess) {
  gpu().load_map(3);
  const EngineChoice choice{3, choose_map(KeyType::U32, 3), choose_map(KeyType::U64, 3)};
  for (WeightPath path : {WeightPath::Automatic, WeightPath::PointerArray, WeightPath::Permute}) {
    const auto real = take(device().create_engine(choice, {path}));
    const auto measured = take(measured_gpu(device().info().arch)->create_engine(choice));
    EXPECT_EQ(real->workspace_bytes(), measured->workspace_bytes()) << "without ops";
    EXPECT_EQ(real->scratch_bytes(), measured->scratch_bytes());
    for (const auto& [size, channels] : {std::pair{3, 1}, {1, 16}, {3, 32}}) {
      ConvolutionProblem problem = LayerByHand::problem();
      problem.in_channels = problem.out_channels = channels;
      problem.kernel_size = {size, size, 1, 1};
      problem.input = problem.output = problem.residual_input = {channels, 0};
      const GmasChoice layer = choose_gmas(problem);
      gpu().load(sources_of(layer));
      EXPECT_EQ(take(real->add_op(layer)), take(measured->add_op(layer)));
      EXPECT_LE(real->workspace_bytes(), measured->workspace_bytes());
      EXPECT_EQ(real->scratch_bytes(), measured->scratch_bytes());
    }
    EXPECT_LT(measured->workspace_bytes(), 9 * 32 * 32 * 2 + 16 * kArenaAlignment);
    for (const i64 capacity : {1, 1000, 200000}) {
      for (const i32 key_bits : {32, 64}) {
        const MapLimits limits{key_bits, capacity, 4, 7, 27};
        EXPECT_EQ(real->maps().workspace_bytes(limits), measured->maps().workspace_bytes(limits));
      }
    }
    EXPECT_EQ(real->maps().looks_up_rows(), measured->maps().looks_up_rows());
    EXPECT_EQ(real->can_be_captured(), measured->can_be_captured());
  }
}

TEST_F(CudaEngineTest, GemmsGoOverAsManyStreamsAsTheirPlanSays) {
  const auto software = software_cuda::Control::find();
  for (const i32 streams : {1, 2}) {
    LayerByHand layer(gpu(), {});
    layer.set_streams(streams);
    Engine& engine = layer.engine();
    take(engine.begin(nullptr));
    take(engine.prepare_op(layer.request()));
    take(engine.send_prepared());
    if (software) software->reset();
    take(engine.run_op(layer.request()));
    if (software) {
      EXPECT_EQ(software->calls("cuStreamWaitEvent") > 0, streams > 1);
    }
    take(engine.end());
    take(device().synchronize(nullptr));
    layer.check_output();
  }
}

TEST_F(CudaEngineTest, AnUnpreparedLayerIsRefused) {
  LayerByHand layer(gpu(), {});
  take(layer.engine().begin(nullptr));
  EXPECT_EQ(take_status(layer.engine().run_op(layer.request())).code(), StatusCode::FailedPrecondition);
}

TEST_F(CudaEngineTest, TimesItsStages) {
  LayerByHand layer(gpu(), {});
  Engine& engine = layer.engine();
  llvm::Expected<PassTimes> off = engine.pass_times();
  ASSERT_FALSE(static_cast<bool>(off));
  EXPECT_EQ(take_status(off.takeError()).code(), StatusCode::FailedPrecondition);
  engine.set_profiling(true);
  take(engine.begin(nullptr));
  take(engine.prepare_op(layer.request()));
  take(engine.send_prepared());
  take(engine.run_op(layer.request()));
  take(engine.end());
  const StageTimes times = take(engine.pass_times()).all;
  EXPECT_GT(times.gather, 0);
  EXPECT_GT(times.gemm, 0);
  EXPECT_GT(times.scatter, 0);
  EXPECT_EQ(times.sort, 0);
  EXPECT_EQ(times.map, 0);
}

TEST_F(CudaEngineTest, AConvolutionCanBeCaptured) {
  const Driver& driver = device().driver();
  const ContextScope scope(driver, device().context());
  CUstream stream = nullptr;
  ASSERT_EQ(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (WeightPath path : {WeightPath::PointerArray, WeightPath::Permute}) {
    LayerByHand layer(gpu(), {path});
    Engine& engine = layer.engine();
    take(engine.begin(stream));
    take(engine.prepare_op(layer.request()));
    take(engine.send_prepared());
    // The very first run of the process may be this one: nothing may load lazily.
    const CapturedGraph graph(stream, [&] {
      take(engine.begin(stream));
      take(engine.run_op(layer.request()));
    });
    ASSERT_TRUE(graph.whole());
    for (int replay = 0; replay < 2; ++replay) {
      layer.poison_output();
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      take(device().synchronize(stream));
      layer.check_output();
    }
  }
  EXPECT_EQ(driver.cuStreamDestroy(stream), CUDA_SUCCESS);
}

/// And after a begin() that failed, which no end() follows.
TEST_F(CudaEngineTest, LeavesTheCallersContextCurrent) {
  const auto current = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  ASSERT_TRUE(current);
  CUcontext before = nullptr, after = nullptr;
  ASSERT_EQ(current(&before), CUDA_SUCCESS);
  LayerByHand layer(gpu(), {});
  take(layer.engine().begin(nullptr));
  take(layer.engine().prepare_op(layer.request()));
  take(layer.engine().send_prepared());
  take(layer.engine().run_op(layer.request()));
  take(layer.engine().wait());
  take(layer.engine().end());
  ASSERT_EQ(current(&after), CUDA_SUCCESS);
  EXPECT_EQ(before, after);
  if (!on_software_device()) return;  // a GPU's driver need not survive a stream that is none
  EXPECT_NE(take_status(layer.engine().begin(&layer)).code(), StatusCode::Ok);
  ASSERT_EQ(current(&after), CUDA_SUCCESS);
  EXPECT_EQ(before, after);
}

TEST_F(GpuTest, R33_ADeviceKnowsWhatItsMeasurementsHoldFor) {
  const DeviceInfo& info = device().info();
  EXPECT_EQ(info.compute_capability.find('.'), info.compute_capability.size() - 2) << info.compute_capability;
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_GT(info.l2_bytes, 1 << 20);
  EXPECT_FALSE(info.description.empty());
}

}  // namespace
}  // namespace minuet
