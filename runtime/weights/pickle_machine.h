// Holds the bytes, the stack and the objects of a pickle while it is read (pickle.cc). All functions keep
// within the limits below, and none of them fails at once: fail() stores the first reason, and the loop over
// the opcodes stops there.
#pragma once

#include "runtime/weights/pickle.h"

namespace minuet {

/// Offers what the opcodes need to a class that runs them.
class PickleMachine {
 protected:
  using NodeIndex = std::uint32_t;
  static constexpr std::size_t kMostNodes = 2u << 20, kMostMarks = 1000, kDeepestStack = 4u << 20;
  // The first nodes stand for all objects of these kinds, so that long lists of them take no memory.
  enum SharedNode : NodeIndex { kNone, kFalse, kTrue, kReal, kSharedNodes };
  static constexpr NodeIndex kNoNode = ~NodeIndex{0};

  explicit PickleMachine(llvm::StringRef bytes) : bytes_(bytes), rest_(bytes) {
    pickle_.nodes.resize(kSharedNodes);
    pickle_.nodes[kFalse].kind = pickle_.nodes[kTrue].kind = PickleKind::Bool;
    pickle_.nodes[kTrue].integer = 1;
    pickle_.nodes[kReal].kind = PickleKind::Real;
  }

  void fail(const char* why) {
    if (wrong_ == nullptr) wrong_ = why;
  }

  // The next functions read bytes and drop them from `rest_`.
  llvm::StringRef take(std::uint64_t count) {
    if (count > rest_.size()) {
      fail("it ends too early");
      return {};
    }
    const llvm::StringRef taken = rest_.take_front(count);
    rest_ = rest_.drop_front(count);
    return taken;
  }
  std::uint64_t take_integer(int bytes) {
    std::uint64_t value = 0;
    const llvm::StringRef taken = take(static_cast<std::uint64_t>(bytes));
    for (std::size_t i = taken.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(taken[i]);
    return value;
  }
  /// Returns the text up to the end of the line, which it skips.
  llvm::StringRef take_line() {
    const std::size_t end = rest_.find('\n');
    if (end == llvm::StringRef::npos) {
      fail("a line has no end");
      return {};
    }
    const llvm::StringRef line = rest_.take_front(end);
    rest_ = rest_.drop_front(end + 1);
    return line;
  }
  /// Returns a line that has an integer.
  std::int64_t take_decimal() {
    llvm::StringRef line = take_line();
    line.consume_back("L");
    std::int64_t value = 0;
    if (line.getAsInteger(10, value)) fail("a line is not a number of at most 64 bits");
    return value;
  }

  // The next functions change the stack and the objects.
  void push(NodeIndex index) {
    if (stack_.size() >= kDeepestStack) return fail("it has too many objects on its stack");
    stack_.push_back(index);
  }
  void push(PickleNode node) { push(add(std::move(node))); }
  NodeIndex add(PickleNode node) {
    if (pickle_.nodes.size() >= kMostNodes) {
      fail("it has too many objects");
      return kNone;
    }
    pickle_.nodes.push_back(std::move(node));
    return static_cast<NodeIndex>(pickle_.nodes.size() - 1);
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  NodeIndex pop() {
    if (stack_.size() <= floor()) {
      fail("an object is missing on its stack");
      return kNone;
    }
    const NodeIndex index = stack_.back();
    stack_.pop_back();
    return index;
  }
  NodeIndex top() {
    const NodeIndex index = pop();
    stack_.push_back(index);
    return index;
  }
  std::vector<NodeIndex> pop_marked() {
    if (marks_.empty()) {
      fail("a mark is missing on its stack");
      return {};
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<NodeIndex> indices(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return indices;
  }
  std::vector<NodeIndex> pop_several(std::size_t count) {
    std::vector<NodeIndex> indices(count);
    while (count-- > 0) indices[count] = pop();
    return indices;
  }

  static PickleNode node_of(PickleKind kind, std::vector<NodeIndex> parts) {
    return {kind, false, 0, {}, std::move(parts)};
  }
  static PickleNode text_of(PickleKind kind, llvm::StringRef text) { return {kind, false, 0, text, {}}; }
  static PickleNode integer_of(std::int64_t value) { return {PickleKind::Integer, false, value, {}, {}}; }

  const llvm::StringRef bytes_;
  llvm::StringRef rest_;
  Pickle pickle_;
  std::vector<NodeIndex> stack_;
  std::vector<std::size_t> marks_;  // Holds the height of the stack at each mark.
  const char* wrong_ = nullptr;     // Says why the pickle cannot be read, once that is known.
};

}  // namespace minuet
