// The layers of an inference on a GPU in a trace, beside what the host did.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

struct LayerTimes {
  std::string name;
  double gather_ms = 0, gemm_ms = 0, scatter_ms = 0;
};

/// One inference on the device, as it was measured there.
struct DeviceTimes {
  double sort_ms = 0, map_ms = 0;  ///< of the preparation
  std::vector<LayerTimes> layers;
  double other_ms = 0;  ///< rows in and out, of both
};

/// The trace that the library wrote, with a row of its own for what the device did: the steps of the Map step
/// one behind the other from the start of the last preparation on, layers from that of the last run on, or
/// from the end of the steps where that is later, their stages within them, and what is of no layer behind
/// them. An error where the text is no trace.
llvm::Expected<std::string> add_device_times(llvm::StringRef trace, const DeviceTimes& times);

}  // namespace minuet::tool
