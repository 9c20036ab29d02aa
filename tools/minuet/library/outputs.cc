#include "tools/minuet/library/outputs.h"

#include <algorithm>

#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

minuet_dtype dtype_of(minuet_element element) {
  return element == MINUET_ELEMENT_F16    ? MINUET_F16
         : element == MINUET_ELEMENT_BF16 ? MINUET_BF16
                                          : MINUET_F32;
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

llvm::Error Outputs::fit(minuet_execution* execution) {
  for (size_t i = 0; i < infos_.size(); ++i) {
    int64_t rows = 0;
    int32_t channels = 0;
    if (!is_dense(infos_[i])) {
      MINUET_TRY(
          check(minuet_execution_output_shape_of(execution, static_cast<int32_t>(i), &rows, &channels)));
    }
    MINUET_TRY(place(i, rows));
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
  MINUET_TRY(check(minuet_execution_prepare(execution, cloud.rows(), cloud.features.rows, nullptr)));
  MINUET_TRY(outputs.fit(execution));
  MINUET_TRY(enqueue(execution, cloud.features, further_inputs, outputs));
  return check(minuet_device_synchronize(device, nullptr));
}

}  // namespace minuet::tool
