// Adds the layers of an inference on a GPU to a trace of the host.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Holds the times of one layer on the device.
struct LayerTimes {
  std::string name;
  double gather_ms = 0, gemm_ms = 0, scatter_ms = 0;
};

/// Holds the times of one inference, measured on the device.
struct DeviceTimes {
  double sort_ms = 0, map_ms = 0;  ///< These are times of steps of minuet_execution_prepare().
  std::vector<LayerTimes> layers;
  /// Holds the time of minuet_execution_prepare() and minuet_execution_run() that is in no other member.
  double other_ms = 0;
};

/// Adds a row for the device to a trace that the library wrote. The steps sort and map begin at the start of
/// the last span "prepare". Layers, with their stages inside them, follow at the start of the last span "run"
/// or at the end of the steps, whichever is later. Time outside layers comes last. Returns an error if the
/// text is not a trace.
llvm::Expected<std::string> add_device_times(llvm::StringRef trace, const DeviceTimes& times);

}  // namespace minuet::tool
