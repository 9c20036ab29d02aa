#include "codegen/cache/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace minuet {

llvm::Error RecordFile::append(const KernelRequest& request) const {
  MINUET_ASSIGN(std::string line, write_request(request));
  auto trouble = [this] {
    return make_error(StatusCode::FailedPrecondition, "missing kernels are not recorded in '{0}': {1}", path_,
                      std::error_code(errno, std::generic_category()).message());
  };
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return trouble();
  line += "\n";
  const ssize_t written = ::write(file, line.data(), line.size());
  llvm::Error error = written == static_cast<ssize_t>(line.size()) ? llvm::Error::success() : trouble();
  ::close(file);
  return error;
}

}  // namespace minuet
