// Converts the tensors that a network reads from a weights file to Minuet's order and names.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/safetensors_writer.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// Returns all tensors that the program reads, by name. The file must fit the program, which check_weights()
/// checks.
llvm::Expected<std::map<std::string, FileTensor>> tensors_of(const WeightsFile& file, const Program& program);

}  // namespace minuet
