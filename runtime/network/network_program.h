// From a network's description to its program.
#pragma once

#include <functional>
#include <optional>

#include "runtime/network/network_description.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {

/// Outputs of a head whose description does not say: what the weights have for it, or 0, and it is left out.
using HeadChannels = std::function<llvm::Expected<i32>(const std::string& head, i32 in_channels)>;

/// `dataflow`: of every convolution; none: the one that is expected to be fastest for each.
llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels,
                                      std::optional<Dataflow> dataflow = {});

}  // namespace minuet
