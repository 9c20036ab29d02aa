// Finds libnvrtc and its builtins and opens them with dlopen when they are needed, and not when the program
// is loaded. All functions are thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

/// Holds the places where libnvrtc is searched for. The environment is a parameter, so that tests need not
/// change their own.
struct NvrtcPlaces {
  std::string library;                                  // Holds a path from the caller, or is empty.
  std::function<std::string(const char*)> environment;  // Reads a variable, or returns "" if it is not set.
  /// Holds the folder of the library or program that contains this code.
  std::string own_folder;
  std::vector<std::string> others;  // Holds paths of libraries, which are tried last.
};

/// Returns paths and bare names for dlopen in the order in which they are tried. CUDA 13 from the loader,
/// toolkits and wheels comes before CUDA 12 from the same places, and `others` come last. If the caller or
/// MINUET_NVRTC names a path, only that path is returned, because a compiler that is named must be used or
/// give an error.
std::vector<std::string> nvrtc_candidates(const NvrtcPlaces& places);

/// Returns the places that this process searches for libnvrtc, which include both parameters.
NvrtcPlaces this_process(llvm::StringRef library, const std::vector<std::string>& others);

/// Represents an open libnvrtc or its builtins. It is never closed, because NVRTC has threads and state that
/// outlive each user.
struct NvrtcLibrary {
  void* handle = nullptr;
  std::string path;
  void* symbol(const char* name) const;
  /// Returns the build id in hex digits, or a digest of the read-only segments if there is no build id. Both
  /// are read from memory, because the file under `path` may have been replaced.
  std::string build_id() const;
};

/// Opens one of nvrtc_candidates(). If it does not load, returns nothing and appends the loader's reason to
/// `tried`.
std::optional<NvrtcLibrary> open_nvrtc_library(const std::string& candidate, std::string& tried);

/// Returns the path of each libnvrtc that this process has already loaded, without running code of these
/// libraries.
std::vector<std::string> loaded_nvrtcs();

/// Returns the Unavailable error that says how to get libnvrtc. `tried` has the reasons why the libraries
/// that were tried do not work.
llvm::Error nvrtc_not_found(const NvrtcPlaces& places, const std::string& tried);

/// Opens the builtins of `version`, such as "13.0", beside `library`, or else those that the loader finds.
llvm::Expected<NvrtcLibrary> open_builtins(const NvrtcLibrary& library, llvm::StringRef version);

}  // namespace minuet
