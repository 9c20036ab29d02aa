// The bundles of a process, and which of their kernels may be used (R21, R24). Thread-safe.
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

/// Whose kernels are taken from a bundle.
enum class BundlePolicy {
  SameMajor,  // of a compiler whose CUDA major is the host's or older
  Any,
};

/// A bundle, or a folder: every *.bundle in it, by name.
struct BundlePlace {
  std::string path;
  std::string sha256;  // of the whole file, 64 hex digits; empty: not pinned. Not for a folder
};

struct BundleOptions {
  std::vector<BundlePlace> places;
  std::string search_path;     // files and folders with colons between them (MINUET_BUNDLE_PATH)
  std::string library_folder;  // minuet-*.bundle in it come last; empty: none
  BundlePolicy policy = BundlePolicy::SameMajor;
  bool ptx = false;                              // PTX too, where there is no code (R23)
  TrustPolicy trust;                             // whose files are taken, but for those with a digest (R20)
  int cuda_major = 13;                           // of the host: README.md says why it is no driver's
  std::function<void(const std::string&)> warn;  // may be called from any thread
};

class BundleSet {
 public:
  /// Opens what is there. A bundle that is not there, is damaged or is not the pinned one is left out with
  /// a warning; the others work.
  explicit BundleSet(BundleOptions options);

  /// One more file, asked before all others from now on. An error, and nothing is added, where it is no
  /// bundle, not the pinned one, or without a digest somebody's who is not trusted.
  llvm::Error add(const BundlePlace& place);

  /// The kernel from the best arch that runs on the request's (codegen/base/arch.h), of these from the first
  /// bundle. On a miss `why_not` gets the reason in words.
  std::optional<Entry> find(const KernelRequest& request, std::string* why_not = nullptr) const;

  /// For a kernel that the driver refused (R28): not given again in this process.
  void reject(const std::string& request_key);

  using BundleList = std::vector<std::shared_ptr<const Bundle>>;
  BundleList bundles() const;

 private:
  void open_place(const BundlePlace& place, BundleList& opened);
  /// Whether there are bundles, good or bad.
  bool open_folder(const std::string& folder, llvm::StringRef prefix, BundleList& opened);
  void open_file(const BundlePlace& place, BundleList& opened);
  llvm::Expected<std::shared_ptr<const Bundle>> open_bundle(const BundlePlace& place) const;
  /// Empty where the policy takes a kernel of `compiler_id`, else why not.
  std::string refusal(llvm::StringRef compiler_id) const;
  std::optional<Entry> find_in(const Bundle& bundle, const std::string& key, llvm::StringRef name_expression,
                               std::string& why_not) const;
  void warn(const std::string& text) const;

  const BundleOptions options_;
  PushList<std::shared_ptr<const Bundle>> bundles_;
  PushList<std::string> rejected_;                                   // request keys
  mutable PushList<std::pair<const Bundle*, std::string>> damaged_;  // and request key
};

}  // namespace minuet
