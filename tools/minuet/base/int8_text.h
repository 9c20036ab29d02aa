// Writes texts about networks of 8 bits that commands and pages share.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/base/number_text.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

/// Returns a sentence without its full stop, such as "9 convolutions of 10 compute in 8 bits".
inline std::string int8_text(int64_t int8, int64_t all) {
  return counted(int8, "convolution") + " of " + std::to_string(all) +
         (int8 == 1 ? " computes" : " compute") + " in 8 bits";
}

/// Writes a relative error, a cosine or a range with the digits that they have in texts.
inline std::string error_text(double value) { return general_text(value, 4); }

}  // namespace minuet::tool
