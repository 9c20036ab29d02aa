// Archives as torch.save and Python's zipfile write them, and everything that is refused.
#include "runtime/weights/zip_archive.h"

#include <gmock/gmock.h>

#include <functional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "runtime/weights/zip_checksum.h"
#include "tests/support/random.h"
#include "tests/support/torch_writer.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::ZipEntry;
using torch::ZipForm;

std::string error_of(const std::string& bytes) {
  llvm::Expected<ZipArchive> archive = ZipArchive::open(bytes);
  if (!archive) return llvm::toString(archive.takeError());
  for (const std::string& name : archive->names()) {
    llvm::Expected<llvm::StringRef> entry = archive->read(name);
    if (!entry) return llvm::toString(entry.takeError());
  }
  return "";
}

/// Returns the error for an archive of two entries after `change` has changed the second one.
std::string error_with(const std::function<void(ZipEntry&)>& change) {
  ZipEntry entry{"a/data/0", "four"};
  change(entry);
  return error_of(torch::zip({{"a/data.pkl", "first"}, entry}));
}

TEST(ZipArchive, TheChecksumIsThatOfZlib) {
  Random random(1);
  std::string bytes;
  for (std::size_t size = 0; size < 40; ++size) {
    EXPECT_EQ(zip_checksum(bytes), llvm::crc32(llvm::arrayRefFromStringRef(bytes)));
    bytes += static_cast<char>(random.below(256));
  }
  EXPECT_EQ(zip_checksum("123456789"), 0xcbf43926u);
}

TEST(ZipArchive, FormsThatAreRight) {
  const std::vector<ZipEntry> plain{{"a/data.pkl", "first"}, {"a/data/0", "four"}, {"a/empty", ""}};
  std::vector<ZipEntry> sizes_in_front = plain, long_sizes = plain;
  for (ZipEntry& entry : sizes_in_front) entry.flags = 0;
  for (ZipEntry& entry : long_sizes) entry.has_long_sizes = true;
  ZipForm without_long_end, with_comment;
  without_long_end.has_long_end = false;
  with_comment.comment = "PK\x05\x06 is not the end of this comment";
  for (const std::string& bytes : {torch::zip(plain), torch::zip(sizes_in_front), torch::zip(long_sizes),
                                   torch::zip(plain, without_long_end), torch::zip(plain, with_comment)}) {
    ASSERT_EQ(error_of(bytes), "");
    ZipArchive archive = llvm::cantFail(ZipArchive::open(bytes));
    EXPECT_THAT(archive.names(), ElementsAre("a/data.pkl", "a/data/0", "a/empty"));
    EXPECT_EQ(llvm::cantFail(archive.read("a/data/0")), "four");
    EXPECT_EQ(llvm::cantFail(archive.read("a/empty")), "");
    EXPECT_TRUE(archive.has("a/data.pkl"));
    EXPECT_FALSE(archive.has("a/data"));
    EXPECT_THAT(llvm::toString(archive.read("b").takeError()), HasSubstr("has no entry \"b\""));
  }
}

TEST(ZipArchive, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"/etc/passwd", "C:/x", "c:x"})
    EXPECT_THAT(error_with([&](auto& entry) { entry.name = name; }), HasSubstr("is an absolute path"))
        << name;
  for (const char* name : {"../x", "a/../../x", "a/.."})
    EXPECT_THAT(error_with([&](auto& entry) { entry.name = name; }), HasSubstr("leads out of its folder"));
  EXPECT_THAT(error_with([](auto& entry) { entry.name = "a\\..\\x"; }), HasSubstr("has characters that"));
  EXPECT_THAT(error_with([](auto& entry) { entry.name = std::string("a\0b", 3); }),
              HasSubstr("has characters"));
  EXPECT_THAT(error_of(torch::zip({{"", "bytes"}})), HasSubstr("is empty"));
  EXPECT_EQ(error_with([](auto& entry) { entry.name = "epoch:12/..data/..."; }), "");
}

TEST(ZipArchive, EntriesThatAreWrongAreRefused) {
  EXPECT_THAT(error_with([](auto& entry) { entry.method = 8; }), HasSubstr("is compressed"));
  for (const std::uint16_t flag : {1, 1 << 6, 1 << 13})
    EXPECT_THAT(error_with([&](auto& entry) { entry.flags = flag; }), HasSubstr("is encrypted"));
  EXPECT_THAT(error_with([](auto& entry) { entry.checksum_error = 1; }),
              HasSubstr("the CRC-32 of the entry \"a/data/0\" in its zip archive is wrong"));
  EXPECT_THAT(error_with([](auto& entry) { entry.name = "a/data.pkl"; }), HasSubstr("is there twice"));
  EXPECT_THAT(error_with([](auto& entry) { entry.local_name = "a/data/1"; }),
              HasSubstr("differs from its local header"));
  EXPECT_THAT(error_with([](auto& entry) { entry.header_error = 1; }), HasSubstr("has no local header"));
  EXPECT_THAT(error_with([](auto& entry) { entry.header_error = 1 << 30; }),
              HasSubstr("has no local header"));
  EXPECT_THAT(error_with([](auto& entry) { entry.stored_error = -1; }), HasSubstr("an entry has two sizes"));
  EXPECT_THAT(error_with([](auto& entry) { entry.size_error = 1; }), HasSubstr("CRC-32"));
}

/// Bombs: entries that claim more than the file has, and entries that share its bytes.
TEST(ZipArchive, NoEntryIsLargerThanTheFile) {
  for (const std::int64_t more : {std::int64_t{1000}, std::int64_t{1} << 31, std::int64_t{1} << 62}) {
    EXPECT_THAT(error_with([&](auto& entry) {
                  entry.size_error = more;
                  entry.has_long_sizes = true;
                }),
                HasSubstr("reaches past the end of the file"))
        << more;
  }
  ZipEntry inner{"a/data/0", torch::zip({{"a/data/1", "payload"}})};
  std::string bytes = torch::zip({inner, {"a/data/1", "payload"}});
  ASSERT_EQ(error_of(bytes), "");
  // The second entry of the directory points to the local header within the first entry's bytes.
  const std::size_t at = bytes.find("PK\x03\x04", 10), directory = bytes.rfind("PK\x01\x02");
  bytes.replace(directory + 42, 4, std::string{static_cast<char>(at), 0, 0, 0});
  EXPECT_THAT(error_of(bytes), HasSubstr("overlaps another one"));
}

TEST(ZipArchive, DirectoriesThatAreWrongAreRefused) {
  const std::vector<ZipEntry> plain{{"a/data.pkl", "first"}, {"a/data/0", "four"}};
  const auto error_of_form = [&](const std::function<void(ZipForm&)>& change) {
    ZipForm form;
    change(form);
    return error_of(torch::zip(plain, form));
  };
  EXPECT_THAT(error_of_form([](auto& form) { form.count_error = 1; }), HasSubstr("is missing"));
  EXPECT_THAT(error_of_form([](auto& form) { form.count_error = -1; }),
              HasSubstr("more entries than it says"));
  for (const std::int64_t error : {-1, 1, 1 << 30})
    EXPECT_THAT(error_of_form([&](auto& form) { form.begin_error = error; }),
                HasSubstr("directory does not lie"));
  const std::string right = torch::zip(plain);
  for (std::size_t size = 0; size < right.size(); ++size)
    EXPECT_THAT(error_of(right.substr(0, size)), HasSubstr("damaged or truncated")) << size;
  EXPECT_THAT(error_of("PK" + right), HasSubstr("damaged or truncated"));
  std::string parts = right;
  parts[parts.size() - 18] = 1;
  EXPECT_THAT(error_of(parts), HasSubstr("one of several parts"));
  std::string disagreeing = right;
  disagreeing[disagreeing.size() - 10] ^= 1;  // the size of the directory in the short record alone
  EXPECT_THAT(error_of(disagreeing), HasSubstr("its two end records disagree"));
}

}  // namespace
}  // namespace minuet
