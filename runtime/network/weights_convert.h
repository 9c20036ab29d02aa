// What a network takes from a weights file, as a file of Minuet's own order and names.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/safetensors_writer.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// The file and the program fit (check_weights).
llvm::Expected<std::map<std::string, FileTensor>> tensors_of(const WeightsFile& file, const Program& program);

}  // namespace minuet
