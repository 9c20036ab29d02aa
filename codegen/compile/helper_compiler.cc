#include "codegen/compile/helper_compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "codegen/base/own_image.h"
#include "codegen/base/own_thread.h"
#include "codegen/base/push_list.h"
#include "codegen/compile/entry.h"
#include "codegen/compile/identify_nvrtc.h"
#include "codegen/source/keys.h"

extern "C" char** environ;

namespace minuet {

// The following code distributes many kernels over threads.

namespace {

constexpr std::int64_t kHelperBytes = std::int64_t{512} << 20;

/// Gives each request to one thread. Requests that include CUB come first, because they take longest. The
/// class is thread-safe.
class Queue {
 public:
  explicit Queue(const std::vector<KernelRequest>& requests) : waiting_(requests.size()) {
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
    std::stable_partition(waiting_.begin(), waiting_.end(),
                          [&](std::size_t i) { return header_use(requests[i].source.text).cccl; });
  }

  std::optional<std::size_t> next() {
    const std::size_t turn = next_++;
    return turn < waiting_.size() ? std::optional(waiting_[turn]) : std::nullopt;
  }

  /// Drops the requests that no thread has taken.
  void stop() { next_ = waiting_.size(); }

 private:
  std::vector<std::size_t> waiting_;
  std::atomic<std::size_t> next_{0};
};

void add(HelperPoolReport& all, const HelperReport& one) {
  all.started += one.started;
  all.lost += one.lost;
  all.peak_bytes = std::max(all.peak_bytes, one.peak_bytes);
}

}  // namespace

int count_helpers(int asked, const Resources& resources, std::size_t jobs) {
  const std::int64_t by_memory = resources.memory_bytes / kHelperBytes;
  const std::int64_t wanted = asked > 0 ? asked : resources.cores;
  const std::int64_t most = std::min(by_memory, static_cast<std::int64_t>(jobs));
  return static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most)));
}

HelperPoolReport for_each_with_helper(const std::vector<KernelRequest>& requests,
                                      const HelperPoolOptions& options, HelperWork work) {
  Resources resources = available_resources();
  if (options.memory_budget > 0) resources.memory_bytes = options.memory_budget;
  Queue queue(requests);
  HelperPoolReport report;
  std::mutex mutex;  // This mutex guards `report`.
  const auto hand_out = [&](Helper& helper) {
    CompileControl control;
    control.cancel = options.cancel;
    control.helper = &helper;
    while (const std::optional<std::size_t> index = queue.next()) {
      helper.end_if_large();
      if (!work(*index, control)) return queue.stop();
    }
  };
  const auto work_or_stop = [&]() noexcept {
    Helper helper;
    try {
      hand_out(helper);
    } catch (...) {  // The exception ends this thread only, and the other threads continue.
      const std::lock_guard<std::mutex> lock(mutex);
      if (!report.thrown) report.thrown = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    add(report, helper.report());
  };
  const int wanted = count_helpers(options.jobs, resources, requests.size());
  // This thread is one of the workers, so all work is done even if no other thread can start.
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<std::size_t>(wanted - 1));
    for (int i = 1; i < wanted; ++i) threads.push_back(start_own_thread(work_or_stop));
  } catch (const std::exception&) {
  }
  work_or_stop();
  for (std::thread& thread : threads) thread.join();
  report.helpers = static_cast<int>(threads.size()) + 1;
  return report;
}

// The following class compiles one kernel in the helper process of the calling thread.

namespace {

class HelperCompiler : public Compiler {
 public:
  HelperCompiler(std::string library, std::string program)
      : library_(std::move(library)), program_(std::move(program)) {}

  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) override {
    Helper own_helper;
    CompileControl with = control;
    if (with.helper == nullptr) with.helper = &own_helper;
    MINUET_ASSIGN(const NvrtcInfo nvrtc, info(with));
    const std::string& name = request.source.display_name;
    MINUET_ASSIGN(std::string bytes, with.helper->ask(program_, {request, nvrtc.path}, control.cancel,
                                                      name + " for " + request.arch));
    MINUET_ASSIGN(Entry entry, read_entry(bytes));
    if (entry.request_key != request.key)
      return make_error(StatusCode::Internal,
                        "the helper program was asked for {0} and returned a different kernel", name);
    // If the helper process used another NVRTC, its kernel would be stored under the wrong build key.
    if (entry.binary.compiler_id != nvrtc.id) {
      return make_error(StatusCode::FailedPrecondition,
                        "{0} has changed since this process first used it: restart the process", nvrtc.path);
    }
    if (control.packed != nullptr) *control.packed = std::move(bytes);
    return std::move(entry.binary);
  }

  llvm::Expected<NvrtcInfo> info(const CompileControl& control) override {
    if (const NvrtcInfo* const known = info_.first()) return *known;
    MINUET_ASSIGN(NvrtcInfo told, identify_nvrtc(library_, program_, control));
    info_.push(told);
    return told;
  }

 private:
  const std::string library_, program_;
  PushList<NvrtcInfo> info_;  // The list is empty until the NVRTC is known.
};

}  // namespace

std::shared_ptr<Compiler> make_helper_compiler(std::string library, std::string program) {
  return std::make_shared<HelperCompiler>(std::move(library), std::move(program));
}

// The rest of this file starts, uses and ends a helper process.

namespace {

constexpr char kHelperName[] = "minuet-compile";
constexpr std::int64_t kLargeBytes = std::int64_t{256} << 20;
/// The start of a helper process is retried for this long if the system lacks processes, memory or files,
/// because other processes may end.
constexpr auto kStartPatience = std::chrono::seconds(5);
constexpr int kStartStepMs = 20;
// This is the longest delay before a cancel is noticed, or the exit of a helper process whose socket another
// process holds open.
constexpr int kWaitStepMs = 20;
constexpr int kGraceMs = 2000;  // A helper process has this long to end by itself before it is killed.

llvm::Error cancelled() { return make_error(StatusCode::Cancelled, "the compile was cancelled"); }
llvm::Error closed_output() { return make_error(StatusCode::Unavailable, "it closed its output"); }

}  // namespace

llvm::Expected<std::string> Helper::ask(const std::string& program, const HelperJob& job,
                                        const CancelToken* cancel, const std::string& what) {
  MINUET_ASSIGN(const std::string frame, encode_job(job));
  std::string how;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!process_) MINUET_TRY(annotate(start(program, cancel), what));
    llvm::Expected<HelperAnswer> answer = exchange(frame, cancel);
    if (answer) return finish(std::move(*answer));
    StatusError status = take_status(answer.takeError());
    // A process that closed its stream gets time to end by itself, so that its status is known. After a
    // cancel or an invalid answer, the process is killed at once.
    how = "it " + end(status.code() == StatusCode::Unavailable ? kGraceMs : 0);
    if (status.code() == StatusCode::Cancelled) {
      status.annotate(what);
      return llvm::make_error<StatusError>(std::move(status));
    }
    if (status.code() == StatusCode::Internal) how = status.message();
    ++report_.lost;
  }
  // The usual cause is that the system killed the process for lack of memory.
  return make_error(StatusCode::ResourceExhausted,
                    "{0}: the helper program failed twice; the second time {1}", what, how);
}

llvm::Error Helper::start(const std::string& program, const CancelToken* cancel) {
  std::string path = program;
  if (path.empty()) {
    MINUET_ASSIGN(path, find_helper());
  }
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (true) {
    if (is_cancelled(cancel)) return cancelled();
    llvm::Error error = start_once(path);
    if (!error) return llvm::Error::success();
    StatusError status = take_status(std::move(error));
    if (status.code() != StatusCode::ResourceExhausted || std::chrono::steady_clock::now() > end)
      return llvm::make_error<StatusError>(std::move(status));
    ::poll(nullptr, 0, kStartStepMs);
  }
}

llvm::Expected<std::string> find_helper() {
  std::string image = own_image();
  // A package may install a link to the library in another folder. The helper program is then beside the real
  // file only.
  if (const std::string real = real_path(image.c_str()); !real.empty()) image = real;
  const std::string helper = image.substr(0, image.rfind('/') + 1) + kHelperName;
  if (::access(helper.c_str(), X_OK) == 0) return helper;
  if (errno != ENOENT)
    return make_error(StatusCode::Unavailable, "the helper program {0} cannot be executed: {1}", helper,
                      errno_text(errno));
  return make_error(StatusCode::Unavailable,
                    "the helper program {0} does not exist: put the minuet-compile that came with libminuet "
                    "beside it",
                    helper);
}

namespace {

/// Moves a descriptor above those of standard input, output and error, which spawn() replaces in the child.
int above_standard(int file) {
  if (file > STDERR_FILENO) return file;
  const int moved = ::fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(file);
  return moved;
}

/// Starts the helper program with `socket` as its standard input and output. Returns 0 or an errno value.
int spawn(const std::string& helper, int socket, pid_t& id) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // Some files of the host are not O_CLOEXEC. Without this action, the helper process would keep the host's
  // ports and pipes open.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // The helper process does not inherit blocked or ignored signals. It has its own process group, so it gets
  // no terminal signals of the host's group.
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

llvm::Error Helper::start_once(const std::string& program) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return make_error(StatusCode::ResourceExhausted, "cannot create a socket for the helper program: {0}",
                      errno_text(errno));
  }
  const int ours = above_standard(ends[0]);
  const int theirs = above_standard(ends[1]);
  pid_t id = -1;
  const int error = ours < 0 || theirs < 0 ? EMFILE : spawn(program, theirs, id);
  if (theirs >= 0) ::close(theirs);
  if (error == 0) {
    process_.emplace(Process{id, ours});
    ++report_.started;
    return llvm::Error::success();
  }
  if (ours >= 0) ::close(ours);
  // A later start may succeed after these errors. ETXTBSY means that the program file is being written.
  const bool may_pass =
      error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE || error == ETXTBSY;
  return make_error(may_pass ? StatusCode::ResourceExhausted : StatusCode::Unavailable,
                    "the helper program {0} cannot be started: {1}", program, errno_text(error));
}

llvm::Expected<HelperAnswer> Helper::exchange(const std::string& frame, const CancelToken* cancel) {
  const int socket = process_->socket;
  FrameStream stream(socket, socket,
                     [&](int file, short events) { return wait_ready(file, events, cancel); });
  MINUET_TRY(stream.write(frame));
  MINUET_ASSIGN(const std::optional<std::string> head, stream.read());
  if (!head) return closed_output();
  MINUET_ASSIGN(std::optional<std::string> result, stream.read());
  if (!result) return closed_output();
  return decode_answer(*head, std::move(*result));
}

llvm::Error Helper::wait_ready(int file, short events, const CancelToken* cancel) {
  pollfd ready = {file, events, 0};
  while (true) {
    if (is_cancelled(cancel)) return cancelled();
    // A process that was forked meanwhile may hold a copy of the other end of the socket, so poll() alone
    // does not see the exit of the helper process.
    const bool was_over = has_ended();
    const int count = ::poll(&ready, 1, was_over ? 0 : kWaitStepMs);
    if (count > 0) return llvm::Error::success();
    if (was_over && count == 0) return make_error(StatusCode::Unavailable, "it has ended");
  }
}

llvm::Expected<std::string> Helper::finish(HelperAnswer answer) {
  process_->peak_bytes = answer.peak_bytes;
  report_.peak_bytes = std::max(report_.peak_bytes, answer.peak_bytes);
  if (answer.code == StatusCode::Ok) return std::move(answer.result);
  return llvm::make_error<StatusError>(answer.code, std::move(answer.message), std::move(answer.detail));
}

bool Helper::has_ended() {
  Process& process = *process_;
  if (process.has_ended) return true;
  int status = 0;
  const pid_t got = ::waitpid(process.id, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  // If `got` is negative, waitpid() failed with ECHILD: the host ignores SIGCHLD or waits for every child, or
  // this process is a fork of the one that started the helper process.
  process.has_ended = true;
  process.status = got == process.id ? status : -1;
  return true;
}

namespace {

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

}  // namespace

std::string Helper::end(int grace_ms) {
  // An idle helper process ends when its input ends. poll() returns at once when that process has closed the
  // socket.
  ::shutdown(process_->socket, SHUT_WR);
  pollfd closed = {process_->socket, 0, 0};
  for (int waited = 0; waited < grace_ms && !has_ended(); ++waited)
    ::poll(&closed, closed.revents == 0 ? 1 : 0, 1);
  if (!has_ended()) ::kill(process_->id, SIGKILL);
  while (!has_ended()) ::poll(nullptr, 0, 1);
  ::close(process_->socket);
  const int status = process_->status;
  process_.reset();
  return describe(status);
}

void Helper::end_if_large() {
  if (process_ && process_->peak_bytes > kLargeBytes) end(kGraceMs);
}

Helper::~Helper() {
  if (process_) end(kGraceMs);
}

}  // namespace minuet
