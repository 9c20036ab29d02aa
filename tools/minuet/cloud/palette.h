// Colours of labels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

using Colour = std::array<uint8_t, 3>;  // red, green, blue

class Palette {
 public:
  /// Makes the built-in palette. Its hues differ by the golden angle, so consecutive labels look different
  /// and any number of labels has colours.
  Palette() = default;
  /// Reads a JSON file: an array whose element i is the colour [red, green, blue], 0 to 255, of label i.
  static llvm::Expected<Palette> read(const std::string& path);

  /// Returns an error if the file has fewer than `labels` colours.
  llvm::Error check_labels(int64_t labels) const;
  /// Returns the colour of a label, or black for -1, which means no label.
  Colour colour_of(int32_t label) const;

 private:
  std::string path_;  ///< empty for the built-in palette
  std::vector<Colour> colours_;
};

}  // namespace minuet::tool
