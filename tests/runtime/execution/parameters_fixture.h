// What tests of parameters that a caller sets share: plans without values, and arrays of values.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/runtime/execution/capacity_fixture.h"

namespace minuet::abi {

using Parameters = Handle<minuet_parameters>;

/// Values of parameters by their names.
using Values = std::map<std::string, FileTensor>;

/// The type's bytes of these numbers.
inline std::vector<char> encode_element(minuet_element element, const std::vector<float>& values) {
  if (element != MINUET_ELEMENT_F64) return encode(static_cast<DType>(element), values);
  const std::vector<double> wide(values.begin(), values.end());
  std::vector<char> bytes(wide.size() * sizeof(double));
  std::memcpy(bytes.data(), wide.data(), bytes.size());
  return bytes;
}

inline size_t numbers_of(const minuet_array& array) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < array.rank; ++axis) count *= array.shape[axis];
  return static_cast<size_t>(count);
}

/// The matrix as which a run takes an array of f32.
inline minuet_tensor matrix_of(const minuet_array& array) {
  const int64_t columns = array.shape[array.rank - 1];
  const int64_t rows = array.rank == 1 ? 1 : array.shape[0] * array.shape[1];
  return tensor(array.data, rows, static_cast<int32_t>(columns), MINUET_F32);
}

/// Arrays in device memory, in the order of a plan's parameters.
class DeviceArrays {
 public:
  DeviceArrays(Machine& machine, minuet_plan* plan, const Values& values,
               minuet_element element = MINUET_ELEMENT_F32) {
    for (int32_t i = 0; i < info_of(plan).parameter_tensors; ++i) {
      minuet_parameter_info info{};
      info.struct_size = sizeof(info);
      check(minuet_plan_query_parameter(plan, i, &info));
      names_.emplace_back(info.name);
      const FileTensor& value = values.at(info.name);
      // A batch norm's numbers are not exact in 16 bits.
      const minuet_element stored =
          info.rank == 1 && element != MINUET_ELEMENT_F64 ? MINUET_ELEMENT_F32 : element;
      const Buffer& buffer = buffers_.emplace_back(machine, encode_element(stored, value.values));
      arrays_.push_back(array_of(buffer.data(), {info.shape, info.shape + info.rank}, stored));
    }
  }
  std::vector<minuet_array>& arrays() { return arrays_; }
  int32_t count() const { return static_cast<int32_t>(arrays_.size()); }
  const std::string& name(size_t i) const { return names_[i]; }
  /// Overwrites the values in place.
  void put(Machine& machine, const Values& values) {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const std::vector<char> bytes = encode_element(arrays_[i].element, values.at(names_[i]).values);
      check(minuet_device_copy(machine.device(), arrays_[i].data, bytes.data(),
                               static_cast<int64_t>(bytes.size()), 0));
    }
  }
  void poison() {
    for (Buffer& buffer : buffers_) buffer.poison();
  }

 private:
  std::deque<Buffer> buffers_;
  std::vector<minuet_array> arrays_;
  std::vector<std::string> names_;
};

class ParametersTest : public CapacityTest {
 protected:
  /// The same network without values, compiled and loaded once for all tests.
  minuet_plan* bare() {
    NetworkSpec wanted = spec();
    wanted.weights = "";
    wanted.seed = 0;
    wanted.without_values = true;
    static std::map<std::pair<Machine*, DType>, std::shared_ptr<minuet_plan>> made;
    std::shared_ptr<minuet_plan>& one = made[{&machine(), dtype()}];
    if (!one) one = make_network(machine(), wanted);
    return one.get();
  }
  Parameters parameters_of(minuet_plan* plan, bool master = false) {
    minuet_parameters_options options = MINUET_PARAMETERS_OPTIONS_INIT;
    options.master = master ? 1 : 0;
    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan, machine().device(), &options, &made));
    return {made, {minuet_parameters_destroy}};
  }
  static minuet_status set(const Parameters& parameters, DeviceArrays& arrays, void* stream = nullptr) {
    return minuet_parameters_set(parameters.get(), nullptr, arrays.arrays().data(), arrays.count(),
                                 MINUET_WEIGHTS_AS_DESCRIBED, stream);
  }
  Execution execution_with(minuet_plan* plan, const Parameters& parameters,
                           minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT) {
    options.parameters = parameters.get();
    return make_execution(machine(), plan, &options);
  }
  static const Values& values() { return weights().parameters.all(); }
  /// Other values of the same shapes.
  static const Values& other_values() {
    static const Values other = [] {
      Values changed = values();
      for (auto& [name, tensor] : changed) {
        const bool is_variance = name.ends_with("running_var");
        for (float& value : tensor.values) value = is_variance ? value * 4 : -value;
      }
      return changed;
    }();
    return other;
  }
  /// A plan whose own values are the other ones, compiled and loaded once.
  minuet_plan* other_plan() {
    static TemporaryPath file("other.safetensors");
    static const bool written = [] {
      write_safetensors(file.path(), other_values());
      return true;
    }();
    EXPECT_TRUE(written);
    static std::map<std::pair<Machine*, DType>, std::shared_ptr<minuet_plan>> made;
    std::shared_ptr<minuet_plan>& one = made[{&machine(), dtype()}];
    NetworkSpec wanted = spec();
    wanted.weights = file.path();
    if (!one) one = make_network(machine(), wanted);
    return one.get();
  }
  NetworkRun run_plan(minuet_plan* plan, const Cloud& cloud) {
    return run(make_execution(machine(), plan), cloud);
  }
};

}  // namespace minuet::abi
