#include "codegen/worker/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace minuet {
namespace {

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
