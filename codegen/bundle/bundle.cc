#include "codegen/bundle/bundle.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "codegen/base/arch.h"
#include "codegen/base/file_kind.h"
#include "codegen/bundle/bundle_frames.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

/// identify_file() needs no more bytes to recognize another kind of file.
constexpr std::uint64_t kStartBytes = 4096;

llvm::Error damaged_bundle(const std::string& what) {
  return make_error(StatusCode::InvalidArgument, "the bundle is damaged and must be made again: {0}", what);
}

/// Returns the error for a file that is not a bundle. The error names the kind of the file if that is known.
llvm::Error no_bundle(llvm::StringRef start) {
  const std::optional<KnownFile> file = identify_file(start);
  return make_error(StatusCode::InvalidArgument, "{0}",
                    file ? other_file_text(*file, WantedFile::Bundle, "a bundle") : "it is not a bundle");
}

std::string hex_of(llvm::StringRef bytes) { return llvm::toHex(bytes, /*LowerCase=*/true); }

std::uint64_t index_bytes(const BundleHead& head) {
  return sizeof head + std::uint64_t{head.entries} * sizeof(BundleRow) + head.strings_bytes;
}

std::uint64_t frames_start(const BundleHead& head) {
  return index_bytes(head) + head.dictionary_bytes + head.tuning_bytes;
}

/// Checks the numbers in the head before memory is allocated according to them.
llvm::Error check_head(const BundleHead& head, std::uint64_t file_bytes) {
  if (head.format != kBundleFormat) {
    return make_error(StatusCode::InvalidArgument,
                      "the bundle has format {0}, but this library reads format {1}: make it again with this "
                      "library's `minuet precompile`",
                      head.format, kBundleFormat);
  }
  if (head.entries > kMostBundleEntries || head.strings_bytes > kMostStringsBytes ||
      head.dictionary_bytes > kMostDictionaryBytes || head.dictionary_raw_bytes > kMostDictionaryBytes ||
      head.tuning_bytes > kMostTuningBytes) {
    return damaged_bundle("the sizes in its header are out of range");
  }
  if (head.file_bytes != file_bytes || frames_start(head) + kDigestBytes > file_bytes) {
    return damaged_bundle("its size does not match its header");
  }
  return llvm::Error::success();
}

llvm::Error check_trust(const struct stat& status, const TrustPolicy& trust) {
  if (trust.trusts(status)) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "it belongs to user {0} with mode {1}{2}{3}: others may have written the kernels in it "
                    "(run chmod go-w if it is yours, give the digest to expect, or set MINUET_CACHE_SHARED=1 "
                    "if you trust them)",
                    status.st_uid, status.st_mode >> 6 & 7, status.st_mode >> 3 & 7, status.st_mode & 7);
}

/// Checks the owner and the mode if `trust` is not null, and returns the size of the file.
llvm::Expected<std::uint64_t> check_file(const FileHandle& file, const TrustPolicy* trust) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return make_system_error("cannot read the bundle's attributes");
  if (trust != nullptr) {
    MINUET_TRY(check_trust(status, *trust));
  }
  if (!S_ISREG(status.st_mode)) return make_error(StatusCode::InvalidArgument, kNotRegularFile);
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

llvm::Expected<std::unique_ptr<Bundle>> Bundle::open(const std::string& path, const TrustPolicy* trust) {
  // Without O_NONBLOCK, opening a FIFO could block forever.
  FileHandle file(real_file_system(), ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.good()) return annotate(make_system_error("the bundle cannot be opened"), path);
  llvm::Expected<std::uint64_t> size = check_file(file, trust);
  if (!size) return annotate(size.takeError(), path);
  return open_source(path, std::move(file), *size);
}

llvm::Expected<std::unique_ptr<Bundle>> Bundle::open_memory(llvm::StringRef bytes) {
  return open_source("the bundle of " + std::to_string(bytes.size()) + " bytes in memory", bytes.str(),
                     bytes.size());
}

llvm::Expected<std::unique_ptr<Bundle>> Bundle::open_source(std::string name, Source source,
                                                            std::uint64_t size) {
  std::unique_ptr<Bundle> bundle(new Bundle(std::move(name), std::move(source)));
  if (llvm::Error error = bundle->read_index(size)) return annotate(std::move(error), bundle->name_);
  if (llvm::Error error = bundle->check_contents()) return annotate(std::move(error), bundle->name_);
  return bundle;
}

llvm::Error Bundle::read_index(std::uint64_t size) {
  MINUET_ASSIGN(const std::string start, read_bytes(0, std::min(size, kStartBytes)));
  if (size < sizeof head_ + kDigestBytes ||
      llvm::StringRef(start).take_front(sizeof kBundleMagic) != bytes_of(kBundleMagic)) {
    return no_bundle(start);
  }
  std::memcpy(&head_, start.data(), sizeof head_);
  MINUET_TRY(check_head(head_, size));
  if (const auto* const memory = std::get_if<std::string>(&source_)) {
    index_ = llvm::StringRef(*memory).take_front(index_bytes(head_));
  } else {
    MINUET_ASSIGN(const std::string rest, read_bytes(sizeof head_, index_bytes(head_) - sizeof head_));
    index_of_file_ = start.substr(0, sizeof head_) + rest;
    index_ = index_of_file_;
  }
  if (index_digest(index_) != bytes_of(head_.index_digest))
    return damaged_bundle("its index does not match the digest in its header");
  const llvm::StringRef arch = bytes_of(head_.arch);
  arch_ = arch.take_until([](char c) { return c == '\0'; }).str();
  if (arch_.size() == arch.size() || capability(arch_) == 0)
    return damaged_bundle("it names no architecture");
  return llvm::Error::success();
}

llvm::Error Bundle::check_contents() const {
  if (head_.strings_bytes == 0 || index_.back() != '\0')
    return damaged_bundle("its last name has no terminating NUL");
  std::uint64_t end = frames_start(head_);
  std::string previous;
  for (std::size_t i = 0; i < size(); ++i) {
    const BundleRow row = this->row(i);
    const std::string key = bytes_of(row.key).str();
    if (i > 0 && key <= previous) return damaged_bundle("the keys in its index are not sorted");
    previous = key;
    if (row.offset != end || row.frame_bytes > head_.file_bytes - end) {
      return damaged_bundle("the place of a kernel is out of range");
    }
    end += row.frame_bytes;
    if (row.manifest_bytes > kMostManifestBytes || row.cubin_bytes > kMostKernelBytes - row.manifest_bytes) {
      return damaged_bundle("the size of a kernel is out of range");
    }
    if (row.arch >= head_.strings_bytes || row.compiler >= head_.strings_bytes) {
      return damaged_bundle("the place of a name is out of range");
    }
    if (text(row.arch) != arch_)
      return damaged_bundle("the architecture of a kernel is not that of the bundle");
  }
  return end + kDigestBytes == head_.file_bytes ? llvm::Error::success()
                                                : damaged_bundle("it has bytes that belong to no part");
}

llvm::Expected<std::string> Bundle::read_bytes(std::uint64_t offset, std::uint64_t size) const {
  if (const auto* const memory = std::get_if<std::string>(&source_)) return memory->substr(offset, size);
  const FileHandle& file = std::get<FileHandle>(source_);
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::pread(file.get(), &bytes[done], size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error("the bundle cannot be read");
    if (count == 0) return damaged_bundle("it was cut short while it was open");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

BundleRow Bundle::row(std::size_t index) const {
  BundleRow row;
  std::memcpy(&row, index_.data() + sizeof head_ + index * sizeof row, sizeof row);
  return row;
}

llvm::StringRef Bundle::text(std::uint32_t start) const {
  // The strings end with '\0' (see check_contents()), so every name in them is terminated.
  return index_.take_back(head_.strings_bytes).drop_front(start).data();
}

BundleItem Bundle::item(std::size_t index) const {
  const BundleRow row = this->row(index);
  return {hex_of(bytes_of(row.key)),
          text(row.arch).str(),
          text(row.compiler).str(),
          hex_of(bytes_of(row.digest)),
          row.offset,
          row.frame_bytes,
          row.cubin_bytes};
}

std::optional<std::size_t> Bundle::find(llvm::StringRef request_key) const {
  std::string key;
  if (request_key.size() != 64 || !llvm::tryGetFromHex(request_key, key)) return std::nullopt;
  std::size_t first = 0;
  for (std::size_t count = size(); count > 0;) {
    const std::size_t half = count / 2;
    const BundleRow middle = row(first + half);
    const int order = bytes_of(middle.key).compare(key);
    if (order == 0) return first + half;
    first = order < 0 ? first + half + 1 : first;
    count = order < 0 ? count - half - 1 : half;
  }
  return std::nullopt;
}

Bundle::Dictionary Bundle::read_dictionary() const {
  const auto read = [this]() -> llvm::Expected<std::string> {
    MINUET_ASSIGN(const std::string frame, read_bytes(index_bytes(head_), head_.dictionary_bytes));
    if (digest_of(frame) != bytes_of(head_.dictionary_digest)) {
      return damaged_bundle("its dictionary does not match its digest");
    }
    return unpack_frame(frame, {}, head_.dictionary_raw_bytes);
  };
  llvm::Expected<std::string> bytes = read();
  if (bytes) return {std::move(*bytes), ""};
  return {"", take_status(bytes.takeError()).message()};
}

llvm::Expected<llvm::StringRef> Bundle::dictionary() const {
  const Dictionary& dictionary = dictionary_.get([this] { return read_dictionary(); });
  if (dictionary.error.empty()) return llvm::StringRef(dictionary.bytes);
  return make_error(StatusCode::InvalidArgument, "{0}", dictionary.error);
}

llvm::Expected<Entry> Bundle::read(std::size_t index) const {
  const BundleRow row = this->row(index);
  MINUET_ASSIGN(const std::string frame, read_bytes(row.offset, row.frame_bytes));
  if (digest_of(frame) != bytes_of(row.digest)) return damaged_bundle("a kernel does not match its digest");
  MINUET_ASSIGN(const llvm::StringRef dictionary, this->dictionary());
  MINUET_ASSIGN(const std::string bytes,
                unpack_frame(frame, dictionary, std::size_t{row.manifest_bytes} + row.cubin_bytes));
  Entry entry;
  MINUET_TRY(read_manifest(llvm::StringRef(bytes).take_front(row.manifest_bytes), entry));
  entry.binary.cubin = bytes.substr(row.manifest_bytes);
  // A cubin does not contain the suffix of its architecture, such as the 'a' of sm_90a. So the kernel's
  // manifest and the bundle's table of contents must agree on the architecture.
  if (entry.binary.arch != text(row.arch))
    return damaged_bundle("a kernel's manifest and the bundle's index name different architectures");
  if (entry.binary.compiler_id != text(row.compiler))
    return damaged_bundle("a kernel's manifest and the bundle's index name different compilers");
  MINUET_TRY(check_cubin(entry));
  entry.request_key = hex_of(bytes_of(row.key));
  entry.build_key = build_key(entry.request_key, entry.binary.compiler_id);
  return entry;
}

llvm::Expected<std::vector<Entry>> Bundle::read_all() const {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < size(); ++i) {
    MINUET_ASSIGN(Entry entry, read(i));
    entries.push_back(std::move(entry));
  }
  return entries;
}

llvm::Expected<std::string> Bundle::tuning() const {
  MINUET_ASSIGN(std::string bytes,
                read_bytes(index_bytes(head_) + head_.dictionary_bytes, head_.tuning_bytes));
  if (digest_of(bytes) != bytes_of(head_.tuning_digest))
    return damaged_bundle("its tuning results do not match their digest");
  return bytes;
}

llvm::Expected<Bundle::Digests> Bundle::digests() const {
  constexpr std::uint64_t kPart = 1u << 20;
  BundleDigest hash;
  hash.add(index_);
  const std::uint64_t end = head_.file_bytes - kDigestBytes;
  for (std::uint64_t at = index_.size(); at < end;) {
    MINUET_ASSIGN(const std::string part, read_bytes(at, std::min(kPart, end - at)));
    hash.add(part);
    at += part.size();
  }
  Digests digests;
  digests.body = BundleDigest(hash).bytes();
  MINUET_ASSIGN(digests.trailer, read_bytes(end, kDigestBytes));
  digests.file = hash.add(digests.trailer).bytes();
  return digests;
}

llvm::Expected<std::string> Bundle::file_sha256() const {
  MINUET_ASSIGN(const Digests digests, this->digests());
  return hex_of(digests.file);
}

llvm::Expected<BundleCheck> Bundle::verify() const {
  MINUET_ASSIGN(const Digests digests, this->digests());
  BundleCheck check{hex_of(digests.file), head_.file_bytes, {}};
  const auto note = [&](const std::string& what, llvm::Error error) {
    if (error) check.damaged.push_back({what, take_status(std::move(error)).message()});
  };
  if (digests.body != digests.trailer)
    note("the file", damaged_bundle("the file does not match the digest at its end"));
  note("the dictionary", dictionary().takeError());
  note("the tuning results", tuning().takeError());
  for (std::size_t i = 0; i < size(); ++i) note(item(i).request_key, read(i).takeError());
  return check;
}

}  // namespace minuet
