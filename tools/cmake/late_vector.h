// Defines a std::vector without constexpr functions, for a class that uses it with a type that is still
// incomplete. Only the copy of LLVM's JSON.h that tools/cmake/MinuetLlvm.cmake makes includes this file.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace minuet {

/// Has the layout and behaviour of std::vector<T>. clang instantiates a constexpr function as soon as code
/// names it. It instantiates the functions of this class only where they are called, and there T is complete.
template <typename T>
class LateVector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using iterator = typename Base::iterator;
  using const_iterator = typename Base::const_iterator;

  LateVector() {}
  LateVector(const LateVector& other) : Base(other) {}
  LateVector(LateVector&& other) noexcept : Base(std::move(other)) {}
  LateVector& operator=(const LateVector& other) {
    Base::operator=(other);
    return *this;
  }
  LateVector& operator=(LateVector&& other) noexcept {
    Base::operator=(std::move(other));
    return *this;
  }
  ~LateVector() {}

  T& operator[](std::size_t i) { return Base::operator[](i); }
  const T& operator[](std::size_t i) const { return Base::operator[](i); }
  T& front() { return Base::front(); }
  const T& front() const { return Base::front(); }
  T& back() { return Base::back(); }
  const T& back() const { return Base::back(); }
  T* data() { return Base::data(); }
  const T* data() const { return Base::data(); }
  iterator begin() { return Base::begin(); }
  const_iterator begin() const { return Base::begin(); }
  iterator end() { return Base::end(); }
  const_iterator end() const { return Base::end(); }
  bool empty() const { return Base::empty(); }
  std::size_t size() const { return Base::size(); }
  void reserve(std::size_t count) { Base::reserve(count); }
  void clear() { Base::clear(); }
  void push_back(const T& value) { Base::push_back(value); }
  void push_back(T&& value) { Base::push_back(std::move(value)); }
  void pop_back() { Base::pop_back(); }
  iterator erase(const_iterator first) { return Base::erase(first); }
  iterator erase(const_iterator first, const_iterator last) { return Base::erase(first, last); }
  iterator insert(const_iterator where, const T& value) { return Base::insert(where, value); }
  iterator insert(const_iterator where, T&& value) { return Base::insert(where, std::move(value)); }
  template <typename It>
  iterator insert(const_iterator where, It first, It last) {
    return Base::insert(where, first, last);
  }
};

template <typename T>
bool operator==(const LateVector<T>& left, const LateVector<T>& right) {
  return static_cast<const std::vector<T>&>(left) == static_cast<const std::vector<T>&>(right);
}

}  // namespace minuet
