// Parses the names of GPU architectures, and decides which compiled code runs on which GPU. All functions are
// pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// Names the CPU in input from users and in messages to them. Inside the library, the empty string stands for
/// the CPU.
inline constexpr llvm::StringLiteral kCpuArchName = "cpu";
inline llvm::StringRef arch_name(llvm::StringRef arch) {
  return arch.empty() ? llvm::StringRef(kCpuArchName) : arch;
}

struct Arch {
  int number = 0;           ///< Is 90 for compute capability 9.0 and 120 for 12.0.
  char suffix = '\0';       ///< Is 'a' for code for only this capability, 'f' for family code, else '\0'.
  bool is_virtual = false;  ///< Is true for PTX, such as compute_90.

  int major() const { return number / 10; }
  bool operator==(const Arch&) const = default;
};

/// Parses a name such as "sm_80", "sm_90a", "sm_100f" or "compute_90". Returns std::nullopt for any other
/// text.
std::optional<Arch> parse_arch(llvm::StringRef text);
std::string format_arch(const Arch& arch);

/// Returns 90 for "sm_90" and "sm_90a", and 0 for PTX and for text that names no architecture.
int sm_number(llvm::StringRef text);

/// Returns 90 for "sm_90", "sm_90a" and the PTX name "compute_90", and 0 for text that names no architecture.
int capability(llvm::StringRef text);
/// Returns 90 for the compute capability "9.0", 120 for "12.0", and 0 for text that is none, such as that of
/// the CPU.
int capability_number(llvm::StringRef compute_capability);
/// Returns true if `arch` is the name of a PTX architecture.
inline bool is_ptx(llvm::StringRef arch) { return arch.take_front(8) == "compute_"; }

/// Returns the error for `text`, which names no architecture.
llvm::Error not_an_arch(llvm::StringRef text);

/// Returns the architectures whose compiled code can run on `target`, the best first. The name `target`
/// itself comes first, then the name without its suffix, then family code ('f'), then lower minor versions of
/// the same major version. Code with the suffix 'a' runs on one compute capability only. It is in the result
/// only if `target` has the same suffix, because the caller may run code for a target without it on another
/// capability. Tegra GPUs share their major version with other GPUs but cannot run their code, so they match
/// only exactly. The names are computed and not taken from a table, so that they cover future GPUs. Some of
/// them may belong to no existing architecture. The result is empty if `target` does not name a GPU
/// architecture such as "sm_90".
///
/// If `ptx` is true, PTX architectures follow, the highest first. The driver compiles PTX for any GPU of the
/// same or a later capability. PTX with 'a' or 'f' has the same restrictions as code with 'a' or 'f'.
std::vector<std::string> runnable_archs(llvm::StringRef target, bool ptx = false);

}  // namespace minuet
