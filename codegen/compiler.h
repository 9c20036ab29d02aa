// The compiler interface: source -> binary. NVRTC is the one implementation; tests have another.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "codegen/error.h"

namespace minuet {

/// A compiled kernel and what is known about it without a GPU. Immutable.
struct Binary {
  std::string cubin;  // PTX where the arch is "compute_90"; then 0 below, for nobody knows before the load
  std::string display_name;
  std::string lowered_name;  // symbol of the one kernel inside
  std::string arch;          // "sm_90a"
  int registers = 0;         // per thread
  int shared_bytes = 0;      // static shared memory per block
  int local_bytes = 0;       // spills and stack per thread
  int max_threads = 0;       // per block
  int params_bytes = 0;
  std::string log;
  double compile_ms = 0;
  std::string compiler_id;  // R2
};

/// Asks work that runs elsewhere to stop soon. Thread-safe.
class CancelToken {
 public:
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

/// What became of precompiled headers in a compile that was given a folder for them.
enum class PchUse { None, Created, Used };

/// What a compile does beside its work; changes no byte of the result.
struct CompileControl {
  const CancelToken* cancel = nullptr;  // a compile that it stops is an error with code Cancelled (R17)
  std::string pch_directory;            // of precompiled headers, private to one process; empty: none (R30)
  std::string time_trace;               // file for NVRTC's own trace of this compile; empty: none (R32)
  PchUse* pch_use = nullptr;            // out, where it is asked for: never an error of the compile
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Version and build-ids (R2), part of the build key; empty where there is no compiler after all.
  virtual std::string id() const = 0;
  /// Path of the library it uses; empty where it uses none.
  virtual std::string library() const { return ""; }
  /// Digest of every header a compile may see, part of the request key. Needs no library.
  virtual std::string header_digest() const = 0;
  /// Options of a compile for `arch`, canonical, part of the request key. Needs no library.
  virtual std::vector<std::string> options(llvm::StringRef arch) const = 0;
  /// `seed`: first 16 hex digits of the request key, for --frandom-seed (R4).
  virtual llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch,
                                         llvm::StringRef seed, const CompileControl& control) = 0;
};

/// The options of every compile for `arch`, the same whatever compiler there is, or none.
std::vector<std::string> compile_options(llvm::StringRef arch);

struct NvrtcInfo {
  std::string path;     // of libnvrtc
  std::string version;  // "13.0"
  std::string id;       // as Compiler::id() has it (R2)
  std::vector<std::string> archs;
};

/// Opens libnvrtc with dlopen (builtins first). `library`: a path, or empty to look in
/// MINUET_NVRTC, the loader's path, the usual toolkit folders and the wheels of the build.
/// Unavailable, with the way to get it, where there is none. Never touches libcuda (R18).
llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library = {});
/// The same, and what is known of it.
llvm::Expected<NvrtcInfo> nvrtc_info(llvm::StringRef library = {});

}  // namespace minuet
