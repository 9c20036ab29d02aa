// The file format of a bundle, shared by its reader and writer. Numbers are little-endian, without padding.
//
//   head          BundleHead
//   contents      a BundleRow for each kernel, by ascending request key
//   strings       names of architectures and compilers, each terminated by '\0'
//   dictionary    a zstd frame with bytes that many kernels share; all other frames use it as dictionary
//   tuning        tuning results; may be empty; the bundle does not interpret them
//   frames        a zstd frame of manifest and cubin for each kernel, in the order of the contents
//   digest        SHA-256 of all preceding bytes
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

// Upper limits of the numbers in a file. They bound the memory that a reader allocates.
inline constexpr std::uint32_t kMostBundleEntries = 1u << 20;
inline constexpr std::uint32_t kMostStringsBytes = 1u << 20;
inline constexpr std::uint32_t kMostDictionaryBytes = 4u << 20;
inline constexpr std::uint64_t kMostTuningBytes = 64u << 20;
inline constexpr std::uint32_t kMostManifestBytes = 4u << 20;
inline constexpr std::uint32_t kMostKernelBytes = 64u << 20;  // manifest and cubin, uncompressed

struct BundleHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t entries;
  char arch[16];  ///< the architecture of all kernels, terminated by '\0'
  std::uint64_t file_bytes;
  std::uint32_t strings_bytes;
  std::uint32_t dictionary_bytes;      ///< size of the dictionary's frame
  std::uint32_t dictionary_raw_bytes;  ///< uncompressed size of the dictionary
  std::uint32_t reserved;              ///< 0
  std::uint64_t tuning_bytes;
  char dictionary_digest[kDigestBytes];
  char tuning_digest[kDigestBytes];
  char index_digest[kDigestBytes];  ///< digest of head (with this field 0), contents and strings
};
static_assert(sizeof(BundleHead) == 160);

struct BundleRow {
  char key[32];               ///< request key
  char digest[kDigestBytes];  ///< SHA-256 of the frame
  std::uint64_t offset;       ///< offset of the frame from the start of the file
  std::uint32_t frame_bytes;
  std::uint32_t manifest_bytes;  ///< the uncompressed frame begins with the manifest
  std::uint32_t cubin_bytes;     ///< the cubin follows the manifest
  std::uint32_t arch;            ///< offset of the architecture's name in the strings
  std::uint32_t compiler;        ///< offset of the compiler id in the strings
  std::uint32_t reserved;        ///< 0
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
    // LLVM 14 returns a StringRef, LLVM 19 an array of bytes.
    const auto digest = hash_.final();
    return std::string(reinterpret_cast<const char*>(digest.data()), kDigestBytes);
  }

 private:
  llvm::SHA256 hash_;
};

inline std::string digest_of(llvm::StringRef bytes) { return BundleDigest().add(bytes).bytes(); }

/// Returns the index_digest for `index`, which is head, contents and strings.
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
