#include "codegen/compile/time_trace.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "llvm/Support/MemoryBuffer.h"

namespace minuet {
namespace {

constexpr unsigned long long kRoomBytes = 64u << 20;  // many times the trace of a CUB kernel

llvm::Error cannot_write(const std::string& path, const std::string& why) {
  return make_error(StatusCode::Unavailable, "the time trace {0} cannot be written: {1}", path, why);
}

bool has_room(const std::string& folder) {
  struct statvfs status;
  return ::statvfs(folder.c_str(), &status) == 0 &&
         static_cast<unsigned long long>(status.f_bavail) * status.f_frsize >= kRoomBytes;
}

}  // namespace

llvm::Expected<std::unique_ptr<TimeTrace>> TimeTrace::create(const std::string& path) {
  MINUET_ASSIGN(std::unique_ptr<PchFolder> folder, PchFolder::create());
  if (!has_room(folder->path()))
    return cannot_write(path, "there is no room in the folder for temporary files");
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return cannot_write(path, errno_text(errno));
  return std::unique_ptr<TimeTrace>(new TimeTrace(path, file, std::move(folder)));
}

TimeTrace::~TimeTrace() {
  if (file_ >= 0) ::close(file_);
}

void TimeTrace::reset() { ::unlink(written().c_str()); }

llvm::Error TimeTrace::finish() {
  const auto buffer =
      llvm::MemoryBuffer::getFile(written(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) return cannot_write(path_, "NVRTC wrote none");
  const llvm::StringRef text = (*buffer)->getBuffer();
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, errno_text(errno));
    done += static_cast<std::size_t>(written);
  }
  if (::close(std::exchange(file_, -1)) != 0) return cannot_write(path_, errno_text(errno));
  return llvm::Error::success();
}

}  // namespace minuet
