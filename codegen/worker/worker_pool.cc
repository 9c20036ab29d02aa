#include "codegen/worker/worker_pool.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "codegen/header_index.h"
#include "codegen/own_thread.h"
#include "codegen/trace.h"
#include "codegen/worker/pch_folder.h"
#include "codegen/worker/worker_process.h"

namespace minuet {
namespace {

constexpr std::int64_t kWorkerBytes = std::int64_t{512} << 20;
/// A helper that took more than this starts anew for the next group, for it keeps what it once had.
constexpr std::int64_t kRestartBytes = kWorkerBytes / 2;
/// Of a kernel with CUB: a precompiled header makes the first compile a quarter longer and takes more than
/// half off each later one. Without CUB it saves nothing.
constexpr std::size_t kLeastJobsForPch = 2;
/// How long a helper is waited for where the system has no process or file to spare: others will end.
constexpr auto kStartPatience = std::chrono::seconds(5);
constexpr int kStartStepMs = 20;

struct Totals {
  std::mutex mutex;
  WorkerPoolReport report;
};

/// A helper that comes back after it was lost.
class Worker {
 public:
  Worker(const WorkerOptions& options, Totals& totals) : options_(options), totals_(totals) {}

  /// Ends the helper between two groups where it has grown.
  void enter_group() {
    if (peak_bytes_ > kRestartBytes) process_.reset();
  }
  llvm::Expected<PackedEntry> compile(const WorkerJob& job);
  /// The bytes that answer `job`; `what` it is about, for errors.
  llvm::Expected<std::string> ask(const WorkerJob& job, const std::string& what);

 private:
  llvm::Error start();
  llvm::Expected<std::string> read_answer(WorkerAnswer answer);

  const WorkerOptions& options_;
  Totals& totals_;
  std::unique_ptr<WorkerProcess> process_;
  std::int64_t peak_bytes_ = 0;
};

llvm::Error Worker::start() {
  std::string helper = options_.helper;
  if (helper.empty()) {
    MINUET_ASSIGN(helper, find_helper());
  }
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (!process_) {
    if (is_cancelled(options_.cancel)) return make_error(StatusCode::Cancelled, "the compile was cancelled");
    llvm::Expected<std::unique_ptr<WorkerProcess>> started = WorkerProcess::start(helper);
    if (started) {
      process_ = std::move(*started);
      break;
    }
    StatusError status = take_status(started.takeError());
    if (status.code() != StatusCode::ResourceExhausted || std::chrono::steady_clock::now() > end)
      return llvm::make_error<StatusError>(std::move(status));
    ::poll(nullptr, 0, kStartStepMs);
  }
  peak_bytes_ = 0;
  const std::lock_guard<std::mutex> lock(totals_.mutex);
  ++totals_.report.started;
  return llvm::Error::success();
}

llvm::Expected<std::string> Worker::read_answer(WorkerAnswer answer) {
  peak_bytes_ = answer.peak_bytes;
  {
    const std::lock_guard<std::mutex> lock(totals_.mutex);
    WorkerPoolReport& report = totals_.report;
    report.peak_bytes = std::max(report.peak_bytes, answer.peak_bytes);
    report.pch_created += answer.pch_use == PchUse::Created;
    report.pch_used += answer.pch_use == PchUse::Used;
  }
  if (answer.code != StatusCode::Ok) {
    return llvm::make_error<StatusError>(answer.code, std::move(answer.message), std::move(answer.detail));
  }
  return std::move(answer.result);
}

llvm::Expected<std::string> Worker::ask(const WorkerJob& job, const std::string& what) {
  std::string how;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!process_) MINUET_TRY(annotate(start(), what));
    llvm::Expected<WorkerAnswer> answer = process_->ask(job, options_.cancel);
    if (answer) return read_answer(std::move(*answer));
    StatusError status = take_status(answer.takeError());
    process_.reset();
    if (job.pch) sweep_pch_folders();
    if (status.code() == StatusCode::Cancelled) {
      status.annotate(what);
      return llvm::make_error<StatusError>(std::move(status));
    }
    how = status.message();
    const std::lock_guard<std::mutex> lock(totals_.mutex);
    ++totals_.report.lost;
  }
  // Most often the system's answer to want of memory.
  return make_error(StatusCode::ResourceExhausted, "{0}: the helper program was lost twice; at last: {1}",
                    what, how);
}

llvm::Expected<PackedEntry> Worker::compile(const WorkerJob& job) {
  const std::string& name = job.request.source.display_name;
  MINUET_ASSIGN(std::string bytes, ask(job, name + " for " + job.request.arch));
  MINUET_ASSIGN(Entry entry, read_entry(bytes));
  if (entry.request_key == key_of(job.request)) return PackedEntry{std::move(entry), std::move(bytes)};
  return make_error(StatusCode::Internal, "the helper answered {0} with another kernel", name);
}

/// The requests that can share a precompiled header.
struct Group {
  std::deque<std::size_t> waiting;
  int workers = 0;  // that took of it and are still there
  bool is_cccl = false;
};

struct Turn {
  std::size_t index = 0;
  Group* group = nullptr;
  bool pch = false;
};

/// Hands out requests: a worker keeps to its group, then takes the largest that nobody has, then helps with
/// the one that has most left. Thread-safe.
class Queue {
 public:
  explicit Queue(const std::vector<KernelRequest>& requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::string preamble = preamble_of(requests[i]);
      Group& group = groups_[requests[i].arch + "\n" + preamble];
      if (group.waiting.empty()) group.is_cccl = header_closure(preamble).cccl;
      group.waiting.push_back(i);
    }
  }

  /// `last`: what the worker had before.
  std::optional<Turn> take(const Turn& last) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Turn turn = last;
    if (turn.group == nullptr || turn.group->waiting.empty()) {
      if (turn.group != nullptr) --turn.group->workers;
      turn.group = choose();
      if (turn.group == nullptr) return std::nullopt;
      ++turn.group->workers;
      turn.pch = turn.group->is_cccl && turn.group->waiting.size() >= kLeastJobsForPch;
    }
    turn.index = turn.group->waiting.front();
    turn.group->waiting.pop_front();
    return turn;
  }

 private:
  Group* choose() {
    Group* best = nullptr;
    for (auto& [key, group] : groups_) {
      if (group.waiting.empty()) continue;
      const bool is_free = group.workers == 0;
      const bool best_is_free = best != nullptr && best->workers == 0;
      if (best == nullptr || (is_free && !best_is_free) ||
          (is_free == best_is_free && group.waiting.size() > best->waiting.size())) {
        best = &group;
      }
    }
    return best;
  }

  std::mutex mutex_;
  std::map<std::string, Group> groups_;
};

/// What the threads of one run share.
struct Run {
  const WorkerPoolOptions& options;
  const std::vector<KernelRequest>& requests;
  const WorkerPool::OnDone& on_done;
  Queue queue;
  Totals totals;
  std::mutex done_mutex;

  void work();
  /// What throws in there takes this worker only; the others go on.
  void work_or_stop() noexcept {
    try {
      work();
    } catch (...) {
    }
  }
};

void Run::work() {
  Worker worker(options.worker, totals);
  const CancelToken* const cancel = options.worker.cancel;
  Turn turn;
  while (true) {
    const std::optional<Turn> next = queue.take(turn);
    if (!next) return;
    if (next->group != turn.group) worker.enter_group();
    turn = *next;
    const KernelRequest& request = requests[turn.index];
    const auto compile = [&]() -> llvm::Expected<PackedEntry> {
      const Trace::Span span(options.trace, "compile", request.source.display_name);
      const std::string trace = options.time_traces.empty() ? "" : options.time_traces[turn.index];
      return worker.compile({request, options.worker.nvrtc, options.pch && turn.pch, trace});
    };
    llvm::Expected<Entry> entry = [&]() -> llvm::Expected<Entry> {
      if (is_cancelled(cancel)) {
        return make_error(StatusCode::Cancelled, "{0} for {1}: the compile was cancelled",
                          request.source.display_name, request.arch);
      }
      if (options.around) return options.around(turn.index, compile);
      MINUET_ASSIGN(PackedEntry compiled, compile());
      return std::move(compiled.entry);
    }();
    const std::lock_guard<std::mutex> lock(done_mutex);
    on_done(turn.index, std::move(entry));
  }
}

}  // namespace

llvm::Expected<PackedEntry> compile_in_worker(const KernelRequest& request, const WorkerOptions& options) {
  Totals totals;
  Worker worker(options, totals);
  return worker.compile({request, options.nvrtc, /*pch=*/false, options.time_trace});
}

llvm::Expected<NvrtcInfo> identify_in_worker(const WorkerOptions& options,
                                             const std::vector<std::string>& others) {
  Totals totals;
  Worker worker(options, totals);
  WorkerJob job;
  job.identify = true;
  job.nvrtc = options.nvrtc;
  job.others = others;
  llvm::Expected<std::string> bytes = worker.ask(job, "looking for libnvrtc");
  if (bytes) return decode_info(*bytes);
  StatusError status = take_status(bytes.takeError());
  if (status.code() != StatusCode::ResourceExhausted || totals.report.lost == 0)
    return llvm::make_error<StatusError>(std::move(status));
  // It takes no memory to speak of: what it opens, or the program itself, is broken.
  return make_error(StatusCode::Unavailable,
                    "{0}: see that minuet-compile runs here, or name another library with MINUET_NVRTC",
                    status.message());
}

int count_workers(int asked, const Resources& resources, std::size_t jobs) {
  const std::int64_t by_memory = resources.memory_bytes / kWorkerBytes;
  const std::int64_t wanted = asked > 0 ? asked : resources.cores;
  const std::int64_t most = std::min(by_memory, static_cast<std::int64_t>(jobs));
  return static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most)));
}

WorkerPoolReport WorkerPool::run(const std::vector<KernelRequest>& requests, const OnDone& on_done) {
  Resources resources = available_resources();
  if (options_.memory_budget > 0) resources.memory_bytes = options_.memory_budget;
  Run run{options_, requests, on_done, Queue(requests), {}, {}};
  run.totals.report.workers = count_workers(options_.jobs, resources, requests.size());
  // This thread is one of them, so that nothing is lost where no other can be had.
  std::vector<std::thread> threads;
  try {
    for (int i = 1; i < run.totals.report.workers; ++i)
      threads.push_back(start_own_thread([&run] { run.work_or_stop(); }));
  } catch (const std::exception&) {
    run.totals.report.workers = static_cast<int>(threads.size()) + 1;
  }
  run.work_or_stop();
  for (std::thread& thread : threads) thread.join();
  return run.totals.report;
}

}  // namespace minuet
