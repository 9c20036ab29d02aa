#include "codegen/bundle/bundle_set.h"

#include <dirent.h>

#include <algorithm>

#include "codegen/base/arch.h"
#include "codegen/base/sha256.h"
#include "codegen/compile/nvrtc_library.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

namespace minuet {
namespace {

/// Returns 13 for "nvrtc 13.0 <build-id> <build-id>", and 0 if the text does not have this form.
int cuda_major(llvm::StringRef compiler_id) {
  unsigned major = 0;
  llvm::StringRef version = compiler_id.split(' ').second;
  return version.consumeInteger(10, major) ? 0 : static_cast<int>(std::min(major, 1000u));
}

bool has_affixes(llvm::StringRef name, llvm::StringRef prefix, llvm::StringRef suffix) {
  return name.size() >= prefix.size() + suffix.size() && name.take_front(prefix.size()) == prefix &&
         name.take_back(suffix.size()) == suffix;
}

/// Returns the bundles of a folder, sorted by name so that the order does not depend on the file system.
std::vector<std::string> bundle_files(const std::string& folder, llvm::StringRef prefix) {
  std::vector<std::string> files;
  if (DIR* const directory = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(directory)) {
      if (has_affixes(entry->d_name, prefix, ".bundle")) files.push_back(folder + "/" + entry->d_name);
    }
    ::closedir(directory);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns FailedPrecondition if `sha256` is not empty and is not `digest`, the digest of the whole bundle.
llvm::Error check_digest(const Bundle& bundle, llvm::StringRef digest, llvm::StringRef sha256) {
  if (sha256.empty() || sha256.lower() == digest) return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "{0}: its SHA-256 is {1}, but {2} was expected: give the right bundle, or correct the digest",
      bundle.name(), digest, sha256);
}

}  // namespace

BundleSet::BundleSet(BundleOptions options) : options_(std::move(options)) {
  BundleList opened;
  for (const BundlePlace& place : options_.places) open_place(place, opened);
  llvm::SmallVector<llvm::StringRef, 8> paths;
  llvm::StringRef(options_.search_path).split(paths, ':', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef path : paths) open_place({path.str(), ""}, opened);
  if (!options_.library_folder.empty()) open_folder(options_.library_folder, "minuet-", opened);
  for (auto bundle = opened.rbegin(); bundle != opened.rend(); ++bundle)
    bundles_.push({std::move(*bundle), ""});
}

void BundleSet::warn(const std::string& text) const {
  if (options_.warn) options_.warn(text);
}

void BundleSet::open_place(const BundlePlace& place, BundleList& opened) {
  if (!llvm::sys::fs::is_directory(place.path)) return open_file(place, opened);
  if (place.sha256.empty()) {
    if (open_folder(place.path, "", opened)) return;
    return warn("the bundle " + place.path +
                " is not used: it is a folder without any *.bundle file; name a folder that has one");
  }
  warn("the bundle " + place.path +
       " is not used: it is a folder, but the given digest is that of one file; name that file");
}

bool BundleSet::open_folder(const std::string& folder, llvm::StringRef prefix, BundleList& opened) {
  const std::vector<std::string> files = bundle_files(folder, prefix);
  for (const std::string& file : files) open_file({file, ""}, opened);
  return !files.empty();
}

llvm::Expected<std::shared_ptr<const Bundle>> BundleSet::open_bundle(const BundlePlace& place) const {
  // A required digest replaces the check of owner and mode. It covers the table of contents, against which
  // all later reads of the file are checked.
  const bool is_pinned = !place.sha256.empty();
  MINUET_ASSIGN(std::unique_ptr<Bundle> bundle,
                Bundle::open(place.path, is_pinned ? nullptr : &options_.trust));
  if (!is_pinned) return bundle;
  MINUET_ASSIGN(const std::string digest, bundle->file_sha256());
  MINUET_TRY(check_digest(*bundle, digest, place.sha256));
  return bundle;
}

llvm::Error BundleSet::add(const BundlePlace& place) {
  MINUET_ASSIGN(std::shared_ptr<const Bundle> bundle, open_bundle(place));
  bundles_.push({std::move(bundle), ""});
  return llvm::Error::success();
}

llvm::Error BundleSet::add_memory(llvm::ArrayRef<BundleBytes> given) {
  std::vector<Added> opened;
  for (const BundleBytes& of : given) {
    MINUET_ASSIGN(std::shared_ptr<const Bundle> bundle, Bundle::open_memory(of.bytes));
    std::string digest = sha256_hex(of.bytes);
    MINUET_TRY(check_digest(*bundle, digest, of.sha256));
    opened.push_back({std::move(bundle), std::move(digest)});
  }
  for (Added& bundle : opened) bundles_.insert(std::move(bundle));
  return llvm::Error::success();
}

BundleSet::BundleList BundleSet::bundles() const {
  BundleList list;
  bundles_.for_each([&](const Added& added) { list.push_back(added.bundle); });
  return list;
}

void BundleSet::open_file(const BundlePlace& place, BundleList& opened) {
  llvm::Expected<std::shared_ptr<const Bundle>> bundle = open_bundle(place);
  if (bundle) {
    opened.push_back(std::move(*bundle));
  } else {
    warn("the bundle " + place.path + " is not used: " + take_status(bundle.takeError()).message());
  }
}

std::string BundleSet::refusal(llvm::StringRef compiler_id) const {
  if (options_.policy == BundlePolicy::Any) return "";
  const int major = cuda_major(compiler_id);
  if (major > 0 && major <= options_.cuda_major) return "";
  return ("its compiler, " + compiler_id + ", is not from CUDA ").str() +
         std::to_string(options_.cuda_major) + " or older";
}

std::optional<Entry> BundleSet::find_in(const Bundle& bundle, const std::string& key,
                                        llvm::StringRef name_expression, std::string& why_not) const {
  const std::optional<std::size_t> index = bundle.find(key);
  if (!index) return std::nullopt;
  const std::string refused = refusal(bundle.item(*index).compiler_id);
  if (!refused.empty()) {
    why_not = bundle.name() + " has it for " + bundle.arch() + ", but " + refused;
    return std::nullopt;
  }
  if (rejected_.contains(key)) {
    why_not = bundle.name() + " has it for " + bundle.arch() + ", but the driver refused it";
    return std::nullopt;
  }
  if (damaged_.contains({&bundle, key})) {
    why_not = bundle.name() + " has it for " + bundle.arch() + ", but it is damaged";
    return std::nullopt;
  }
  llvm::Expected<Entry> entry = bundle.read(*index);
  if (entry && entry->name_expression == name_expression) return std::move(*entry);
  const std::string reason =
      entry ? "another kernel has the same key" : take_status(entry.takeError()).message();
  why_not = bundle.name() + " has it for " + bundle.arch() + ", but it is damaged: " + reason;
  if (damaged_.insert({&bundle, key})) {
    warn("a kernel of " + bundle.name() + " is not used (" + key + "): " + reason);
  }
  return std::nullopt;
}

std::optional<Entry> BundleSet::find(const KernelRequest& request, std::string* why_not) const {
  const BundleList bundles = this->bundles();
  std::string reason;
  int asked = 0;
  for (const std::string& arch : runnable_archs(request.arch, options_.ptx)) {
    std::string key;
    for (const std::shared_ptr<const Bundle>& bundle : bundles) {
      if (bundle->arch() != arch) continue;
      if (key.empty()) key = arch == request.arch ? request.key : key_of(request.source, arch);
      ++asked;
      if (std::optional<Entry> entry = find_in(*bundle, key, request.source.name_expression, reason))
        return entry;
    }
  }
  if (why_not != nullptr) {
    if (reason.empty() && bundles.empty()) reason = "no bundle is open";
    if (reason.empty() && asked == 0) {
      reason = ("no bundle has kernels that run on " + request.arch);
      const bool has_ptx = std::any_of(bundles.begin(), bundles.end(),
                                       [](const auto& bundle) { return is_ptx(bundle->arch()); });
      if (has_ptx && !options_.ptx) reason += "; set bundle_ptx to use PTX";
    }
    if (reason.empty()) reason = "it is in none of the bundles";
    *why_not = reason;
  }
  return std::nullopt;
}

void BundleSet::reject(const std::string& request_key) { rejected_.insert(request_key); }

}  // namespace minuet
