// The readers of clouds and of JSON are given files of other kinds than their names say.
#include "tools/minuet/cloud/readers/wrong_file.h"

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/cloud/readers/bin.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/pcd.h"
#include "tools/minuet/cloud/readers/ply.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kPly =
    "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
    "property float z\nend_header\n0.5 1 2\n";
const std::string kPcd = "VERSION .7\nFIELDS x y z\nPOINTS 1\nDATA ascii\n1 2 3\n";

std::string utf16(const std::string& text) {
  std::string bytes;
  for (const char c : text) bytes += {c, '\0'};
  return bytes;
}

/// Makes bytes that are numbers to a reader of rows.
std::string noise(size_t size) {
  std::string bytes;
  while (bytes.size() < size) bytes += packed(1.1f + static_cast<float>(bytes.size()));
  return bytes.substr(0, size);
}

struct OtherFile {
  std::string bytes;
  const char* is;
};

std::vector<OtherFile> other_files() {
  const std::string zip("PK\x03\x04\x14\0\0\0", 8);
  return {{"\x1f\x8b\x08" + noise(40), "a file compressed by gzip"},
          {"BZh91AY&SY" + noise(40), "a file compressed by bzip2"},
          {"\xfd"
           "7zXZ" +
               noise(40),
           "a file compressed by xz"},
          {zip + "arr_0.npy" + noise(40), "a zip archive"},
          {zip + "archive/data.pkl" + noise(40), "a PyTorch checkpoint"},
          {std::string("\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", 14) + noise(40), "a PyTorch checkpoint"},
          {std::string("LASF\0\0", 6) + noise(40), "a LAS or LAZ cloud"},
          {"\x89PNG\r\n\x1a\n" + noise(40), "a PNG picture"},
          {"%PDF-1.4\n\xff\xff" + noise(40), "a PDF document"},
          {"\x93NUMPY\x01" + noise(40), "a NumPy array"},
          {kPly, "a PLY file"},
          {"# .PCD v0.7\n" + kPcd, "a PCD file"},
          {kPcd, "a PCD file"},
          {"{\"a\": [1, 2, 3]}", "JSON text"},
          {"<!-- saved --><html></html>", "a web page"},
          {utf16(kPly), "text in UTF-16"},
          {"\xff\xfe" + utf16(kPly), "text in UTF-16"},
          {"x,y,z\n1,2,3\n4,5,6\n", "text that begins 'x,y,z'"},
          {"Entry not found", "text that begins 'Entry not found'"}};
}

/// Pads the bytes until their size is `past` more than a whole number of rows.
std::string of_size(const OtherFile& file, size_t row, size_t past) {
  const bool is_text = llvm::StringRef(file.is).contains("text");
  std::string bytes = file.bytes;
  while (bytes.size() % row != past) bytes += is_text && llvm::StringRef(file.is).contains("16") ? '\0' : ' ';
  return bytes;
}

/// Whether the size is that of whole rows makes no difference.
TEST(WrongFile, RowsOfFloat32) {
  for (const OtherFile& file : other_files()) {
    for (const size_t past : {0, 1, 4, 12}) {
      EXPECT_THAT(error_of(read_bin(of_size(file, 16, past), {})),
                  AllOf(HasSubstr("it is " + std::string(file.is)), HasSubstr("not a file of float32 rows")))
          << past;
    }
  }
  // Three bytes that a pickle begins with may be a number, unless the size is wrong as well.
  const std::string perhaps = "\x80\x02}" + noise(29);
  EXPECT_EQ(error_of(read_bin(perhaps, {})), "");
  EXPECT_THAT(error_of(read_bin(perhaps + "1", {})), HasSubstr("a PyTorch checkpoint"));
  EXPECT_THAT(error_of(read_bin(noise(33), {})), HasSubstr("33 bytes are not whole rows"));
}

TEST(WrongFile, RowsOfUsualNumbersAreRead) {
  const float rows[][4] = {{0, 0, 0, 0},
                           {1, 1, 1, 1},
                           {-1.5f, 2.25f, 100, 255},
                           {0.1f, 0.2f, 0.3f, 0.4f},
                           {1e-3f, 1e3f, -1e6f, 1},
                           {32, 33, 34, 35},
                           {12.34f, 56.78f, -9.01f, 0.99f}};
  for (const auto& row : rows) {
    for (const int count : {1, 2, 4, 9}) {
      std::string bytes;
      for (int i = 0; i < count; ++i) {
        for (const float number : row) bytes += packed(number);
      }
      EXPECT_EQ(error_of(read_bin(bytes, {})), "");
    }
  }
}

TEST(WrongFile, CloudsThatBeginWithTheirKind) {
  for (const OtherFile& file : other_files()) {
    const std::string is = "it is " + std::string(file.is);
    if (is != "it is a PLY file") {
      EXPECT_THAT(error_of(read_ply(file.bytes)), AllOf(HasSubstr(is), HasSubstr("not a PLY file")));
    }
    if (is != "it is a PCD file") {
      EXPECT_THAT(error_of(read_pcd(file.bytes)), AllOf(HasSubstr(is), HasSubstr("not a PCD file")));
    }
    if (is != "it is a NumPy array") {
      EXPECT_THAT(error_of(read_npy(file.bytes)), AllOf(HasSubstr(is), HasSubstr("not an NPY file")));
    }
  }
}

TEST(WrongFile, BytesOfNoKnownKindAreShown) {
  EXPECT_EQ(error_of(read_ply(std::string("\0\x01pl\xff", 5))),
            "it is not a PLY file: it begins with '\\x00\\x01pl\\xff'");
  EXPECT_EQ(error_of(read_npy(std::string("\0", 1) + std::string(30, 'a'))),
            "it is not an NPY file: it begins with '\\x00aaaaaaaaaaaaaaa...'");
  EXPECT_EQ(error_of(read_pcd("# .PCD v.7\nVERSUS .7\nPOINTS 1\n")),
            "it is not a PCD file: it begins with 'VERSUS .7'");
}

/// A cloud may be named by the end of its file, and an array that is no cloud has to be NPY.
TEST(WrongFile, TheAdviceFitsTheReader) {
  int64_t rows = 0, columns = 0;
  EXPECT_THAT(error_of(read_npy(kPly)), HasSubstr("end its name in .ply"));
  EXPECT_THAT(error_of(read_npy_matrix(kPly, rows, columns)), Not(HasSubstr("end its name")));
  EXPECT_THAT(error_of(read_npy_coordinates(kPly, 3)), Not(HasSubstr("end its name")));
  EXPECT_THAT(error_of(read_bin(utf16(kPly), {})), Not(HasSubstr("UTF-8")));
  EXPECT_THAT(error_of(read_ply(utf16(kPly))), HasSubstr("save it as UTF-8"));
  EXPECT_THAT(error_of(read_ply(R"({"weight_map": {"a": "b"}})")), Not(HasSubstr("tensors")));
}

class JsonFiles : public testing::Test {
 protected:
  std::string file(const std::string& bytes) const { return folder_.file("file", bytes); }

 private:
  const Folder folder_;
};

TEST_F(JsonFiles, AreReadToTheirEnd) {
  const std::string text = "\xef\xbb\xbf{\"a\": 1}\n";
  llvm::Expected<std::string> read = read_json_text(file(text), "a description");
  ASSERT_TRUE(!!read) << llvm::toString(read.takeError());
  EXPECT_EQ(*read, text);
  for (const size_t at : {size_t{1}, text.size() - 1, text.size()}) {
    std::string broken = text;
    broken.insert(at, 1, '\0');
    EXPECT_THAT(error_of(read_json_text(file(broken), "a description")),
                AllOf(HasSubstr("file'"), HasSubstr("byte " + std::to_string(at) + " of it is zero")));
  }
  EXPECT_THAT(error_of(read_json_text(file(std::string("{\"a\": 1}\0garbage", 16)), "a description")),
              HasSubstr("byte 8 of it is zero"));
}

TEST_F(JsonFiles, APaletteIsNoOtherFile) {
  for (const OtherFile& other : other_files()) {
    if (other.is == std::string("JSON text")) continue;
    EXPECT_THAT(error_of(Palette::read(file(other.bytes))),
                AllOf(HasSubstr("it is " + std::string(other.is)), HasSubstr("not a palette")));
  }
  EXPECT_THAT(error_of(Palette::read(file(R"({"weight_map": {"a": "b"}})"))),
              HasSubstr("it is the index of a checkpoint in parts, not a palette"));
  EXPECT_THAT(error_of(Palette::read(file("{}"))), HasSubstr("is not a list of colours"));
  EXPECT_EQ(error_of(Palette::read(file("[[1, 2, 3]]"))), "");
}

}  // namespace
}  // namespace minuet::tool
