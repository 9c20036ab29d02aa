// Computes SHA-256 digests of bytes and of lists of fields, and returns them as hex digits.
#pragma once

#include <string>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace minuet {

/// Returns a digest as 64 lower-case hex digits. Accepts both the StringRef that LLVM 14 uses for a digest
/// and the byte array of LLVM 19.
template <class Digest>
std::string hex_of(const Digest& digest) {
  return llvm::toHex(llvm::StringRef(reinterpret_cast<const char*>(digest.data()), digest.size()),
                     /*LowerCase=*/true);
}

inline std::string sha256_hex(llvm::StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return hex_of(hash.final());
}

/// Computes the digest of a list of labelled fields. Lengths are hashed too, so that different lists never
/// feed the same bytes to the hash.
class FieldHasher {
 public:
  FieldHasher& add(llvm::StringRef label, llvm::StringRef value) {
    for (const llvm::StringRef text : {label, value}) {
      hash_.update(std::to_string(text.size()) + ":");
      hash_.update(text);
    }
    return *this;
  }
  /// Returns the digest of all fields added so far.
  std::string hex() { return hex_of(hash_.result()); }

 private:
  llvm::SHA256 hash_;
};

}  // namespace minuet
