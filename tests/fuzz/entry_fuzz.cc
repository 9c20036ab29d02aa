// An entry of the store. The first byte of the input says what the rest is:
//   even  a whole file, whose digest is made right, or nothing behind the head would ever be reached
//   odd   two bytes with the size of the manifest, the manifest, the cubin: packed as the writer does
#include <zstd.h>

#include <cstring>

#include "codegen/base/sha256.h"
#include "codegen/compile/entry.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

constexpr std::size_t kHeadBytes = 96, kDigestAt = 32;
constexpr std::size_t kManifestSizeAt = 12, kFrameSizeAt = 16, kCubinSizeAt = 24;

void put(std::string& bytes, std::size_t at, std::uint64_t value, std::size_t size) {
  std::memcpy(&bytes[at], &value, size);
}

std::string with_right_digest(std::string file) {
  if (file.size() < kHeadBytes) return file;
  std::uint64_t cubin_bytes = 0;
  std::memcpy(&cubin_bytes, &file[kCubinSizeAt], sizeof cubin_bytes);
  // The reader takes up to 256 MiB by this number. That is meant, and too slow here.
  put(file, kCubinSizeAt, cubin_bytes & 0xfffff, 8);
  file.replace(kDigestAt, 64, sha256_hex(llvm::StringRef(file).drop_front(kHeadBytes)));
  return file;
}

std::string packed(llvm::StringRef manifest, llvm::StringRef cubin) {
  Entry entry;
  std::string frame(ZSTD_compressBound(cubin.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), cubin.data(), cubin.size(), /*level=*/1));
  std::string file = write_entry(entry).substr(0, kHeadBytes) + manifest.str() + frame;
  put(file, kManifestSizeAt, manifest.size(), 4);
  put(file, kFrameSizeAt, frame.size(), 8);
  put(file, kCubinSizeAt, cubin.size(), 8);
  return with_right_digest(std::move(file));
}

std::string entry_of(llvm::StringRef input) {
  const bool whole = input[0] % 2 == 0;
  input = input.drop_front();
  if (whole || input.size() < 2) return with_right_digest(input.str());
  std::uint16_t size = 0;
  std::memcpy(&size, input.data(), sizeof size);
  input = input.drop_front(2);
  return packed(input.take_front(size), input.substr(size));
}

}  // namespace

bool fuzz_entry(llvm::StringRef input) {
  if (input.empty()) return false;
  llvm::Expected<Entry> entry = read_entry(entry_of(input));
  if (!entry) {
    llvm::consumeError(entry.takeError());
    return false;
  }
  entry->binary.compile_ms = 0;  // 1e999 is read as infinite, which JSON cannot write
  llvm::Expected<Entry> again = read_entry(write_entry(*entry));
  require(static_cast<bool>(again));
  require(again->binary.cubin == entry->binary.cubin && again->request_key == entry->request_key);
  require(again->binary.lowered_name == entry->binary.lowered_name &&
          again->binary.arch == entry->binary.arch);
  return true;
}

}  // namespace minuet
