// Reads bundles: kernels compiled ahead of time, in one file per architecture. A Bundle is immutable after
// open and thread-safe. The file may be untrusted, so all data is checked before use.
//
// Files are read with pread and not mapped. If another process copies a new bundle over the one in use,
// access to a vanished mapped page would raise SIGBUS in the host, which no earlier check can prevent, and
// mapped bytes could change after their digest was checked. Therefore open() copies head and contents (about
// 100 bytes per kernel) and checks this copy. A frame is read on demand and checked against that copy.
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

/// Facts about one kernel from the contents of a bundle, known without reading its frame.
struct BundleItem {
  std::string request_key;
  std::string arch;
  std::string compiler_id;
  std::string sha256;  ///< digest of the stored frame, in hex
  std::uint64_t offset = 0, stored_bytes = 0, cubin_bytes = 0;
};

struct BundleDamage {
  std::string what;  ///< a request key, or the name of a part of the file
  std::string reason;
};

struct BundleCheck {
  std::string sha256;  ///< digest of the whole file, in hex
  std::uint64_t bytes = 0;
  std::vector<BundleDamage> damaged;  ///< empty if the file is intact
};

class Bundle {
 public:
  /// Opens a bundle, which must be a regular file. Checks its magic, version, sizes and the digest of head
  /// and contents; reads no frame. `trust` decides which owners and modes are accepted. If it is null, every
  /// file is accepted; kernels of such a file must not be run, unless its digest was checked.
  static llvm::Expected<std::unique_ptr<Bundle>> open(const std::string& path,
                                                      const TrustPolicy* trust = nullptr);

  const std::string& path() const { return path_; }
  const std::string& arch() const { return arch_; }
  std::size_t size() const { return head_.entries; }
  /// Returns the facts about a kernel. Kernels are in ascending order of their request keys; `index` must be
  /// less than size().
  BundleItem item(std::size_t index) const;
  /// Returns the index of the kernel with that key (64 hex digits), found by binary search.
  std::optional<std::size_t> find(llvm::StringRef request_key) const;

  /// Reads a kernel, checks it (its digest, its manifest against the contents, its cubin) and computes its
  /// build key. Returns InvalidArgument if it is damaged.
  llvm::Expected<Entry> read(std::size_t index) const;
  /// Reads all kernels, for example to write them to a new bundle with others.
  llvm::Expected<std::vector<Entry>> read_all() const;
  llvm::Expected<std::string> tuning() const;

  /// Returns the SHA-256 of the whole file in hex, computed over the copy of head and contents in memory and
  /// over the rest of the file. Because frames are checked against the contents, data that is read later
  /// belongs to this digest too.
  llvm::Expected<std::string> file_sha256() const;
  /// Reads and checks all parts and kernels. Returns an error only if the file cannot be read.
  llvm::Expected<BundleCheck> verify() const;

 private:
  Bundle(std::string path, FileHandle file) : path_(std::move(path)), file_(std::move(file)) {}

  llvm::Error check_trust(const TrustPolicy& trust) const;
  llvm::Error read_index();
  llvm::Error check_contents() const;
  llvm::Expected<std::string> read_bytes(std::uint64_t offset, std::uint64_t size) const;
  struct Digests {
    std::string body;     ///< computed over all bytes before the trailer
    std::string trailer;  ///< the digest at the end of the file; equals body if the file is intact
    std::string file;     ///< computed over the whole file
  };
  llvm::Expected<Digests> digests() const;
  BundleRow row(std::size_t index) const;
  llvm::StringRef text(std::uint32_t start) const;
  struct Dictionary {
    std::string bytes, error;
  };
  Dictionary read_dictionary() const;
  /// Returns the dictionary of all frames; reads it on first use.
  llvm::Expected<llvm::StringRef> dictionary() const;

  std::string path_, arch_;
  FileHandle file_;
  BundleHead head_ = {};
  std::string index_;  ///< head, contents and strings
  Lazy<Dictionary> dictionary_;
};

}  // namespace minuet
