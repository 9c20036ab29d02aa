#include "tests/support/abi.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "tests/support/expect.h"
#include "tests/support/poison.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

void copy_axes(const oracle::Axes& axes, int ndim, int32_t* target) {
  std::copy(axes.begin(), axes.begin() + ndim, target);
}

/// What the case wants its sets to be told of these coordinates.
minuet_coordinates_options set_options(const ConvolutionCase& test, const std::vector<int32_t>& coordinates) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.keep_first_duplicate = test.duplicates > 0;
  if (test.bounds_slack < 0) return options;
  options.has_bounds = 1;
  const size_t fields = 1 + test.ndim;
  for (size_t f = 0; f < fields; ++f) {
    int64_t least = coordinates.empty() ? 0 : coordinates[f], greatest = least;
    for (size_t i = f; i < coordinates.size(); i += fields) {
      least = std::min<int64_t>(least, coordinates[i]);
      greatest = std::max<int64_t>(greatest, coordinates[i]);
    }
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    options.least[f] =
        static_cast<int32_t>(std::max<int64_t>(least - test.bounds_slack, f == 0 ? 0 : -kMost - 1));
    options.greatest[f] = static_cast<int32_t>(std::min<int64_t>(greatest + test.bounds_slack, kMost));
  }
  return options;
}

/// "cpu" or "cuda"
std::string kind_of(const std::string& device) { return device.substr(0, device.find(':')); }

void skip_or_fail(const std::string& device, const std::string& reason) {
  ASSERT_NE(device, "cpu") << reason;
  MINUET_SKIP_OR_FAIL("gpu", reason);
}

/// Null where it is not there; then the test is skipped, or has failed.
Machine* open_or_skip(const std::string& name) {
  std::string reason;
  Machine* const machine = Machine::open(name, reason);
  if (machine == nullptr) skip_or_fail(name, reason);
  return machine;
}

std::string read_text(size_t (*function)(char*, size_t)) {
  std::string text(function(nullptr, 0), '\0');
  function(text.data(), text.size());
  text.pop_back();  // the terminator
  return text;
}

}  // namespace

minuet_dataflow tested_dataflow() {
  const char* const named = std::getenv("MINUET_TEST_DATAFLOW");
  const std::string name = named ? named : "";
  if (name.empty()) return MINUET_DATAFLOW_AUTO;
  if (name == "gather-gemm-scatter") return MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  if (name == "fused") return MINUET_DATAFLOW_FUSED;
  throw std::runtime_error("MINUET_TEST_DATAFLOW names no dataflow: " + name);
}

minuet_map_method tested_maps() {
  const char* const named = std::getenv("MINUET_TEST_MAPS");
  const std::string name = named ? named : "";
  if (name.empty()) return MINUET_MAPS_AUTO;
  if (name == "sorted") return MINUET_MAPS_SORTED;
  if (name == "indexed") return MINUET_MAPS_INDEXED;
  throw std::runtime_error("MINUET_TEST_MAPS names no map method: " + name);
}

minuet_dtype abi_dtype(DType type) {
#define MINUET_DTYPE_ROW(type, ...) static_assert(MINUET_##type == static_cast<int>(DType::type));
  MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
  return static_cast<minuet_dtype>(type);
}

std::string last_error() { return read_text(minuet_last_error); }
std::string last_error_detail() { return read_text(minuet_last_error_detail); }

void check(minuet_status status) {
  if (status == MINUET_OK) return;
  ADD_FAILURE() << "status " << status << ": " << last_error();
  throw std::runtime_error("a call into libminuet failed");  // gtest goes on with the next test
}

minuet_status Machine::open(const std::string& name, const minuet_device_options* options) {
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  minuet_status status = minuet_context_create(nullptr, &context);
  context_.reset(context);
  if (status == MINUET_OK) status = minuet_device_open(context, name.c_str(), options, &device);
  device_.reset(device);
  if (status != MINUET_OK) return status;
  minuet_device_info info{};
  info.struct_size = sizeof(info);
  check(minuet_device_query(device, &info));
  arch_ = info.arch;
  return MINUET_OK;
}

std::unique_ptr<Machine> Machine::open_own(const std::string& name, const minuet_device_options& options) {
  auto machine = std::make_unique<Machine>();
  check(machine->open(name, &options));
  return machine;
}

Machine* Machine::open(const std::string& name, std::string& reason) {
  static std::map<std::string, std::unique_ptr<Machine>> machines;
  static std::map<std::string, std::string> reasons;
  if (machines.count(name) == 0) {
    auto machine = std::make_unique<Machine>();
    const minuet_status status = machine->open(name, nullptr);
    if (status != MINUET_OK) {
      reasons[name] = last_error();
      // Anything but "there is none" is a failure of its own.
      EXPECT_EQ(status, MINUET_UNAVAILABLE) << last_error();
    }
    machines[name] = status == MINUET_OK ? std::move(machine) : nullptr;
  }
  reason = reasons[name];
  return machines[name].get();
}

Buffer::Buffer(Machine& machine, int64_t bytes) : machine_(machine), bytes_(bytes) {
  check(minuet_device_allocate(machine.device(), bytes, &data_));
  if (!machine.is_software()) poison();  // the software device's memory comes so
}

Buffer::~Buffer() { minuet_device_free(machine_.device(), data_); }

void Buffer::poison() {
  check(minuet_device_copy(machine_.device(), data_, minuet::poison(bytes_), bytes_, 0));
}

minuet_tensor tensor(void* data, int64_t rows, int32_t channels, minuet_dtype dtype, int64_t row_stride) {
  minuet_tensor made{};
  made.data = data;
  made.rows = rows;
  made.row_stride = row_stride;
  made.channels = channels;
  made.dtype = dtype;
  return made;
}

minuet_array array_of(void* data, const std::vector<int64_t>& shape, minuet_element element, bool on_host) {
  minuet_array array = {};
  array.data = data;
  std::copy(shape.begin(), shape.end(), array.shape);
  array.rank = static_cast<int32_t>(shape.size());
  array.element = element;
  array.on_host = on_host ? 1 : 0;
  return array;
}

minuet_array array_of(const minuet_tensor& matrix) {
  const minuet_element element = matrix.dtype == MINUET_TF32 ? MINUET_ELEMENT_F32 : matrix.dtype;
  minuet_array array = array_of(matrix.data, {matrix.rows, matrix.channels}, element);
  if (matrix.row_stride != 0) {
    array.has_strides = 1;
    array.stride[0] = matrix.row_stride, array.stride[1] = 1;
  }
  return array;
}

minuet_status run_arrays(minuet_execution* execution, const std::vector<minuet_array>& inputs,
                         const std::vector<minuet_array>& outputs, void* stream) {
  return minuet_execution_run_arrays(execution, inputs.data(), static_cast<int32_t>(inputs.size()),
                                     outputs.data(), static_cast<int32_t>(outputs.size()), stream);
}

minuet_status run_tensors(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                          const minuet_tensor& output, void* stream) {
  return minuet_execution_run(execution, inputs.data(), static_cast<int32_t>(inputs.size()), &output, 1,
                              stream);
}

minuet_status prepare_map(minuet_execution* execution, minuet_kernel_map* map, void* stream) {
  return minuet_execution_prepare_maps(execution, &map, 1, stream);
}

minuet_dataflow dataflow_of(minuet_execution* execution, int32_t layer) {
  minuet_layer_info info{};
  info.struct_size = sizeof(info);
  check(minuet_execution_query_layer(execution, layer, &info));
  return info.dataflow;
}

minuet_plan_info info_of(minuet_plan* plan) {
  minuet_plan_info info{};
  info.struct_size = sizeof(info);
  check(minuet_plan_query(plan, &info));
  return info;
}

minuet_execution_info info_of(const Execution& execution) {
  minuet_execution_info info = MINUET_EXECUTION_INFO_INIT;
  check(minuet_execution_query(execution.get(), &info));
  return info;
}

Coordinates make_set(Machine& machine, int ndim, const std::vector<int32_t>& coordinates,
                     const oracle::Axes& tensor_stride, minuet_coordinates_options options) {
  options.ndim = ndim;
  copy_axes(tensor_stride, ndim, options.tensor_stride);
  const Buffer memory(machine, coordinates);
  const int64_t count = static_cast<int64_t>(coordinates.size()) / (1 + ndim);
  minuet_coordinates* set = nullptr;
  check(minuet_coordinates_create(machine.device(), &options, memory.integers(), count, nullptr, &set));
  Coordinates handle(set, {minuet_coordinates_destroy});
  EXPECT_EQ(minuet_coordinates_rows(set), count);
  if (options.keep_first_duplicate == 0) {
    EXPECT_EQ(minuet_coordinates_count(set), count);
  }
  return handle;
}

std::vector<int32_t> coordinates_of(Machine& machine, minuet_coordinates* set, int ndim) {
  Buffer memory(machine, minuet_coordinates_rows(set) * (1 + ndim) * 4);
  check(minuet_coordinates_export(set, static_cast<int32_t*>(memory.data()), nullptr));
  return memory.read<int32_t>();
}

std::vector<int32_t> expect_coordinates(Machine& machine, minuet_coordinates* set, int ndim,
                                        const std::vector<int32_t>& expected) {
  const int64_t rows = minuet_coordinates_rows(set);
  std::vector<int32_t> coordinates;
  if (rows > 0) coordinates = coordinates_of(machine, set, ndim);
  EXPECT_EQ(ascending(coordinates, ndim), ascending(expected, ndim));
  return coordinates;
}

Coordinates downsample(minuet_coordinates* fine, const oracle::Axes& stride) {
  minuet_coordinates* coarse = nullptr;
  check(minuet_coordinates_downsample(fine, stride.data(), nullptr, &coarse));
  return Coordinates(coarse, {minuet_coordinates_destroy});
}

int64_t pair_count(minuet_kernel_map* map) {
  int64_t pairs = 0;
  check(minuet_kernel_map_query_pairs(map, &pairs));
  return pairs;
}

std::vector<oracle::Pair> pairs_of(minuet_kernel_map* map) {
  std::vector<oracle::Pair> pairs(static_cast<size_t>(pair_count(map)));
  static_assert(sizeof(oracle::Pair) == 12);
  check(minuet_kernel_map_export(map, reinterpret_cast<int32_t*>(pairs.data()), nullptr));
  oracle::sort(pairs);
  return pairs;
}

Coordinates reach(minuet_coordinates* fine, const ConvolutionCase& test) {
  minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
  copy_axes(test.kernel_size, test.ndim, options.kernel_size);
  copy_axes(test.stride, test.ndim, options.stride);
  copy_axes(test.dilation, test.ndim, options.dilation);
  copy_axes(test.padding, test.ndim, options.padding);
  copy_axes(test.shape, test.ndim, options.shape);
  minuet_coordinates* set = nullptr;
  check(minuet_coordinates_reach(fine, &options, nullptr, &set));
  return {set, {minuet_coordinates_destroy}};
}

Coordinates generate(minuet_coordinates* coarse, const ConvolutionCase& test) {
  minuet_generate_options options = MINUET_GENERATE_OPTIONS_INIT;
  copy_axes(test.kernel_size, test.ndim, options.kernel_size);
  copy_axes(test.stride, test.ndim, options.stride);
  copy_axes(test.dilation, test.ndim, options.dilation);
  options.dense_offsets = test.is_reached;
  copy_axes(test.padding, test.ndim, options.padding);
  copy_axes(test.shape, test.ndim, options.shape);
  minuet_coordinates* set = nullptr;
  check(minuet_coordinates_generate(coarse, &options, nullptr, &set));
  return {set, {minuet_coordinates_destroy}};
}

const int32_t* kept_offsets(int ndim, const std::vector<oracle::Axes>& offsets) {
  static std::mutex mutex;
  static std::set<std::vector<int32_t>> kept;
  std::vector<int32_t> packed;
  for (const oracle::Axes& offset : offsets)
    packed.insert(packed.end(), offset.begin(), offset.begin() + ndim);
  const std::lock_guard lock(mutex);
  return kept.insert(std::move(packed)).first->data();
}

Map make_map(Machine& machine, const ConvolutionCase& test, const ConvolutionData& data) {
  const oracle::Axes coarse = test.coarse_stride();
  auto given = [&](const std::vector<int32_t>& coordinates, const oracle::Axes& tensor_stride) {
    return make_set(machine, test.ndim, coordinates, tensor_stride, set_options(test, coordinates));
  };
  auto derived = [&](minuet_coordinates* fine, const std::vector<int32_t>& expected,
                     std::vector<int32_t>& rows) {
    Coordinates set = test.is_reached ? reach(fine, test) : downsample(fine, test.stride);
    rows = ascending_rows(expect_coordinates(machine, set.get(), test.ndim, expected), test.ndim);
    return set;
  };
  Map map;
  if (test.is_generative) {
    map.in = given(data.in_coordinates, coarse);
    map.out = generate(map.in.get(), test);
    map.out_rows = ascending_rows(expect_coordinates(machine, map.out.get(), test.ndim, data.out_coordinates),
                                  test.ndim);
  } else if (test.transposed()) {
    map.out = given(data.out_coordinates, test.tensor_stride);
    map.in = test.coarse_side == CoarseSide::Derived
                 ? derived(map.out.get(), data.in_coordinates, map.in_rows)
                 : given(data.in_coordinates, coarse);
  } else {
    map.in = given(data.in_coordinates, test.tensor_stride);
    const bool is_derived = test.is_reached || test.stride != oracle::Axes{1, 1, 1, 1};
    if (test.kind == ConvolutionKind::Strided && is_derived) {
      map.out = derived(map.in.get(), data.out_coordinates, map.out_rows);
    } else if (test.kind != ConvolutionKind::Submanifold) {
      map.out = given(data.out_coordinates, coarse);
    }
  }
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  copy_axes(test.kernel_size, test.ndim, options.kernel_size);
  copy_axes(test.dilation, test.ndim, options.dilation);
  options.transposed = test.transposed();
  options.dense_offsets = test.is_reached;
  copy_axes(test.padding, test.ndim, options.padding);
  set_offsets(test.ndim, test.offsets, options);
  minuet_kernel_map* handle = nullptr;
  check(minuet_kernel_map_create(map.in.get(), map.out ? map.out.get() : map.in.get(), &options, nullptr,
                                 &handle));
  map.map.reset(handle);
  EXPECT_EQ(minuet_kernel_map_volume(handle), test.volume());
  map.pairs = pairs_of(handle);
  const std::vector<int32_t> in_places = inverse(map.in_rows), out_places = inverse(map.out_rows);
  for (oracle::Pair& pair : map.pairs) {
    if (!in_places.empty()) pair.in = in_places[static_cast<size_t>(pair.in)];
    if (!out_places.empty()) pair.out = out_places[static_cast<size_t>(pair.out)];
  }
  oracle::sort(map.pairs);
  return map;
}

minuet_convolution_options options_of(const ConvolutionCase& test, const ConvolutionData& parameters,
                                      minuet_dataflow dataflow) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.ndim = test.ndim;
  options.dtype = abi_dtype(test.dtype);
  options.in_channels = test.in_channels;
  options.out_channels = test.out_channels;
  copy_axes(test.kernel_size, test.ndim, options.kernel_size);
  copy_axes(test.stride, test.ndim, options.stride);
  copy_axes(test.dilation, test.ndim, options.dilation);
  options.dense_offsets = test.is_reached;
  copy_axes(test.padding, test.ndim, options.padding);
  set_offsets(test.ndim, test.offsets, options);
  options.groups = test.groups;
  // Only the fused dataflow has groups, and the library chooses it by itself.
  options.dataflow = test.groups > 1 ? MINUET_DATAFLOW_AUTO : dataflow;
  options.submanifold = test.kind == ConvolutionKind::Submanifold;
  options.transposed = test.transposed();
  options.activation = static_cast<minuet_activation>(test.activation);
  options.negative_slope = test.negative_slope;
  options.residual = test.residual;
  options.weight = parameters.weight.data();
  options.weight_count = static_cast<int64_t>(parameters.weight.size());
  options.scale_count = static_cast<int64_t>(parameters.scale.size());
  options.shift_count = static_cast<int64_t>(parameters.shift.size());
  options.scale = parameters.scale.empty() ? nullptr : parameters.scale.data();
  options.shift = parameters.shift.empty() ? nullptr : parameters.shift.data();
  return options;
}

minuet_status create_convolution(Machine& machine, const ConvolutionCase& test,
                                 const ConvolutionData& parameters, Plan& plan, minuet_dataflow dataflow) {
  const minuet_convolution_options options = options_of(test, parameters, dataflow);
  minuet_plan* made = nullptr;
  const minuet_status status = minuet_plan_create_convolution(machine.context(), &options, &made);
  plan.reset(made);
  return status;
}

void compile_ahead(Machine& machine, const std::vector<Plan>& plans) {
  if (machine.is_cpu() || plans.empty()) return;
  std::vector<minuet_plan*> handles;
  for (const Plan& plan : plans) handles.push_back(plan.get());
  const char* const arch = machine.arch().c_str();
  const TemporaryPath bundles("ahead");
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.plans = handles.data();
  options.plan_count = static_cast<int32_t>(handles.size());
  options.archs = &arch;
  options.arch_count = 1;
  options.output_directory = bundles.path().c_str();
  minuet_precompile(machine.context(), &options, nullptr);
}

void compile_ahead(Machine& machine, const std::vector<ConvolutionCase>& cases) {
  if (machine.is_cpu() || machine.is_software()) return;
  std::vector<Plan> plans;
  for (const ConvolutionCase& test : cases) {
    ConvolutionData zeros;  // no kernel knows its weights
    zeros.weight.resize(
        static_cast<size_t>(test.volume() * (test.in_channels / test.groups) * test.out_channels));
    if (test.has_scale()) zeros.scale.resize(static_cast<size_t>(test.out_channels));
    if (test.has_shift()) zeros.shift.resize(static_cast<size_t>(test.out_channels));
    Plan plan(nullptr, {minuet_plan_destroy});
    if (create_convolution(machine, test, zeros, plan) == MINUET_OK) plans.push_back(std::move(plan));
  }
  compile_ahead(machine, plans);
}

Convolution::Convolution(Machine& machine, const ConvolutionCase& test, const ConvolutionData& parameters,
                         minuet_dataflow dataflow)
    : machine_(machine), test_(test) {
  status_ = create_convolution(machine, test, parameters, plan_, dataflow);
  if (status_ != MINUET_OK) return;
  check(minuet_plan_compile(get(), machine.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(get(), machine.device()));
}

Execution Convolution::execution(const minuet_execution_options* options) {
  minuet_execution* execution = nullptr;
  check(minuet_execution_create(get(), machine_.device(), options, &execution));
  return Execution(execution, {minuet_execution_destroy});
}

std::vector<char> Convolution::run(minuet_execution* execution, const Map& map, const ConvolutionData& data) {
  const Buffer input(machine_, encode(test_.dtype, map.to_input(data.features)));
  const Buffer residual(machine_, encode(test_.dtype, map.to_output(data.residual)));
  const Buffer output(machine_, data.out_rows() * test_.out_channels * dtype_bytes(test_.dtype));
  std::vector<minuet_tensor> inputs = {tensor(input, data.in_rows(), test_.in_channels, test_.dtype)};
  if (test_.residual) inputs.push_back(tensor(residual, data.out_rows(), test_.out_channels, test_.dtype));
  check(prepare_map(execution, map.map.get()));
  check(run_tensors(execution, inputs, tensor(output, data.out_rows(), test_.out_channels, test_.dtype)));
  return map.from_output(output.read<char>());
}

void DeviceTest::SetUp() { machine_ = open_or_skip(std::get<0>(GetParam())); }

std::string device_test_name(const testing::TestParamInfo<std::tuple<const char*, DType>>& info) {
  return kind_of(std::get<0>(info.param)) + "_" + dtype_name(std::get<1>(info.param));
}

void SetsOnDevice::SetUp() { machine_ = open_or_skip(GetParam()); }

minuet_status SetsOnDevice::create(const minuet_coordinates_options& options,
                                   const std::vector<int32_t>& coordinates, Coordinates& set) {
  const Buffer memory(machine(), coordinates);
  minuet_coordinates* made = nullptr;
  const auto rows = static_cast<int64_t>(coordinates.size()) / (1 + options.ndim);
  const minuet_status status =
      minuet_coordinates_create(machine().device(), &options, memory.integers(), rows, nullptr, &made);
  EXPECT_EQ(made != nullptr, status == MINUET_OK);
  set.reset(made);
  return status;
}

Coordinates SetsOnDevice::set_of(const std::vector<int32_t>& coordinates,
                                 const minuet_coordinates_options& options) {
  Coordinates set(nullptr, {minuet_coordinates_destroy});
  check(create(options, coordinates, set));
  return set;
}

KernelMap SetsOnDevice::map_of(minuet_coordinates* in, minuet_coordinates* out,
                               const oracle::Geometry& geometry) {
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  copy_axes(geometry.kernel_size, geometry.ndim, options.kernel_size);
  copy_axes(geometry.dilation, geometry.ndim, options.dilation);
  options.transposed = geometry.transposed;
  options.dense_offsets = geometry.is_dense;
  copy_axes(geometry.padding, geometry.ndim, options.padding);
  set_offsets(geometry.ndim, geometry.offsets, options);
  minuet_kernel_map* map = nullptr;
  check(minuet_kernel_map_create(in, out, &options, nullptr, &map));
  return KernelMap(map, {minuet_kernel_map_destroy});
}

std::string sets_test_name(const testing::TestParamInfo<const char*>& info) {
  return kind_of(info.param) + "_sets";
}

}  // namespace minuet::abi
