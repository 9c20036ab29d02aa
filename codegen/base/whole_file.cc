#include "codegen/base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "codegen/base/file_system.h"

namespace minuet {
namespace {

/// Creates a temporary file beside `path` and stores its name in `temporary`.
llvm::Expected<FileHandle> create_beside(const std::string& path, std::string& temporary) {
  static std::atomic<unsigned> count{0};
  // An earlier process with the same process id may have left a file with this name, so try several names.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    temporary = llvm::formatv("{0}.tmp-{1}-{2}", path, ::getpid(), count++).str();
    FileHandle file(real_file_system(),
                    ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (file.good()) return file;
    if (errno != EEXIST) break;
  }
  return make_system_error(temporary + " cannot be made");
}

llvm::Error write_all(FileHandle& file, llvm::StringRef bytes) {
  MINUET_TRY(check_file_limit(bytes.size()));
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return make_system_error("it cannot be written");
    bytes = bytes.drop_front(static_cast<std::size_t>(count));
  }
  if (::fsync(file.get()) != 0) return make_system_error("it cannot be synced");
  return file.close_now() == 0 ? llvm::Error::success() : make_system_error("it cannot be closed");
}

}  // namespace

llvm::Error write_whole_file(const std::string& path, llvm::StringRef bytes) {
  std::string temporary;
  MINUET_ASSIGN(FileHandle file, create_beside(path, temporary));
  llvm::Error error = write_all(file, bytes);
  if (!error && ::rename(temporary.c_str(), path.c_str()) != 0)
    error = make_system_error("the temporary file cannot be renamed to it");
  if (error) {
    ::unlink(temporary.c_str());
    return annotate(std::move(error), path);
  }
  return llvm::Error::success();
}

}  // namespace minuet
