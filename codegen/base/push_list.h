// A list that only grows, without a lock: a forked child could find a lock held by a thread that it does
// not have, and would wait for ever (R16). Thread-safe.
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

  /// `value` becomes the first.
  void push(T value) {
    Node* const node = new Node{std::move(value), head_};
    while (!head_.compare_exchange_weak(node->next, node)) {
    }
  }
  /// The same where it is not in the list yet; whether that was so.
  bool insert(T value) {
    auto node = std::make_unique<Node>(Node{std::move(value), head_});
    do {
      if (find(node->next, node->value)) return false;
    } while (!head_.compare_exchange_weak(node->next, node.get()));
    static_cast<void>(node.release());  // the list has it
    return true;
  }
  bool contains(const T& value) const { return find(head_, value); }

  /// The last pushed, or null. Stays where it is.
  const T* first() const {
    const Node* const node = head_;
    return node != nullptr ? &node->value : nullptr;
  }
  /// For each value, the last pushed first. What is pushed meanwhile is not seen.
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
