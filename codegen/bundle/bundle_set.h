// Holds the open bundles of a process, and decides which of their kernels are used. All functions are
// thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/base/push_list.h"
#include "codegen/bundle/bundle.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Selects the kernels of a bundle that may be used, according to the compiler that made them.
enum class BundlePolicy {
  /// Accepts a kernel only if the CUDA major version of its compiler is at most BundleOptions::cuda_major.
  SameMajor,
  Any,
};

/// Names a bundle file, or a folder that stands for all *.bundle files in it, in the order of their names.
struct BundlePlace {
  std::string path;
  /// Holds the SHA-256 digest that the file must have, as 64 hex digits. If it is empty, any digest is
  /// accepted. A folder must not have one.
  std::string sha256;
};

/// Names a bundle in memory.
struct BundleBytes {
  llvm::StringRef bytes;
  llvm::StringRef sha256;  ///< Holds the digest that they must have, as that of a BundlePlace.
};

struct BundleOptions {
  std::vector<BundlePlace> places;
  std::string search_path;  ///< Lists files and folders, separated by colons (MINUET_BUNDLE_PATH).
  /// Names a folder whose minuet-*.bundle files are searched last. If it is empty, no such folder is
  /// searched.
  std::string library_folder;
  BundlePolicy policy = BundlePolicy::SameMajor;
  bool ptx = false;   ///< Allows the use of PTX for a kernel that no bundle has as a cubin.
  TrustPolicy trust;  ///< Decides which owners and modes are accepted for files without a required digest.
  /// Stands for the CUDA major version of this machine. It is a constant, because bundles are searched
  /// without a driver, and the library needs a driver of CUDA 13 or later.
  int cuda_major = 13;
  std::function<void(const std::string&)> warn;  ///< Is called with each warning, from any thread.
};

class BundleSet {
 public:
  /// Opens all bundles of `options`. Warns about a bundle that is missing, damaged or not trusted, or that
  /// does not have the digest that its BundlePlace requires, and continues without it.
  explicit BundleSet(BundleOptions options);

  /// Adds a bundle that is searched before all others. Returns an error and adds nothing if the file is not a
  /// bundle, does not have the digest place.sha256 or, if that is empty, is not trusted.
  llvm::Error add(const BundlePlace& place);
  /// Adds copies of bundles that are in memory, and otherwise does the same as add(). A bundle is left out if
  /// one with the same bytes was added from memory before. Returns an error and adds none if one of them
  /// cannot be used. The bytes come from the process itself, so they have no owner or mode that could be
  /// checked.
  llvm::Error add_memory(llvm::ArrayRef<BundleBytes> given);

  /// Returns the kernel compiled for the best architecture whose code runs on the requested one (see
  /// runnable_archs), from the first bundle that has it. If there is none, stores the reason in `why_not`
  /// unless that is null.
  std::optional<Entry> find(const KernelRequest& request, std::string* why_not = nullptr) const;

  /// Excludes from later searches of this process a kernel that the driver refused to load.
  void reject(const std::string& request_key);

  using BundleList = std::vector<std::shared_ptr<const Bundle>>;
  BundleList bundles() const;

 private:
  void open_place(const BundlePlace& place, BundleList& opened);
  /// Opens the bundles of a folder. Returns true if the folder has any *.bundle files, even if none can be
  /// used.
  bool open_folder(const std::string& folder, llvm::StringRef prefix, BundleList& opened);
  void open_file(const BundlePlace& place, BundleList& opened);
  llvm::Expected<std::shared_ptr<const Bundle>> open_bundle(const BundlePlace& place) const;
  /// Returns an empty string if the policy accepts kernels of `compiler_id`, and otherwise the reason why it
  /// does not.
  std::string refusal(llvm::StringRef compiler_id) const;
  std::optional<Entry> find_in(const Bundle& bundle, const std::string& key, llvm::StringRef name_expression,
                               std::string& why_not) const;
  void warn(const std::string& text) const;

  struct Added {
    std::shared_ptr<const Bundle> bundle;
    std::string sha256;  ///< Holds the digest of a bundle in memory. It is empty for a file.
    /// Returns true if both are in memory and have the same bytes.
    bool operator==(const Added& other) const { return !sha256.empty() && sha256 == other.sha256; }
  };

  const BundleOptions options_;
  PushList<Added> bundles_;
  /// Holds the request keys that were passed to reject().
  PushList<std::string> rejected_;
  /// Holds the damaged kernels that were found, each as a bundle and a request key.
  mutable PushList<std::pair<const Bundle*, std::string>> damaged_;
};

}  // namespace minuet
