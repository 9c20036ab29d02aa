// Finds and opens libnvrtc, its builtins first, never at load time (R18). Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

/// Where to look. The environment comes in from outside, so that tests need not change their own.
struct NvrtcPlaces {
  std::string library;                                  // a path from the caller, or empty
  std::function<std::string(const char*)> environment;  // "" for what is not set
  std::string own_folder;                               // of the library or program this code is in
  std::vector<std::string> others;                      // paths to try after all else
};

/// Paths and bare names for dlopen, in order: CUDA 13's by the loader, of toolkits, of wheels; then so CUDA
/// 12's. A path of the caller or of MINUET_NVRTC stands alone: who names a compiler wants that one or an
/// error.
std::vector<std::string> nvrtc_candidates(const NvrtcPlaces& places);

/// The places of this process.
NvrtcPlaces this_process(llvm::StringRef library, const std::vector<std::string>& others);

/// An open libnvrtc. Never closed: NVRTC has threads and state that outlive any one user.
struct NvrtcLibrary {
  void* handle = nullptr;
  std::string path;
  void* symbol(const char* name) const;
  /// As hex digits, read from memory: the file under `path` may be another one by now. Of a library without
  /// one, a digest of what the loader did not write to.
  std::string build_id() const;
};

/// Opens one candidate; where it does not load, the loader's reason goes to the end of `tried`.
std::optional<NvrtcLibrary> open_nvrtc_library(const std::string& candidate, std::string& tried);

/// Paths of what is loaded into this process already under the names that are looked for. Runs nothing of it.
std::vector<std::string> loaded_nvrtcs();

/// Unavailable: how to get a libnvrtc, and why none of those that were tried will do.
llvm::Error nvrtc_not_found(const NvrtcPlaces& places, const std::string& tried);

/// Opens the builtins of `version` ("13.0"): the ones beside `library`, else the loader's.
llvm::Expected<NvrtcLibrary> open_builtins(const NvrtcLibrary& library, llvm::StringRef version);

}  // namespace minuet
