// What waits to be done on the software device, and in which order it is done.
//
// Enqueued work is a graph: a node runs once the nodes that it comes after have. Nothing runs by itself:
// whoever is in the driver runs some, as a seeded generator says, and who waits runs what it waits for, and
// whatever else the generator picks before it. So every order that streams and events allow can happen, and
// each happens again with its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace minuet::software_cuda {

/// What a node does; graphs run the same one many times.
struct Task {
  std::function<void()> run;  // opens what it touches of device memory; none: a node that only waits
  bool on_host = false;       // a host function, which may itself wait for calls of other threads
};

struct Node {
  enum class State { Waiting, Running, Done };

  std::shared_ptr<const Task> task;
  std::vector<std::shared_ptr<Node>> after;  // emptied as they are done
  State state = State::Waiting;
};
using NodePtr = std::shared_ptr<Node>;

/// As SOFTWARE_CUDA_SEED: the seed is drawn anew in each process.
constexpr const char* kFreshSeed = "fresh";
/// The seed that a process begins with. `seed` is the value of SOFTWARE_CUDA_SEED, a number or kFreshSeed,
/// and 1 where it is null. `repeated` is the value of MINUET_SOFTWARE_SEED, which stands for the fresh seed
/// unless it is null or "".
std::uint64_t first_seed(const char* seed, const char* repeated);

/// The work of all devices. The driver's lock is held in every call.
class Scheduler {
 public:
  struct Hooks {
    /// Runs a task: catches what it throws.
    std::function<void(const Task&)> run;
    /// Begins a host function in a thread of its own, which calls done() at its end.
    std::function<void(const NodePtr&)> run_on_host;
    /// Gives the lock up until a host function has ended.
    std::function<void()> wait;
  };
  explicit Scheduler(Hooks hooks) : hooks_(std::move(hooks)) {}

  void seed(std::uint64_t seed);
  std::uint64_t seed() const { return seed_; }
  void add(NodePtr node) { waiting_.push_back(std::move(node)); }
  void done(const NodePtr& node);
  bool idle() const { return waiting_.empty(); }
  /// Somebody is in the driver: a few nodes, or none, or all.
  void advance();
  /// Until the node is done.
  void finish(const NodePtr& node);
  void finish_all();

 private:
  std::uint64_t random();
  /// One node that may run; false where there is none.
  bool step();

  Hooks hooks_;
  std::vector<NodePtr> waiting_;  // in the order in which they came; a running one is among them
  std::uint64_t seed_ = 0, state_ = 0;
};

}  // namespace minuet::software_cuda
