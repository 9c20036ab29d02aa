// Builds a program, which is a list of ops on tensors, from a network's description.
#pragma once

#include <functional>
#include <optional>

#include "runtime/network/network_description.h"
#include "runtime/network/precisions.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {

/// This function returns the number of output channels of a head whose description does not give it. This is
/// the number in the weights file, or 0 if the head is to be omitted.
using HeadChannels = std::function<llvm::Expected<i32>(const std::string& head, i32 in_channels)>;

/// Builds the program of a network. `dataflow` applies to every convolution. If it is empty, each convolution
/// uses the dataflow that is expected to be fastest. If `covers_chains` is false, every chain of pointwise
/// steps is an op of its own (cover_chains.h), as tests of the covering need it.
llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels,
                                      std::optional<Dataflow> dataflow = {}, bool covers_chains = true);

/// Returns the convolution of the network that cannot compute in 8 bits although the description says so, or
/// nothing if there is none.
llvm::Expected<std::optional<PrecisionFault>> find_precision_fault(const NetworkDescription& description,
                                                                   const HeadChannels& head_channels);

}  // namespace minuet
