// Defines the packed form of embedded headers, which the build tool embed_headers writes and the library
// reads.
//
// A blob is the size of the raw bytes (u64) and one zstd frame, which holds the raw bytes. The raw bytes are,
// for each header, the lengths of its name and text (u64 each), the name and the text. The name and the text
// are each followed by a NUL, because NVRTC requires C strings.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace minuet {

constexpr std::size_t kBlobPrefixSize = sizeof(std::uint64_t);

struct Header {
  /// Holds the name as an include directive has it. In memory, both the name and the text are followed by a
  /// NUL.
  llvm::StringRef name;
  llvm::StringRef text;
};

inline void append_header(std::string& raw, llvm::StringRef name, llvm::StringRef text) {
  const std::uint64_t sizes[2] = {name.size(), text.size()};
  raw.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
  raw.append(name.data(), name.size()).push_back('\0');
  raw.append(text.data(), text.size()).push_back('\0');
}

/// Returns the headers as views into `raw`, which append_header() wrote.
inline std::vector<Header> split_headers(llvm::StringRef raw) {
  std::vector<Header> headers;
  std::uint64_t sizes[2];
  while (raw.size() >= sizeof sizes) {
    std::memcpy(sizes, raw.data(), sizeof sizes);
    raw = raw.drop_front(sizeof sizes);
    headers.push_back({raw.substr(0, sizes[0]), raw.substr(sizes[0] + 1, sizes[1])});
    raw = raw.drop_front(sizes[0] + sizes[1] + 2);
  }
  return headers;
}

/// Returns the names between <> or "" in the #include lines of `text`, without regard to #if.
inline std::vector<std::string> included_names(llvm::StringRef text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const auto [line, rest] = text.split('\n');
    text = rest;
    llvm::StringRef words = line.ltrim(" \t");
    if (words.empty() || words.front() != '#') continue;
    words = words.drop_front().ltrim(" \t");
    if (words.take_front(7) != "include") continue;
    words = words.drop_front(7).ltrim(" \t");
    if (words.empty() || (words.front() != '<' && words.front() != '"')) continue;
    const std::size_t end = words.find(words.front() == '<' ? '>' : '"', 1);
    if (end != llvm::StringRef::npos) names.push_back(words.slice(1, end).str());
  }
  return names;
}

}  // namespace minuet
