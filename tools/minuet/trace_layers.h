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

/// The trace that the library wrote, with a row of its own for the layers as they were measured on the
/// device: one behind the other from the start of the last run on, their stages within them. An error where
/// the text is no trace.
llvm::Expected<std::string> add_device_layers(llvm::StringRef trace, const std::vector<LayerTimes>& layers);

}  // namespace minuet::tool
