// Names of GPU architectures, and which compiled code runs on which GPU. All functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// The name of the CPU's architecture for users. The library represents it by the empty string.
inline constexpr llvm::StringLiteral kCpuArchName = "cpu";
inline llvm::StringRef arch_name(llvm::StringRef arch) {
  return arch.empty() ? llvm::StringRef(kCpuArchName) : arch;
}

struct Arch {
  int number = 0;           ///< 90 for compute capability 9.0, 120 for 12.0
  char suffix = '\0';       ///< 'a': this capability only; 'f': its family; '\0': none
  bool is_virtual = false;  ///< true for PTX, such as compute_90

  int major() const { return number / 10; }
  bool operator==(const Arch&) const = default;
};

/// Parses a name such as "sm_80", "sm_90a", "sm_100f" or "compute_90". Returns nothing for any other text.
std::optional<Arch> parse_arch(llvm::StringRef text);
std::string format_arch(const Arch& arch);

/// Returns 90 for "sm_90" and "sm_90a", and 0 for PTX and for text that names no architecture.
int sm_number(llvm::StringRef text);

/// Returns 90 for "sm_90", "sm_90a" and the PTX name "compute_90", and 0 for text that names no architecture.
int capability(llvm::StringRef text);
/// Returns true if `arch` is the name of a PTX architecture.
inline bool is_ptx(llvm::StringRef arch) { return arch.take_front(8) == "compute_"; }

/// Returns the error for text that names no architecture.
llvm::Error not_an_arch(llvm::StringRef text);

/// Returns the architectures whose compiled code can serve a request for `target`, best first: exact with
/// 'a', exact, family ('f'), then lower minors of the same major. Code with 'a' serves only a target with the
/// same 'a', because the caller may run code for a target without it on another capability. Tegra GPUs share
/// their major with other GPUs but cannot share code with them, so they match only exactly. The result is
/// computed and not looked up, so that it covers future GPUs, and may contain names that do not exist. It is
/// empty if `target` is not an architecture with compiled code.
/// With `ptx`, PTX architectures follow, the highest first. The driver compiles PTX for any GPU of the same
/// or a later capability; PTX with 'a' or 'f' has the same restrictions as code with 'a' or 'f'.
std::vector<std::string> runnable_archs(llvm::StringRef target, bool ptx = false);

}  // namespace minuet
