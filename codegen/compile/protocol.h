// What is said of kernels to compile: a request as one line of JSON, in recorded lists (requests.jsonl) and
// between processes; a helper's jobs and answers; and the frames that carry them: 4 letters, the length, the
// bytes.
//
// {"schema":1,"name":...,"arch":"sm_90a","expression":...,"least_sm":80,"source":...,"request_key":...}
// and, where the kernel's row says so, "exact_arch":"sm_90a" and "options":[...].
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

/// A request as somebody wrote it down.
struct RecordedRequest {
  KernelRequest request;
  std::string recorded_key;
  /// False where the writer's headers or options were others: another version of the library.
  bool is_same_version = false;
};

/// What a line begins with: JSON objects are written with their keys in order.
inline constexpr llvm::StringLiteral kRequestStart = "{\"arch\":\"";
/// Whether it may be the beginning of such a line, however short, or of a file of them.
inline bool begins_as_request(llvm::StringRef line) {
  line = without_byte_order_mark(line);
  return line.take_front(kRequestStart.size()) == kRequestStart.take_front(line.size());
}

/// One line, without its end. InvalidArgument for text that is not UTF-8, which JSON cannot hold.
llvm::Expected<std::string> write_request(const KernelRequest& request);
/// Every line of a list; empty lines are skipped. Errors name the line, counted from 1, and the field that is
/// missing or wrong; another schema is refused. A line
/// that begins as write_request's do and is no JSON was left by a writer that was killed, or whose disk was
/// full: it is left out, and `torn` gets its number.
llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text,
                                                           std::vector<int>* torn = nullptr);

// ---- jobs and answers -----------------------------------------------------------------------------

struct HelperJob {
  KernelRequest request;
  std::string nvrtc = {};  // the library to open; empty: the helper looks for one as the library would
  bool identify = false;   // no request: only to tell which NVRTC there is
  std::vector<std::string> others = {};  // then, as for open_nvrtc
};

struct HelperAnswer {
  StatusCode code = StatusCode::Ok;
  std::string message, detail;  // of an error
  std::string result;           // of a success: bytes of write_entry, or of encode_info
  std::int64_t peak_bytes = 0;  // of memory, of the helper since its start
};

/// To a job that ended so.
HelperAnswer failed_answer(llvm::Error error);

/// A frame, with the request's key, which the helper compares with its own.
llvm::Expected<std::string> encode_job(const HelperJob& job);
/// Unavailable where the caller's request key is not ours: it has another version of the library.
llvm::Expected<HelperJob> decode_job(llvm::StringRef frame);

/// The first of an answer's two frames; the second is `result` as it is.
std::string encode_answer(const HelperAnswer& answer);
llvm::Expected<HelperAnswer> decode_answer(llvm::StringRef frame, std::string result);

/// Of one whose path is UTF-8.
std::string encode_info(const NvrtcInfo& info);
llvm::Expected<NvrtcInfo> decode_info(llvm::StringRef text);

// ---- the stream -----------------------------------------------------------------------------------

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
