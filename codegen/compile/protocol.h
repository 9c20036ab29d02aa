// Defines how requests to compile kernels are written to files and passed to helper processes. A request is
// one line of JSON, both in recorded lists (requests.jsonl) and between processes. A helper process gets jobs
// and returns answers, in frames of 4 letters, the length and the bytes.
//
// The following line is a request:
// {"arch":"sm_90a","expression":...,"least_sm":80,"name":...,"request_key":...,"schema":1,"source":...}
// If the kernel's row in kernels.inc has them, the line also contains "exact_arch":"sm_90a" and
// "options":[...].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/base/text_input.h"
#include "codegen/compile/compiler.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

// The following declarations write and read requests.

inline constexpr int kRequestSchema = 1;

/// Holds a request that was read from a recorded list or from a job.
struct RecordedRequest {
  KernelRequest request;
  std::string recorded_key;
  /// This is false if the writer had other headers or options, that is, another version of the library.
  bool is_same_version = false;
};

/// The line of a request begins with these characters, because JSON objects are written with their keys in
/// alphabetical order.
inline constexpr llvm::StringLiteral kRequestStart = "{\"arch\":\"";
/// Returns true if `line` may be the beginning, of any length, of a request's line or of a file of such
/// lines.
inline bool begins_as_request(llvm::StringRef line) {
  line = without_byte_order_mark(line);
  return line.take_front(kRequestStart.size()) == kRequestStart.take_front(line.size());
}

/// Returns the request as one line, without the line's end. Returns InvalidArgument for text that is not
/// UTF-8, which JSON cannot hold.
llvm::Expected<std::string> write_request(const KernelRequest& request);
/// Reads every line of a list except empty ones. An error names the line, counted from 1, and the field that
/// is missing or wrong. A line with another schema is an error. A line that begins like those of
/// write_request() but is not JSON comes from a writer that was killed or had no disk space. Such a line is
/// skipped, and its number is added to `truncated_lines`, which may be null.
llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text,
                                                           std::vector<int>* truncated_lines = nullptr);

// The following declarations describe and encode the jobs and answers of a helper process.

struct HelperJob {
  KernelRequest request;
  /// Names the libnvrtc to open. If it is empty, the helper process searches for one.
  std::string nvrtc = {};
  /// If true, the job asks only which NVRTC the helper process finds, and `request` is unused.
  bool identify = false;
  /// Holds the parameter `others` of open_nvrtc(). It is used only with `identify`.
  std::vector<std::string> others = {};
};

struct HelperAnswer {
  StatusCode code = StatusCode::Ok;
  std::string message, detail;  // These describe an error.
  std::string result;           // This is the result of write_entry() or encode_info() after a success.
  std::int64_t peak_bytes = 0;  // This is the helper process's peak memory since its start.
};

/// Returns the answer to a job that ended with this error.
HelperAnswer failed_answer(llvm::Error error);

/// Returns the job as the content of a frame (FrameStream). It includes the request's key, which the helper
/// process compares with the key that it computes.
llvm::Expected<std::string> encode_job(const HelperJob& job);
/// Returns the job in `frame` (FrameStream), or Unavailable if its request key differs from the key that this
/// process computes, because the sender then has another version of the library.
llvm::Expected<HelperJob> decode_job(llvm::StringRef frame);

/// An answer is sent as two frames (FrameStream). Returns the content of the first. The second is the member
/// `result`, unchanged.
std::string encode_answer(const HelperAnswer& answer);
llvm::Expected<HelperAnswer> decode_answer(llvm::StringRef frame, std::string result);

/// Returns `info`, whose path must be UTF-8, as JSON.
std::string encode_info(const NvrtcInfo& info);
llvm::Expected<NvrtcInfo> decode_info(llvm::StringRef text);

// The following declarations describe the stream of frames between the library and a helper process.

/// Waits until `file` is ready for POLLIN or POLLOUT. An error ends the read or write in progress.
using WaitReady = std::function<llvm::Error(int file, short events)>;

/// Represents one end of the stream of frames (byte strings with a header) between the library and a helper
/// process. The class is not thread-safe. It never raises SIGPIPE on a socket.
class FrameStream {
 public:
  /// Does not take ownership of the descriptors, which may be equal. If `wait` is empty, reads and writes
  /// block.
  FrameStream(int input, int output, WaitReady wait = {})
      : input_(input), output_(output), wait_(std::move(wait)) {}

  llvm::Error write(llvm::StringRef bytes);
  /// Returns the content of the next frame, or nothing if the other end closed the stream between two frames.
  llvm::Expected<std::optional<std::string>> read();

 private:
  llvm::Error write_all(const char* bytes, std::size_t size);
  /// Reads up to `size` bytes, and fewer only if the stream ends. Returns the number of bytes.
  llvm::Expected<std::size_t> read_all(char* bytes, std::size_t size);

  int input_, output_;
  WaitReady wait_;
};

}  // namespace minuet
