#include "tools/minuet/library/outputs.h"

#include <algorithm>
#include <optional>

#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

/// Returns the rows of an output, or nothing if they are known only after a run.
llvm::Expected<std::optional<int64_t>> known_rows(minuet_execution* execution, size_t output) {
  int64_t rows = 0;
  int32_t channels = 0;
  const minuet_status status =
      minuet_execution_output_shape_of(execution, static_cast<int32_t>(output), &rows, &channels);
  if (status == MINUET_FAILED_PRECONDITION) return std::nullopt;
  MINUET_TRY(check(status));
  return rows;
}

}  // namespace

Outputs::Outputs(std::vector<minuet_tensor_info> infos, minuet_device* device, int64_t batch_size)
    : infos_(std::move(infos)), device_(device), capacities_(infos_.size()) {
  for (const minuet_tensor_info& info : infos_) {
    minuet_array array = {};
    array.rank = info.rank;
    array.element = info.element;
    std::copy_n(info.shape, info.rank, array.shape);
    // The first axis of a dense tensor is the batch. That of rows of features is set for each cloud.
    array.shape[0] = is_dense(info) ? batch_size : 0;
    arrays_.push_back(array);
  }
}

llvm::Expected<Outputs> Outputs::create(minuet_plan* network, minuet_device* device, int64_t batch_size) {
  MINUET_ASSIGN(std::vector<minuet_tensor_info> infos, query_outputs(network));
  Outputs outputs(std::move(infos), device, batch_size);
  for (size_t i = 0; i < outputs.infos_.size(); ++i) {
    MINUET_ASSIGN(DeviceBuffer empty, DeviceBuffer::allocate(device, 0));
    outputs.memory_.push_back(std::move(empty));
  }
  return outputs;
}

size_t Outputs::bytes_of(size_t output) const {
  const minuet_array& array = arrays_[output];
  size_t bytes = static_cast<size_t>(dtype_bytes(dtype_of(array.element)));
  for (int32_t axis = 0; axis < array.rank; ++axis) bytes *= static_cast<size_t>(array.shape[axis]);
  return bytes;
}

llvm::Error Outputs::place(size_t output, int64_t rows) {
  minuet_array& array = arrays_[output];
  if (!is_dense(infos_[output])) array.shape[0] = rows;
  const size_t bytes = bytes_of(output);
  if (bytes > capacities_[output]) {
    MINUET_ASSIGN(memory_[output], DeviceBuffer::allocate(device_, bytes));
    capacities_[output] = bytes;
  }
  array.data = memory_[output].get();
  return llvm::Error::success();
}

size_t Outputs::row_bytes(size_t output) const {
  return static_cast<size_t>(dtype_bytes(dtype_of(arrays_[output].element))) *
         static_cast<size_t>(infos_[output].channels);
}

/// Places the outputs for a run. An output whose number of rows is not known yet gets as many as the cloud
/// has, or as many as fit its memory.
llvm::Error Outputs::place_first(minuet_execution* execution, const DeviceCloud& cloud) {
  for (size_t i = 0; i < infos_.size(); ++i) {
    int64_t rows = 0;
    if (!is_dense(infos_[i])) {
      MINUET_ASSIGN(const std::optional<int64_t> known, known_rows(execution, i));
      const auto room = static_cast<int64_t>(capacities_[i] / std::max<size_t>(row_bytes(i), 1));
      rows = is_of_points(infos_[i])        ? cloud.features.rows
             : known && !cloud.holds_points ? *known
                                            : std::max(cloud.features.rows, room);
    }
    MINUET_TRY(place(i, rows));
  }
  return llvm::Error::success();
}

/// Gives outputs that have too few rows for the levels that a run has made enough, and counts them.
llvm::Error Outputs::place_made(minuet_execution* execution, int64_t& grown) {
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (is_dense(infos_[i])) continue;
    MINUET_ASSIGN(const std::optional<int64_t> known, known_rows(execution, i));
    if (!known || *known <= arrays_[i].shape[0]) continue;
    MINUET_TRY(place(i, *known + *known / 4));
    ++grown;
  }
  return llvm::Error::success();
}

llvm::Error Outputs::run(minuet_execution* execution, const DeviceCloud& cloud,
                         llvm::ArrayRef<minuet_array> further_inputs) {
  MINUET_TRY(place_first(execution, cloud));
  while (llvm::Error error = enqueue(execution, cloud.features, further_inputs, *this)) {
    int64_t grown = 0;
    if (llvm::Error other = place_made(execution, grown)) {
      llvm::consumeError(std::move(error));
      return other;
    }
    if (grown == 0) return error;
    llvm::consumeError(std::move(error));
  }
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (is_dense(infos_[i])) continue;
    MINUET_ASSIGN(const std::optional<int64_t> known, known_rows(execution, i));
    if (known) arrays_[i].shape[0] = *known;
  }
  return llvm::Error::success();
}

llvm::Error Outputs::fit(const std::vector<int64_t>& level_rows) {
  for (size_t i = 0; i < infos_.size(); ++i)
    MINUET_TRY(place(i, is_dense(infos_[i]) ? 0 : level_rows[static_cast<size_t>(infos_[i].level)]));
  return llvm::Error::success();
}

llvm::Expected<std::vector<char>> Outputs::read(size_t output) const {
  std::vector<char> bytes(bytes_of(output));
  if (bytes.empty()) return bytes;
  MINUET_TRY(check(minuet_device_copy(device_, bytes.data(), memory_[output].get(),
                                      static_cast<int64_t>(bytes.size()), 1)));
  return bytes;
}

llvm::Error prepare(minuet_execution* execution, const DeviceCloud& cloud) {
  if (cloud.holds_points) return llvm::Error::success();
  return check(minuet_execution_prepare(execution, cloud.rows(), cloud.features.rows, nullptr));
}

llvm::Error enqueue(minuet_execution* execution, const minuet_tensor& features,
                    llvm::ArrayRef<minuet_array> further_inputs, const Outputs& outputs, void* stream) {
  std::vector<minuet_array> inputs = {array_of(features)};
  inputs.insert(inputs.end(), further_inputs.begin(), further_inputs.end());
  return check(minuet_execution_run_arrays(execution, inputs.data(), static_cast<int32_t>(inputs.size()),
                                           outputs.arrays().data(),
                                           static_cast<int32_t>(outputs.arrays().size()), stream));
}

llvm::Error infer(minuet_execution* execution, minuet_device* device, const DeviceCloud& cloud,
                  Outputs& outputs, llvm::ArrayRef<minuet_array> further_inputs) {
  MINUET_TRY(prepare(execution, cloud));
  MINUET_TRY(outputs.run(execution, cloud, further_inputs));
  return check(minuet_device_synchronize(device, nullptr));
}

}  // namespace minuet::tool
