// Reads bundles (R20): kernels compiled ahead of time, one file for each architecture. Immutable after
// open, thread-safe. A file may be anybody's: nothing is believed that is not checked.
//
// Read with pread, not through a mapping: where somebody copies a new bundle over the one in use, a mapped
// page that is gone raises SIGBUS in the host, and no check before the access can exclude that; and the
// bytes of a mapping may change after their digest was checked. So open copies head and contents (100 bytes
// a kernel) and checks this copy; a frame is read when it is asked for, and is checked against that copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/base/error.h"
#include "codegen/base/file_system.h"
#include "codegen/base/lazy.h"
#include "codegen/bundle/bundle_format.h"
#include "codegen/compile/entry.h"

namespace minuet {

/// What the contents say of one kernel, without reading it.
struct BundleItem {
  std::string request_key;
  std::string arch;
  std::string compiler_id;
  std::string sha256;  // of the stored frame
  std::uint64_t offset = 0, stored_bytes = 0, cubin_bytes = 0;
};

struct BundleDamage {
  std::string what;  // a request key, or a part of the file
  std::string reason;
};

struct BundleCheck {
  std::string sha256;  // of the whole file
  std::uint64_t bytes = 0;
  std::vector<BundleDamage> damaged;  // empty: all is well
};

class Bundle {
 public:
  /// A regular file whose magic, version, sizes and digest of head and contents are right. Reads no frame.
  /// `trust`: whose files are taken; null: anybody's, to be looked at and not to be run.
  static llvm::Expected<std::unique_ptr<Bundle>> open(const std::string& path,
                                                      const TrustPolicy* trust = nullptr);

  const std::string& path() const { return path_; }
  const std::string& arch() const { return arch_; }
  std::size_t size() const { return head_.entries; }
  /// In ascending order of their request keys; `index` is below size().
  BundleItem item(std::size_t index) const;
  /// Index of the kernel with that key, 64 hex digits, by bisection.
  std::optional<std::size_t> find(llvm::StringRef request_key) const;

  /// The kernel, checked like an entry of the store: digest, manifest against contents, cubin. Its build
  /// key is computed. InvalidArgument where it is damaged.
  llvm::Expected<Entry> read(std::size_t index) const;
  /// All kernels, to write them again with others.
  llvm::Expected<std::vector<Entry>> read_all() const;
  llvm::Expected<std::string> tuning() const;

  /// SHA-256 of the whole file: of head and contents as they are used, and of the rest as it lies there.
  /// What is used later is bound to it, for it is checked against the contents (R24).
  llvm::Expected<std::string> file_sha256() const;
  /// Reads everything. An error only where the file cannot be read at all.
  llvm::Expected<BundleCheck> verify() const;

 private:
  Bundle(std::string path, FileHandle file) : path_(std::move(path)), file_(std::move(file)) {}

  llvm::Error check_trust(const TrustPolicy& trust) const;
  llvm::Error read_index();
  llvm::Error check_contents() const;
  llvm::Expected<std::string> read_bytes(std::uint64_t offset, std::uint64_t size) const;
  struct Digests {
    std::string body;     // of all before the trailer
    std::string trailer;  // what the file says that is
    std::string file;
  };
  llvm::Expected<Digests> digests() const;
  BundleRow row(std::size_t index) const;
  llvm::StringRef text(std::uint32_t start) const;
  struct Dictionary {
    std::string bytes, error;
  };
  Dictionary read_dictionary() const;
  /// What all frames have in common, read at the first use.
  llvm::Expected<llvm::StringRef> dictionary() const;

  std::string path_, arch_;
  FileHandle file_;
  BundleHead head_ = {};
  std::string index_;  // head, contents and strings
  Lazy<Dictionary> dictionary_;
};

}  // namespace minuet
