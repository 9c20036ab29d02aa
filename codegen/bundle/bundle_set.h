// The open bundles of a process, and the rules that decide which of their kernels are used. Thread-safe.
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

namespace minuet {

/// Decides by its compiler whether a kernel of a bundle is used.
enum class BundlePolicy {
  SameMajor,  ///< only if the compiler's CUDA major version is that of the host or older
  Any,
};

/// A bundle file, or a folder that stands for all *.bundle files in it, in order of their names.
struct BundlePlace {
  std::string path;
  std::string sha256;  ///< required digest of the file, 64 hex digits; empty: any; not for folders
};

struct BundleOptions {
  std::vector<BundlePlace> places;
  std::string search_path;     ///< files and folders separated by colons (MINUET_BUNDLE_PATH)
  std::string library_folder;  ///< its minuet-*.bundle files are searched last; empty: none
  BundlePolicy policy = BundlePolicy::SameMajor;
  bool ptx = false;                              ///< true: use PTX if no bundle has compiled code
  TrustPolicy trust;                             ///< accepted owners and modes of files without a digest
  int cuda_major = 13;                           ///< the host's; README.md says why it is not the driver's
  std::function<void(const std::string&)> warn;  ///< may be called from any thread
};

class BundleSet {
 public:
  /// Opens all bundles. Warns about a bundle that is missing, damaged or not trusted, or that does not have
  /// the required digest, and continues without it.
  explicit BundleSet(BundleOptions options);

  /// Adds a bundle that is searched before all others. Returns an error and adds nothing if the file is not a
  /// bundle, does not have the required digest, or is not trusted and has no required digest.
  llvm::Error add(const BundlePlace& place);

  /// Returns the kernel for the best architecture that runs on the requested one (see runnable_archs), from
  /// the first bundle that has it. On a miss, stores the reason in `why_not` unless that is null.
  std::optional<Entry> find(const KernelRequest& request, std::string* why_not = nullptr) const;

  /// Excludes a kernel that the driver refused to load from later searches of this process.
  void reject(const std::string& request_key);

  using BundleList = std::vector<std::shared_ptr<const Bundle>>;
  BundleList bundles() const;

 private:
  void open_place(const BundlePlace& place, BundleList& opened);
  /// Opens the bundles of a folder. Returns true if it has any *.bundle files, even if none can be used.
  bool open_folder(const std::string& folder, llvm::StringRef prefix, BundleList& opened);
  void open_file(const BundlePlace& place, BundleList& opened);
  llvm::Expected<std::shared_ptr<const Bundle>> open_bundle(const BundlePlace& place) const;
  /// Returns an empty string if the policy accepts kernels of `compiler_id`, else the reason.
  std::string refusal(llvm::StringRef compiler_id) const;
  std::optional<Entry> find_in(const Bundle& bundle, const std::string& key, llvm::StringRef name_expression,
                               std::string& why_not) const;
  void warn(const std::string& text) const;

  const BundleOptions options_;
  PushList<std::shared_ptr<const Bundle>> bundles_;
  PushList<std::string> rejected_;                                   ///< request keys
  mutable PushList<std::pair<const Bundle*, std::string>> damaged_;  ///< bundle and request key
};

}  // namespace minuet
