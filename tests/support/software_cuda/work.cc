#include "tests/support/software_cuda/work.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string_view>

#include "tests/support/random.h"

namespace minuet::software_cuda {
namespace {

bool is_ready(Node& node) {
  std::erase_if(node.after, [](const NodePtr& other) { return other->state == Node::State::Done; });
  return node.state == Node::State::Waiting && node.after.empty();
}

/// How eager a device of this seed is, of 8: with 0 it works only for those who wait, with 8 at every call.
std::uint64_t eagerness(std::uint64_t seed) { return Random(seed).below(9); }

}  // namespace

std::uint64_t first_seed(const char* seed, const char* repeated) {
  if (!seed) return 1;
  if (seed != std::string_view(kFreshSeed)) return std::strtoull(seed, nullptr, 10);
  if (repeated && *repeated) return std::strtoull(repeated, nullptr, 10);
  return std::random_device()();
}

void Scheduler::seed(std::uint64_t seed) { seed_ = state_ = seed; }

std::uint64_t Scheduler::random() {
  Random random(state_);
  return state_ = random.next();
}

bool Scheduler::step() {
  std::vector<NodePtr> ready;
  for (const NodePtr& node : waiting_) {
    if (is_ready(*node)) ready.push_back(node);
  }
  if (ready.empty()) return false;
  const NodePtr node = ready[random() % ready.size()];
  node->state = Node::State::Running;
  if (node->task && node->task->on_host) {
    hooks_.run_on_host(node);
    return true;
  }
  if (node->task && node->task->run) hooks_.run(*node->task);
  done(node);
  return true;
}

void Scheduler::done(const NodePtr& node) {
  node->state = Node::State::Done;
  node->task = nullptr;
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), node));
}

void Scheduler::advance() {
  for (std::size_t most = waiting_.size(); most > 0 && random() % 8 < eagerness(seed_); --most) {
    if (!step()) return;
  }
}

void Scheduler::finish(const NodePtr& node) {
  while (node && node->state != Node::State::Done) {
    if (!step()) hooks_.wait();
  }
}

void Scheduler::finish_all() {
  while (!waiting_.empty()) {
    if (!step()) hooks_.wait();
  }
}

}  // namespace minuet::software_cuda
