// A helper without NVRTC. What it does with a job is in the name of the kernel, up to its first '-'; the
// kernel's text names a file where that needs one. Its log says what it was given by who started it.
#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "codegen/compile/entry.h"
#include "codegen/compile/protocol.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

int open_files() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (folder != nullptr && ::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::string inherited() {
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  struct sigaction pipe = {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  const char* const passed = std::getenv("MINUET_TEST_PASSED");
  return "pid " + std::to_string(::getpid()) + "\nfiles " + std::to_string(open_files()) + "\nblocked " +
         std::to_string(::sigismember(&blocked, SIGTERM)) + "\nignored " +
         std::to_string(pipe.sa_handler == SIG_IGN) + "\ngroup " +
         (::getpgrp() == ::getpid() ? "own" : "another's") + "\npassed " + (passed != nullptr ? passed : "") +
         "\n";
}

/// Leaves a file of its own in the folder and waits for another process's.
void meet(const std::string& folder) {
  write_text(folder + "/" + std::to_string(::getpid()), "");
  while (files_below(folder).size() < 2) ::poll(nullptr, 0, 5);
}

/// Whether nobody has come to `file` yet.
bool is_first(const std::string& file) {
  if (::access(file.c_str(), F_OK) == 0) return false;
  write_text(file, "");
  return true;
}

void misbehave(llvm::StringRef what, const std::string& file) {
  if (what == "die") die();
  if (what == "dieonce" && is_first(file)) die();
  if (what == "exit") std::_Exit(3);
  if (what == "meet") meet(file);
  if (what == "sleep") {
    // Says that it is there, then never answers.
    write_text(file, std::to_string(::getpid()));
    while (true) ::pause();
  }
  if (what == "garbage") {
    const std::string words = "this is no frame at all\n";
    static_cast<void>(!::write(STDOUT_FILENO, words.data(), words.size()));
    while (true) ::pause();
  }
}

HelperAnswer failure() {
  HelperAnswer answer;
  answer.code = StatusCode::InvalidArgument;
  answer.message = "the fake fails";
  answer.detail = "its log";
  return answer;
}

/// What to do is in the name of the library, up to its first ':', then the file. The library "fixed"
/// identifies as the compiler of compile jobs, every other one as this process.
HelperAnswer describe_nvrtc(const HelperJob& job) {
  const auto [what, file] = llvm::StringRef(job.nvrtc).split(':');
  misbehave(what, file.str());
  if (what == "fail" || (what == "failonce" && is_first(file.str()))) return failure();
  HelperAnswer answer;
  const std::string id = what == "fixed" ? FakeCompiler().id_ : "fake " + std::to_string(::getpid());
  answer.result = encode_info({job.nvrtc, "13.0", id, {}});
  return answer;
}

HelperAnswer answer(const HelperJob& job) {
  if (job.identify) return describe_nvrtc(job);
  const KernelSource& source = job.request.source;
  const llvm::StringRef what = llvm::StringRef(source.display_name).split('-').first;
  misbehave(what, source.text);
  if (what == "fail") return failure();
  HelperAnswer answer;
  answer.peak_bytes = 1 << 20;
  FakeCompiler compiler;
  Entry entry;
  entry.request_key = what == "other" ? "another key" : job.request.key;
  entry.build_key = build_key(entry.request_key, compiler.id_);
  entry.name_expression = source.name_expression;
  entry.binary = llvm::cantFail(compiler.compile(job.request, {}));
  entry.binary.log = inherited();
  answer.result = write_entry(entry);
  if (what == "flip") answer.result[answer.result.size() / 2] ^= 1;
  return answer;
}

llvm::Error serve() {
  FrameStream stream(STDIN_FILENO, STDOUT_FILENO);
  while (true) {
    MINUET_ASSIGN(const std::optional<std::string> frame, stream.read());
    if (!frame) return llvm::Error::success();
    const HelperAnswer made = answer(llvm::cantFail(decode_job(*frame)));
    MINUET_TRY(stream.write(encode_answer(made)));
    MINUET_TRY(stream.write(made.result));
  }
}

}  // namespace
}  // namespace minuet

int main(int count, char** arguments) {
  int parent = 0;
  llvm::StringRef argument = count == 2 ? arguments[1] : "";
  if (!argument.consume_front("--parent=") || argument.getAsInteger(10, parent)) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() != parent || llvm::errorToBool(minuet::serve()) ? 1 : 0;
}
