// Decides which tensors of a program have 8-bit elements. A convolution that computes in 8 bits reads a
// tensor of 8-bit elements, which its producer writes. Poolings by maximum, and ops that only move features,
// pass such elements on.
#pragma once

#include <optional>
#include <string>

#include "runtime/program/program.h"

namespace minuet {

/// Names a convolution that cannot compute in 8 bits. The reason and the remedy are ends of sentences.
struct PrecisionFault {
  std::string layer;
  std::string reason;
  std::string remedy;  // Says how a description changes that; it is empty if a description cannot.
};

/// Gives a program the types that its convolutions ask for (ProgramLayer::is_int8): the elements of storages,
/// their scales, and the types in the problems of its layers. A tensor that layers read in both forms has a
/// copy in 8 bits, which its producer writes too. Changes nothing if no convolution computes in 8 bits.
/// Returns a fault if there is one; the program is then of no use.
///
/// Call it behind cover_chains() and before assign_columns().
std::optional<PrecisionFault> assign_precisions(Program& program);

}  // namespace minuet
