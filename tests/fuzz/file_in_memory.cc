#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz_target.h"

namespace minuet {

std::string file_in_memory(llvm::StringRef bytes) {
  static const int file = ::memfd_create("fuzzed", MFD_CLOEXEC);
  require(::ftruncate(file, 0) == 0);
  require(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace minuet
