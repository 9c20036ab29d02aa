// A bundle. The first byte of the input says what the rest is:
//   bit 0 clear  a whole file. Its digests are made right, or nothing behind them would ever be reached;
//                bit 1 set: so are magic, version, file size and the offsets of the frames
//   bit 0 set    two bytes with the size of the manifest, the manifest, the cubin: of the one kernel of a
//                bundle that is right beside that
#include <cstring>

#include "codegen/base/sha256.h"
#include "codegen/bundle/bundle.h"
#include "codegen/bundle/bundle_frames.h"
#include "codegen/bundle/bundle_writer.h"
#include "tests/codegen/bundle/bundle_fakes.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

std::string with_right_sizes(std::string bytes) {
  BundleHead head;
  if (bytes.size() < sizeof head + kDigestBytes) return bytes;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::memcpy(head.magic, kBundleMagic, sizeof head.magic);
  head.format = kBundleFormat;
  head.file_bytes = bytes.size();
  std::memcpy(bytes.data(), &head, sizeof head);
  std::uint64_t offset = sizeof head + std::uint64_t{head.entries} * sizeof(BundleRow) + head.strings_bytes +
                         head.dictionary_bytes + head.tuning_bytes;
  std::size_t at = sizeof head;
  for (std::uint32_t i = 0; i < head.entries && at + sizeof(BundleRow) <= bytes.size(); ++i) {
    BundleRow row;
    std::memcpy(&row, &bytes[at], sizeof row);
    row.offset = offset;
    offset += row.frame_bytes;
    std::memcpy(&bytes[at], &row, sizeof row);
    at += sizeof row;
  }
  return bytes;
}

/// A bundle of one kernel, whose frame is exchanged for one of these.
std::string with_kernel(llvm::StringRef manifest, llvm::StringRef cubin) {
  static const std::string right = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather")}));
  BundleHead head;
  BundleRow row;
  std::memcpy(&head, right.data(), sizeof head);
  std::memcpy(&row, &right[sizeof head], sizeof row);
  // The dictionary of the right one is not used, so a frame without one will do.
  const std::string frame = llvm::cantFail(FramePacker({}).pack((manifest + cubin).str()));
  row.frame_bytes = static_cast<std::uint32_t>(frame.size());
  row.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
  row.cubin_bytes = static_cast<std::uint32_t>(cubin.size());
  std::string bytes = right.substr(0, row.offset) + frame + std::string(kDigestBytes, '\0');
  std::memcpy(&bytes[sizeof head], &row, sizeof row);
  return with_right_sizes(std::move(bytes));
}

std::string bundle_of(llvm::StringRef input) {
  const char kind = input[0];
  input = input.drop_front();
  if (kind % 2 == 0 || input.size() < 2) {
    return with_right_digests((kind & 2) != 0 ? with_right_sizes(input.str()) : input.str());
  }
  std::uint16_t size = 0;
  std::memcpy(&size, input.data(), sizeof size);
  input = input.drop_front(2);
  return with_right_digests(with_kernel(input.take_front(size), input.substr(size)));
}

}  // namespace

bool fuzz_bundle(llvm::StringRef input) {
  if (input.empty()) return false;
  const std::string bytes = bundle_of(input);
  llvm::Expected<std::unique_ptr<Bundle>> bundle = Bundle::open_memory(bytes);
  if (!bundle) {
    llvm::consumeError(bundle.takeError());
    return false;
  }
  const Bundle& open = **bundle;
  require(llvm::cantFail(open.file_sha256()) == sha256_hex(bytes));
  bool whole = true;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const BundleItem item = open.item(i);
    require(open.find(item.request_key) == i);
    llvm::Expected<Entry> entry = open.read(i);
    whole = whole && entry;
    if (!entry) {
      llvm::consumeError(entry.takeError());
      continue;
    }
    require(entry->request_key == item.request_key && entry->binary.compiler_id == item.compiler_id);
    require(entry->binary.arch == open.arch() && entry->binary.cubin.size() == item.cubin_bytes);
  }
  const BundleCheck check = llvm::cantFail(open.verify());
  require(check.damaged.empty() ? whole : true);
  return check.damaged.empty();
}

}  // namespace minuet
