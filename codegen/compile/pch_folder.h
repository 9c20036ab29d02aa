// A private folder for NVRTC's precompiled headers, some 100 MB of which nobody else can use (R30).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// `<parent>/minuet-pch-XXXXXX`, mode 0700, with a file in it that its owner keeps locked: the lock goes
/// with the process, however that ends, and says to others that the folder is an orphan.
class PchFolder {
 public:
  /// Removes orphans first. `parent`: empty for TMPDIR, else /tmp.
  static llvm::Expected<std::unique_ptr<PchFolder>> create(const std::string& parent = {});
  /// Removes the folder; in a process that was forked from the owner it does nothing.
  ~PchFolder();
  PchFolder(const PchFolder&) = delete;
  PchFolder& operator=(const PchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  PchFolder(std::string path, int lock, pid_t owner) : path_(std::move(path)), lock_(lock), owner_(owner) {}
  std::string path_;
  int lock_;
  pid_t owner_;
};

/// Removes the folders of this user whose owners are gone; how many. For after a process was killed.
int sweep_pch_folders(const std::string& parent = {});

}  // namespace minuet
