// From a network's description to its program.
#pragma once

#include <functional>

#include "runtime/network/network_description.h"
#include "runtime/program/program.h"

namespace minuet {

/// Outputs of a head whose description does not say: what the weights have for it, or 0, and it is left out.
using HeadChannels = std::function<llvm::Expected<i32>(const std::string& head, i32 in_channels)>;

llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels);

}  // namespace minuet
