// The C ABI as tests use it: owned handles, poisoned device buffers, one convolution from coordinates
// to output. Linked against libminuet, like any other caller.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "include/minuet/diagnostics.h"
#include "include/minuet/generate.h"
#include "include/minuet/minuet.h"
#include "include/minuet/parameters.h"
#include "include/minuet/precompile.h"
#include "tests/cases/convolution_cases.h"
#include "tests/support/expect.h"
#include "tests/support/row_order.h"

namespace minuet::abi {

template <class T>
struct Destroy {
  void (*destroy)(T*);
  void operator()(T* handle) const { destroy(handle); }
};
template <class T>
using Handle = std::unique_ptr<T, Destroy<T>>;

std::string last_error();
std::string last_error_detail();
/// Fails and ends the test, with the library's message, where the status is not MINUET_OK.
void check(minuet_status status);

minuet_dtype abi_dtype(DType type);

/// Of plans that tests make: as MINUET_TEST_DATAFLOW names it, gather-gemm-scatter or fused; else what the
/// library chooses.
minuet_dataflow tested_dataflow();

/// Of executions of networks: as MINUET_TEST_MAPS names it, sorted or indexed.
minuet_map_method tested_maps();

/// A context and a device, opened once a process and name. Null where the device is not there; then
/// `reason` says why.
class Machine {
 public:
  static Machine* open(const std::string& name, std::string& reason);
  /// Opens a device with options in a context of its own. Fails the test if that is not possible.
  static std::unique_ptr<Machine> open_own(const std::string& name, const minuet_device_options& options);
  minuet_context* context() const { return context_.get(); }
  minuet_device* device() const { return device_.get(); }
  const std::string& arch() const { return arch_; }
  /// Where no kernel is compiled.
  bool is_cpu() const { return arch_ == "cpu"; }
  /// On the software CUDA device, where compiling a kernel and running it take long: suites are smaller.
  bool is_software() const { return !is_cpu() && on_software_device(); }

 private:
  minuet_status open(const std::string& name, const minuet_device_options* options);

  std::string arch_;
  Handle<minuet_context> context_{nullptr, {minuet_context_destroy}};
  Handle<minuet_device> device_{nullptr, {minuet_device_destroy}};
};

/// Device memory, poisoned at birth with NaN in every dtype.
class Buffer {
 public:
  Buffer(Machine& machine, int64_t bytes);
  template <class T>
  Buffer(Machine& machine, const std::vector<T>& values)
      : Buffer(machine, static_cast<int64_t>(values.size() * sizeof(T))) {
    check(minuet_device_copy(machine.device(), data_, values.data(), bytes_, 0));
  }
  ~Buffer();
  Buffer(const Buffer&) = delete;

  void* data() const { return data_; }
  const int32_t* integers() const { return static_cast<const int32_t*>(data_); }
  int64_t bytes() const { return bytes_; }
  void poison();
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    check(minuet_device_synchronize(machine_.device(), nullptr));
    check(minuet_device_copy(machine_.device(), values.data(), data_, bytes_, 1));
    return values;
  }

 private:
  Machine& machine_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

using Coordinates = Handle<minuet_coordinates>;
using KernelMap = Handle<minuet_kernel_map>;
using Plan = Handle<minuet_plan>;
using Execution = Handle<minuet_execution>;

/// `row_stride` in elements; 0: dense.
minuet_tensor tensor(void* data, int64_t rows, int32_t channels, minuet_dtype dtype, int64_t row_stride = 0);
inline minuet_tensor tensor(const Buffer& buffer, int64_t rows, int32_t channels, DType dtype) {
  return tensor(buffer.data(), rows, channels, abi_dtype(dtype));
}
/// Its elements lie one behind the other.
minuet_array array_of(void* data, const std::vector<int64_t>& shape, minuet_element element,
                      bool on_host = false);
/// Returns the array that has the memory of a matrix, with the stride of its rows.
minuet_array array_of(const minuet_tensor& matrix);
/// minuet_execution_run_arrays
minuet_status run_arrays(minuet_execution* execution, const std::vector<minuet_array>& inputs,
                         const std::vector<minuet_array>& outputs, void* stream = nullptr);
/// minuet_execution_run with one output.
minuet_status run_tensors(minuet_execution* execution, const std::vector<minuet_tensor>& inputs,
                          const minuet_tensor& output, void* stream = nullptr);
/// minuet_execution_prepare_maps with one map.
minuet_status prepare_map(minuet_execution* execution, minuet_kernel_map* map, void* stream = nullptr);
/// Of a layer, for what is prepared.
minuet_dataflow dataflow_of(minuet_execution* execution, int32_t layer);
/// minuet_plan_query, minuet_execution_query
minuet_plan_info info_of(minuet_plan* plan);
minuet_execution_info info_of(const Execution& execution);

/// ndim and tensor_stride of `options` are filled in.
Coordinates make_set(Machine& machine, int ndim, const std::vector<int32_t>& coordinates,
                     const oracle::Axes& tensor_stride,
                     minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT);
/// [rows, 1 + ndim]
std::vector<int32_t> coordinates_of(Machine& machine, minuet_coordinates* set, int ndim);
/// Expects that the set has these coordinates, in whatever order, and returns them in the order of its rows.
std::vector<int32_t> expect_coordinates(Machine& machine, minuet_coordinates* set, int ndim,
                                        const std::vector<int32_t>& expected);
/// What a coarser set of `fine` is.
Coordinates downsample(minuet_coordinates* fine, const oracle::Axes& stride);
/// The set that the case's op reaches from `fine`.
Coordinates reach(minuet_coordinates* fine, const ConvolutionCase& test);
/// minuet_kernel_map_query_pairs
int64_t pair_count(minuet_kernel_map* map);
/// Of a map, sorted.
std::vector<oracle::Pair> pairs_of(minuet_kernel_map* map);

/// The coordinate sets of one case and the map between them. The output of a strided convolution is
/// derived by the library, as may be the input of a transposed one; its coordinates are compared with those
/// of `data`, where they are ascending. Its rows are in an order of the library's.
struct Map {
  Coordinates in{nullptr, {minuet_coordinates_destroy}};
  Coordinates out{nullptr, {minuet_coordinates_destroy}};  // null where it is the input set
  KernelMap map{nullptr, {minuet_kernel_map_destroy}};
  std::vector<oracle::Pair> pairs;  // of rows of `data`, sorted
  // The row of each set that each row of `data` is; empty if they are the same.
  std::vector<int32_t> in_rows, out_rows;

  /// Return rows of `data` in the order of the input or output set, and rows of the output set in the order
  /// of `data`.
  template <class T>
  std::vector<T> to_input(const std::vector<T>& values) const {
    return take_rows(values, inverse(in_rows));
  }
  template <class T>
  std::vector<T> to_output(const std::vector<T>& values) const {
    return take_rows(values, inverse(out_rows));
  }
  template <class T>
  std::vector<T> from_output(const std::vector<T>& values) const {
    return take_rows(values, out_rows);
  }
};
Map make_map(Machine& machine, const ConvolutionCase& test, const ConvolutionData& data);

/// The options of the case's convolution, which point to the parameters.
minuet_convolution_options options_of(const ConvolutionCase& test, const ConvolutionData& parameters,
                                      minuet_dataflow dataflow = tested_dataflow());
/// What create answers; `plan` is null where it is not MINUET_OK.
minuet_status create_convolution(Machine& machine, const ConvolutionCase& test,
                                 const ConvolutionData& parameters, Plan& plan,
                                 minuet_dataflow dataflow = tested_dataflow());

/// All kernels of the plans side by side into the cache folder, where each plan's own compile finds them:
/// plan by plan most cores would have nothing to do. What fails here fails there again, and says so then. The
/// CPU has none.
void compile_ahead(Machine& machine, const std::vector<Plan>& plans);
/// Of convolutions; not on the software device, whose compiler takes no less time side by side.
void compile_ahead(Machine& machine, const std::vector<ConvolutionCase>& cases);

/// A convolution that is compiled and loaded, for as many clouds as one likes.
class Convolution {
 public:
  Convolution(Machine& machine, const ConvolutionCase& test, const ConvolutionData& parameters,
              minuet_dataflow dataflow = tested_dataflow());
  /// What create answered; the object is of no use where it is not MINUET_OK.
  minuet_status status() const { return status_; }
  minuet_plan* get() const { return plan_.get(); }

  Execution execution(const minuet_execution_options* options = nullptr);
  /// The output as stored, [out rows, out_channels], in the order of `data`; buffers are poisoned first.
  std::vector<char> run(minuet_execution* execution, const Map& map, const ConvolutionData& data);

 private:
  Machine& machine_;
  ConvolutionCase test_;
  minuet_status status_ = MINUET_OK;
  Plan plan_{nullptr, {minuet_plan_destroy}};
};

/// Tests that run on each device and dtype: "cpu_f16", "cuda_f16". Skips, with the library's reason,
/// where the device is not there.
class DeviceTest : public testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  void SetUp() override;
  DType dtype() const { return std::get<1>(GetParam()); }
  Machine& machine() { return *machine_; }

 private:
  Machine* machine_ = nullptr;
};
/// The list as options take it, in memory that lives as long as the process.
const int32_t* kept_offsets(int ndim, const std::vector<oracle::Axes>& offsets);
/// Makes the kernel of options, which is a box so far, a custom one, unless the list is empty.
template <class Options>
void set_offsets(int ndim, const std::vector<oracle::Axes>& offsets, Options& options) {
  if (offsets.empty()) return;
  options.offsets = kept_offsets(ndim, offsets);
  options.offset_count = static_cast<int32_t>(offsets.size());
  options.kernel_shape = MINUET_KERNEL_CUSTOM;
}

std::string device_test_name(const testing::TestParamInfo<std::tuple<const char*, DType>>& info);

/// Tests of coordinate sets and kernel maps, which know no dtype, on each device: "cpu_sets", "cuda_sets".
class SetsOnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  Machine& machine() { return *machine_; }

  minuet_status create(const minuet_coordinates_options& options, const std::vector<int32_t>& coordinates,
                       Coordinates& set);
  Coordinates set_of(const std::vector<int32_t>& coordinates,
                     const minuet_coordinates_options& options = MINUET_COORDINATES_OPTIONS_INIT);
  KernelMap map_of(minuet_coordinates* in, minuet_coordinates* out, const oracle::Geometry& geometry);

 private:
  Machine* machine_ = nullptr;
};
std::string sets_test_name(const testing::TestParamInfo<const char*>& info);

#define MINUET_INSTANTIATE_SETS_TEST(Suite) \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::Values("cpu", "cuda:0"), ::minuet::abi::sets_test_name)

#define MINUET_INSTANTIATE_DEVICE_TEST(Suite)                                                        \
  INSTANTIATE_TEST_SUITE_P(                                                                          \
      Devices, Suite,                                                                                \
      testing::Combine(testing::Values("cpu", "cuda:0"), testing::ValuesIn(::minuet::all_dtypes())), \
      ::minuet::abi::device_test_name)

}  // namespace minuet::abi
