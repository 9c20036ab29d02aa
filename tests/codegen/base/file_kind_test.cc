#include "codegen/base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/base/json_text.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

struct KindCase {
  FileKind kind;
  std::string bytes;
  bool is_certain;
};

/// A string with its zero bytes.
template <std::size_t N>
std::string raw(const char (&text)[N]) {
  return {text, N - 1};
}

const std::string kIndex =
    R"({"metadata": {"total_size": 8}, "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors", "c": "m-2.safetensors"}})";

/// Writes a text of ASCII characters in UTF-16.
std::string wide(const std::string& text, bool big_endian) {
  std::string bytes;
  for (const char c : text) bytes += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return bytes;
}

std::vector<KindCase> binary_cases() {
  return {
      {FileKind::TorchZip, raw("PK\x03\x04\0\0\x08\x08\0\0") + "archive/data.pkl", true},
      {FileKind::Zip, raw("PK\x03\x04\x14\0\0\0") + "arr_0.npy", true},
      {FileKind::Pickle, "\x80\x02}q\x01(X", false},
      {FileKind::Pickle, raw("\x80\x04\x95\x10\0\0\0\0\0\0\0"), true},
      {FileKind::Pickle, "\x80\x04\x95\x10\x10\x10\x10\x10\x10\x10\x10", false},
      {FileKind::Pickle,
       "\x80\x02\x8a\x0al\xfc\x9c"
       "F\xf9 j\xa8P\x19.",
       true},
      {FileKind::Compressed, raw("\x1f\x8b\x08\0\0\0\0\0\x02\x03"), true},
      {FileKind::Compressed, raw("(\xb5/\xfd$"), true},
      {FileKind::Compressed,
       raw("\xfd"
           "7zXZ\0"),
       true},
      {FileKind::Compressed, "BZh91AY", true},
      {FileKind::Hdf5, "\x89HDF\r\n\x1a\n more", true},
      {FileKind::Picture, "\x89PNG\r\n\x1a\n more", true},
      {FileKind::Document, "%PDF-1.4\n\xff", true},
      {FileKind::NumpyArray, "\x93NUMPY\x01", true},
      {FileKind::Gguf, "GGUF\x03", true},
      {FileKind::Onnx, "\x08\x07\x12\x07pytorch", false},
      {FileKind::Safetensors, raw("\x02\0\0\0\0\0\0\0{}"), true},
      {FileKind::Safetensors, raw("\x80\x02\0\0\0\0\0\0{"), true},  // begins as a pickle does
      {FileKind::Las, raw("LASF\0\0"), true},
      {FileKind::Las, raw("ASTM-E57\x01\0"), true},
      {FileKind::Utf16, raw("\xff\xfe{\0"), false},
      {FileKind::Utf16, raw("\xfe\xff\0{"), false},
      {FileKind::Utf16, "\xff\xfe" + wide("ply\nformat", false), true},
      {FileKind::Utf16, "\xfe\xff" + wide("ply\nformat", true), true},
      {FileKind::Utf16, wide("{\"a\": 1}", false), true},
      {FileKind::Utf16, wide("{\"a\": 1}", true), true},
  };
}

std::vector<KindCase> text_cases() {
  const std::string pcd = "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nPOINTS 1\nDATA ascii\n1 2 3\n";
  const std::string long_metadata = R"({"metadata": ")" + std::string(9000, 'm') + R"(", )";
  const std::string long_map =
      R"("weight_map": {"a": "m-1.safetensors", "b": ")" + std::string(9000, 'p') + "\"}}";
  return {
      {FileKind::LfsPointer, "version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n", true},
      {FileKind::LfsPointer, "version https://hawser.github.com/spec/v1\noid sha256:26d0\n", true},
      {FileKind::ShardIndex, kIndex, true},
      {FileKind::ShardIndex, "\xef\xbb\xbf " + kIndex, true},
      {FileKind::ShardIndex, long_metadata + long_map, true},
      {FileKind::ShardIndex, R"({"weight_map": {"a": )", true},  // cut off
      {FileKind::Json, R"({"layers": [{"name": "weight_map"}]})", true},
      {FileKind::Json, R"({"layers": {"weight_map": {"a": "b"}}})", true},
      {FileKind::WebPage, "<!DOCTYPE html>\n<html>", true},
      {FileKind::WebPage, "\r\n<!doctype HTML><title>404</title>", true},
      {FileKind::WebPage, "<HTML><body>\xff", true},
      {FileKind::WebPage, "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", true},
      {FileKind::WebPage, "<!-- saved from url=(0014)about:internet -->\n<html>", true},
      {FileKind::WebPage, "\xef\xbb\xbf\n<meta charset=utf-8><title>404</title>", true},
      {FileKind::WebPage, "<script>location = '/login'</script>", true},
      {FileKind::WebPage, "<Error><Code>NoSuchKey</Code></Error>", true},
      {FileKind::WebPage, "<body>", true},
      {FileKind::Ply, "ply\nformat ascii 1.0\n", true},
      {FileKind::Ply, "\xef\xbb\xbfply\r\n", true},
      {FileKind::Pcd, "# .PCD v.7\n", true},
      {FileKind::Pcd, pcd, true},
      {FileKind::Pcd, "# made by hand\n\n" + pcd, true},
      {FileKind::Pcd, pcd.substr(pcd.find("FIELDS")), true},
      {FileKind::Json, " {\"a\": 1}", true},
      {FileKind::Json, "[1]", true},
      {FileKind::Json, raw("[\0\0\x80?"), false},  // may be a number
      {FileKind::Text, "Entry not found", true},
      {FileKind::Text, "x,y,z\n1,2,3\n", true},
      {FileKind::Text, "Datei nicht gefunden: \xc3\xbc\n", true},
      {FileKind::Text, "VERSION .7\n", true},
      {FileKind::Text, "< 5 points\n", true},
      {FileKind::Text, "plywood", true},
      {FileKind::Text, std::string(62, 'a') + "\xe2\x82\xac" + std::string(9, '\0'),
       true},  // a character is cut
      {FileKind::Text, std::string(64, 'a') + std::string(9, '\0'), true},
  };
}

void expect_kinds(const std::vector<KindCase>& cases) {
  for (const KindCase& one : cases) {
    SCOPED_TRACE(one.bytes);
    const std::vector<char> exact(one.bytes.begin(),
                                  one.bytes.end());  // so that ASan sees a read past the end
    const std::optional<KnownFile> file = identify_file({exact.data(), exact.size()});
    ASSERT_TRUE(file);
    EXPECT_EQ(file->kind, one.kind);
    EXPECT_EQ(file->is_certain, one.is_certain);
    EXPECT_FALSE(file->is.empty());
    for (std::size_t size = 0; size < std::min<std::size_t>(exact.size(), 200); ++size) {
      const std::vector<char> cut(exact.begin(), exact.begin() + static_cast<std::ptrdiff_t>(size));
      identify_file({cut.data(), size});
    }
  }
}

TEST(FileKind, OfBytes) { expect_kinds(binary_cases()); }
TEST(FileKind, OfText) { expect_kinds(text_cases()); }

TEST(FileKind, OtherBytesAreNotNamed) {
  for (const std::string& bytes :
       {std::string(), std::string(1, '\0'), std::string(64, '\0'), raw("\x80\x02\0\0\0\0\0\0x"),
        raw("\x80\x09}"), raw("\x08\x63\x12"), raw("hello\n\0"), raw("hello\x01"), raw("\xc3("), raw("\xff"),
        raw("BZh0\0"), raw("LASf\0"), raw("%PDF\0"), raw("ply\0"), raw("a\0b\0"), raw("a\0b\0c\0d\x01"),
        std::string(63, 'a') + '\0', raw("\0\0\x80?\0\0\0@\0\0@@\0\0\0?")}) {
    EXPECT_FALSE(identify_file(bytes)) << bytes;
  }
}

std::string told(const std::string& bytes, WantedFile wanted) {
  return other_file_text(*identify_file(bytes), wanted, "the file");
}

TEST(FileKind, ShowsHowATextBegins) {
  const auto told_text = [](const std::string& bytes) { return told(bytes, WantedFile::Weights); };
  EXPECT_EQ(told_text("Entry not found"), "it is text that begins 'Entry not found', not the file");
  EXPECT_EQ(told_text("\n\n  first \nsecond\n"), "it is text that begins 'first', not the file");
  EXPECT_EQ(told_text(std::string(50, 'a')),
            "it is text that begins '" + std::string(40, 'a') + "...', not the file");
  EXPECT_EQ(told_text(std::string(39, 'a') + "\xe2\x82\xac more"),
            "it is text that begins '" + std::string(39, 'a') + "...', not the file");
}

TEST(FileKind, NamesThePartsOfACheckpoint) {
  const auto told_index = [](const std::string& bytes) { return told(bytes, WantedFile::Weights); };
  EXPECT_THAT(told_index(kIndex), HasSubstr("(m-1.safetensors, m-2.safetensors)"));
  std::string many = R"({"weight_map": {)";
  for (int i = 0; i < 9; ++i)
    many += (i ? ", \"" : "\"") + std::to_string(i) + "\": \"" + std::to_string(i) + ".st\"";
  EXPECT_THAT(told_index(many + "}}"), HasSubstr("(0.st, 1.st, 2.st and 6 more)"));
  EXPECT_THAT(told_index(R"({"weight_map": {"a": )"), Not(HasSubstr("(")));
}

/// The advice depends on the reader: a reader of clouds has no use for the tensors of a network.
TEST(FileKind, TheAdviceFitsWhatWasWanted) {
  const std::string lfs = "version https://git-lfs.github.com/spec/v1\n", ply = "ply\nformat",
                    las = raw("LASF\0");
  const std::string torch = raw("PK\x03\x04\0\0") + "archive/data.pkl", numpy = "\x93NUMPY\x01";
  const std::string zip = raw("PK\x03\x04\0\0") + "arr_0.npy", gzip = "\x1f\x8b\x08",
                    utf16 = wide("{\"a\": 1}", false);
  constexpr WantedFile kAll[] = {WantedFile::PointText, WantedFile::PointBytes, WantedFile::Array,
                                 WantedFile::Weights,   WantedFile::Json,       WantedFile::Bundle};
  struct AdviceCase {
    std::string bytes, advice;
    std::vector<WantedFile> wanted;  ///< The readers for which the advice is given.
  };
  const std::vector<WantedFile> all(std::begin(kAll), std::end(kAll)),
      clouds = {WantedFile::PointText, WantedFile::PointBytes}, weights = {WantedFile::Weights},
      arrays = {WantedFile::PointText, WantedFile::PointBytes, WantedFile::Array};
  const AdviceCase cases[] = {
      {lfs, "fetch the file itself with `git lfs pull`", all},
      {"<html>", "download the file itself again", all},
      {gzip, "unpack it first", all},
      {zip,
       "unpack it first",
       {WantedFile::PointText, WantedFile::PointBytes, WantedFile::Array, WantedFile::Json,
        WantedFile::Bundle}},
      {zip, "with safetensors' save_file", weights},
      {kIndex, "name the part", weights},
      {torch, "with safetensors' save_file", weights},
      {torch, "with numpy.save", arrays},
      {numpy, "end its name in .npy", clouds},
      {numpy, "with safetensors' save_file", weights},
      {ply, "end its name in .ply", clouds},
      {"# .PCD v.7\n", "end its name in .pcd", clouds},
      {las, "convert it to PLY, for example with `pdal translate`", clouds},
      {utf16, "save it as UTF-8", {WantedFile::PointText, WantedFile::Json}},
      {"[1]", ": ", {}},
      {"hello", ": ", {}},
  };
  for (const AdviceCase& one : cases) {
    for (const WantedFile wanted : kAll) {
      const bool is_given = std::count(one.wanted.begin(), one.wanted.end(), wanted) > 0;
      EXPECT_EQ(told(one.bytes, wanted).find(one.advice) != std::string::npos, is_given)
          << told(one.bytes, wanted) << ": " << static_cast<int>(wanted);
    }
  }
}

TEST(FileKind, JsonPasses) {
  EXPECT_EQ(llvm::toString(refuse_other_than_json("[1]", "JSON")), "");
  EXPECT_EQ(llvm::toString(refuse_other_than_json(raw("\0\0"), "JSON")), "");
  EXPECT_THAT(llvm::toString(refuse_other_than_json(kIndex, "a network description")),
              HasSubstr("the index of a checkpoint in parts, not a network description"));
}

TEST(FileKind, TextThatIsNoJsonIsNamed) {
  const auto error = [](llvm::StringRef text) {
    llvm::Expected<llvm::json::Value> value = parse_json(text);
    return value ? std::string() : llvm::toString(value.takeError());
  };
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("`git lfs pull`"));
  EXPECT_THAT(error("<html>"), HasSubstr("a web page"));
  EXPECT_THAT(error(raw("\xff\xfe{\0")), HasSubstr("save it as UTF-8"));
  EXPECT_THAT(error("{\"weight_map\": "), Not(HasSubstr("checkpoint")));  // broken JSON is told as such
  EXPECT_EQ(error(kIndex), "");
  EXPECT_EQ(error("Entry not found"), "it is text that begins 'Entry not found', not JSON text");
  for (const char* scalar : {"7", "\"text\"", " null\n", "-0.5"}) EXPECT_EQ(error(scalar), "") << scalar;
}

}  // namespace
}  // namespace minuet
