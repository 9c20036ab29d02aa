#include "codegen/cache/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/cache/file_system.h"

namespace minuet {
namespace {

/// JSON objects are written with their keys in order.
constexpr llvm::StringLiteral kLineStart = "{\"arch\":\"";

/// Whether what is there begins as a list of kernels does.
bool is_record(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char start[kLineStart.size()];
  const ssize_t bytes = ::read(file, start, sizeof start);
  ::close(file);
  return bytes == 0 || llvm::StringRef(start, bytes < 0 ? 0 : static_cast<std::size_t>(bytes)) == kLineStart;
}

}  // namespace

llvm::Error RecordFile::append(const KernelRequest& request) const {
  MINUET_ASSIGN(std::string line, write_request(request));
  auto trouble = [this] { return make_system_error("'" + path_ + "'"); };
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return annotate(trouble(), "missing kernels are not recorded");
  line += "\n";
  struct stat status = {};
  llvm::Error error = ::fstat(file, &status) == 0
                          ? check_file_limit(static_cast<std::uint64_t>(status.st_size) + line.size())
                          : trouble();
  if (!error && S_ISREG(status.st_mode) && !is_record(path_)) {
    error = make_error(StatusCode::FailedPrecondition,
                       "'{0}' is no list of kernels, and nothing is appended to it", path_);
  }
  if (!error && ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    error = trouble();
  ::close(file);
  if (!error) return error;
  return annotate(std::move(error), "missing kernels are not recorded");
}

}  // namespace minuet
