// Bundles that are damaged, by chance and with intent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "codegen/bundle/bundle.h"
#include "codegen/bundle/bundle_writer.h"
#include "tests/codegen/bundle/bundle_fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

/// Every kernel of `entries` in the bundle is whole, or a miss. Gives the number of misses.
int count_misses(const Bundle& bundle, const std::vector<Entry>& entries, const std::string& where) {
  int misses = 0;
  for (const Entry& entry : entries) {
    llvm::Expected<Entry> read = read_kernel(bundle, entry.request_key);
    if (!read) {
      llvm::consumeError(read.takeError());
      ++misses;
      continue;
    }
    EXPECT_EQ(read->binary.cubin, entry.binary.cubin) << where;
    EXPECT_EQ(read->binary.lowered_name, entry.binary.lowered_name) << where;
    EXPECT_EQ(read->binary.arch, entry.binary.arch) << where;
    EXPECT_EQ(read->request_key, entry.request_key) << where;
  }
  return misses;
}

TEST(BundleDamage, R20_AnyFlippedByteIsDetectedForTheEntryUsed) {
  const std::vector<Entry> entries = make_kernels(6);
  std::string bytes = llvm::cantFail(make_bundle("sm_90a", entries, "tuning"));
  // The last part is the digest of the file, which no lookup needs: verify looks at it.
  const std::size_t used = bytes.size() - kDigestBytes;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const std::string where = "byte " + std::to_string(at) + " of " + std::to_string(bytes.size());
    llvm::Expected<std::unique_ptr<Bundle>> bundle = Bundle::open_memory(bytes);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    if (!bundle) {
      EXPECT_EQ(take_status(bundle.takeError()).code(), StatusCode::InvalidArgument) << where;
      EXPECT_LT(at, used) << where;
      continue;
    }
    count_misses(**bundle, entries, where);
    EXPECT_FALSE(llvm::cantFail((*bundle)->verify()).damaged.empty()) << where;
  }
}

TEST(BundleDamage, R20_ADamagedFrameIsAMissOfThatKernelAlone) {
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(6);
  const std::string path = folder / "a.bundle";
  put_bundle(path, entries);
  const std::string good = contents(path);
  const auto whole = llvm::cantFail(Bundle::open(path));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BundleItem item = whole->item(i);
    for (std::uint64_t at = item.offset; at < item.offset + item.stored_bytes; ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      write_text(folder / "b.bundle", bad);
      const auto damaged = llvm::cantFail(Bundle::open(folder / "b.bundle"));
      EXPECT_EQ(count_misses(*damaged, entries, std::to_string(at)), 1) << at;
      const auto found = llvm::cantFail(damaged->verify()).damaged;
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found[0].what, "the file");
      EXPECT_EQ(found[1].what, item.request_key);
    }
  }
}

TEST(BundleDamage, R20_EveryTruncationIsDetected) {
  const TemporaryFolder folder;
  const std::string good = llvm::cantFail(make_bundle("sm_90a", make_kernels(3)));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const StatusError error = take_status(Bundle::open_memory(good.substr(0, size)).takeError());
    EXPECT_EQ(error.code(), StatusCode::InvalidArgument) << size << ": " << error.message();
  }
  EXPECT_FALSE(error_of(Bundle::open_memory(good + "x").takeError()).empty());
  for (std::size_t size = 0; size < good.size(); size += 131) {
    write_text(folder / "a.bundle", good.substr(0, size));
    EXPECT_FALSE(error_of(Bundle::open(folder / "a.bundle").takeError()).empty()) << size;
  }
  write_text(folder / "a.bundle", good + "x");
  EXPECT_FALSE(error_of(Bundle::open(folder / "a.bundle").takeError()).empty());
}

TEST(BundleDamage, R20_AFileThatBecomesShorterWhileOpenIsAMiss) {
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(50);
  put_bundle(folder / "a.bundle", entries);
  const auto bundle = llvm::cantFail(Bundle::open(folder / "a.bundle"));
  ASSERT_EQ(::truncate((folder / "a.bundle").c_str(), 0), 0);  // a mapping would raise SIGBUS from here on
  for (const Entry& entry : entries) {
    const auto index = bundle->find(entry.request_key);
    ASSERT_TRUE(index);
    EXPECT_THAT(error_of(bundle->read(*index).takeError()), HasSubstr("cut short while it was open"));
  }
  EXPECT_THAT(error_of(bundle->verify().takeError()), HasSubstr("cut short while it was open"));
}

TEST(BundleDamage, R20_ANewBundleCopiedOverAnOpenOneGivesNoWrongKernel) {
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(10);
  put_bundle(folder / "a.bundle", entries);
  const auto bundle = llvm::cantFail(Bundle::open(folder / "a.bundle"));
  std::vector<Entry> others;
  for (int i = 0; i < 10; ++i) others.push_back(make_kernel("other-" + std::to_string(i)));
  write_text(folder / "a.bundle",
             llvm::cantFail(make_bundle("sm_90a", others)));  // the same file, not a new one
  for (const Entry& entry : entries) {
    const auto index = bundle->find(entry.request_key);
    ASSERT_TRUE(index);
    EXPECT_FALSE(error_of(bundle->read(*index).takeError()).empty());
  }
}

/// A bundle of two kernels, changed by `change` and with all digests right.
std::string forged(const std::function<void(std::string&, BundleHead&, BundleRow&)>& change) {
  std::string bytes = llvm::cantFail(make_bundle("sm_90a", make_kernels(2)));
  BundleHead head;
  BundleRow row;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::memcpy(&row, &bytes[sizeof head], sizeof row);
  change(bytes, head, row);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(&bytes[sizeof head], &row, sizeof row);
  return bytes;
}

/// What the reader says of it: of opening it, else of its first kernel.
std::string judged(const std::string& bytes) {
  llvm::Expected<std::unique_ptr<Bundle>> bundle = Bundle::open_memory(bytes);
  if (!bundle) return error_of(bundle.takeError());
  llvm::Expected<Entry> entry = (*bundle)->read(0);
  return entry ? "whole" : error_of(entry.takeError());
}

TEST(BundleDamage, R20_NumbersThatLieAreRefusedWhateverTheDigestsSay) {
  using Change = std::function<void(std::string&, BundleHead&, BundleRow&)>;
  EXPECT_EQ(judged(with_right_digests(forged([](auto&, auto&, auto&) {}))), "whole");
  const Change changes[] = {
      [](auto&, BundleHead&, BundleRow& row) { row.frame_bytes += 1; },
      [](auto&, BundleHead&, BundleRow& row) { row.frame_bytes = 0; },
      [](auto&, BundleHead&, BundleRow& row) { row.offset += 1; },
      [](auto&, BundleHead&, BundleRow& row) { row.offset = 0; },
      [](auto&, BundleHead&, BundleRow& row) { row.arch = 1; },
      [](auto&, BundleHead&, BundleRow& row) { row.arch = row.compiler; },
      [](auto&, BundleHead&, BundleRow& row) { row.arch = 0xffffffff; },
      [](auto&, BundleHead&, BundleRow& row) { row.compiler = 0xffffffff; },
      [](auto&, BundleHead&, BundleRow& row) { row.compiler = row.arch; },
      [](auto&, BundleHead&, BundleRow& row) { row.cubin_bytes = 0xffffffff; },
      [](auto&, BundleHead&, BundleRow& row) { row.cubin_bytes -= 1; },
      [](auto&, BundleHead&, BundleRow& row) { row.manifest_bytes = 0xffffffff; },
      [](auto&, BundleHead&, BundleRow& row) { --row.manifest_bytes, ++row.cubin_bytes; },
      [](auto&, BundleHead&, BundleRow& row) { std::memset(row.key, 0xff, sizeof row.key); },
      [](auto&, BundleHead& head, BundleRow&) { head.dictionary_raw_bytes += 1; },
      [](auto&, BundleHead& head, BundleRow&) { std::memcpy(head.arch, "sm_80\0", 7); },
      [](auto&, BundleHead& head, BundleRow&) { std::memcpy(head.arch, "sm_90\0", 7); },
      [](auto&, BundleHead& head, BundleRow&) { std::memset(head.arch, '9', sizeof head.arch); },
  };
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    const std::string bytes = forged(changes[i]);
    EXPECT_NE(judged(bytes), "whole") << "change " << i;  // the digest says so
  }
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_NE(judged(with_right_digests(forged(changes[i]))), "whole") << "change " << i << ", right digests";
  }
  const Change sizes[] = {
      [](auto&, BundleHead& head, BundleRow&) { head.entries = 0xffffffff; },
      [](auto&, BundleHead& head, BundleRow&) { head.entries = 1; },
      [](auto&, BundleHead& head, BundleRow&) { head.strings_bytes = 0xffffffff; },
      [](auto&, BundleHead& head, BundleRow&) { head.strings_bytes = 0; },
      [](auto&, BundleHead& head, BundleRow&) { head.dictionary_bytes = 0xffffffff; },
      [](auto&, BundleHead& head, BundleRow&) { head.dictionary_raw_bytes = 0xffffffff; },
      [](auto&, BundleHead& head, BundleRow&) { head.tuning_bytes = ~std::uint64_t{0}; },
      [](auto&, BundleHead& head, BundleRow&) { head.file_bytes += 1; },
  };
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    EXPECT_NE(judged(with_right_digests(forged(sizes[i]))), "whole") << "size " << i;
  }
}

TEST(BundleDamage, R20_AManifestThatNestsDeeplyIsRefused) {
  // LLVM's parser calls itself at each level: without a bound this would be the end of the stack.
  Entry entry;
  for (const char* level : {"[", "{\"a\":", "[\"]\","}) {
    std::string text;
    while (text.size() < (4u << 20)) text += level;
    EXPECT_THAT(error_of(read_manifest(text, entry)), HasSubstr("damaged")) << level;
  }
  // Brackets inside of a text are no levels.
  Entry gather = make_kernel("gather");
  gather.binary.log = std::string(100, '[') + "\\\"{{{{{{{{{{{{";
  EXPECT_EQ(error_of(read_manifest(write_manifest(gather), entry)), "");
  EXPECT_EQ(entry.binary.log, gather.binary.log);
}

TEST(BundleDamage, R23_ACorruptedSuffixIsRefused) {
  // sm_90 and sm_90a have equal ELF flags, so only names can tell. All of the file says sm_90 but the
  // manifest of the kernel, which is compressed.
  const TemporaryFolder folder;
  std::string bytes = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather")}));
  BundleHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  std::memcpy(head.arch, "sm_90\0", 7);
  std::memcpy(bytes.data(), &head, sizeof head);
  const std::size_t strings = sizeof head + sizeof(BundleRow);
  const std::size_t name = bytes.find("sm_90a", strings);
  ASSERT_LT(name, strings + head.strings_bytes);
  bytes[name + 5] = '\0';
  write_text(folder / "a.bundle", with_right_digests(bytes));
  const auto bundle = llvm::cantFail(Bundle::open(folder / "a.bundle"));
  EXPECT_EQ(bundle->arch(), "sm_90");
  EXPECT_THAT(error_of(bundle->read(0).takeError()), HasSubstr("different architectures"));
}

TEST(BundleDamage, R23_AnSmNumberThatIsNotTheCubinsIsRefused) {
  Entry entry = make_kernel("gather", "sm_80");
  entry.binary.arch = "sm_90a";
  EXPECT_THAT(error_of(make_bundle("sm_90a", {entry}).takeError()), HasSubstr("another architecture"));
}

}  // namespace
}  // namespace minuet
