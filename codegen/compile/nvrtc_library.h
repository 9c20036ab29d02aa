// Finds libnvrtc and its builtins and opens them with dlopen, never at load time. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

/// The places to search. The environment is a parameter, so that tests need not change their own.
struct NvrtcPlaces {
  std::string library;                                  // a path from the caller, or empty
  std::function<std::string(const char*)> environment;  // returns "" for a variable that is not set
  std::string own_folder;                               // folder of the library or program with this code
  std::vector<std::string> others;                      // paths to try last
};

/// Returns paths and bare names for dlopen in order: CUDA 13 from the loader, toolkits and wheels, then CUDA
/// 12 in the same way. A path from the caller or from MINUET_NVRTC is the only candidate: a named compiler is
/// used or is an error.
std::vector<std::string> nvrtc_candidates(const NvrtcPlaces& places);

/// Returns the places of this process.
NvrtcPlaces this_process(llvm::StringRef library, const std::vector<std::string>& others);

/// An open libnvrtc. It is never closed, because NVRTC has threads and state that outlive each user.
struct NvrtcLibrary {
  void* handle = nullptr;
  std::string path;
  void* symbol(const char* name) const;
  /// Returns the build id in hex digits. It is read from memory, because the file under `path` may have been
  /// replaced. If there is none, returns a digest of the read-only segments.
  std::string build_id() const;
};

/// Opens one candidate. If it does not load, appends the loader's reason to `tried`.
std::optional<NvrtcLibrary> open_nvrtc_library(const std::string& candidate, std::string& tried);

/// Returns the paths of the libnvrtc that this process has already loaded. Runs none of their code.
std::vector<std::string> loaded_nvrtcs();

/// Returns Unavailable with the way to get libnvrtc and the reasons why the tried ones do not work.
llvm::Error nvrtc_not_found(const NvrtcPlaces& places, const std::string& tried);

/// Opens the builtins of `version` ("13.0") beside `library`, or else those that the loader finds.
llvm::Expected<NvrtcLibrary> open_builtins(const NvrtcLibrary& library, llvm::StringRef version);

}  // namespace minuet
