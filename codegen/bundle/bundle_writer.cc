#include "codegen/bundle/bundle_writer.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/base/arch.h"
#include "codegen/base/sha256.h"
#include "codegen/base/whole_file.h"
#include "codegen/bundle/bundle_format.h"
#include "codegen/bundle/bundle_frames.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

/// Holds a kernel that will be written to a bundle.
struct Item {
  std::string key;  // Holds the request key (keys.h) as 32 bytes.
  const Entry* entry;
  BundlePayload payload;
};

/// Returns the compiler's log without the lines that contain compile times.
std::string log_without_times(llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef, 16> lines;
  log.split(lines, '\n');
  std::string text;
  for (llvm::StringRef line : lines) {
    if (line.contains("Compile time")) continue;
    text += (text.empty() ? "" : "\n") + line.str();
  }
  return text;
}

/// Returns the entry without fields that the bundle stores elsewhere and without values that differ from run
/// to run.
Entry stable_entry(const Entry& entry) {
  Entry stable;
  stable.name_expression = entry.name_expression;
  stable.binary = entry.binary;
  stable.binary.cubin.clear();
  stable.binary.compile_ms = 0;
  stable.binary.log = log_without_times(entry.binary.log);
  return stable;
}

llvm::Expected<Item> make_item(llvm::StringRef arch, const Entry& entry) {
  const auto refuse = [&](const std::string& why) {
    return make_error(StatusCode::InvalidArgument, "kernel {0} cannot be put into a bundle for {1}: {2}",
                      entry.binary.display_name, arch, why);
  };
  Item item{{}, &entry, {write_manifest(stable_entry(entry)), entry.binary.cubin, entry.binary.display_name}};
  if (entry.request_key.size() != 64 || !llvm::tryGetFromHex(entry.request_key, item.key)) {
    return refuse("its request key does not have 64 hex digits");
  }
  if (entry.binary.arch != arch) return refuse("it is for " + entry.binary.arch);
  if (entry.binary.compiler_id.find('\0') != std::string::npos)
    return refuse("its compiler has a NUL byte in its name");
  if (item.payload.manifest.size() > kMostManifestBytes ||
      item.payload.manifest.size() + item.payload.cubin.size() > kMostKernelBytes) {
    return refuse("it is too large");
  }
  if (llvm::Error error = check_cubin(entry)) return refuse(take_status(std::move(error)).message());
  return item;
}

/// Returns one item for each request key (keys.h), sorted by key. Returns InvalidArgument if two different
/// kernels have the same key.
llvm::Expected<std::vector<Item>> make_items(llvm::StringRef arch, const std::vector<Entry>& entries) {
  std::map<std::string, Item> items;
  for (const Entry& entry : entries) {
    MINUET_ASSIGN(Item item, make_item(arch, entry));
    const auto [place, added] = items.try_emplace(item.key, item);
    const BundlePayload& there = place->second.payload;
    if (!added && (there.manifest != item.payload.manifest || there.cubin != item.payload.cubin)) {
      return make_error(StatusCode::InvalidArgument, "kernel {0} is given twice with different contents",
                        entry.binary.display_name);
    }
  }
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (auto& [key, item] : items) sorted.push_back(std::move(item));
  return sorted;
}

/// Holds the names of architectures and compilers in a bundle without repeats, and the offset of each name.
class StringTable {
 public:
  explicit StringTable(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      starts_[name] = static_cast<std::uint32_t>(bytes_.size());
      bytes_ += name + '\0';
    }
  }
  const std::string& bytes() const { return bytes_; }
  std::uint32_t start(const std::string& name) const { return starts_.at(name); }

 private:
  std::string bytes_;
  std::map<std::string, std::uint32_t> starts_;
};

StringTable make_strings(llvm::StringRef arch, const std::vector<Item>& items) {
  std::set<std::string> names = {arch.str()};
  for (const Item& item : items) names.insert(item.entry->binary.compiler_id);
  return StringTable(names);
}

std::string choose_dictionary_of(const std::vector<Item>& items) {
  std::vector<const BundlePayload*> payloads;
  payloads.reserve(items.size());
  for (const Item& item : items) payloads.push_back(&item.payload);
  return choose_dictionary(payloads);
}

template <std::size_t size>
void set_field(char (&field)[size], llvm::StringRef bytes) {
  std::copy_n(bytes.begin(), std::min(size, bytes.size()), field);
}

template <class T>
std::string raw_bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Compresses each item to a zstd frame, appends a BundleRow for it to `rows`, and returns the frames.
/// `offset` is the offset of the first frame in the file.
llvm::Expected<std::string> pack_items(const std::vector<Item>& items, const StringTable& strings,
                                       llvm::StringRef dictionary, std::uint64_t offset, std::string& rows) {
  FramePacker packer(dictionary);
  std::string frames;
  for (const Item& item : items) {
    const BundlePayload& payload = item.payload;
    MINUET_ASSIGN(const std::string frame, packer.pack(payload.manifest + payload.cubin));
    BundleRow row = {};
    set_field(row.key, item.key);
    set_field(row.digest, digest_of(frame));
    row.offset = offset + frames.size();
    row.frame_bytes = static_cast<std::uint32_t>(frame.size());
    row.manifest_bytes = static_cast<std::uint32_t>(payload.manifest.size());
    row.cubin_bytes = static_cast<std::uint32_t>(payload.cubin.size());
    row.arch = strings.start(item.entry->binary.arch);
    row.compiler = strings.start(item.entry->binary.compiler_id);
    rows += raw_bytes(row);
    frames += frame;
  }
  return frames;
}

}  // namespace

llvm::Expected<std::string> make_bundle(llvm::StringRef arch, const std::vector<Entry>& entries,
                                        llvm::StringRef tuning) {
  BundleHead head = {};
  if (capability(arch) == 0 || arch.size() >= sizeof head.arch) {
    return not_an_arch(arch);
  }
  MINUET_ASSIGN(const std::vector<Item> items, make_items(arch, entries));
  const StringTable strings = make_strings(arch, items);
  if (items.size() > kMostBundleEntries || strings.bytes().size() > kMostStringsBytes ||
      tuning.size() > kMostTuningBytes) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernels and tuning results do not fit into one bundle: compile part of them into "
                      "another folder");
  }
  const std::string dictionary = choose_dictionary_of(items);
  MINUET_ASSIGN(const std::string dictionary_frame, FramePacker({}).pack(dictionary));
  const std::uint64_t frames_start = sizeof head + items.size() * sizeof(BundleRow) + strings.bytes().size() +
                                     dictionary_frame.size() + tuning.size();
  std::string rows;
  MINUET_ASSIGN(const std::string frames, pack_items(items, strings, dictionary, frames_start, rows));
  set_field(head.magic, bytes_of(kBundleMagic));
  head.format = kBundleFormat;
  head.entries = static_cast<std::uint32_t>(items.size());
  set_field(head.arch, arch);
  head.file_bytes = frames_start + frames.size() + kDigestBytes;
  head.strings_bytes = static_cast<std::uint32_t>(strings.bytes().size());
  head.dictionary_bytes = static_cast<std::uint32_t>(dictionary_frame.size());
  head.dictionary_raw_bytes = static_cast<std::uint32_t>(dictionary.size());
  head.tuning_bytes = tuning.size();
  set_field(head.dictionary_digest, digest_of(dictionary_frame));
  set_field(head.tuning_digest, digest_of(tuning));
  set_field(head.index_digest, index_digest(raw_bytes(head) + rows + strings.bytes()));
  const std::string bytes =
      raw_bytes(head) + rows + strings.bytes() + dictionary_frame + tuning.str() + frames;
  return bytes + digest_of(bytes);
}

llvm::Expected<WrittenBundle> write_bundle(const std::string& path, llvm::StringRef arch,
                                           const std::vector<Entry>& entries, llvm::StringRef tuning) {
  MINUET_ASSIGN(const std::string bytes, make_bundle(arch, entries, tuning));
  MINUET_TRY(write_whole_file(path, bytes));
  WrittenBundle written{sha256_hex(bytes), bytes.size(), 0};
  for (const Entry& entry : entries) written.raw_cubin_bytes += entry.binary.cubin.size();
  return written;
}

}  // namespace minuet
