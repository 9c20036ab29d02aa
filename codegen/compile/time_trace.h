// NVRTC's time trace of one compile, brought to the file that the user named (R32).
#pragma once

#include <memory>
#include <string>

#include "codegen/base/error.h"
#include "codegen/compile/pch_folder.h"

namespace minuet {

/// NVRTC 13.0 ends the whole process where it cannot write its trace, fails the compile where the file is
/// there already, and puts ".json" behind every name. So it writes into a private folder with room in it,
/// and the user's file is opened before and written after.
class TimeTrace {
 public:
  /// Unavailable where the file cannot be written, or where there is no room for a private one.
  static llvm::Expected<std::unique_ptr<TimeTrace>> create(const std::string& path);
  ~TimeTrace();
  TimeTrace(const TimeTrace&) = delete;
  TimeTrace& operator=(const TimeTrace&) = delete;

  std::string option() const { return "--fdevice-time-trace=" + folder_->path() + "/trace"; }
  /// Forgets what a failed compile left, so that another one may be traced.
  void reset();
  /// After the compile.
  llvm::Error finish();

 private:
  TimeTrace(std::string path, int file, std::unique_ptr<PchFolder> folder)
      : path_(std::move(path)), file_(file), folder_(std::move(folder)) {}
  std::string written() const { return folder_->path() + "/trace.json"; }

  std::string path_;
  int file_;                           // -1 once it is finished
  std::unique_ptr<PchFolder> folder_;  // any private folder that does not outlive us will do
};

}  // namespace minuet
