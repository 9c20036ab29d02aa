// The helper program behind a gate, so that a compile is under way for as long as a test wants it to be.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/codegen/fakes.h"
#include "tests/support/wait_until.h"

namespace minuet {

/// A program that becomes the helper. While the gate is closed, one that this process starts (and none of its
/// children) first says that it is there, and waits.
class GatedHelper {
 public:
  explicit GatedHelper(const std::string& helper) {
    EXPECT_EQ(::mkfifo((folder_ / "gate").c_str(), 0600), 0);
    gate_ =
        ::open((folder_ / "gate").c_str(), O_RDWR | O_CLOEXEC);  // for writing, and never without a writer
    EXPECT_GE(gate_, 0);
    write_text(program(), "#!/bin/sh\nif [ \"$1\" = --parent=" + std::to_string(::getpid()) + " ] && [ -e '" +
                              (folder_ / "closed") + "' ]; then\n: >'" + (folder_ / "waits") +
                              "'\nread -r line <'" + (folder_ / "gate") + "'\nfi\nexec '" + helper +
                              "' \"$@\"\n");
    ::chmod(program().c_str(), 0700);
  }
  ~GatedHelper() { ::close(gate_); }
  GatedHelper(const GatedHelper&) = delete;
  GatedHelper& operator=(const GatedHelper&) = delete;

  std::string program() const { return folder_ / "minuet-compile"; }
  void close() { write_text(folder_ / "closed", ""); }
  /// Until a helper is at the closed gate.
  bool wait() const {
    return wait_until("a helper at the gate", [&] { return std::filesystem::exists(folder_ / "waits"); });
  }
  /// Lets the one that waits go on, and all that come.
  void open() {
    std::filesystem::remove(folder_ / "closed");
    const bool waits = std::filesystem::remove(folder_ / "waits");
    EXPECT_EQ(::write(gate_, "\n", waits ? 1 : 0), waits ? 1 : 0);
  }

 private:
  TemporaryFolder folder_;
  int gate_ = -1;
};

}  // namespace minuet
