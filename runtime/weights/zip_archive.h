// Reads zip archives in memory whose entries are stored without compression, which is all that torch.save
// writes. The reader is our own, because the packaged ones (minizip, libzip) accept archives that this one
// must refuse (entries that overlap, names that occur twice, local headers that disagree with the directory),
// so the same checks would be needed around them. It has no inflate either, so no entry can be larger than
// the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

class ZipArchive {
 public:
  /// Reads the directory of the archive and checks it whole. Returns InvalidArgument if an entry is
  /// compressed, encrypted, outside the file or inside another entry, or if its name occurs twice or does not
  /// stay below the folder into which the archive would be unpacked. The archive points into `bytes`.
  static llvm::Expected<ZipArchive> open(llvm::StringRef bytes);

  /// Returns the names of all entries in ascending order.
  std::vector<std::string> names() const;
  bool has(llvm::StringRef name) const { return entries_.count(name.str()) != 0; }
  /// Returns the bytes of an entry, or InvalidArgument if they differ from their checksum or if there is no
  /// such entry.
  llvm::Expected<llvm::StringRef> read(llvm::StringRef name);

 private:
  struct Entry {
    uint64_t header = 0;  // Holds the position of the local header.
    uint64_t begin = 0, size = 0;
    uint32_t checksum = 0;
    uint16_t flags = 0, method = 0;
    bool is_checked = false;  // Says whether read() has compared the checksum.
  };
  struct Directory {
    uint64_t begin = 0, size = 0, entries = 0;
  };

  llvm::Expected<Directory> find_directory() const;
  llvm::Error read_long_directory(uint64_t end, Directory& directory) const;
  llvm::Error read_entries(const Directory& directory);
  llvm::Error read_long_sizes(llvm::StringRef name, llvm::StringRef extra, uint64_t& stored,
                              Entry& entry) const;
  llvm::Error add_entry(llvm::StringRef name, Entry entry, const Directory& directory);
  llvm::Error check_overlaps() const;

  llvm::StringRef bytes_;
  std::map<std::string, Entry> entries_;
};

}  // namespace minuet
