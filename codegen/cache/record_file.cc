#include "codegen/cache/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/base/file_system.h"
#include "codegen/compile/protocol.h"

namespace minuet {

static constexpr char kNotRecorded[] = "missing kernels are not recorded";

llvm::Error RecordFile::append(const KernelRequest& request) const {
  MINUET_ASSIGN(std::string line, write_request(request));
  auto failure = [this] { return make_system_error("'" + path_ + "'"); };
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return annotate(failure(), kNotRecorded);
  line += "\n";
  struct stat status = {};
  llvm::Error error = ::fstat(file, &status) == 0
                          ? check_file_limit(static_cast<std::uint64_t>(status.st_size) + line.size() + 1)
                          : failure();
  if (!error && S_ISREG(status.st_mode) && status.st_size > 0) {
    char start[kByteOrderMark.size() + kRequestStart.size()] = {}, last = 0;
    const ssize_t count = ::pread(file, start, sizeof start, 0);
    const bool is_read = count > 0 && ::pread(file, &last, 1, status.st_size - 1) == 1;
    if (!is_read || !begins_as_request(llvm::StringRef(start, static_cast<std::size_t>(count)))) {
      error = make_error(
          StatusCode::FailedPrecondition,
          "'{0}' is not a list of kernels, so nothing is appended to it: name such a list or a new file",
          path_);
    }
    // A killed process or a full disk may have left an incomplete line, so keep it apart from the new line.
    if (last != '\n') line.insert(line.begin(), '\n');
  }
  if (!error && ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    error = failure();
  if (::close(file) != 0 && !error) error = failure();
  if (!error) return error;
  return annotate(std::move(error), kNotRecorded);
}

}  // namespace minuet
