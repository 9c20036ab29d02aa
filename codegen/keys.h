// Names of requests and builds (R1): SHA-256 over labelled, length-prefixed fields. Pure.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace minuet {

/// SHA-256 over fields whose lengths go in too, so that no two lists of fields read the same.
class FieldHasher {
 public:
  FieldHasher& add(llvm::StringRef label, llvm::StringRef value);
  /// 64 lower-case hex digits of what was added so far.
  std::string hex();

 private:
  llvm::SHA256 hash_;
};

/// 64 lower-case hex digits.
std::string sha256_hex(llvm::StringRef bytes);

/// The options of every compile for `arch`, whatever compiler there is; a source may have more.
std::vector<std::string> compile_options(llvm::StringRef arch);

/// Changed when the meaning of a key or of an entry changes.
constexpr int kKeySchema = 1;

/// RK: everything that decides what is compiled, and nothing of the machine it is compiled on.
/// `options`: what every kernel has, in front of the source's own. Those that cannot change the code (the
/// seed, NVRTC's own cache, PCH, traces) are left out.
std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch);

/// BK: a request as one compiler answers it.
std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id);

}  // namespace minuet
