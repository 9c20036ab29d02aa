// The program minuet-compile compiles kernels for another process, which starts it and communicates over its
// standard input and output (protocol.h).
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "codegen/compile/compiler.h"
#include "codegen/compile/entry.h"
#include "codegen/compile/protocol.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

constexpr char kHelp[] =
    "minuet-compile: the helper program of libminuet, which starts it to compile kernels and looks for it "
    "in\n"
    "the library's own folder. It reads requests from its standard input and writes compiled kernels to its\n"
    "standard output, until the input ends. Do not run it by hand: use 'minuet precompile' instead.\n"
    "\n"
    "usage: minuet-compile [--parent=PID]\n"
    "  --parent=PID   end when process PID ends, which must be the one that started this program\n"
    "  --help         this text\n"
    "  --version      the version of the library that this program belongs to\n";

/// Returns the peak memory of this process in bytes, or 0 if it cannot be read. getrusage() is not used,
/// because its peak would include the process that spawned this one.
std::int64_t peak_bytes() {
  char text[4096];
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file >= 0 ? ::read(file, text, sizeof text) : -1;
  if (file >= 0) ::close(file);
  if (size <= 0) return 0;
  llvm::StringRef line = llvm::StringRef(text, static_cast<std::size_t>(size)).split("VmHWM:").second.ltrim();
  std::int64_t kilobytes = 0;
  return line.consumeInteger(10, kilobytes) ? 0 : kilobytes * 1024;
}

llvm::Expected<std::string> make_entry(const HelperJob& job) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc));
  MINUET_ASSIGN(const NvrtcInfo info, compiler->info());
  const KernelRequest& request = job.request;
  MINUET_ASSIGN(Binary binary, compiler->compile(request, {}));
  return write_entry(
      {request.key, build_key(request.key, info.id), request.source.name_expression, std::move(binary)});
}

llvm::Expected<std::string> describe_nvrtc(const HelperJob& job) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc, job.others));
  MINUET_ASSIGN(const NvrtcInfo info, compiler->info());
  if (llvm::json::isUTF8(info.path)) return encode_info(info);
  return make_error(StatusCode::Unimplemented,
                    "the path of libnvrtc is not UTF-8: use a libnvrtc whose path is in UTF-8");
}

HelperAnswer do_job(const HelperJob& job) {
  HelperAnswer answer;
  llvm::Expected<std::string> result = job.identify ? describe_nvrtc(job) : make_entry(job);
  if (!result) return failed_answer(result.takeError());
  answer.result = std::move(*result);
  return answer;
}

/// Processes jobs (HelperJob) until `input` ends. Returns an error if the stream is broken.
llvm::Error serve(int input, int output) {
  FrameStream stream(input, output);
  while (true) {
    MINUET_ASSIGN(const std::optional<std::string> frame, stream.read());
    if (!frame) return llvm::Error::success();
    llvm::Expected<HelperJob> job = decode_job(*frame);
    HelperAnswer answer = job ? do_job(*job) : failed_answer(job.takeError());
    answer.peak_bytes = peak_bytes();
    MINUET_TRY(stream.write(encode_answer(answer)));
    MINUET_TRY(stream.write(answer.result));
  }
}

// The following functions set up the process before it serves jobs.

/// Moves the stream of `file` to another descriptor, which is returned, and opens /dev/null as `file`. A
/// library that writes to standard output therefore does not disturb the stream.
int take_over(int file, int flags) {
  const int taken = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
  const int nothing = ::open("/dev/null", flags | O_CLOEXEC);
  if (taken >= 0 && nothing >= 0) ::dup2(nothing, file);
  if (nothing >= 0) ::close(nothing);
  return taken;
}

/// Makes this process the first that the system kills if memory runs out, because it can be started again and
/// its parent cannot.
void prefer_for_oom_kill() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(!::write(file, "1000", 4));  // If this fails, the system chooses a process as usual.
  ::close(file);
}

/// Makes Linux kill this process when the thread that started it ends. Returns false if `parent` has already
/// ended.
bool follow_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // If the ids differ, the parent ended before the call above.
}

int run() {
  prefer_for_oom_kill();
  const int input = take_over(STDIN_FILENO, O_RDONLY);
  const int output = take_over(STDOUT_FILENO, O_WRONLY);
  if (input < 0 || output < 0) return 1;
  return llvm::errorToBool(serve(input, output)) ? 1 : 0;
}

}  // namespace
}  // namespace minuet

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    llvm::StringRef argument = arguments[i];
    pid_t parent = 0;
    if (argument == "--help") {
      llvm::outs() << minuet::kHelp;
      return 0;
    }
    if (argument == "--version") {
      llvm::outs() << "minuet-compile " MINUET_VERSION "\n";
      return 0;
    }
    if (!argument.consume_front("--parent=") || argument.getAsInteger(10, parent)) {
      llvm::errs() << minuet::kHelp;
      return 2;
    }
    if (!minuet::follow_parent(parent)) return 1;
  }
  const int status = minuet::run();
  // This skips the destructors of NVRTC, whose threads may still run.
  ::_exit(status);
}
