// The formats for kernels to compile: a request as one line of JSON, in recorded lists (requests.jsonl) and
// between processes; a helper's jobs and answers; and the frames that carry them, which are 4 letters, the
// length and the bytes.
//
// {"schema":1,"name":...,"arch":"sm_90a","expression":...,"least_sm":80,"source":...,"request_key":...}
// and, if the kernel's row has them, "exact_arch":"sm_90a" and "options":[...].
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

// ---- requests -------------------------------------------------------------------------------------

inline constexpr int kRequestSchema = 1;

/// A request read from a recorded list.
struct RecordedRequest {
  KernelRequest request;
  std::string recorded_key;
  /// False if the writer had other headers or options, that is, another version of the library.
  bool is_same_version = false;
};

/// The first characters of a line. JSON objects are written with their keys in order.
inline constexpr llvm::StringLiteral kRequestStart = "{\"arch\":\"";
/// Returns true if `line` may be the beginning, of any length, of such a line or of a file of them.
inline bool begins_as_request(llvm::StringRef line) {
  line = without_byte_order_mark(line);
  return line.take_front(kRequestStart.size()) == kRequestStart.take_front(line.size());
}

/// Returns one line without its end. Returns InvalidArgument for text that is not UTF-8, which JSON cannot
/// hold.
llvm::Expected<std::string> write_request(const KernelRequest& request);
/// Reads every line of a list except empty ones. Errors name the line, counted from 1, and the field that is
/// missing or wrong; another schema is refused. A line that begins like those of write_request() but is no
/// JSON comes from a writer that was killed or had no disk space: it is skipped, and its number is added to
/// `truncated_lines`.
llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text,
                                                           std::vector<int>* truncated_lines = nullptr);

// ---- jobs and answers -----------------------------------------------------------------------------

struct HelperJob {
  KernelRequest request;
  std::string nvrtc = {};                // the library to open; empty: the helper searches for one
  bool identify = false;                 // asks only which NVRTC there is; `request` is unused
  std::vector<std::string> others = {};  // used with `identify`: as for open_nvrtc
};

struct HelperAnswer {
  StatusCode code = StatusCode::Ok;
  std::string message, detail;  // of an error
  std::string result;           // of a success: the bytes of write_entry or encode_info
  std::int64_t peak_bytes = 0;  // peak memory of the helper since its start
};

/// Returns the answer to a job that ended with this error.
HelperAnswer failed_answer(llvm::Error error);

/// Returns a frame. It includes the request's key, which the helper compares with its own.
llvm::Expected<std::string> encode_job(const HelperJob& job);
/// Returns Unavailable if the caller's request key differs from ours, because then it has another version of
/// the library.
llvm::Expected<HelperJob> decode_job(llvm::StringRef frame);

/// Returns the first of an answer's two frames; the second is `result` unchanged.
std::string encode_answer(const HelperAnswer& answer);
llvm::Expected<HelperAnswer> decode_answer(llvm::StringRef frame, std::string result);

/// Requires that the path is UTF-8.
std::string encode_info(const NvrtcInfo& info);
llvm::Expected<NvrtcInfo> decode_info(llvm::StringRef text);

// ---- the stream -----------------------------------------------------------------------------------

/// Waits until `file` is ready for POLLIN or POLLOUT. An error ends the read or write in progress.
using WaitReady = std::function<llvm::Error(int file, short events)>;

/// One end of the stream. Not thread-safe. Never raises SIGPIPE on a socket.
class FrameStream {
 public:
  /// Does not own the descriptors, which may be equal. Blocks if `wait` is empty.
  FrameStream(int input, int output, WaitReady wait = {})
      : input_(input), output_(output), wait_(std::move(wait)) {}

  llvm::Error write(llvm::StringRef bytes);
  /// Returns nothing if the other end closed the stream between two frames.
  llvm::Expected<std::optional<std::string>> read();

 private:
  llvm::Error write_all(const char* bytes, std::size_t size);
  /// Returns the number of bytes that came before the end of the stream.
  llvm::Expected<std::size_t> read_all(char* bytes, std::size_t size);

  int input_, output_;
  WaitReady wait_;
};

}  // namespace minuet
