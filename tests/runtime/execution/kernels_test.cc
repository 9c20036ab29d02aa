// Kernels that are launched by the driver API alone, by what minuet_plan_visit_kernels says (kernels.h),
// against the library's own run, bit by bit. Inputs are small whole numbers, so that the sums are exact in
// any order.
#include "include/minuet/kernels.h"

#include <cstring>
#include <map>

#include "include/minuet/pointwise.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

/// A copy of what the visitor is told, which lives during the call only.
struct Kernel {
  minuet_kernel_code code = {};
  std::string name, symbol, image;
  struct Field {
    minuet_kernel_field told = {};
    std::string data;
  };
  std::map<std::string, Field> fields;
};

std::vector<Kernel> kernels_of(minuet_plan* plan, const std::string& arch) {
  std::vector<Kernel> kernels;
  const auto keep = [](const minuet_kernel_code* code, void* user) {
    Kernel kernel;
    kernel.code = *code;
    kernel.name = code->name;
    kernel.symbol = code->symbol;
    kernel.image.assign(static_cast<const char*>(code->image), static_cast<size_t>(code->image_bytes));
    for (int32_t i = 0; i < code->field_count; ++i) {
      const minuet_kernel_field& field = code->fields[i];
      Kernel::Field& kept = kernel.fields[field.name];
      kept.told = field;
      if (field.data != nullptr)
        kept.data.assign(static_cast<const char*>(field.data), static_cast<size_t>(field.data_bytes));
    }
    static_cast<std::vector<Kernel>*>(user)->push_back(std::move(kernel));
  };
  check(minuet_plan_visit_kernels(plan, arch.c_str(), keep, &kernels));
  return kernels;
}

/// The struct that a kernel takes, filled in by the names of its fields.
class Arguments {
 public:
  Arguments(Machine& machine, const Kernel& kernel)
      : kernel_(kernel), bytes_(static_cast<size_t>(kernel.code.arguments_bytes)) {
    for (const auto& [name, field] : kernel.fields) {
      if (field.data.empty()) continue;
      memory_.push_back(
          std::make_unique<Buffer>(machine, std::vector<char>(field.data.begin(), field.data.end())));
      set_pointer(name, memory_.back()->data());
    }
  }
  void set_pointer(const std::string& name, const void* value) { set(name, MINUET_FIELD_POINTER, value); }
  void set_i32(const std::string& name, int32_t value) { set(name, MINUET_FIELD_I32, value); }
  void set_u32(const std::string& name, uint32_t value) { set(name, MINUET_FIELD_U32, value); }
  void set_i64(const std::string& name, int64_t value) { set(name, MINUET_FIELD_I64, value); }
  void set_f32(const std::string& name, float value) { set(name, MINUET_FIELD_F32, value); }

  /// Launches the kernel for so many output rows, by cuLaunchKernel, or where it has clusters by
  /// cuLaunchKernelEx.
  void launch(int64_t rows, CUstream stream) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    const minuet_kernel_code& code = kernel_.code;
    ASSERT_EQ(
        driver_function<decltype(&::cuModuleLoadData)>("cuModuleLoadData")(&module, kernel_.image.c_str()),
        CUDA_SUCCESS);
    ASSERT_EQ(driver_function<decltype(&::cuModuleGetFunction)>("cuModuleGetFunction")(
                  &function, module, kernel_.symbol.c_str()),
              CUDA_SUCCESS);
    ASSERT_EQ(driver_function<decltype(&::cuFuncSetAttribute)>("cuFuncSetAttribute")(
                  function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, code.dynamic_shared_bytes),
              CUDA_SUCCESS);
    void* arguments[] = {bytes_.data()};
    const auto threads = static_cast<unsigned>(code.threads);
    const auto shared = static_cast<unsigned>(code.dynamic_shared_bytes);
    if (code.cluster == 1) {
      ASSERT_EQ(driver_function<decltype(&::cuLaunchKernel)>("cuLaunchKernel")(
                    function, blocks(rows), 1, 1, threads, 1, 1, shared, stream, arguments, nullptr),
                CUDA_SUCCESS);
    } else {
      CUlaunchAttribute cluster = {};
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim = {static_cast<unsigned>(code.cluster), 1, 1};
      CUlaunchConfig config = {};
      config.gridDimX = blocks(rows), config.gridDimY = config.gridDimZ = 1;
      config.blockDimX = threads, config.blockDimY = config.blockDimZ = 1;
      config.sharedMemBytes = shared, config.hStream = stream;
      config.attrs = &cluster, config.numAttrs = 1;
      ASSERT_EQ(driver_function<decltype(&::cuLaunchKernelEx)>("cuLaunchKernelEx")(&config, function,
                                                                                   arguments, nullptr),
                CUDA_SUCCESS);
    }
    ASSERT_EQ(driver_function<CUresult (*)(CUstream)>("cuStreamSynchronize")(stream), CUDA_SUCCESS);
    EXPECT_EQ(driver_function<decltype(&::cuModuleUnload)>("cuModuleUnload")(module), CUDA_SUCCESS);
  }

 private:
  template <class T>
  void set(const std::string& name, minuet_field_kind kind, T value) {
    const auto found = kernel_.fields.find(name);
    ASSERT_NE(found, kernel_.fields.end()) << name;
    const minuet_kernel_field& field = found->second.told;
    ASSERT_EQ(field.kind, kind) << name;
    ASSERT_EQ(field.bytes, static_cast<int32_t>(sizeof(T)) * field.count) << name;
    ASSERT_LE(static_cast<size_t>(field.offset) + sizeof(T), bytes_.size()) << name;
    std::memcpy(bytes_.data() + field.offset, &value, sizeof(T));
  }
  unsigned blocks(int64_t rows) const {
    const minuet_kernel_code& code = kernel_.code;
    if (code.grid_rows == 0) return static_cast<unsigned>(3 * code.cluster);  // any number is right
    const int64_t groups = (rows + code.grid_rows - 1) / code.grid_rows;
    EXPECT_EQ(code.grid_shortcut_blocks, 0) << "a single op covers no shortcut";
    return static_cast<unsigned>(groups * code.grid_blocks);
  }

  const Kernel& kernel_;
  std::vector<char> bytes_;
  std::vector<std::unique_ptr<Buffer>> memory_;
};

class KernelsTest : public DeviceTest {
 protected:
  /// The kernel that the library has run the layer with.
  const Kernel* ran(minuet_execution* execution, const std::vector<Kernel>& kernels) {
    minuet_layer_info layer = {};
    layer.struct_size = sizeof(layer);
    check(minuet_execution_query_layer(execution, 0, &layer));
    for (const Kernel& kernel : kernels) {
      if (kernel.name == layer.kernel) return &kernel;
    }
    return nullptr;
  }
  /// No kernel is there for the CPU, and the library says so by visiting none.
  bool has_none(minuet_plan* plan) {
    if (!machine().is_cpu()) return false;
    EXPECT_TRUE(kernels_of(plan, "cpu").empty());
    return true;
  }
  void expect_same_bits_by_hand(const ConvolutionCase& test);
};

/// The neighbour table and the masks of a map, as the kernel reads them.
struct Neighbours {
  std::vector<int32_t> rows;
  std::vector<uint32_t> masks;
};
Neighbours neighbours_of(minuet_kernel_map* map, int64_t out_rows) {
  const int64_t volume = minuet_kernel_map_volume(map);
  Neighbours made{std::vector<int32_t>(static_cast<size_t>(volume * out_rows), -1),
                  std::vector<uint32_t>(static_cast<size_t>((volume + 31) / 32 * out_rows), 0)};
  for (const oracle::Pair& pair : pairs_of(map)) {
    made.rows[static_cast<size_t>(pair.k * out_rows + pair.out)] = pair.in;
    made.masks[static_cast<size_t>(pair.k / 32 * out_rows + pair.out)] |= 1u << (pair.k % 32);
  }
  return made;
}

void KernelsTest::expect_same_bits_by_hand(const ConvolutionCase& test) {
  SCOPED_TRACE(test.name());
  const ConvolutionData data = make_data(test, /*integers=*/true);
  const Convolution convolution(machine(), test, data, MINUET_DATAFLOW_FUSED);
  check(convolution.status());
  if (has_none(convolution.get())) return;
  const Map map = make_map(machine(), test, data);
  minuet_execution* made = nullptr;
  check(minuet_execution_create(convolution.get(), machine().device(), nullptr, &made));
  const Execution execution(made, {minuet_execution_destroy});
  check(prepare_map(made, map.map.get()));
  const int64_t in_rows = data.in_rows(), out_rows = data.out_rows();
  const int64_t bytes = out_rows * test.out_channels * dtype_bytes(dtype());
  const Buffer input(machine(), encode(dtype(), data.features));
  const Buffer residual(machine(),
                        encode(dtype(), data.residual.empty() ? std::vector<float>{0} : data.residual));
  const Buffer expected(machine(), bytes), output(machine(), bytes);
  std::vector<minuet_tensor> inputs = {tensor(input, in_rows, test.in_channels, dtype())};
  if (test.residual) inputs.push_back(tensor(residual, out_rows, test.out_channels, dtype()));
  check(run_tensors(made, inputs, tensor(expected, out_rows, test.out_channels, dtype())));

  const std::vector<Kernel> kernels = kernels_of(convolution.get(), machine().arch());
  const Kernel* const kernel = ran(made, kernels);
  ASSERT_NE(kernel, nullptr);
  EXPECT_STREQ(kernel->code.family, "fused");
  EXPECT_LE(kernel->code.least_rows, out_rows);
  EXPECT_GE(kernel->code.most_rows, out_rows);
  const Stream stream(machine());
  const Neighbours neighbours = neighbours_of(map.map.get(), out_rows);
  const Buffer rows(machine(), neighbours.rows), masks(machine(), neighbours.masks);
  const Buffer count(machine(), std::vector<int32_t>{static_cast<int32_t>(out_rows)});
  const Buffer overflow(machine(), std::vector<uint32_t>{0});
  Arguments arguments(machine(), *kernel);
  arguments.set_pointer("input", input.data());
  arguments.set_i32("input_ld", test.in_channels);
  arguments.set_pointer("rows", rows.data());
  arguments.set_pointer("masks", masks.data());
  arguments.set_i32("row_stride", static_cast<int32_t>(out_rows));
  arguments.set_pointer("query_count", count.data());
  if (test.residual) {
    arguments.set_pointer("residual", residual.data());
    arguments.set_i32("residual_ld", test.out_channels);
  }
  arguments.set_pointer("output", output.data());
  arguments.set_i32("output_ld", test.out_channels);
  arguments.set_pointer("overflow", overflow.data());
  arguments.set_u32("overflow_mark", 1);
  arguments.set_f32("slope", test.negative_slope);
  arguments.launch(out_rows, stream.get());
  EXPECT_EQ(output.read<char>(), expected.read<char>());
  EXPECT_EQ(overflow.read<uint32_t>(), std::vector<uint32_t>{0});
}

TEST_P(KernelsTest, AFusedConvolutionByTheDriverAlone) {
  const std::vector<int64_t> counts =
      machine().is_software() ? std::vector<int64_t>{90} : std::vector<int64_t>{1, 90, 3000, 40000};
  for (const int64_t points : counts) {
    ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 16, points);
    test.kernel_size = {3, 3, 3, 1};
    test.scale_shift = test.residual = true;
    test.activation = Activation::LeakyReLU;
    test.negative_slope = 0.25f;
    expect_same_bits_by_hand(test);
    test = small_case(dtype(), ConvolutionKind::Strided, 4, 24, points);
    test.scale_shift = test.residual = false;
    test.activation = Activation::None;
    test.kernel_size = test.stride = {2, 2, 2, 1};
    test.coarse_side = CoarseSide::Derived;
    expect_same_bits_by_hand(test);
  }
}

/// A grid-stride kernel, whose arrays have an element a step.
TEST_P(KernelsTest, AChainByTheDriverAlone) {
  constexpr int32_t kChannels = 20, kRows = 77;
  std::vector<float> values(kRows * kChannels), scale(kChannels), shift(kChannels);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 23) - 11;
  for (size_t i = 0; i < kChannels; ++i)
    scale[i] = static_cast<float>(i) - 7, shift[i] = static_cast<float>(i % 5);
  const minuet_pointwise_step steps[] = {{MINUET_POINTWISE_AFFINE, 0, scale.data(), shift.data()},
                                         {MINUET_POINTWISE_RELU, 0, nullptr, nullptr}};
  minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype());
  options.channels = kChannels;
  options.steps = steps, options.step_count = 2;
  minuet_plan* made = nullptr;
  check(minuet_plan_create_pointwise(machine().context(), &options, &made));
  const Plan plan(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
  if (has_none(made)) return;
  const std::vector<Kernel> kernels = kernels_of(made, machine().arch());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].code.grid_rows, 0);
  EXPECT_EQ(kernels[0].fields.at("numbers").told.count, 8);
  const int64_t bytes = static_cast<int64_t>(values.size()) * dtype_bytes(dtype());
  const Buffer input(machine(), encode(dtype(), values)), output(machine(), bytes);
  const Buffer count(machine(), std::vector<int32_t>{kRows}), overflow(machine(), std::vector<uint32_t>{0});
  const Stream stream(machine());
  Arguments arguments(machine(), kernels[0]);
  arguments.set_pointer("input", input.data());
  arguments.set_i64("input_ld", kChannels);
  arguments.set_pointer("count", count.data());
  arguments.set_i64("rows", kRows);
  arguments.set_pointer("output", output.data());
  arguments.set_i64("output_ld", kChannels);
  arguments.set_pointer("overflow", overflow.data());
  arguments.set_u32("overflow_mark", 1);
  arguments.launch(kRows, stream.get());
  std::vector<float> expected(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    expected[i] = std::max(0.0f, values[i] * scale[i % kChannels] + shift[i % kChannels]);
  EXPECT_EQ(decode(dtype(), output.read<char>()), expected);
}

MINUET_INSTANTIATE_DEVICE_TEST(KernelsTest);

}  // namespace
}  // namespace minuet::abi
