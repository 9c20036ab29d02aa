// Builds a program from a network's description.
#pragma once

#include <functional>
#include <optional>

#include "runtime/network/network_description.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {

/// Returns the number of output channels of a head whose description does not give it. This is the number in
/// the weights. If it is 0, the head is omitted.
using HeadChannels = std::function<llvm::Expected<i32>(const std::string& head, i32 in_channels)>;

/// Builds the program of a network. `dataflow` applies to every convolution. If it is empty, each convolution
/// uses the dataflow that is expected to be fastest.
llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels,
                                      std::optional<Dataflow> dataflow = {});

}  // namespace minuet
