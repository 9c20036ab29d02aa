// Defines the file format of a bundle for its reader and its writer. Numbers are little-endian, and there is
// no padding. A bundle has these parts in this order:
//
//   head          is the BundleHead.
//   contents      is a table of contents, with a BundleRow for each kernel, by ascending request key.
//   strings       has names of architectures and compilers, each terminated by '\0'.
//   dictionary    is a zstd frame with bytes that many kernels share. All other frames use it as dictionary.
//   tuning        has tuning results or is empty. The reader and the writer do not interpret it.
//   frames        has a zstd frame of manifest and cubin for each kernel, in the order of the contents.
//   digest        is the SHA-256 of all preceding bytes.
//
// There are no gaps between the parts, so every byte of a file belongs to one of them.
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

// The following constants limit the numbers in a file, and so the memory that a reader allocates.
inline constexpr std::uint32_t kMostBundleEntries = 1u << 20;
inline constexpr std::uint32_t kMostStringsBytes = 1u << 20;
inline constexpr std::uint32_t kMostDictionaryBytes = 4u << 20;
inline constexpr std::uint64_t kMostTuningBytes = 64u << 20;
inline constexpr std::uint32_t kMostManifestBytes = 4u << 20;
// Limits the uncompressed size of a kernel's manifest and cubin together.
inline constexpr std::uint32_t kMostKernelBytes = 64u << 20;

struct BundleHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t entries;
  char arch[16];  ///< Names the architecture of all kernels and is terminated by '\0'.
  std::uint64_t file_bytes;
  std::uint32_t strings_bytes;
  std::uint32_t dictionary_bytes;      ///< Gives the compressed size of the dictionary.
  std::uint32_t dictionary_raw_bytes;  ///< Gives the uncompressed size of the dictionary.
  std::uint32_t reserved;              ///< Is always 0.
  std::uint64_t tuning_bytes;
  char dictionary_digest[kDigestBytes];
  char tuning_digest[kDigestBytes];
  /// Holds the digest of the head (with zeros in this field), the table of contents and the strings.
  char index_digest[kDigestBytes];
};
static_assert(sizeof(BundleHead) == 160);

struct BundleRow {
  char key[32];               ///< Holds the request key (keys.h) as bytes, not as hex digits.
  char digest[kDigestBytes];  ///< Holds the SHA-256 of the kernel's zstd frame.
  std::uint64_t offset;       ///< Gives the offset of the kernel's zstd frame in the file.
  std::uint32_t frame_bytes;
  std::uint32_t manifest_bytes;  ///< The decompressed zstd frame begins with a manifest of this size.
  std::uint32_t cubin_bytes;     ///< The manifest is followed by a cubin of this size.
  std::uint32_t arch;            ///< Gives the offset of the architecture's name in the bundle's strings.
  std::uint32_t compiler;        ///< Gives the offset of the compiler id in the bundle's strings.
  std::uint32_t reserved;        ///< Is always 0.
};
static_assert(sizeof(BundleRow) == 96);

/// Computes a SHA-256 digest of 32 bytes over data that is added in parts.
class BundleDigest {
 public:
  BundleDigest& add(llvm::StringRef bytes) {
    hash_.update(bytes);
    return *this;
  }
  std::string bytes() {
    // final() returns a StringRef in LLVM 14 and an array of bytes in LLVM 19.
    const auto digest = hash_.final();
    return std::string(reinterpret_cast<const char*>(digest.data()), kDigestBytes);
  }

 private:
  llvm::SHA256 hash_;
};

inline std::string digest_of(llvm::StringRef bytes) { return BundleDigest().add(bytes).bytes(); }

/// Returns the value of BundleHead::index_digest for `index`, which contains the head, the table of contents
/// and the strings.
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
