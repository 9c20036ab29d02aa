// SHA-256 in hex, of bytes and of fields.
#pragma once

#include <string>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace minuet {

/// 64 lower-case hex digits of either LLVM's digest: a StringRef (14) or an array of bytes (19).
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

/// Of fields whose lengths go in too, so that no two lists of fields read the same.
class FieldHasher {
 public:
  FieldHasher& add(llvm::StringRef label, llvm::StringRef value) {
    for (const llvm::StringRef text : {label, value}) {
      hash_.update(std::to_string(text.size()) + ":");
      hash_.update(text);
    }
    return *this;
  }
  /// Of what was added so far.
  std::string hex() { return hex_of(hash_.result()); }

 private:
  llvm::SHA256 hash_;
};

}  // namespace minuet
