#include "codegen/helper/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "codegen/own_image.h"

extern "C" char** environ;

namespace minuet {
namespace {

constexpr char kHelperName[] = "minuet-compile";
constexpr int kWaitStepMs = 20;  // how late a cancel or a death behind somebody's copy of the socket is seen
constexpr int kGraceMs = 2000;

std::string signal_name(int signal) {
  static constexpr struct {
    int number;
    const char* name;
  } kNames[] = {{SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
                {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},   {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
                {SIGHUP, "SIGHUP"},   {SIGPIPE, "SIGPIPE"}, {SIGXCPU, "SIGXCPU"}, {SIGSYS, "SIGSYS"}};
  for (const auto& entry : kNames) {
    if (entry.number == signal) return entry.name;
  }
  return "signal " + std::to_string(signal);
}

std::string describe(int status) {
  if (status != -1 && WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  if (status != -1 && WIFEXITED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
  return "ended";
}

/// A descriptor above those of standard input and output, which the child's are made from.
int above_standard(int file) {
  if (file > STDERR_FILENO) return file;
  const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(file);
  return moved;
}

/// posix_spawn of the helper with `socket` as its input and output; 0, or why not.
int spawn(const std::string& helper, int socket, pid_t& id) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // Not every file of a host's is O_CLOEXEC: a helper would keep its ports taken and its pipes open.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // What the host blocks or ignores is the host's affair, and what a terminal sends to its group.
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = kHelperName;
  std::string parent = "--parent=" + std::to_string(::getpid());
  char* const arguments[] = {name.data(), parent.data(), nullptr};
  const int error = ::posix_spawn(&id, helper.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

llvm::Expected<std::string> find_helper() {
  std::string image = own_image();
  // A package may have the library under a link, and the helper beside the file itself.
  if (const std::string real = real_path(image.c_str()); !real.empty()) image = real;
  const std::string helper = image.substr(0, image.rfind('/') + 1) + kHelperName;
  if (::access(helper.c_str(), X_OK) == 0) return helper;
  if (errno != ENOENT)
    return make_error(StatusCode::Unavailable, "the helper program {0} cannot be executed: {1}", helper,
                      std::strerror(errno));
  return make_error(StatusCode::Unavailable,
                    "the helper program {0} is not there: put the minuet-compile that came with libminuet "
                    "beside it",
                    helper);
}

llvm::Expected<std::unique_ptr<HelperProcess>> HelperProcess::start(const std::string& helper) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return make_error(StatusCode::ResourceExhausted, "no socket for the helper program: {0}",
                      std::strerror(errno));
  }
  const int ours = above_standard(ends[0]);
  const int theirs = above_standard(ends[1]);
  pid_t id = -1;
  const int error = ours < 0 || theirs < 0 ? EMFILE : spawn(helper, theirs, id);
  if (theirs >= 0) ::close(theirs);
  if (error == 0) return std::unique_ptr<HelperProcess>(new HelperProcess(id, ours));
  if (ours >= 0) ::close(ours);
  const bool may_pass = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
                        error == ETXTBSY;  // it is being installed
  return make_error(may_pass ? StatusCode::ResourceExhausted : StatusCode::Unavailable,
                    "the helper program {0} does not start: {1}", helper, std::strerror(error));
}

HelperProcess::~HelperProcess() {
  // The end of its input is what an idle helper ends by.
  ::shutdown(socket_, SHUT_RDWR);
  end(kGraceMs);
  ::close(socket_);
}

bool HelperProcess::has_ended() {
  if (has_ended_) return true;
  int status = 0;
  const pid_t got = ::waitpid(id_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  // ECHILD: the host ignores SIGCHLD or waits for every child, or is a fork of the one that started it.
  has_ended_ = true;
  status_ = got == id_ ? status : -1;
  return true;
}

std::string HelperProcess::end(int grace_ms) {
  for (int waited = 0; waited < grace_ms && !has_ended(); ++waited) ::poll(nullptr, 0, 1);
  if (!has_ended()) ::kill(id_, SIGKILL);
  while (!has_ended()) ::poll(nullptr, 0, 1);
  return describe(status_);
}

llvm::Error HelperProcess::wait_ready(int file, short events, const CancelToken* cancel) {
  pollfd ready = {file, events, 0};
  while (true) {
    if (is_cancelled(cancel)) {
      end(/*grace_ms=*/0);
      return make_error(StatusCode::Cancelled, "the compile was cancelled");
    }
    // A copy of the other end may live on in a process that was forked meanwhile; so look at both.
    const bool was_over = has_ended();
    const int count = ::poll(&ready, 1, was_over ? 0 : kWaitStepMs);
    if (count > 0) return llvm::Error::success();
    if (was_over && count == 0) return make_error(StatusCode::Unavailable, "{0}", describe(status_));
  }
}

llvm::Expected<HelperAnswer> HelperProcess::exchange(const std::string& frame, const CancelToken* cancel) {
  FrameStream stream(socket_, socket_,
                     [&](int file, short events) { return wait_ready(file, events, cancel); });
  MINUET_TRY(stream.write(frame));
  MINUET_ASSIGN(const std::optional<std::string> head, stream.read());
  if (!head) return make_error(StatusCode::Unavailable, "it closed its output");
  MINUET_ASSIGN(std::optional<std::string> result, stream.read());
  if (!result) return make_error(StatusCode::Unavailable, "it closed its output");
  return decode_answer(*head, std::move(*result));
}

llvm::Expected<HelperAnswer> HelperProcess::ask(const HelperJob& job, const CancelToken* cancel) {
  llvm::Expected<std::string> frame = encode_job(job);
  if (!frame) return failed_answer(frame.takeError());
  llvm::Expected<HelperAnswer> answer = exchange(*frame, cancel);
  if (answer) return answer;
  const StatusError status = take_status(answer.takeError());
  if (status.code() == StatusCode::Cancelled) return llvm::make_error<StatusError>(status);
  // One that talks nonsense is ended; one that went away is given the time to say how.
  const bool is_nonsense = status.code() == StatusCode::Internal;
  const std::string how = end(is_nonsense ? 0 : kGraceMs);
  return make_error(StatusCode::Unavailable, "{0}", is_nonsense ? status.message() : how);
}

// ---- the helper's side ----------------------------------------------------------------------------------

bool follow_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // else it died before the line above
}

namespace {

/// Not getrusage: its figure starts with that of the process which spawned us.
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

}  // namespace

llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job) {
  FrameStream stream(input, output);
  while (true) {
    MINUET_ASSIGN(const std::optional<std::string> frame, stream.read());
    if (!frame) return llvm::Error::success();
    llvm::Expected<HelperJob> job = decode_job(*frame);
    HelperAnswer answer = job ? answer_job(*job) : failed_answer(job.takeError());
    answer.peak_bytes = peak_bytes();
    MINUET_TRY(stream.write(encode_answer(answer)));
    MINUET_TRY(stream.write(answer.result));
  }
}

}  // namespace minuet
