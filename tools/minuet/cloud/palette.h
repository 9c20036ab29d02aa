// Defines the colours in which files and pages show labels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

using Colour = std::array<uint8_t, 3>;  // Holds red, green and blue.

class Palette {
 public:
  /// Makes the built-in palette, which has a colour for every label. The hues of consecutive labels differ by
  /// the golden angle, so they look different.
  Palette() = default;
  /// Reads a JSON file with an array of colours. Element i is the colour of label i, as [red, green, blue]
  /// with numbers from 0 to 255.
  static llvm::Expected<Palette> read(const std::string& path);

  /// Returns an error if the palette was read from a file and has fewer than `labels` colours.
  llvm::Error check_labels(int64_t labels) const;
  /// Returns the colour of a label, or black for -1, which means no label.
  Colour colour_of(int32_t label) const;

 private:
  std::string path_;  ///< The path is empty for the built-in palette.
  std::vector<Colour> colours_;
};

}  // namespace minuet::tool
