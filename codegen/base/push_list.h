// Defines a list that only grows. It uses no lock, because a forked child would wait forever for a lock that
// a thread of its parent holds. All functions are thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace minuet {

template <class T>
class PushList {
 public:
  PushList() = default;
  PushList(const PushList&) = delete;
  PushList& operator=(const PushList&) = delete;
  ~PushList() {
    for (Node* node = head_; node != nullptr;) delete std::exchange(node, node->next);
  }

  /// Inserts `value` at the front.
  void push(T value) {
    Node* const node = new Node{std::move(value), head_};
    while (!head_.compare_exchange_weak(node->next, node)) {
    }
  }
  /// Inserts `value` at the front and returns true, or returns false if the list already contains an equal
  /// value.
  bool insert(T value) {
    auto node = std::make_unique<Node>(Node{std::move(value), head_});
    do {
      if (find(node->next, node->value)) return false;
    } while (!head_.compare_exchange_weak(node->next, node.get()));
    static_cast<void>(node.release());  // The list now owns the node, so `node` must not delete it.
    return true;
  }
  bool contains(const T& value) const { return find(head_, value); }

  /// Returns the value that was pushed last, or null if the list is empty. The pointer stays valid as long as
  /// the list.
  const T* first() const {
    const Node* const node = head_;
    return node != nullptr ? &node->value : nullptr;
  }
  /// Calls `visit` for each value, beginning with the one that was pushed last. Does not visit values that
  /// are pushed during the call.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Node* node = head_; node != nullptr; node = node->next) visit(node->value);
  }

 private:
  struct Node {
    T value;
    Node* next;
  };
  static bool find(const Node* node, const T& value) {
    while (node != nullptr && !(node->value == value)) node = node->next;
    return node != nullptr;
  }
  std::atomic<Node*> head_{nullptr};
};

}  // namespace minuet
