// Checks of a struct with a struct_size, as callers of every age hand it over.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/network_abi.h"

namespace minuet::abi {

inline constexpr unsigned char kGarbage = 0xa5;

/// What a call answers: its status and the message.
struct Answer {
  minuet_status status;
  std::string message;
  bool operator==(const Answer&) const = default;
};
inline Answer answer_of(minuet_status status) { return {status, status == MINUET_OK ? "" : last_error()}; }
inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << minuet_status_name(answer.status) << ": " << answer.message;
}

/// Memory of just `bytes` bytes, so that AddressSanitizer sees what is touched behind them.
struct Exactly {
  explicit Exactly(size_t bytes) : memory(static_cast<unsigned char*>(std::malloc(bytes)), std::free) {}
  std::unique_ptr<unsigned char, void (*)(void*)> memory;
};

inline void set_struct_size(unsigned char* memory, size_t size) { std::memcpy(memory, &size, sizeof(size)); }

/// `given` with other values than the defaults. A caller who knows the first `size` bytes gets the same
/// answer as one who knows all and leaves the rest 0, whatever lies behind.
template <class Options>
void check_options(const Options& given, const Options& defaults,
                   const std::function<minuet_status(const Options*)>& call) {
  Options zeroed;
  std::memset(&zeroed, 0, sizeof(zeroed));
  zeroed.struct_size = sizeof(zeroed);
  EXPECT_EQ(answer_of(call(&zeroed)), answer_of(call(&defaults)));  // abi_defaults_test.cc says more
  std::set<std::string> answers;
  for (size_t size = 2 * sizeof(size_t); size <= sizeof(Options); size += alignof(Options)) {
    Options newest = zeroed;
    std::memcpy(&newest, &given, size);
    newest.struct_size = sizeof(Options);
    const Answer expected = answer_of(call(&newest));
    answers.insert(expected.message);
    std::vector<unsigned char> memory(sizeof(Options) + 64, kGarbage);
    std::memcpy(memory.data(), &given, size);
    set_struct_size(memory.data(), size);
    EXPECT_EQ(answer_of(call(reinterpret_cast<const Options*>(memory.data()))), expected) << size;
    const Exactly exact(size);
    std::memcpy(exact.memory.get(), memory.data(), size);
    EXPECT_EQ(answer_of(call(reinterpret_cast<const Options*>(exact.memory.get()))), expected) << size;
  }
  EXPECT_GT(answers.size(), 1u) << "the call tells fields apart";
  std::vector<unsigned char> newer(sizeof(Options) + 8, 0);
  std::memcpy(newer.data(), &given, sizeof(Options));
  set_struct_size(newer.data(), newer.size());
  const auto* const larger = reinterpret_cast<const Options*>(newer.data());
  const Answer expected = answer_of(call(&given));
  EXPECT_EQ(answer_of(call(larger)), expected) << "fields of a newer caller that are 0";
  for (const size_t place : {sizeof(Options), sizeof(Options) + 7}) {
    newer[place] = 1;
    EXPECT_EQ(call(larger), MINUET_INVALID_ARGUMENT) << place;
    EXPECT_THAT(last_error(), testing::HasSubstr("newer version"));
    newer[place] = 0;
  }
}

/// A caller may know the first `size` bytes of a struct: these are filled in and no other byte is touched.
template <class Info>
void check_info(const std::function<minuet_status(Info*)>& call) {
  Info whole;
  std::memset(&whole, 0, sizeof(whole));
  whole.struct_size = sizeof(whole);
  check(call(&whole));
  EXPECT_EQ(whole.struct_size, sizeof(whole));
  for (size_t size = sizeof(size_t); size <= sizeof(Info) + 8; size += 4) {
    const size_t filled = std::min(size, sizeof(Info));
    std::vector<unsigned char> memory(sizeof(Info) + 64, kGarbage);
    set_struct_size(memory.data(), size);
    check(call(reinterpret_cast<Info*>(memory.data())));
    std::vector<unsigned char> expected(memory.size(), kGarbage);
    std::memcpy(expected.data(), &whole, filled);
    set_struct_size(expected.data(), filled);
    EXPECT_EQ(memory, expected) << size;
    const Exactly exact(size);
    set_struct_size(exact.memory.get(), size);
    check(call(reinterpret_cast<Info*>(exact.memory.get())));
  }
  for (const size_t size : {size_t{0}, sizeof(size_t) - 1}) {
    std::vector<unsigned char> memory(sizeof(Info), kGarbage);
    set_struct_size(memory.data(), size);
    const std::vector<unsigned char> before = memory;
    EXPECT_EQ(call(reinterpret_cast<Info*>(memory.data())), MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(memory, before);
  }
}

}  // namespace minuet::abi
