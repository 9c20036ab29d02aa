// Reports what `minuet quantize` found, as tables, as JSON and as the command that runs the network.
#pragma once

#include <optional>
#include <string>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/cloud/grid.h"
#include "tools/minuet/flags/arguments.h"
#include "tools/minuet/library/quantization.h"

namespace minuet::tool {

/// Describes what was quantized.
struct QuantizedNetwork {
  const Arguments& arguments;
  const DeviceFacts& device;
  minuet_dtype dtype;
  std::string description_path;
  /// Holds the grid in which the voxels were counted, if there is one.
  std::optional<Grid> grid;
};

/// Returns the command line that runs the quantized network, with the voxels of the quantization, on the
/// first cloud that is a file, or else on CLOUD.
std::string run_command_text(const QuantizedNetwork& network);

/// Returns the JSON that tools/minuet/JSON.md describes.
llvm::json::Object quantize_json(const QuantizedNetwork& network, const QuantizationReport& report);

void print_quantization(const QuantizationReport& report, llvm::raw_ostream& out);

}  // namespace minuet::tool
