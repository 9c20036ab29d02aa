// Defines the format of a serialized plan for its reader and its writer. Numbers are little-endian, and there
// is no padding. A serialized plan has these parts in this order:
//
//   head          is the PlanHead.
//   document      is JSON with the plan's problem, its tuning results, and the sizes of the bundles.
//   parameters    has the weight, the scale and the shift of each layer, in the order of the program's
//                 layers, and behind them the factors of an 8-bit residual. Weights are stored in the
//                 program's dtype, all others in fp32. Their sizes follow from the problem. The part is empty
//                 if the document's "values" is false.
//   bundles       has a bundle of kernels (bundle_format.h) for each architecture, in the document's order.
//   digest        is the SHA-256 of all preceding bytes.
//
// There are no gaps between the parts.
#pragma once

#include <cstdint>

#include "minuet/minuet.h"

namespace minuet {

inline constexpr char kPlanMagic[8] = {'M', 'I', 'N', 'U', 'E', 'T', 'P', '\n'};
/// Increase this number when the format or the fields of the document change. A plan is written in the first
/// format that has everything in it, so that older libraries read it if they know its ops.
inline constexpr std::uint32_t kPlanFormat = 4;
/// The reader takes this format and all later ones up to kPlanFormat. Library 0.3.0 writes format 3, in which
/// no single op has a padding, no kernel is a list of offsets, and some kinds of ops and levels are missing.
inline constexpr std::uint32_t kOldestPlanFormat = 3;
inline constexpr std::uint32_t kLibraryVersion =
    MINUET_VERSION_MAJOR * 10000 + MINUET_VERSION_MINOR * 100 + MINUET_VERSION_PATCH;

struct PlanHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t library;  ///< Holds the version of the library that wrote the plan, as minuet_version() does.
  std::uint64_t file_bytes;  ///< Gives the size of the whole serialized plan.
  std::uint64_t document_bytes;
};
static_assert(sizeof(PlanHead) == 32);

}  // namespace minuet
