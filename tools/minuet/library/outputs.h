// Holds the memory of a network's outputs, which are rows of features or dense tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/library/library.h"
#include "tools/minuet/library/tensors.h"

namespace minuet::tool {

/// Owns device memory for all outputs of a network. An object must not outlive the device.
class Outputs {
 public:
  /// Makes an object without memory. `batch_size` is that of the execution.
  static llvm::Expected<Outputs> create(minuet_plan* network, minuet_device* device, int64_t batch_size);

  /// Makes the memory large enough for levels with these numbers of rows, and sets arrays().
  llvm::Error fit(const std::vector<int64_t>& level_rows);
  /// Enqueues the inference of the cloud that the execution has prepared, or of points, in exact mode. Makes
  /// the memory large enough, and sets arrays(). `further_inputs` are all inputs after the first.
  ///
  /// If the network makes levels in a run (share/doc/minuet/networks/README.md), their numbers of rows are
  /// known only afterwards. If they need more memory than earlier clouds did, the run is repeated.
  llvm::Error run(minuet_execution* execution, const DeviceCloud& cloud,
                  llvm::ArrayRef<minuet_array> further_inputs);

  /// Returns one array for each output.
  const std::vector<minuet_array>& arrays() const { return arrays_; }
  const std::vector<minuet_tensor_info>& infos() const { return infos_; }
  /// Returns the bytes of an output, which has as many as its array.
  llvm::Expected<std::vector<char>> read(size_t output) const;

 private:
  Outputs(std::vector<minuet_tensor_info> infos, minuet_device* device, int64_t batch_size);
  llvm::Error place(size_t output, int64_t rows);
  llvm::Error place_first(minuet_execution* execution, const DeviceCloud& cloud);
  llvm::Error place_made(minuet_execution* execution, int64_t& grown);
  size_t row_bytes(size_t output) const;
  size_t bytes_of(size_t output) const;

  std::vector<minuet_tensor_info> infos_;
  minuet_device* device_;
  std::vector<minuet_array> arrays_;
  std::vector<DeviceBuffer> memory_;
  std::vector<size_t> capacities_;  ///< Holds the bytes of each buffer of memory_.
};

/// Prepares the cloud, unless it holds points, which a run takes.
llvm::Error prepare(minuet_execution* execution, const DeviceCloud& cloud);
/// Enqueues the inference of the cloud that the execution has prepared. The network's first input is
/// `features`, and `further_inputs` are all others. All outputs must fit.
llvm::Error enqueue(minuet_execution* execution, const minuet_tensor& features,
                    llvm::ArrayRef<minuet_array> further_inputs, const Outputs& outputs,
                    void* stream = nullptr);
/// Makes one inference from device memory to device memory: prepares the cloud, makes the memory of the
/// outputs large enough, runs the network, and waits for the device.
llvm::Error infer(minuet_execution* execution, minuet_device* device, const DeviceCloud& cloud,
                  Outputs& outputs, llvm::ArrayRef<minuet_array> further_inputs = {});

}  // namespace minuet::tool
