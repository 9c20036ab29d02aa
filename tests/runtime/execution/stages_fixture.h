// What tests of networks share whose levels are made inside a run. Their reference is a chain of networks
// without such levels: what is between them is computed here by plain loops.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "include/minuet/points.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/support/network_abi.h"
#include "tests/support/point_oracle.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

/// The outputs of a run, each with its rows as stored.
struct StagedRun {
  std::vector<NetworkRun> outputs;
};

class StagesTest : public DeviceTest {
 protected:
  Plan plan_of(const std::string& description) {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  Execution execution_of(const Plan& plan, minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT,
                         const std::vector<int64_t>& capacities = {}) {
    options.level_capacity = capacities.empty() ? nullptr : capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    return make_execution(machine(), plan.get(), &options);
  }
  minuet_element element() const {
    return dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  }
  template <class T>
  Buffer& put(const std::vector<T>& values, int64_t room) {
    Buffer& buffer = buffers_.emplace_back(machine(), std::max<int64_t>(room * int64_t{sizeof(T)}, 16));
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    if (bytes > 0) check(minuet_device_copy(machine().device(), buffer.data(), values.data(), bytes, 0));
    return buffer;
  }

  /// The arrays of a run. Outputs are poisoned, and have `rows` rows.
  struct Arrays {
    std::vector<minuet_array> inputs, outputs;
    std::vector<const Buffer*> made;
  };
  /// Adds an array for each output, of `rows` rows.
  void add_outputs(const Plan& plan, int64_t rows, Arrays& arrays) {
    for (int32_t i = 0; i < info_of(plan.get()).outputs; ++i) {
      const minuet_tensor_info info = output_of(plan.get(), i);
      const int64_t size = info.element == MINUET_ELEMENT_I32 ? 4 : dtype_bytes(dtype());
      Buffer& buffer = buffers_.emplace_back(machine(), std::max<int64_t>(rows * info.channels * size, 16));
      arrays.made.push_back(&buffer);
      arrays.outputs.push_back(array_of(buffer.data(), {rows, info.channels},
                                        info.element == MINUET_ELEMENT_I32 ? MINUET_ELEMENT_I32 : element()));
    }
  }
  /// Gives the outputs whose numbers of rows are known before a run just as many.
  static void shape_outputs(const Execution& execution, Arrays& arrays) {
    for (size_t i = 0; i < arrays.outputs.size(); ++i) {
      int64_t rows = 0;
      int32_t channels = 0;
      if (minuet_execution_output_shape_of(execution.get(), static_cast<int32_t>(i), &rows, &channels) ==
          MINUET_OK) {
        arrays.outputs[i].shape[0] = rows;
      }
    }
  }
  /// The inputs of a network that takes points. With more room than points, their number is on the device.
  Arrays arrays_of(const Plan& plan, const oracle::PointCloud& cloud, int64_t room) {
    Arrays arrays;
    const bool is_counted = room > cloud.count();
    arrays.inputs.push_back(
        array_of(put(cloud.points, room * cloud.columns).data(), {room, cloud.columns}, MINUET_ELEMENT_F32));
    arrays.inputs.push_back(
        array_of(put(cloud.batch, room).data(), {cloud.batch.empty() ? 0 : room}, MINUET_ELEMENT_I32));
    const std::vector<int32_t> count{static_cast<int32_t>(cloud.count())};
    if (is_counted) arrays.inputs.push_back(array_of(put(count, 1).data(), {1}, MINUET_ELEMENT_I32));
    add_outputs(plan, room, arrays);
    return arrays;
  }
  /// The outputs after a run, with as many rows as there are.
  StagedRun read(const Plan& plan, const Execution& execution, const Arrays& arrays) {
    StagedRun run;
    for (size_t i = 0; i < arrays.made.size(); ++i) {
      const auto number = static_cast<int32_t>(i);
      const minuet_tensor_info info = output_of(plan.get(), number);
      NetworkRun& output = run.outputs.emplace_back();
      check(minuet_execution_output_shape_of(execution.get(), number, &output.rows, &output.channels));
      output.bytes = arrays.made[i]->read<char>();
      const int64_t size = info.element == MINUET_ELEMENT_I32 ? 4 : dtype_bytes(dtype());
      output.bytes.resize(static_cast<size_t>(output.rows * output.channels * size));
      if (info.ndim == 0) continue;
      const Buffer where(machine(), std::max<int64_t>(output.rows * (1 + info.ndim) * 4, 16));
      check(minuet_execution_output_coordinates_of(execution.get(), number,
                                                   static_cast<int32_t*>(where.data()), nullptr));
      output.coordinates = where.read<int32_t>();
      output.coordinates.resize(static_cast<size_t>(output.rows * (1 + info.ndim)));
    }
    return run;
  }
  /// Cuts the rows past the counts off.
  static void cut(const Plan& plan, const std::vector<int32_t>& counts, StagedRun& run) {
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      NetworkRun& output = run.outputs[i];
      const minuet_tensor_info info = output_of(plan.get(), static_cast<int32_t>(i));
      const auto rows = static_cast<int64_t>(counts[1 + static_cast<size_t>(info.level)]);
      ASSERT_LE(rows, output.rows);
      const size_t width = output.bytes.size() / static_cast<size_t>(std::max<int64_t>(output.rows, 1));
      for (size_t at = static_cast<size_t>(rows) * width; at < output.bytes.size(); ++at) {
        ASSERT_EQ(output.bytes[at], 0) << "output " << i << " is not padded with zeros, byte " << at;
      }
      output.bytes.resize(static_cast<size_t>(rows) * width);
      output.coordinates.resize(static_cast<size_t>(rows * (info.ndim > 0 ? 1 + info.ndim : 0)));
      output.rows = rows;
    }
  }
  std::vector<float> values_of(const NetworkRun& run) const { return decode(dtype(), run.bytes); }
  /// Features as they are stored.
  std::vector<char> stored(const std::vector<float>& values) const { return encode(dtype(), values); }
  std::vector<int32_t> counts_of(const Execution& execution, int32_t levels, uint32_t& status) {
    std::vector<int32_t> counts(static_cast<size_t>(1 + levels));
    check(minuet_execution_read_cloud(execution.get(), &status, counts.data(), 1 + levels, nullptr));
    return counts;
  }

 private:
  std::deque<Buffer> buffers_;
};

}  // namespace minuet::abi
