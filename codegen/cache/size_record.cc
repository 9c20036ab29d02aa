#include "codegen/cache/size_record.h"

#include <limits>

namespace minuet {
namespace {

constexpr const char* kName = "size";
constexpr std::uint64_t kMostBytes = 1 << 20;  // A longer file is not read, and the next prune replaces it.

bool is_number(llvm::StringRef text, std::uint64_t& number) { return !text.getAsInteger(10, number); }

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum < a ? std::numeric_limits<std::uint64_t>::max() : sum;
}

/// Appends a line to the size file if the file exists. Failures are ignored, because a lost line only makes
/// the recorded size of the store too small until the next prune.
void append(const StoreRoot& root, int version, const std::string& line) {
  const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const FileHandle file(root.system, root.system.open_at(version, kName, flags, 0));
  struct stat status;
  if (!file.good() || root.system.stat_file(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  // A write past the file size limit would raise a signal that ends the host's process.
  if (llvm::Error error = check_file_limit(static_cast<std::uint64_t>(status.st_size) + line.size())) {
    return llvm::consumeError(std::move(error));
  }
  static_cast<void>(root.system.write(file.get(), line.data(), line.size()));
}

}  // namespace

std::optional<StoreSize> sum_of_record(llvm::StringRef text) {
  StoreSize sum;
  bool has_total = false;
  while (!text.empty()) {
    const auto [line, rest] = text.split('\n');
    text = rest;
    const auto [kind, numbers] = line.split(' ');
    const auto [bytes_text, entries_text] = numbers.split(' ');
    std::uint64_t bytes = 0, entries = 1;
    const bool is_total = kind == "total";
    if ((!is_total && kind != "add") || !is_number(bytes_text, bytes)) return std::nullopt;
    if (is_total ? !is_number(entries_text, entries) : !entries_text.empty()) return std::nullopt;
    sum = {add(sum.bytes, bytes), add(sum.entries, entries)};
    has_total |= is_total;
  }
  if (!has_total) return std::nullopt;
  return sum;
}

std::optional<StoreSize> read_size(const StoreRoot& root) {
  llvm::Expected<FileHandle> version = root.open({}, Missing::Fail);
  if (!version) return llvm::consumeError(version.takeError()), std::nullopt;
  struct stat status;
  llvm::Expected<std::string> text = root.read_file(version->get(), kName, kMostBytes, status);
  if (!text) return llvm::consumeError(text.takeError()), std::nullopt;
  return sum_of_record(*text);
}

void add_to_size(const StoreRoot& root, std::uint64_t bytes) {
  llvm::Expected<FileHandle> version = root.open({}, Missing::Fail);
  if (!version) return llvm::consumeError(version.takeError());
  append(root, version->get(), "add " + std::to_string(bytes) + "\n");
}

bool begin_size(const StoreRoot& root, int version) {
  return !llvm::errorToBool(root.write_file(version, kName, ""));
}

void end_size(const StoreRoot& root, int version, const StoreSize& total) {
  append(root, version, "total " + std::to_string(total.bytes) + " " + std::to_string(total.entries) + "\n");
}

}  // namespace minuet
