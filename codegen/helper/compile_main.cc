// minuet-compile: compiles kernels for another process, which starts it and talks to it over its
// standard input and output (protocol.h).
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "codegen/cache/entry.h"
#include "codegen/compiler.h"
#include "codegen/helper/pch_folder.h"
#include "codegen/helper/serve.h"
#include "codegen/keys.h"
#include "llvm/Support/JSON.h"
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

/// Compiles or identifies in this process. Not thread-safe.
class JobCompiler {
 public:
  HelperAnswer answer(const HelperJob& job);

 private:
  static llvm::Expected<std::string> identify(const HelperJob& job);
  llvm::Expected<std::string> compile_entry(const HelperJob& job, PchUse& pch_use);
  std::string pch_directory();

  std::unique_ptr<PchFolder> pch_folder_;  // made for the first job that wants one
  bool has_no_pch_folder_ = false;
};

std::string JobCompiler::pch_directory() {
  if (!pch_folder_ && !has_no_pch_folder_) {
    llvm::Expected<std::unique_ptr<PchFolder>> folder = PchFolder::create();
    if (folder) {
      pch_folder_ = std::move(*folder);
    } else {
      // Slower without, and no less right.
      llvm::consumeError(folder.takeError());
      has_no_pch_folder_ = true;
    }
  }
  return pch_folder_ ? pch_folder_->path() : "";
}

llvm::Expected<std::string> JobCompiler::compile_entry(const HelperJob& job, PchUse& pch_use) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc));
  Entry entry;
  entry.request_key = key_of(job.request);
  MINUET_ASSIGN(const NvrtcInfo info, compiler->identify());
  entry.build_key = build_key(entry.request_key, info.id);
  entry.name_expression = job.request.source.name_expression;
  CompileControl control;
  control.time_trace = job.time_trace;
  control.pch_use = &pch_use;
  if (job.pch) control.pch_directory = pch_directory();
  const llvm::StringRef seed = llvm::StringRef(entry.request_key).take_front(16);
  MINUET_ASSIGN(entry.binary, compiler->compile(job.request.source, job.request.arch, seed, control));
  return write_entry(entry);
}

llvm::Expected<std::string> JobCompiler::identify(const HelperJob& job) {
  MINUET_ASSIGN(const std::shared_ptr<Compiler> compiler, open_nvrtc(job.nvrtc, job.others));
  MINUET_ASSIGN(const NvrtcInfo info, compiler->identify());
  if (llvm::json::isUTF8(info.path)) return encode_info(info);
  return make_error(StatusCode::Unimplemented, "the path of libnvrtc is not UTF-8");
}

HelperAnswer JobCompiler::answer(const HelperJob& job) {
  HelperAnswer answer;
  llvm::Expected<std::string> result = job.identify ? identify(job) : compile_entry(job, answer.pch_use);
  if (!result) return failed_answer(result.takeError());
  answer.result = std::move(*result);
  return answer;
}

int run() {
  end_before_the_host();
  const int input = take_over(STDIN_FILENO, O_RDONLY);
  const int output = take_over(STDOUT_FILENO, O_WRONLY);
  if (input < 0 || output < 0) return 1;
  JobCompiler compiler;
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
