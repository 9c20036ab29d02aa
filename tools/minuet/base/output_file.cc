#include "tools/minuet/base/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet::tool {

namespace fs = llvm::sys::fs;

std::string resolved(llvm::StringRef path) {
  llvm::SmallString<256> whole;
  if (!fs::real_path(path, whole)) return whole.str().str();
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (fs::real_path(folder.empty() ? "." : folder, whole)) return path.str();
  llvm::sys::path::append(whole, llvm::sys::path::filename(path));
  return whole.str().str();
}

namespace {

constexpr int kMostLeftovers = 1000;

// Each slot holds the path of an unfinished file. The slots are static arrays, because a signal handler reads
// them. A slot is in use while its first byte is not 0.
constexpr size_t kMostUnfinished = 32;
char unfinished[kMostUnfinished][PATH_MAX];

void on_deadly_signal(int number) {
  remove_unfinished_files();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void note_unfinished(const std::string& path) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGPIPE}) {
    struct sigaction now = {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      ::signal(number, on_deadly_signal);
  }
  for (char* const slot : unfinished) {
    if (slot[0] != 0 || path.size() >= PATH_MAX) continue;
    std::copy(path.begin() + 1, path.end(), slot + 1);
    slot[path.size()] = 0;
    slot[0] = path[0];
    return;
  }
}

void forget_unfinished(const std::string& path) {
  for (char* const slot : unfinished) {
    if (path == slot) slot[0] = 0;
  }
}

/// Returns a path in the folder of `target`. The file name is always short, so that it does not exceed the
/// limit of the file system, even if the name of `target` almost does.
std::string temporary_name(llvm::StringRef target, int number) {
  llvm::SmallString<256> name = llvm::sys::path::parent_path(target);
  llvm::sys::path::append(name, llvm::formatv(".minuet-{0}-{1}.part", ::getpid(), number).str());
  return name.str().str();
}

bool is_special(llvm::StringRef path) {
  fs::file_status status;
  return !fs::status(path, status) && status.type() != fs::file_type::regular_file &&
         status.type() != fs::file_type::directory_file;
}

bool are_same(llvm::StringRef a, llvm::StringRef b) {
  if (is_special(a)) return false;
  bool equivalent = false;
  return (!fs::equivalent(a, b, equivalent) && equivalent) || resolved(a) == resolved(b);
}

}  // namespace

void remove_unfinished_files() {
  for (const char* const slot : unfinished) {
    if (slot[0] != 0) ::unlink(slot);
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_unfinished_(std::exchange(other.is_unfinished_, false)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!is_unfinished_) return;
  (void)fs::remove(temporary_);
  forget_unfinished(temporary_);
}

llvm::Error OutputFile::failed(llvm::StringRef reason, ErrorKind* kind) const {
  return kind(("'" + path_ + "' cannot be written: " + reason).str());
}

llvm::Expected<OutputFile> OutputFile::open(llvm::StringRef path) {
  OutputFile file(path.str());
  file.target_ = file.temporary_ = resolved(path);
  if (is_special(path)) return file;
  if (fs::is_directory(path)) return file.failed("it is a folder; name a file");
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !fs::is_directory(folder)) {
    return file.failed(("there is no folder '" + folder + "'; create it, or name another").str());
  }
  struct stat there = {};
  const bool is_there = ::stat(file.target_.c_str(), &there) == 0;
  if (!is_there && fs::is_symlink_file(path))
    return file.failed("it is a link to a file that does not exist; remove it, or name another file");
  if (is_there && !fs::can_write(file.target_))
    return file.failed("it is read-only; make it writable, or name another file");
  // A killed process may have left a file of the same name, because containers reuse process ids. In that
  // case the loop tries the next number.
  for (int number = 0; file.descriptor_ < 0 && (number == 0 || errno == EEXIST) && number < kMostLeftovers;
       ++number) {
    file.temporary_ = temporary_name(file.target_, number);
    file.descriptor_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file.descriptor_ < 0) return file.failed(errno_text(errno));
  file.is_unfinished_ = true;
  note_unfinished(file.temporary_);
  if (is_there) (void)::fchmod(file.descriptor_, there.st_mode & 07777);
  return file;
}

llvm::Error OutputFile::write(llvm::StringRef bytes) {
  std::error_code error;
  if (descriptor_ >= 0) {
    llvm::raw_fd_ostream stream(descriptor_, /*shouldClose=*/false);
    stream << bytes;
    stream.flush();
    error = stream.error();
    stream.clear_error();
  } else {
    llvm::raw_fd_ostream stream(target_, error);
    stream << bytes;
    stream.close();
    if (!error) error = stream.error();
    stream.clear_error();
  }
  return error ? failed(system_text(error), broken) : keep();
}

llvm::Error OutputFile::keep() {
  if (descriptor_ < 0) return llvm::Error::success();
  // If fsync fails with EINVAL, the file system does not support it. After any other failure of fsync or
  // close, the content may be incomplete, so the file must not get its final name.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) return failed(errno_text(errno), broken);
  // A function that wrote to temporary_path() may have replaced the file by one with another mode, so the
  // mode is set again.
  struct stat made = {};
  if (::fstat(descriptor_, &made) == 0) (void)::chmod(temporary_.c_str(), made.st_mode & 07777);
  if (::close(std::exchange(descriptor_, -1)) != 0) return failed(errno_text(errno), broken);
  if (const std::error_code error = fs::rename(temporary_, target_))
    return failed(system_text(error), broken);
  is_unfinished_ = false;
  forget_unfinished(temporary_);
  return llvm::Error::success();
}

std::string extension_of(llvm::StringRef path) { return llvm::sys::path::extension(path).lower(); }

llvm::Error write_file(llvm::StringRef path, llvm::StringRef bytes) {
  MINUET_ASSIGN(OutputFile file, OutputFile::open(path));
  return file.write(bytes);
}

llvm::Error check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    if (output.path.empty() || output.path == "-") continue;
    for (size_t j = 0; j < i; ++j) {
      if (outputs[j].path.empty() || !are_same(output.path, outputs[j].path)) continue;
      return bad_input("{0} and {1} are the same file, '{2}': name different files", outputs[j].flag,
                       output.flag, output.path);
    }
    for (const NamedFile& input : inputs) {
      if (input.path.empty() || !are_same(output.path, input.path)) continue;
      return bad_input("{0} '{1}' would overwrite {2}: name another file", output.flag, output.path,
                       input.flag);
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
