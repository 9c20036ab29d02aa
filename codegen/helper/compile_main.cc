// minuet-compile: compiles kernels for another process, which starts it and talks to it over its
// standard input and output (protocol.h).
#include <fcntl.h>
#include <unistd.h>

#include "codegen/compiler.h"
#include "codegen/helper/helper_compiler.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

constexpr char kHelp[] =
    "minuet-compile: the helper program of libminuet, which starts it to compile kernels and has to find it\n"
    "in its own folder. It reads requests on its standard input and writes compiled kernels to its standard\n"
    "output, until the input ends. It is of no use by hand: 'minuet precompile' compiles kernels.\n"
    "\n"
    "usage: minuet-compile [--parent=PID]\n"
    "  --parent=PID   end with this process, which must be the one that started it\n"
    "  --help         this text\n"
    "  --version      the version of the library that it belongs to\n";

/// Our stream under another number, and nothing under the old one: what a library prints stays out of it.
int take_over(int file, int flags) {
  const int taken = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
  const int nothing = ::open("/dev/null", flags | O_CLOEXEC);
  if (taken >= 0 && nothing >= 0) ::dup2(nothing, file);
  if (nothing >= 0) ::close(nothing);
  return taken;
}

/// Where memory runs out the system ends this process first: it is started again, and its parent is not.
void end_before_the_host() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(!::write(file, "1000", 4));  // where it cannot be, the system chooses as it would have
  ::close(file);
}

int run() {
  end_before_the_host();
  const int input = take_over(STDIN_FILENO, O_RDONLY);
  const int output = take_over(STDOUT_FILENO, O_WRONLY);
  if (input < 0 || output < 0) return 1;
  JobCompiler compiler(open_nvrtc);
  llvm::Error error = serve(input, output, [&](const HelperJob& job) { return compiler.answer(job); });
  const bool is_broken = static_cast<bool>(error);
  llvm::consumeError(std::move(error));
  return is_broken ? 1 : 0;
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
  // Without the destructors of NVRTC, whose threads may still run.
  ::_exit(status);
}
