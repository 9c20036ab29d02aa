#include "runtime/weights/zip_archive.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Endian.h"
#include "runtime/weights/file_ranges.h"
#include "runtime/weights/list_text.h"
#include "runtime/weights/zip_checksum.h"

namespace minuet {
namespace {

using llvm::support::endian::read16le;
using llvm::support::endian::read32le;
using llvm::support::endian::read64le;

// The sizes of the records without their names, extra fields and comments.
constexpr uint64_t kLocalHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22, kLongEndBytes = 56,
                   kLongLocatorBytes = 20;
constexpr uint64_t kLongestComment = 0xffff;
// These values of 32-bit and 16-bit fields say that the value is in a 64-bit field elsewhere.
constexpr uint32_t kInLongField = 0xffffffff;
constexpr uint16_t kInLongCount = 0xffff;
// The bits of the flags for encryption, strong encryption and encrypted names, and for sizes behind the
// bytes.
constexpr uint16_t kEncrypted = 1u << 0 | 1u << 6 | 1u << 13, kSizesFollow = 1u << 3;

bool has_signature(llvm::StringRef bytes, uint64_t at, llvm::StringRef signature) {
  return bytes.substr(at, signature.size()) == signature;
}

llvm::Error damaged(const char* why) {
  return make_error(StatusCode::InvalidArgument,
                    "its zip archive is damaged or truncated: {0}; copy or download the file again", why);
}

/// Returns what is wrong with the name of an entry, or null. Unpacking an entry of a wrong name would write
/// outside the folder of the archive, which no file of torch.save does.
const char* wrong_name(llvm::StringRef name) {
  if (name.empty()) return "is empty";
  const bool has_drive = name.size() > 1 && name[1] == ':';
  if (name.front() == '/' || has_drive) return "is an absolute path";
  if (name.contains('\\') || name.contains('\0')) return "has characters that no path should have";
  llvm::SmallVector<llvm::StringRef, 4> parts;
  name.split(parts, '/');
  return llvm::is_contained(parts, "..") ? "leads out of its folder" : nullptr;
}

}  // namespace

llvm::Expected<ZipArchive> ZipArchive::open(llvm::StringRef bytes) {
  ZipArchive archive;
  archive.bytes_ = bytes;
  MINUET_ASSIGN(const Directory directory, archive.find_directory());
  MINUET_TRY(archive.read_entries(directory));
  MINUET_TRY(archive.check_overlaps());
  return archive;
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

llvm::Expected<llvm::StringRef> ZipArchive::read(llvm::StringRef name) {
  const auto found = entries_.find(name.str());
  if (found == entries_.end())
    return make_error(StatusCode::InvalidArgument, "its zip archive has no entry \"{0}\"", shown_name(name));
  Entry& entry = found->second;
  const llvm::StringRef data = bytes_.substr(entry.begin, entry.size);
  entry.is_checked = entry.is_checked || zip_checksum(data) == entry.checksum;
  if (!entry.is_checked) {
    return make_error(StatusCode::InvalidArgument,
                      "the CRC-32 of the entry \"{0}\" in its zip archive is wrong: the file is damaged, or "
                      "torch.save wrote it after set_crc32_options(False); copy the file or save it again",
                      shown_name(name));
  }
  return data;
}

llvm::Expected<ZipArchive::Directory> ZipArchive::find_directory() const {
  if (bytes_.size() < kEndBytes) return damaged("it has fewer bytes than an end record");
  const uint64_t last = bytes_.size() - kEndBytes;
  // The record at the end has a comment of variable size, which is empty in files of torch.save.
  for (uint64_t comment = 0; comment <= std::min(last, kLongestComment); ++comment) {
    const uint64_t at = last - comment;
    const char* const end = bytes_.data() + at;
    if (!has_signature(bytes_, at, "PK\x05\x06") || read16le(end + 20) != comment) continue;
    if (read16le(end + 4) != 0 || read16le(end + 6) != 0 || read16le(end + 8) != read16le(end + 10))
      return damaged("it is one of several parts");
    Directory directory{read32le(end + 16), read32le(end + 12), read16le(end + 10)};
    uint64_t directory_end = at;
    if (at >= kLongLocatorBytes && has_signature(bytes_, at - kLongLocatorBytes, "PK\x06\x07")) {
      MINUET_TRY(read_long_directory(at - kLongLocatorBytes, directory));
      directory_end = read64le(bytes_.data() + at - kLongLocatorBytes + 8);
    }
    if (directory.begin > directory_end || directory_end - directory.begin != directory.size)
      return damaged("its directory does not lie in front of its end record");
    return directory;
  }
  return damaged("it has no end record");
}

/// Replaces `directory` by the values of the 64-bit record, whose locator begins at `locator`.
llvm::Error ZipArchive::read_long_directory(uint64_t locator, Directory& directory) const {
  const uint64_t at = read64le(bytes_.data() + locator + 8);
  if (at > locator || locator - at != kLongEndBytes || !has_signature(bytes_, at, "PK\x06\x06"))
    return damaged("its 64-bit end record is not where it must be");
  const char* const end = bytes_.data() + at;
  const Directory found{read64le(end + 48), read64le(end + 40), read64le(end + 32)};
  const bool agree = (directory.begin == kInLongField || directory.begin == found.begin) &&
                     (directory.size == kInLongField || directory.size == found.size) &&
                     (directory.entries == kInLongCount || directory.entries == found.entries);
  if (!agree || read64le(end + 24) != found.entries) return damaged("its two end records disagree");
  directory = found;
  return llvm::Error::success();
}

llvm::Error ZipArchive::read_entries(const Directory& directory) {
  llvm::StringRef rest = bytes_.substr(directory.begin, directory.size);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kEntryBytes || !has_signature(rest, 0, "PK\x01\x02"))
      return damaged("an entry of its directory is missing");
    const char* const record = rest.data();
    const uint64_t name_bytes = read16le(record + 28), extra_bytes = read16le(record + 30);
    const uint64_t record_bytes = kEntryBytes + name_bytes + extra_bytes + read16le(record + 32);
    if (rest.size() < record_bytes) return damaged("an entry of its directory is cut off");
    const llvm::StringRef name = rest.substr(kEntryBytes, name_bytes);
    Entry entry;
    entry.flags = read16le(record + 8);
    entry.method = read16le(record + 10);
    entry.checksum = read32le(record + 16);
    entry.size = read32le(record + 24);
    entry.header = read32le(record + 42);
    uint64_t stored = read32le(record + 20);
    MINUET_TRY(read_long_sizes(name, rest.substr(kEntryBytes + name_bytes, extra_bytes), stored, entry));
    if (entry.method == 0 && stored != entry.size) return damaged("an entry has two sizes");
    MINUET_TRY(add_entry(name, entry, directory));
    rest = rest.drop_front(record_bytes);
  }
  return rest.empty() ? llvm::Error::success() : damaged("its directory has more entries than it says");
}

/// Replaces those values that are in the 64-bit extra field. The field has only them, in this order.
llvm::Error ZipArchive::read_long_sizes(llvm::StringRef name, llvm::StringRef extra, uint64_t& stored,
                                        Entry& entry) const {
  llvm::StringRef field;
  while (extra.size() >= 4) {
    const uint64_t size = read16le(extra.data() + 2);
    if (extra.size() - 4 < size) return damaged("an extra field is cut off");
    if (read16le(extra.data()) == 1) field = extra.substr(4, size);
    extra = extra.drop_front(4 + size);
  }
  for (uint64_t* const value : {&entry.size, &stored, &entry.header}) {
    if (*value != kInLongField) continue;
    if (field.size() < 8) {
      return make_error(StatusCode::InvalidArgument,
                        "the entry \"{0}\" in its zip archive has no 64-bit size, so the file is damaged",
                        shown_name(name));
    }
    *value = read64le(field.data());
    field = field.drop_front(8);
  }
  return llvm::Error::success();
}

/// Compares the entry with its local header and adds it.
llvm::Error ZipArchive::add_entry(llvm::StringRef name, Entry entry, const Directory& directory) {
  const auto refuse = [&](const char* why) {
    return make_error(StatusCode::InvalidArgument, "the entry \"{0}\" in its zip archive {1}",
                      shown_name(name), why);
  };
  if (const char* const wrong = wrong_name(name)) return refuse(wrong);
  if ((entry.flags & kEncrypted) != 0) return refuse("is encrypted: save the checkpoint without encryption");
  if (entry.method != 0)
    return refuse(
        "is compressed, and torch.save does not compress: load the file in Python and save it again");
  if (entry.header > directory.begin || directory.begin - entry.header < kLocalHeaderBytes ||
      !has_signature(bytes_, entry.header, "PK\x03\x04"))
    return refuse("has no local header");
  const char* const local = bytes_.data() + entry.header;
  entry.begin = entry.header + kLocalHeaderBytes + read16le(local + 26) + read16le(local + 28);
  if (entry.begin > directory.begin || directory.begin - entry.begin < entry.size)
    return refuse("reaches past the end of the file");
  const uint16_t flags = read16le(local + 6);
  bool agrees = bytes_.substr(entry.header + kLocalHeaderBytes, read16le(local + 26)) == name &&
                read16le(local + 8) == entry.method && (flags & kEncrypted) == 0;
  if ((flags & kSizesFollow) == 0) {
    const uint32_t sizes[] = {read32le(local + 18), read32le(local + 22)};
    agrees &= read32le(local + 14) == entry.checksum;
    for (const uint32_t size : sizes) agrees &= size == kInLongField || size == entry.size;
  }
  if (!agrees) return refuse("differs from its local header");
  if (!entries_.emplace(name.str(), entry).second) return refuse("is there twice");
  return llvm::Error::success();
}

llvm::Error ZipArchive::check_overlaps() const {
  std::vector<FileRange> ranges;
  for (const auto& [name, entry] : entries_) ranges.push_back({entry.header, entry.begin + entry.size, name});
  sort_ranges(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i - 1].end) continue;
    return make_error(StatusCode::InvalidArgument,
                      "the entry \"{0}\" in its zip archive overlaps another one",
                      shown_name(ranges[i].name));
  }
  return llvm::Error::success();
}

}  // namespace minuet
