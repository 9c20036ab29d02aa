#include "runtime/weights/zip_checksum.h"

#include <array>

#include "llvm/Support/Endian.h"

namespace minuet {
namespace {

constexpr std::size_t kStep = 8;  // The main loop takes this number of bytes at a time.
constexpr std::uint32_t kPolynomial = 0xedb88320;

/// Holds the checksum of each byte that is followed by 0 to 7 bytes of zero.
using Tables = std::array<std::array<std::uint32_t, 256>, kStep>;

Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t zeros = 1; zeros < kStep; ++zeros) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[zeros - 1][byte];
      tables[zeros][byte] = value >> 8 ^ tables[0][value & 0xff];
    }
  }
  return tables;
}

}  // namespace

std::uint32_t zip_checksum(llvm::StringRef bytes) {
  static const Tables tables = make_tables();
  std::uint32_t sum = 0xffffffff;
  for (; bytes.size() >= kStep; bytes = bytes.drop_front(kStep)) {
    const std::uint64_t next = llvm::support::endian::read64le(bytes.data()) ^ sum;
    sum = 0;
    for (std::size_t i = 0; i < kStep; ++i) sum ^= tables[kStep - 1 - i][next >> 8 * i & 0xff];
  }
  for (const char byte : bytes) sum = sum >> 8 ^ tables[0][(sum ^ static_cast<std::uint8_t>(byte)) & 0xff];
  return ~sum;
}

}  // namespace minuet
