#include "tools/minuet/cloud/palette.h"

#include <cmath>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

/// Returns a fully saturated colour. `turn` in [0, 1) selects the hue, and `value` in [0, 1] the brightness.
Colour hue(double turn, double value) {
  Colour colour;
  for (size_t part = 0; part < 3; ++part) {
    const double from_peak = std::abs(std::fmod(turn * 6 - 2 * static_cast<double>(part) + 9, 6) - 3);
    const double share = 2 - from_peak;
    colour[part] = static_cast<uint8_t>(std::lround(255 * value * (share < 0 ? 0 : share > 1 ? 1 : share)));
  }
  return colour;
}

std::optional<Colour> parse_colour(const llvm::json::Value& value) {
  const llvm::json::Array* const parts = value.getAsArray();
  if (!parts || parts->size() != 3) return std::nullopt;
  Colour colour;
  for (size_t i = 0; i < 3; ++i) {
    const auto part = (*parts)[i].getAsInteger();
    if (!part || *part < 0 || *part > 255) return std::nullopt;
    colour[i] = static_cast<uint8_t>(*part);
  }
  return colour;
}

}  // namespace

llvm::Expected<Palette> Palette::read(const std::string& path) {
  MINUET_ASSIGN(const llvm::json::Value value, read_json(path, "a palette"));
  Palette palette;
  palette.path_ = path;
  const llvm::json::Array* const colours = value.getAsArray();
  for (size_t i = 0; colours && i < colours->size(); ++i) {
    const std::optional<Colour> colour = parse_colour((*colours)[i]);
    if (!colour) return bad_input("'{0}': colour {1} is not [red, green, blue], each from 0 to 255", path, i);
    palette.colours_.push_back(*colour);
  }
  if (palette.colours_.empty())
    return bad_input("'{0}' is not a list of colours such as [[255, 0, 0], [0, 255, 0]]", path);
  return palette;
}

llvm::Error Palette::check_labels(int64_t labels) const {
  if (path_.empty() || labels <= static_cast<int64_t>(colours_.size())) return llvm::Error::success();
  return bad_input("--palette '{0}' has {1} colours, but there are {2} labels: give a colour for each label",
                   path_, colours_.size(), labels);
}

Colour Palette::colour_of(int32_t label) const {
  if (label < 0) return {0, 0, 0};
  if (!path_.empty()) return colours_[static_cast<size_t>(label)];
  constexpr double kGolden = 0.6180339887498949;
  constexpr double kValues[] = {1.0, 0.7, 0.85};
  return hue(std::fmod(kGolden * label, 1.0), kValues[label % 3]);
}

}  // namespace minuet::tool
