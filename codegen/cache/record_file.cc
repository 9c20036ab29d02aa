#include "codegen/cache/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/cache/file_system.h"

namespace minuet {

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
  if (!error && ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    error = trouble();
  ::close(file);
  if (!error) return error;
  return annotate(std::move(error), "missing kernels are not recorded");
}

}  // namespace minuet
