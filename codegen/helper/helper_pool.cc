#include "codegen/helper/helper_pool.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "codegen/header_index.h"
#include "codegen/own_thread.h"

namespace minuet {
namespace {

constexpr std::int64_t kHelperBytes = std::int64_t{512} << 20;
/// Of a kernel with CUB: a precompiled header makes the first compile a quarter longer and takes more than
/// half off each later one. Without CUB it saves nothing.
constexpr std::size_t kLeastJobsForPch = 2;

/// The requests that can share a precompiled header; without those, one.
struct Group {
  std::deque<std::size_t> waiting;
  int helpers = 0;  // that took of it and are still there
  bool is_cccl = false;
};

struct Turn {
  std::size_t index = 0;
  Group* group = nullptr;
  bool pch = false;
};

/// Hands out requests: a helper keeps to its group, then takes one that nobody has, those with CUB first, for
/// they take longest, then the largest; then it helps with the one that has most left. Thread-safe.
class Queue {
 public:
  Queue(const std::vector<KernelRequest>& requests, bool pch) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Group& group = groups_[pch ? requests[i].arch + "\n" + preamble_of(requests[i]) : std::to_string(i)];
      group.is_cccl = header_use(requests[i].source.text).cccl;
      group.waiting.push_back(i);
    }
  }

  /// `last`: what the helper had before.
  std::optional<Turn> take(const Turn& last) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Turn turn = last;
    if (turn.group == nullptr || turn.group->waiting.empty()) {
      if (turn.group != nullptr) --turn.group->helpers;
      turn.group = choose();
      if (turn.group == nullptr) return std::nullopt;
      ++turn.group->helpers;
      turn.pch = turn.group->is_cccl && turn.group->waiting.size() >= kLeastJobsForPch;
    }
    turn.index = turn.group->waiting.front();
    turn.group->waiting.pop_front();
    return turn;
  }

  /// Leaves what nobody has taken.
  void stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [key, group] : groups_) group.waiting.clear();
  }

 private:
  Group* choose() {
    const auto rank = [](const Group& group) {
      const bool is_free = group.helpers == 0;
      return std::tuple(is_free, is_free && group.is_cccl, group.waiting.size());
    };
    Group* best = nullptr;
    for (auto& [key, group] : groups_) {
      if (!group.waiting.empty() && (best == nullptr || rank(group) > rank(*best))) best = &group;
    }
    return best;
  }

  std::mutex mutex_;
  std::map<std::string, Group> groups_;
};

void add(HelperPoolReport& all, const HelperReport& one) {
  all.started += one.started;
  all.lost += one.lost;
  all.pch_created += one.pch_created;
  all.pch_used += one.pch_used;
  all.peak_bytes = std::max(all.peak_bytes, one.peak_bytes);
}

}  // namespace

int count_helpers(int asked, const Resources& resources, std::size_t jobs) {
  const std::int64_t by_memory = resources.memory_bytes / kHelperBytes;
  const std::int64_t wanted = asked > 0 ? asked : resources.cores;
  const std::int64_t most = std::min(by_memory, static_cast<std::int64_t>(jobs));
  return static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most)));
}

HelperPoolReport run_in_helpers(const std::vector<KernelRequest>& requests, const HelperPoolOptions& options,
                                HelperWork work) {
  Resources resources = available_resources();
  if (options.memory_budget > 0) resources.memory_bytes = options.memory_budget;
  Queue queue(requests, options.pch);
  HelperPoolReport report;
  std::mutex mutex;  // of the report
  const auto hand_out = [&](Helper& helper) {
    CompileControl control;
    control.cancel = options.cancel;
    control.helper = &helper;
    Turn turn;
    while (const std::optional<Turn> next = queue.take(turn)) {
      if (next->group != turn.group) helper.end_if_large();
      turn = *next;
      control.pch = options.pch && turn.pch;
      if (!work(turn.index, control)) return queue.stop();
    }
  };
  const auto work_or_stop = [&]() noexcept {
    Helper helper;
    try {
      hand_out(helper);
    } catch (...) {  // takes this thread only; the others go on
    }
    const std::lock_guard<std::mutex> lock(mutex);
    add(report, helper.report());
  };
  const int wanted = count_helpers(options.jobs, resources, requests.size());
  // This thread is one of them, so that nothing is lost where no other can be had.
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

}  // namespace minuet
