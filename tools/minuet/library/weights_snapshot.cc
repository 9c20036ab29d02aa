#include "tools/minuet/library/weights_snapshot.h"

#include <sys/mman.h>

#include <cerrno>

#include "codegen/base/file_system.h"
#include "codegen/base/sha256.h"
#include "llvm/Support/MemoryBuffer.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

llvm::Expected<WeightsSnapshot> read_weights(const std::string& path) {
  if (is_device(path))
    return bad_input("weights file {0} is a device and may have no end: name a regular file", path);
  // IsVolatile makes LLVM read the file instead of mapping it, so later writes cannot change the bytes.
  const auto bytes = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                                 /*IsVolatile=*/true);
  if (!bytes) return bad_input("weights file {0} cannot be read: {1}", path, system_text(bytes.getError()));
  const auto no_memory = [&](const std::string& why) {
    return broken("weights file " + path + ": cannot copy it to memory: " + why);
  };
  const int descriptor = ::memfd_create("weights", MFD_CLOEXEC);
  if (descriptor < 0) return no_memory(errno_text(errno));
  auto memory = std::make_unique<llvm::raw_fd_ostream>(descriptor, /*shouldClose=*/true);
  *memory << (*bytes)->getBuffer();
  memory->flush();
  const std::error_code error = memory->error();
  memory->clear_error();  // With the error set, the destructor of raw_ostream would abort the process.
  if (error) return no_memory(system_text(error));
  return WeightsSnapshot{"/proc/self/fd/" + std::to_string(descriptor), sha256_hex((*bytes)->getBuffer()),
                         std::move(memory)};
}

}  // namespace minuet::tool
