#include "codegen/base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::vector<KindCase> kind_cases() {
  return {
      {FileKind::LfsPointer, "version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n", true},
      {FileKind::LfsPointer, "version https://hawser.github.com/spec/v1\noid sha256:26d0\n", true},
      {FileKind::ShardIndex, kIndex, true},
      {FileKind::ShardIndex, "\xef\xbb\xbf " + kIndex, true},
      {FileKind::WebPage, "<!DOCTYPE html>\n<html>", true},
      {FileKind::WebPage, "\r\n<!doctype HTML><title>404</title>", true},
      {FileKind::WebPage, "<HTML><body>", true},
      {FileKind::WebPage, "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", true},
      {FileKind::TorchZip, raw("PK\x03\x04\0\0\x08\x08\0\0") + "archive/data.pkl", true},
      {FileKind::Zip, raw("PK\x03\x04\x14\0\0\0") + "arr_0.npy", false},
      {FileKind::Pickle, "\x80\x02}q\x01(X", false},
      {FileKind::Pickle, raw("\x80\x04\x95\x10\0\0\0\0\0\0\0"), false},
      {FileKind::Pickle,
       "\x80\x02\x8a\x0al\xfc\x9c"
       "F\xf9 j\xa8P\x19.",
       true},
      {FileKind::Compressed, raw("\x1f\x8b\x08\0\0\0\0\0\x02\x03"), false},
      {FileKind::Compressed, raw("(\xb5/\xfd$"), false},
      {FileKind::Compressed,
       raw("\xfd"
           "7zXZ\0"),
       false},
      {FileKind::Compressed, "BZh91AY", false},
      {FileKind::Hdf5, "\x89HDF\r\n\x1a\n more", true},
      {FileKind::NumpyArray, "\x93NUMPY\x01", true},
      {FileKind::Gguf, "GGUF\x03", false},
      {FileKind::Onnx, "\x08\x07\x12\x07pytorch", false},
      {FileKind::Safetensors, raw("\x02\0\0\0\0\0\0\0{}"), true},
      {FileKind::Safetensors, raw("\x80\x02\0\0\0\0\0\0{"), true},  // begins as a pickle does
      {FileKind::Ply, "ply\nformat ascii 1.0\n", false},
      {FileKind::Ply, "\xef\xbb\xbfply\r\n", false},
      {FileKind::Pcd, "# .PCD v.7\n", true},
      {FileKind::Las, "LASF", false},
      {FileKind::Utf16, raw("\xff\xfe{\0"), false},
      {FileKind::Utf16, raw("\xfe\xff\0{"), false},
      {FileKind::Json, " {\"a\": 1}", false},
      {FileKind::Json, "[1]", false},
  };
}

TEST(FileKind, ByTheFirstBytes) {
  for (const KindCase& one : kind_cases()) {
    SCOPED_TRACE(one.bytes);
    const std::vector<char> exact(one.bytes.begin(),
                                  one.bytes.end());  // so that ASan sees a read past the end
    const std::optional<KnownFile> file = identify_file({exact.data(), exact.size()});
    ASSERT_TRUE(file);
    EXPECT_EQ(file->kind, one.kind);
    EXPECT_EQ(file->is_certain, one.is_certain);
    EXPECT_FALSE(file->is.empty());
    for (std::size_t size = 0; size < exact.size(); ++size) identify_file({exact.data(), size});
  }
}

TEST(FileKind, OtherBytesAreNotNamed) {
  for (const std::string& bytes :
       {std::string(), std::string(1, '\0'), std::string(64, '\0'), raw("\x80\x02\0\0\0\0\0\0x"),
        raw("\x80\x09}"), raw("version 2\n"), raw("PK"), raw("plywood"), raw("\x08\x63\x12"),
        raw("MINUETB\n"), raw("hello\n")}) {
    EXPECT_FALSE(identify_file(bytes)) << bytes;
  }
}

TEST(FileKind, SaysWhatToDo) {
  const auto text = [](const std::string& bytes) {
    return other_file_text(*identify_file(bytes), "a bundle");
  };
  EXPECT_EQ(text("version https://git-lfs.github.com/spec/v1\n"),
            "it is a Git LFS pointer, which only stands for the file, not a bundle: fetch the file itself "
            "with `git "
            "lfs pull`");
  EXPECT_THAT(text(kIndex), HasSubstr("(m-1.safetensors, m-2.safetensors)"));
  std::string many = R"({"weight_map": {)";
  for (int i = 0; i < 9; ++i)
    many += (i ? ", \"" : "\"") + std::to_string(i) + "\": \"" + std::to_string(i) + ".st\"";
  EXPECT_THAT(text(many + "}}"), HasSubstr("(0.st, 1.st, 2.st and 6 more)"));
  EXPECT_THAT(text(R"({"weight_map": {"a": )"), Not(HasSubstr("(")));
  EXPECT_EQ(text("[1]"), "it is JSON text, not a bundle");
}

TEST(FileKind, TheWantedKindPasses) {
  EXPECT_EQ(llvm::toString(refuse_other_file("[1]", FileKind::Json, "JSON")), "");
  EXPECT_EQ(llvm::toString(refuse_other_file("nothing known", FileKind::Json, "JSON")), "");
  EXPECT_THAT(llvm::toString(refuse_other_file(kIndex, FileKind::Json, "a network description")),
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
}

}  // namespace
}  // namespace minuet
