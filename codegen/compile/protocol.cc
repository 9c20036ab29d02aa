#include "codegen/compile/protocol.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "codegen/base/arch.h"
#include "codegen/base/json_text.h"

namespace minuet {

using llvm::json::Object;

// The following functions write and read requests.

namespace {

llvm::Expected<std::string> text_field(const Object& object, const char* name) {
  const auto text = object.getString(name);
  if (!text) return make_error(StatusCode::InvalidArgument, "field \"{0}\" is missing or is not text", name);
  if (text->empty()) return make_error(StatusCode::InvalidArgument, "field \"{0}\" is empty", name);
  return text->str();
}

llvm::Expected<int> number_field(const Object& object, const char* name) {
  const auto number = object.getInteger(name);
  if (number && *number > 0 && *number < 1000000) return static_cast<int>(*number);
  return make_error(StatusCode::InvalidArgument,
                    "field \"{0}\" is missing or is not a number from 1 to 999999", name);
}

/// Reads the fields "exact_arch" and "options", which only a few requests have.
llvm::Error read_needs(const Object& object, KernelSource& source) {
  if (object.get("exact_arch") != nullptr) {
    MINUET_ASSIGN(source.exact_arch, text_field(object, "exact_arch"));
  }
  const llvm::json::Value* const options = object.get("options");
  if (options == nullptr) return llvm::Error::success();
  const llvm::json::Array* const list = options->getAsArray();
  if (list == nullptr) return make_error(StatusCode::InvalidArgument, "field \"options\" is not a list");
  for (const llvm::json::Value& value : *list) {
    const auto option = value.getAsString();
    if (!option || !is_kernel_option(*option)) {
      return make_error(StatusCode::InvalidArgument,
                        "field \"options\" has an option that kernels may not use: {0}",
                        option ? option->str() : "it is not text");
    }
    source.options.push_back(option->str());
  }
  return llvm::Error::success();
}

/// Returns the request as JSON, or InvalidArgument for text that is not UTF-8, which JSON cannot hold.
llvm::Expected<Object> to_json(const KernelRequest& request) {
  const KernelSource& source = request.source;
  for (const std::string* text :
       {&source.display_name, &request.arch, &source.name_expression, &source.text}) {
    if (!llvm::json::isUTF8(*text)) {
      return make_error(StatusCode::InvalidArgument,
                        "kernel {0} has text that is not UTF-8, so it cannot be written as a request",
                        llvm::json::fixUTF8(source.display_name));
    }
  }
  Object object{{"schema", kRequestSchema},    {"name", source.display_name},
                {"arch", request.arch},        {"expression", source.name_expression},
                {"least_sm", source.least_sm}, {"source", source.text},
                {"request_key", request.key}};
  if (!source.exact_arch.empty()) object["exact_arch"] = source.exact_arch;
  if (!source.options.empty()) object["options"] = llvm::json::Array(source.options);
  return object;
}

/// Reads a request from JSON. Unknown fields are ignored.
llvm::Expected<RecordedRequest> from_json(const Object& object) {
  MINUET_ASSIGN(const int schema, number_field(object, "schema"));
  if (schema != kRequestSchema) {
    return make_error(StatusCode::InvalidArgument,
                      "field \"schema\" is {0}, but this library reads {1}: record the kernels again with it",
                      schema, kRequestSchema);
  }
  KernelSource source;
  MINUET_ASSIGN(source.display_name, text_field(object, "name"));
  MINUET_ASSIGN(const std::string arch, text_field(object, "arch"));
  if (capability(arch) == 0) {  // `arch` becomes part of a compiler option, so it must be valid.
    return annotate(not_an_arch(arch), "field \"arch\"");
  }
  MINUET_ASSIGN(source.name_expression, text_field(object, "expression"));
  MINUET_ASSIGN(source.least_sm, number_field(object, "least_sm"));
  MINUET_ASSIGN(source.text, text_field(object, "source"));
  MINUET_TRY(read_needs(object, source));
  RecordedRequest recorded;
  MINUET_ASSIGN(recorded.recorded_key, text_field(object, "request_key"));
  recorded.request = {std::move(source), arch};
  recorded.is_same_version = recorded.recorded_key == recorded.request.key;
  return recorded;
}

}  // namespace

llvm::Expected<std::string> write_request(const KernelRequest& request) {
  MINUET_ASSIGN(Object object, to_json(request));
  return print_json(std::move(object));
}

llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text,
                                                           std::vector<int>* truncated_lines) {
  std::vector<RecordedRequest> requests;
  TextCursor cursor(text);
  for (int number = 1; const std::optional<llvm::StringRef> next = cursor.line(); ++number) {
    const llvm::StringRef line = *next;
    if (line.trim().empty()) continue;
    const auto in_line = [&](llvm::Error error) {
      return annotate(std::move(error), llvm::formatv("line {0}", number).str());
    };
    llvm::Expected<llvm::json::Value> value = parse_json(line);
    if (!value) {
      const std::string why = llvm::toString(value.takeError());
      if (!begins_as_request(line))
        return in_line(make_error(StatusCode::InvalidArgument, "it is not JSON: {0}", why));
      if (truncated_lines != nullptr) truncated_lines->push_back(number);
      continue;
    }
    const Object* const object = value->getAsObject();
    if (object == nullptr)
      return in_line(make_error(StatusCode::InvalidArgument, "a request must be a JSON object"));
    llvm::Expected<RecordedRequest> request = from_json(*object);
    if (!request) return in_line(request.takeError());
    requests.push_back(std::move(*request));
  }
  return requests;
}

// The following functions encode and decode jobs and answers.

namespace {

llvm::Expected<Object> parse(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  if (!value) {
    return make_error(StatusCode::Internal, "the other process wrote something that is not JSON: {0}",
                      llvm::toString(value.takeError()));
  }
  Object* const object = value->getAsObject();
  if (object == nullptr)
    return make_error(StatusCode::Internal, "the other process wrote something that is not a JSON object");
  return std::move(*object);
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

constexpr char kProtocol[] = "4";  // Increase this version when the format of jobs or answers changes.

/// Returns the key that a job with `identify` has instead of a request's key. Two versions of the library
/// have different keys if their request keys may differ or if their protocols differ.
std::string version_key() {
  return key_of(KernelSource(), "sm_90") + "-" + all_headers_digest() + "-" + kProtocol;
}

llvm::Error other_version() {
  return make_error(
      StatusCode::Unavailable,
      "the helper program belongs to another version of the library: install the minuet-compile that came "
      "with libminuet beside it");
}

constexpr char kFrameMagic[4] = {'M', 'N', 'F', '1'};
constexpr std::size_t kMostFrameBytes = 1u << 30;
// A frame whose header has a wrong length makes read() allocate at most this many bytes more than were sent.
constexpr std::size_t kStepBytes = 1u << 20;

struct FrameHead {
  char magic[4];
  std::uint32_t bytes;
};

bool is_to_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

llvm::Error stream_error(const char* what, int error) {
  return make_error(StatusCode::Unavailable, "{0}: {1}", what, errno_text(error));
}

/// Uses send() for a socket, because write() has no MSG_NOSIGNAL, and write() for a pipe, which a user may
/// connect to the helper by hand.
ssize_t send_some(int file, const char* bytes, std::size_t size, bool may_block) {
  const ssize_t sent = ::send(file, bytes, size, MSG_NOSIGNAL | (may_block ? 0 : MSG_DONTWAIT));
  return sent < 0 && errno == ENOTSOCK ? ::write(file, bytes, size) : sent;
}

ssize_t receive_some(int file, char* bytes, std::size_t size, bool may_block) {
  const ssize_t received = ::recv(file, bytes, size, may_block ? 0 : MSG_DONTWAIT);
  return received < 0 && errno == ENOTSOCK ? ::read(file, bytes, size) : received;
}

}  // namespace

HelperAnswer failed_answer(llvm::Error error) {
  const StatusError status = take_status(std::move(error));
  HelperAnswer answer;
  answer.code = status.code();
  answer.message = status.message();
  answer.detail = status.detail();
  return answer;
}

llvm::Expected<std::string> encode_job(const HelperJob& job) {
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
  if (!llvm::json::isUTF8(job.nvrtc)) {
    return make_error(StatusCode::InvalidArgument,
                      "the path {0} of libnvrtc is not UTF-8: use a path in UTF-8",
                      llvm::json::fixUTF8(job.nvrtc));
  }
  object["nvrtc"] = job.nvrtc;
  return print_json(std::move(object));
}

llvm::Expected<HelperJob> decode_job(llvm::StringRef frame) {
  MINUET_ASSIGN(const Object object, parse(frame));
  HelperJob job;
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
  return job;
}

std::string encode_answer(const HelperAnswer& answer) {
  // Compilers quote file names, which need not be UTF-8.
  return print_json(Object{{"code", static_cast<int>(answer.code)},
                           {"message", llvm::json::fixUTF8(answer.message)},
                           {"detail", llvm::json::fixUTF8(answer.detail)},
                           {"peak_bytes", answer.peak_bytes}});
}

llvm::Expected<HelperAnswer> decode_answer(llvm::StringRef frame, std::string result) {
  MINUET_ASSIGN(const Object object, parse(frame));
  const std::int64_t code = number_or(object, "code", -1);
  if (code < 0 || code > static_cast<int>(StatusCode::Unavailable)) {
    return make_error(StatusCode::Internal, "the other process wrote an answer with an unknown status");
  }
  HelperAnswer answer;
  answer.code = static_cast<StatusCode>(code);
  answer.message = text_or_empty(object, "message");
  answer.detail = text_or_empty(object, "detail");
  answer.result = std::move(result);
  answer.peak_bytes = number_or(object, "peak_bytes", 0);
  return answer;
}

std::string encode_info(const NvrtcInfo& info) {
  return print_json(Object{{"path", info.path},
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
    return make_error(StatusCode::ResourceExhausted, "a message of {0} bytes exceeds the limit of {1} bytes",
                      bytes.size(), kMostFrameBytes);
  }
  FrameHead head;
  std::memcpy(head.magic, kFrameMagic, sizeof kFrameMagic);
  head.bytes = static_cast<std::uint32_t>(bytes.size());
  MINUET_TRY(write_all(reinterpret_cast<const char*>(&head), sizeof head));
  return write_all(bytes.data(), bytes.size());
}

llvm::Expected<std::optional<std::string>> FrameStream::read() {
  FrameHead head;
  MINUET_ASSIGN(const std::size_t got, read_all(reinterpret_cast<char*>(&head), sizeof head));
  if (got == 0) return std::nullopt;
  if (got < sizeof head || std::memcmp(head.magic, kFrameMagic, sizeof kFrameMagic) != 0 ||
      head.bytes > kMostFrameBytes) {
    return make_error(StatusCode::Internal, "the other process wrote something that is not a message");
  }
  std::string bytes;
  while (bytes.size() < head.bytes) {
    const std::size_t done = bytes.size();
    const std::size_t step = std::min<std::size_t>(kStepBytes, head.bytes - done);
    bytes.resize(done + step);
    MINUET_ASSIGN(const std::size_t part, read_all(&bytes[done], step));
    if (part < step)
      return make_error(StatusCode::Unavailable, "the other process ended in the middle of a message");
  }
  return std::optional<std::string>(std::move(bytes));
}

}  // namespace minuet
