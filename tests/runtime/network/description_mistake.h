// Descriptions of networks with a mistake, and the errors about them.
#pragma once

#include <string>

#include "runtime/network/network_program.h"

namespace minuet {

/// A block "name" with more fields.
inline std::string block(const std::string& name, const std::string& more) {
  return R"({"op": "block", "out_channels": 8, "kernel_size": 3, "name": ")" + name + "\", " + more + "}";
}

/// A description, and what the error about it says.
struct Mistake {
  std::string layers, fields;
  const char *place, *words;
};

/// What is refused when the description is read or built.
inline std::string error_of(const Mistake& mistake) {
  const std::string text =
      R"({"name": "n", "ndim": 3, )" + mistake.fields + R"(, "layers": [)" + mistake.layers + "]}";
  llvm::Expected<NetworkDescription> read = parse_network(text);
  if (!read) return take_status(read.takeError()).message();
  llvm::Expected<Program> program =
      build_program(*read, DType::F16, [](const std::string&, i32) { return 0; });
  return program ? "no error" : take_status(program.takeError()).message();
}

}  // namespace minuet
