// What a process and its helper say to each other: a job, then an answer of two frames; and the frames over a
// stream: 4 letters, the length, the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/worker/request.h"

namespace minuet {

struct WorkerJob {
  KernelRequest request;
  std::string nvrtc;       // the library to open; empty: the helper looks for one as the library would
  bool pch = false;        // with precompiled headers, in a folder that the helper makes for itself
  std::string time_trace;  // as in CompileControl
  bool identify = false;   // no request: only to tell which NVRTC there is
  std::vector<std::string> others = {};  // then, as for open_nvrtc
};

struct WorkerAnswer {
  StatusCode code = StatusCode::Ok;
  std::string message, detail;  // of an error
  std::string result;           // of a success: bytes of write_entry, or of encode_info
  PchUse pch_use = PchUse::None;
  std::int64_t peak_bytes = 0;  // of memory, of the helper since its start
};

/// A frame. `request_key` is the caller's, which the helper compares with its own.
llvm::Expected<std::string> encode_job(const WorkerJob& job);
/// Unavailable where the caller's request key is not ours: it has another version of the library.
llvm::Expected<WorkerJob> decode_job(llvm::StringRef frame);

/// The first of an answer's two frames; the second is `result` as it is.
std::string encode_answer(const WorkerAnswer& answer);
llvm::Expected<WorkerAnswer> decode_answer(llvm::StringRef frame, std::string result);

/// Of one whose path is UTF-8.
std::string encode_info(const NvrtcInfo& info);
llvm::Expected<NvrtcInfo> decode_info(llvm::StringRef text);

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
