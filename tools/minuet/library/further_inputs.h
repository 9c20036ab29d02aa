// Reads the inputs of a network after the first one from files. The first input has the cloud's features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/base/tensor_file.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Owns device memory for all inputs of a network except the first. An object must not outlive the device or
/// the network.
class FurtherInputs {
 public:
  /// Reads a file for each of them. Returns an error if one has no file, if a name is not that of such an
  /// input, or if the columns of a file are not the input's channels.
  static llvm::Expected<FurtherInputs> read(minuet_plan* network, minuet_device* device, minuet_dtype dtype,
                                            const std::vector<TensorFile>& files);
  /// Returns an error unless every file has one row for each row of its input's level. The execution must
  /// have prepared the cloud, which has `cloud_rows` voxels.
  llvm::Error check_rows(minuet_execution* execution, int64_t cloud_rows) const;

  /// Returns one array for each of the inputs, in the network's order.
  const std::vector<minuet_array>& arrays() const { return arrays_; }

 private:
  llvm::Error add(const minuet_tensor_info& info, const std::string& path, minuet_device* device,
                  minuet_dtype dtype);
  llvm::Error refuse_rows(size_t input, int64_t level_rows) const;

  std::vector<minuet_tensor_info> infos_, outputs_;  ///< `infos_` does not have the first input.
  std::vector<std::string> paths_;
  std::vector<minuet_array> arrays_;
  std::vector<DeviceBuffer> memory_;
};

}  // namespace minuet::tool
