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
  /// A fixed one: hues by the golden angle, so that neighbours differ and no number of labels exhausts them.
  Palette() = default;
  /// A JSON file: an array of [red, green, blue], 0 to 255, that of label i at place i.
  static llvm::Expected<Palette> read(const std::string& path);

  /// An error where the file has fewer colours than that many labels need.
  llvm::Error check_labels(int64_t labels) const;
  /// Black for -1, which is no label.
  Colour colour_of(int32_t label) const;

 private:
  std::string path_;  ///< empty: the fixed one
  std::vector<Colour> colours_;
};

}  // namespace minuet::tool
