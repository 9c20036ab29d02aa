#include "codegen/worker/protocol.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "codegen/header_index.h"
#include "codegen/json_text.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

using llvm::json::Object;

std::string print(Object object) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

llvm::Expected<Object> parse(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) {
    return make_error(StatusCode::Internal, "the other process wrote no JSON: {0}",
                      llvm::toString(value.takeError()));
  }
  Object* const object = value->getAsObject();
  if (object == nullptr) return make_error(StatusCode::Internal, "the other process wrote no JSON object");
  return std::move(*object);
}

std::string text_or_empty(const Object& object, const char* name) {
  const auto text = object.getString(name);
  return text ? text->str() : "";
}

std::vector<std::string> texts_or_none(const Object& object, const char* name) {
  std::vector<std::string> texts;
  const llvm::json::Array* const array = object.getArray(name);
  if (array == nullptr) return texts;
  for (const llvm::json::Value& value : *array) {
    if (const auto text = value.getAsString()) texts.push_back(text->str());
  }
  return texts;
}

constexpr char kProtocol[] = "3";  // changed when jobs or answers change

/// In place of a request's key: another one where a request's may be, or where we speak otherwise.
std::string version_key() {
  return key_of({KernelSource(), "sm_90"}) + "-" + all_headers_digest() + "-" + kProtocol;
}

llvm::Error other_version() {
  return make_error(StatusCode::Unavailable,
                    "the helper is of another version of the library: install the minuet-compile that came "
                    "with libminuet beside it");
}

std::int64_t number_or(const Object& object, const char* name, std::int64_t otherwise) {
  const auto number = object.getInteger(name);
  return number ? *number : otherwise;
}

constexpr char kMagic[4] = {'M', 'N', 'F', '1'};
constexpr std::size_t kMostFrameBytes = 1u << 30;
constexpr std::size_t kStepBytes = 1u << 20;  // a length that lies costs no more memory than was sent

struct FrameHead {
  char magic[4];
  std::uint32_t bytes;
};

bool is_to_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

llvm::Error stream_error(const char* what, int error) {
  return make_error(StatusCode::Unavailable, "{0}: {1}", what, std::strerror(error));
}

/// send, for MSG_NOSIGNAL; a pipe, which the helper may be given by hand, is written to.
ssize_t send_some(int file, const char* bytes, std::size_t size, bool may_block) {
  const ssize_t sent = ::send(file, bytes, size, MSG_NOSIGNAL | (may_block ? 0 : MSG_DONTWAIT));
  return sent < 0 && errno == ENOTSOCK ? ::write(file, bytes, size) : sent;
}

ssize_t receive_some(int file, char* bytes, std::size_t size, bool may_block) {
  const ssize_t received = ::recv(file, bytes, size, may_block ? 0 : MSG_DONTWAIT);
  return received < 0 && errno == ENOTSOCK ? ::read(file, bytes, size) : received;
}

}  // namespace

llvm::Expected<std::string> encode_job(const WorkerJob& job) {
  Object object;
  if (job.identify) {
    object["identify"] = true;
    object["request_key"] = version_key();
    llvm::json::Array others;
    for (const std::string& path : job.others) {
      if (llvm::json::isUTF8(path)) others.push_back(path);
    }
    object["others"] = std::move(others);
  } else {
    MINUET_ASSIGN(object, to_json(job.request));
  }
  for (const std::string* path : {&job.nvrtc, &job.time_trace}) {
    if (!llvm::json::isUTF8(*path)) {
      return make_error(StatusCode::InvalidArgument, "the path {0} is not UTF-8", llvm::json::fixUTF8(*path));
    }
  }
  object["nvrtc"] = job.nvrtc;
  object["pch"] = job.pch;
  object["time_trace"] = job.time_trace;
  return print(std::move(object));
}

llvm::Expected<WorkerJob> decode_job(llvm::StringRef frame) {
  MINUET_ASSIGN(const Object object, parse(frame));
  WorkerJob job;
  job.nvrtc = text_or_empty(object, "nvrtc");
  const auto identify = object.getBoolean("identify");
  job.identify = identify && *identify;
  if (job.identify) {
    job.others = texts_or_none(object, "others");
    if (text_or_empty(object, "request_key") != version_key()) return other_version();
    return job;
  }
  MINUET_ASSIGN(RecordedRequest recorded, from_json(object));
  if (!recorded.is_same_version) return other_version();
  job.request = std::move(recorded.request);
  job.time_trace = text_or_empty(object, "time_trace");
  const auto pch = object.getBoolean("pch");
  job.pch = pch && *pch;
  return job;
}

std::string encode_answer(const WorkerAnswer& answer) {
  // Compilers quote file names, which need not be UTF-8.
  return print(Object{{"code", static_cast<int>(answer.code)},
                      {"message", llvm::json::fixUTF8(answer.message)},
                      {"detail", llvm::json::fixUTF8(answer.detail)},
                      {"pch", static_cast<int>(answer.pch_use)},
                      {"peak_bytes", answer.peak_bytes}});
}

llvm::Expected<WorkerAnswer> decode_answer(llvm::StringRef frame, std::string result) {
  MINUET_ASSIGN(const Object object, parse(frame));
  const std::int64_t code = number_or(object, "code", -1);
  const std::int64_t pch_use = number_or(object, "pch", 0);
  if (code < 0 || code > static_cast<int>(StatusCode::Unavailable) || pch_use < 0 ||
      pch_use > static_cast<int>(PchUse::Used)) {
    return make_error(StatusCode::Internal, "the other process wrote an answer with no known status");
  }
  WorkerAnswer answer;
  answer.code = static_cast<StatusCode>(code);
  answer.message = text_or_empty(object, "message");
  answer.detail = text_or_empty(object, "detail");
  answer.result = std::move(result);
  answer.pch_use = static_cast<PchUse>(pch_use);
  answer.peak_bytes = number_or(object, "peak_bytes", 0);
  return answer;
}

std::string encode_info(const NvrtcInfo& info) {
  return print(Object{{"path", info.path},
                      {"version", info.version},
                      {"id", info.id},
                      {"archs", llvm::json::Array(info.archs)}});
}

llvm::Expected<NvrtcInfo> decode_info(llvm::StringRef text) {
  MINUET_ASSIGN(const Object object, parse(text));
  NvrtcInfo info;
  info.path = text_or_empty(object, "path");
  info.version = text_or_empty(object, "version");
  info.id = text_or_empty(object, "id");
  info.archs = texts_or_none(object, "archs");
  if (info.path.empty() || info.version.empty() || info.id.empty()) {
    return make_error(StatusCode::Internal, "the other process did not say which NVRTC it has");
  }
  return info;
}

llvm::Error FrameStream::write_all(const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send_some(output_, bytes, size, /*may_block=*/!wait_);
    if (sent < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (!wait_ || !is_to_wait(error)) return stream_error("cannot write to the other process", error);
      MINUET_TRY(wait_(output_, POLLOUT));
      continue;
    }
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return llvm::Error::success();
}

llvm::Expected<std::size_t> FrameStream::read_all(char* bytes, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t received = receive_some(input_, bytes + done, size - done, /*may_block=*/!wait_);
    if (received == 0) break;
    if (received < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (!wait_ || !is_to_wait(error)) return stream_error("cannot read from the other process", error);
      MINUET_TRY(wait_(input_, POLLIN));
      continue;
    }
    done += static_cast<std::size_t>(received);
  }
  return done;
}

llvm::Error FrameStream::write(llvm::StringRef bytes) {
  if (bytes.size() > kMostFrameBytes) {
    return make_error(StatusCode::ResourceExhausted, "{0} bytes are too many for a frame", bytes.size());
  }
  FrameHead head;
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.bytes = static_cast<std::uint32_t>(bytes.size());
  MINUET_TRY(write_all(reinterpret_cast<const char*>(&head), sizeof head));
  return write_all(bytes.data(), bytes.size());
}

llvm::Expected<std::optional<std::string>> FrameStream::read() {
  FrameHead head;
  MINUET_ASSIGN(const std::size_t got, read_all(reinterpret_cast<char*>(&head), sizeof head));
  if (got == 0) return std::nullopt;
  if (got < sizeof head || std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 ||
      head.bytes > kMostFrameBytes) {
    return make_error(StatusCode::Internal, "the other process wrote something that is no frame");
  }
  std::string bytes;
  while (bytes.size() < head.bytes) {
    const std::size_t done = bytes.size();
    const std::size_t step = std::min<std::size_t>(kStepBytes, head.bytes - done);
    bytes.resize(done + step);
    MINUET_ASSIGN(const std::size_t part, read_all(&bytes[done], step));
    if (part < step) return make_error(StatusCode::Unavailable, "the other process ended in a frame");
  }
  return std::optional<std::string>(std::move(bytes));
}

}  // namespace minuet
