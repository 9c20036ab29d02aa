// Reads bundles, which are files of kernels compiled ahead of time, one per architecture, or copies of such
// files in memory. A Bundle is immutable after it was opened and thread-safe. The bytes may be untrusted, so
// all data is checked before use.
//
// Files are read with pread() and not mapped. If another process copies a new bundle over the one in use,
// access to a mapped page that has vanished would raise SIGBUS in the host, which no earlier check can
// prevent. Mapped bytes could also change after their digest was checked. Therefore open() copies the head
// and the table of contents (about 100 bytes per kernel) and checks this copy. A frame, which is one
// compressed kernel, is read on demand and checked against the digest in that copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/base/error.h"
#include "codegen/base/file_system.h"
#include "codegen/base/lazy.h"
#include "codegen/bundle/bundle_format.h"
#include "codegen/compile/entry.h"

namespace minuet {

/// Describes one kernel with facts from the table of contents of a bundle, which are known without reading
/// the kernel.
struct BundleItem {
  std::string request_key;
  std::string arch;
  std::string compiler_id;
  std::string sha256;  ///< Holds the SHA-256 digest of the compressed kernel in hex.
  std::uint64_t offset = 0, stored_bytes = 0, cubin_bytes = 0;
};

struct BundleDamage {
  std::string what;  ///< Holds the request key (keys.h) of a damaged kernel, or names a damaged part.
  std::string reason;
};

struct BundleCheck {
  std::string sha256;  ///< Holds the SHA-256 digest of the whole file in hex.
  std::uint64_t bytes = 0;
  std::vector<BundleDamage> damaged;  ///< Is empty if the file is intact.
};

class Bundle {
 public:
  /// Opens a bundle, which must be a regular file. Checks its magic, its version, its sizes, and the digest
  /// of its head and table of contents, but reads no kernel. `trust` decides which owners and modes of the
  /// file are accepted. If it is null, every file is accepted, and kernels of the file must not be run unless
  /// the caller checks its digest.
  static llvm::Expected<std::unique_ptr<Bundle>> open(const std::string& path,
                                                      const TrustPolicy* trust = nullptr);
  /// Opens a bundle that has these bytes, and checks the same parts as open(). Copies the bytes first, so the
  /// caller may change or free them afterwards, and so that a later change cannot evade a check.
  static llvm::Expected<std::unique_ptr<Bundle>> open_memory(llvm::StringRef bytes);

  /// Returns the path of the file. A bundle in memory has a name for messages, which says how many bytes it
  /// has.
  const std::string& name() const { return name_; }
  const std::string& arch() const { return arch_; }
  std::size_t size() const { return head_.entries; }
  /// Returns the facts about a kernel from the table of contents. Kernels are in ascending order of their
  /// request keys, and `index` must be less than size().
  BundleItem item(std::size_t index) const;
  /// Returns the index of the kernel with this request key (64 hex digits), or std::nullopt if there is none.
  std::optional<std::size_t> find(llvm::StringRef request_key) const;

  /// Reads a kernel, checks its digest, its cubin and its manifest (write_manifest()), and computes its build
  /// key (keys.h). Returns InvalidArgument if the kernel is damaged.
  llvm::Expected<Entry> read(std::size_t index) const;
  /// Reads all kernels, for example to write them to a new bundle together with others.
  llvm::Expected<std::vector<Entry>> read_all() const;
  llvm::Expected<std::string> tuning() const;

  /// Returns the SHA-256 of the whole file in hex, computed over the copy of the head and the table of
  /// contents in memory and over the rest of the file. Kernels that are read later are checked against the
  /// same copy, so this digest covers them too.
  llvm::Expected<std::string> file_sha256() const;
  /// Reads and checks all parts and kernels, and returns the damaged ones. Returns an error only if the file
  /// cannot be read.
  llvm::Expected<BundleCheck> verify() const;

 private:
  /// Contains the open file, or all bytes of a bundle in memory.
  using Source = std::variant<FileHandle, std::string>;
  Bundle(std::string name, Source source) : name_(std::move(name)), source_(std::move(source)) {}

  /// Checks what open() promises to check. The source has `size` bytes.
  static llvm::Expected<std::unique_ptr<Bundle>> open_source(std::string name, Source source,
                                                             std::uint64_t size);
  llvm::Error read_index(std::uint64_t size);
  llvm::Error check_contents() const;
  llvm::Expected<std::string> read_bytes(std::uint64_t offset, std::uint64_t size) const;
  struct Digests {
    std::string body;  ///< Holds the digest of all bytes before the trailer.
    /// Holds the digest that is stored at the end of the file. It equals `body` if the file is intact.
    std::string trailer;
    std::string file;  ///< Holds the digest of the whole file.
  };
  llvm::Expected<Digests> digests() const;
  BundleRow row(std::size_t index) const;
  llvm::StringRef text(std::uint32_t start) const;
  struct Dictionary {
    std::string bytes, error;
  };
  Dictionary read_dictionary() const;
  /// Returns the zstd dictionary with which all kernels are compressed. It is read from the file on first
  /// use.
  llvm::Expected<llvm::StringRef> dictionary() const;

  std::string name_, arch_;
  Source source_;
  BundleHead head_ = {};
  std::string index_of_file_;  ///< Is empty for a bundle in memory.
  /// Contains the head, the table of contents and the strings (bundle_format.h). It lies in index_of_file_ or
  /// in the bytes in memory, so it must not be copied with this object.
  llvm::StringRef index_;
  Lazy<Dictionary> dictionary_;
};

}  // namespace minuet
