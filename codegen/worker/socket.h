// Frames over a stream between two processes: 4 letters, the length, the bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "codegen/error.h"

namespace minuet {

/// Waits until `file` is ready for POLLIN or POLLOUT; an error ends the read or write that waits.
using WaitReady = std::function<llvm::Error(int file, short events)>;

/// One end of the stream. Not thread-safe. Never raises SIGPIPE on a socket.
class FrameStream {
 public:
  /// Does not own the descriptors, which may be the same one. Without `wait` it blocks.
  FrameStream(int input, int output, WaitReady wait = {})
      : input_(input), output_(output), wait_(std::move(wait)) {}

  llvm::Error write(llvm::StringRef bytes);
  /// Nothing where the other end closed the stream between two frames.
  llvm::Expected<std::optional<std::string>> read();

 private:
  llvm::Error write_all(const char* bytes, std::size_t size);
  /// How many bytes came before the end of the stream.
  llvm::Expected<std::size_t> read_all(char* bytes, std::size_t size);

  int input_, output_;
  WaitReady wait_;
};

}  // namespace minuet
