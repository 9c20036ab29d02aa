#include "tools/minuet/weights_snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "codegen/base/file_system.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "tools/minuet/error.h"

namespace minuet::tool {
namespace {

constexpr size_t kReadAtOnce = 1 << 20;

bool write_all(int descriptor, llvm::ArrayRef<uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.drop_front(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

llvm::Expected<WeightsSnapshot> WeightsSnapshot::read(const std::string& path) {
  if (is_device(path)) return bad_input("weights file {0} is a device, which may have no end", path);
  const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return bad_input("weights file {0}: {1}", path, errno_text(errno));
  WeightsSnapshot snapshot(path, ::memfd_create("weights", MFD_CLOEXEC));
  llvm::Error error = snapshot.copy(from);
  ::close(from);
  if (error) return error;
  return snapshot;
}

llvm::Error WeightsSnapshot::copy(int from) {
  const auto no_memory = [&] {
    return broken("weights file " + file_ + ": no memory takes its bytes: " + errno_text(errno));
  };
  if (descriptor_ < 0) return no_memory();
  llvm::SHA256 digest;
  std::vector<uint8_t> bytes(kReadAtOnce);
  while (true) {
    const ssize_t count = ::read(from, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return bad_input("weights file {0}: {1}", file_, errno_text(errno));
    if (count == 0) break;
    const llvm::ArrayRef<uint8_t> part(bytes.data(), static_cast<size_t>(count));
    digest.update(part);
    if (!write_all(descriptor_, part)) return no_memory();
  }
  const auto final = digest.final();  // of LLVM's older releases a text, else an array
  sha256_ = llvm::toHex({reinterpret_cast<const char*>(final.data()), final.size()}, /*LowerCase=*/true);
  return llvm::Error::success();
}

WeightsSnapshot::WeightsSnapshot(WeightsSnapshot&& other) noexcept
    : file_(std::move(other.file_)),
      sha256_(std::move(other.sha256_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

WeightsSnapshot::~WeightsSnapshot() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string WeightsSnapshot::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

}  // namespace minuet::tool
