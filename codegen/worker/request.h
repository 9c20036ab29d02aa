// A kernel to compile, as one line of JSON: in recorded lists (requests.jsonl) and between processes. Pure.
//
// {"schema":1,"name":...,"arch":"sm_90a","expression":...,"least_sm":80,"source":...,"request_key":...}
// and, where the kernel's row says so, "exact_arch":"sm_90a" and "options":[...].
#pragma once

#include <string>
#include <vector>

#include "codegen/emit.h"
#include "codegen/error.h"
#include "llvm/Support/JSON.h"

namespace minuet {

inline constexpr int kRequestSchema = 1;

struct KernelRequest {
  KernelSource source;
  std::string arch;  // "sm_90a"; "compute_90" for PTX
};

/// RK of the request with this library's headers and options.
std::string key_of(const KernelSource& source, llvm::StringRef arch);
std::string key_of(const KernelRequest& request);

/// The includes that the source starts with: requests for one architecture with equal preambles share a
/// precompiled header.
std::string preamble_of(const KernelRequest& request);

/// InvalidArgument for text that is not UTF-8, which JSON cannot hold.
llvm::Expected<llvm::json::Object> to_json(const KernelRequest& request);

/// A request as somebody wrote it down.
struct RecordedRequest {
  KernelRequest request;
  std::string recorded_key;
  /// False where the writer's headers or options were others: another version of the library.
  bool is_same_version = false;
};

/// InvalidArgument that names the field which is missing or wrong; another schema is refused. Fields that
/// are not known are left alone.
llvm::Expected<RecordedRequest> from_json(const llvm::json::Object& object);

/// What a line begins with: JSON objects are written with their keys in order.
inline constexpr llvm::StringLiteral kRequestStart = "{\"arch\":\"";

/// One line, without its end.
llvm::Expected<std::string> write_request(const KernelRequest& request);
/// Every line of a list; empty lines are skipped. Errors name the line, counted from 1, and the field. A line
/// that begins as write_request's do and is no JSON was left by a writer that was killed, or whose disk was
/// full: it is left out, and `torn` gets its number.
llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text,
                                                           std::vector<int>* torn = nullptr);

}  // namespace minuet
