#include "codegen/base/system_file.h"

#include "llvm/Support/MemoryBuffer.h"

namespace minuet {

std::string read_system_file(const std::string& path) {
  const auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

}  // namespace minuet
