// Files made in a test and broken on purpose.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tests/tools/folder.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// What the files of tests of readers hold.
inline const std::vector<Point> kPoints = {{1.5f, -2.0f, 3.0f, 0.25f}, {4.0f, 5.0f, -6.5f, 1.0f}};

using Reader = std::function<llvm::Expected<Cloud>(llvm::StringRef)>;

/// `value` as it lies in a file.
template <class T>
std::string packed(T value, bool big_endian = false) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return big_endian ? std::string(bytes.rbegin(), bytes.rend()) : bytes;
}

/// The text with every `from` as `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The points, or a failed test.
inline std::vector<Point> points_of(llvm::Expected<Cloud> cloud) {
  if (cloud) return cloud->points;
  ADD_FAILURE() << llvm::toString(cloud.takeError());
  return {};
}

/// The bytes in memory of their own, so that AddressSanitizer sees a read past the end.
inline llvm::Expected<Cloud> read_exactly(const Reader& read, const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return read(llvm::StringRef(exact.data(), exact.size()));
}

/// Every file shorter than `least` bytes is refused in one sentence.
inline void expect_truncations_refused(const Reader& read, const std::string& file, size_t least) {
  for (size_t length = 0; length < least; ++length) {
    const std::string error = error_of(read_exactly(read, file.substr(0, length)));
    EXPECT_FALSE(error.empty()) << "a file of " << length << " of " << file.size() << " bytes was read";
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

/// Files with random bytes changed are read or refused, and nothing else happens.
inline void expect_no_crash_when_mutated(const Reader& read, const std::string& file) {
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = file;
    for (unsigned change = 0; change <= random() % 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 2 ? random() % 256 : '0' + random() % 10);
    }
    llvm::Expected<Cloud> cloud = read_exactly(read, bytes);
    if (!cloud) {
      EXPECT_FALSE(llvm::toString(cloud.takeError()).empty());
    }
  }
}

}  // namespace minuet::tool
