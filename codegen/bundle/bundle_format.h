// The bytes of a bundle (R20), as the reader and the writer see them. Little-endian, no padding.
//
//   head          BundleHead
//   contents      BundleRow for each kernel, by ascending request key
//   strings       names of architectures and compilers, each ended by '\0'
//   dictionary    a zstd frame: bytes that many kernels share, the dictionary of all frames
//   tuning        opaque to the bundle, may be empty
//   frames        for each kernel, in the order of the contents: zstd of manifest and cubin
//   digest        SHA-256 of all bytes before it
//
// The parts follow each other without a gap, so that every byte belongs to one of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace minuet {

inline constexpr char kBundleMagic[8] = {'M', 'I', 'N', 'U', 'E', 'T', 'B', '\n'};
inline constexpr std::uint32_t kBundleFormat = 1;
inline constexpr std::size_t kDigestBytes = 32;

// What no number in a file may be greater than, for memory is taken by these numbers.
inline constexpr std::uint32_t kMostBundleEntries = 1u << 20;
inline constexpr std::uint32_t kMostStringsBytes = 1u << 20;
inline constexpr std::uint32_t kMostDictionaryBytes = 4u << 20;
inline constexpr std::uint64_t kMostTuningBytes = 64u << 20;
inline constexpr std::uint32_t kMostManifestBytes = 4u << 20;
inline constexpr std::uint32_t kMostKernelBytes = 64u << 20;  // manifest and cubin, unpacked

struct BundleHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t entries;
  char arch[16];  // of all kernels, ended by '\0'
  std::uint64_t file_bytes;
  std::uint32_t strings_bytes;
  std::uint32_t dictionary_bytes;      // of its frame
  std::uint32_t dictionary_raw_bytes;  // unpacked
  std::uint32_t reserved;              // 0
  std::uint64_t tuning_bytes;
  char dictionary_digest[kDigestBytes];
  char tuning_digest[kDigestBytes];
  char index_digest[kDigestBytes];  // of head (this field 0), contents and strings
};
static_assert(sizeof(BundleHead) == 160);

struct BundleRow {
  char key[32];               // request key
  char digest[kDigestBytes];  // SHA-256 of the frame
  std::uint64_t offset;       // of the frame, from the start of the file
  std::uint32_t frame_bytes;
  std::uint32_t manifest_bytes;  // the first of what the frame holds
  std::uint32_t cubin_bytes;     // the rest of it
  std::uint32_t arch;            // both: where the name starts in the strings
  std::uint32_t compiler;
  std::uint32_t reserved;  // 0
};
static_assert(sizeof(BundleRow) == 96);

/// SHA-256 as 32 bytes, of bytes that come in parts.
class BundleDigest {
 public:
  BundleDigest& add(llvm::StringRef bytes) {
    hash_.update(bytes);
    return *this;
  }
  std::string bytes() {
    // LLVM 14 gives a StringRef, LLVM 19 an array of bytes.
    const auto digest = hash_.final();
    return std::string(reinterpret_cast<const char*>(digest.data()), kDigestBytes);
  }

 private:
  llvm::SHA256 hash_;
};

inline std::string digest_of(llvm::StringRef bytes) { return BundleDigest().add(bytes).bytes(); }

/// Digest of head, contents and strings, which are `index`.
inline std::string index_digest(llvm::StringRef index) {
  BundleHead head;
  std::memcpy(&head, index.data(), sizeof head);
  std::memset(head.index_digest, 0, sizeof head.index_digest);
  return BundleDigest()
      .add({reinterpret_cast<const char*>(&head), sizeof head})
      .add(index.drop_front(sizeof head))
      .bytes();
}

template <std::size_t size>
llvm::StringRef bytes_of(const char (&field)[size]) {
  return {field, size};
}

}  // namespace minuet
