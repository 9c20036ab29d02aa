// Names of GPU architectures, and which compiled code may serve which GPU (R23). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// The name by which users know the CPU's architecture. Inside, it is the empty text.
inline constexpr llvm::StringLiteral kCpuArchName = "cpu";
inline llvm::StringRef arch_name(llvm::StringRef arch) {
  return arch.empty() ? llvm::StringRef(kCpuArchName) : arch;
}

struct Arch {
  int number = 0;           // 90 for compute capability 9.0, 120 for 12.0
  char suffix = '\0';       // 'a': this capability only; 'f': its family; none
  bool is_virtual = false;  // compute_90: PTX

  int major() const { return number / 10; }
  bool operator==(const Arch&) const = default;
};

/// "sm_80", "sm_90a", "sm_100f", "compute_90"; nothing of any other text.
std::optional<Arch> parse_arch(llvm::StringRef text);
std::string format_arch(const Arch& arch);

/// 90 of "sm_90" and "sm_90a"; 0 of what names no architecture, PTX among it.
int sm_number(llvm::StringRef text);

/// The same, and 90 of "compute_90", PTX, too.
int capability(llvm::StringRef text);
/// Whether an architecture is one of PTX.
inline bool is_ptx(llvm::StringRef arch) { return arch.take_front(8) == "compute_"; }

/// Returns the error for a text that names no architecture.
llvm::Error not_an_arch(llvm::StringRef text);

/// Architectures whose compiled code may serve a request for `target`, best first: exact with 'a',
/// exact, family ('f'), then lower minors of the same major. Code with 'a' serves nothing but a target
/// with the same 'a': without it, the caller may run the code on another capability. Tegra GPUs share
/// their major with others and no code, so they serve and are served by themselves alone. Not all
/// names that are given exist, for no list here would know the next GPU. Empty where `target` is no arch.
/// With `ptx`, for who opted in: behind all code PTX, which the driver compiles for any GPU of its own or
/// a later capability, the highest first; that with 'a' or 'f' is bound as code with 'a' or 'f' is.
std::vector<std::string> runnable_archs(llvm::StringRef target, bool ptx = false);

}  // namespace minuet
