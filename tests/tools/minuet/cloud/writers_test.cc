#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/ply.h"
#include "tools/minuet/cloud/writers/npy.h"
#include "tools/minuet/cloud/writers/ply.h"

namespace minuet::tool {
namespace {

TEST(Errors, NameTheFileThatTheUserKnows) {
  llvm::Error error =
      about_file("/out/.minuet-1-0.part", "o.json", broken("'/out/.minuet-1-0.part': it is full"));
  EXPECT_TRUE(error.isA<llvm::StringError>());
  EXPECT_EQ(llvm::errorToErrorCode(std::move(error)), std::make_error_code(std::errc::io_error));
  EXPECT_EQ(llvm::toString(about_file("/x", "o", broken("no /y"))), "no /y");
  EXPECT_EQ(llvm::toString(about_file("/x", "o", broken("'/x': full"))), "'o': full");
  EXPECT_FALSE(about_file("/x", "o", llvm::Error::success()));
}

TEST(Errors, ControlCharactersAreEscaped) {
  EXPECT_EQ(escaped("a\n\x1b[1m\x7f \xc3\xa9"), "a\\x0a\\x1b[1m\\x7f \xc3\xa9");
  EXPECT_EQ(escaped(llvm::StringRef("a\0b", 3)), "a\\x00b");
}

TEST(NpyWriter, WritesWhatTheFormatAsks) {
  const std::string bytes = npy_bytes(std::vector<float>{1.5f, 2.0f, -3.0f, 4.0f, 5.0f, 6.0f}, {2, 3});
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(bytes.substr(10, 60).find("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"), 0u);
  EXPECT_EQ((bytes.size() - 24) % 64, 0u);
  EXPECT_EQ(bytes[bytes.size() - 25], '\n');
  int64_t rows = 0, columns = 0;
  auto back = read_npy_matrix(bytes, rows, columns);
  ASSERT_TRUE(!!back) << llvm::toString(back.takeError());
  EXPECT_EQ(*back, (std::vector<float>{1.5f, 2.0f, -3.0f, 4.0f, 5.0f, 6.0f}));
}

TEST(NpyWriter, OneDimensionHasItsComma) {
  const std::string array = npy_bytes(std::vector<int32_t>{7, -8}, {2});
  EXPECT_NE(array.find("'<i4', 'fortran_order': False, 'shape': (2,), }"), std::string::npos);
  EXPECT_EQ(array.substr(array.size() - 8), packed<int32_t>(7) + packed<int32_t>(-8));
}

TEST(PlyWriter, OurReaderReadsIt) {
  const Palette palette;
  PlyTable table;
  table.positions = {{1, 2, 3}, {-4, 5.5, 6}};
  table.palette = &palette;
  table.labels = {3, -1};
  const std::string bytes = ply_bytes(table);
  EXPECT_EQ(points_of(read_ply(bytes)), (std::vector<Point>{{1, 2, 3, 0}, {-4, 5.5, 6, 0}}));
  EXPECT_EQ(bytes.substr(bytes.size() - 7), std::string(3, '\0') + packed<int32_t>(-1));

  table.palette = nullptr;
  table.channels = 2;
  table.features = {0.5f, 1.5f, 2.5f, 3.5f};
  const std::string features = ply_bytes(table);
  EXPECT_EQ(points_of(read_ply(features)).size(), 2u);
  EXPECT_EQ(features.substr(features.size() - 8), packed(2.5f) + packed(3.5f));
}

TEST(PlyWriter, KeepsThePointsOwnNumbers) {
  Attribute colour{"red", Scalar::U8, {}}, time{"time", Scalar::U64, {}},
      half{"reflectivity", Scalar::F16, {}};
  for (const double value : {200.0, 7.0}) {
    append_scalar(Scalar::U8, value, colour.values);
    append_scalar(Scalar::U64, value * 1e9, time.values);
    append_scalar(Scalar::F16, value / 8, half.values);
  }
  const Palette palette;
  PlyTable table;
  table.positions = {{450000.123, 5.4e6, 300}, {1, 2, 3}};
  table.wide = true;
  table.attributes = {colour, time, half};
  table.palette = &palette;
  table.labels = {0, 1};
  llvm::Expected<Cloud> cloud = read_ply(ply_bytes(table));
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->points, (std::vector<Point>{{450000.123, 5.4e6, 300, 25}, {1, 2, 3, 0.875}}));
  std::vector<std::string> names;
  for (const Attribute& attribute : cloud->attributes) names.push_back(attribute.name);
  EXPECT_EQ(names, (std::vector<std::string>{"original_red", "time", "reflectivity", "red", "green", "blue",
                                             "label"}));
  EXPECT_EQ(cloud->attributes[0].values, colour.values);
  EXPECT_EQ(cloud->attributes[1].values, packed(200e9) + packed(7e9));
  const Colour first = palette.colour_of(0);
  EXPECT_EQ(static_cast<uint8_t>(cloud->attributes[3].values[0]), first[0]);
}

TEST(Palette, NeighboursDifferAndFilesAreChecked) {
  const Palette fixed;
  std::set<Colour> colours;
  for (int32_t label = -1; label < 200; ++label) colours.insert(fixed.colour_of(label));
  EXPECT_EQ(colours.size(), 201u);
  const Folder folder;
  llvm::Expected<Palette> own = Palette::read(folder.file("p.json", "[[1, 2, 3], [255, 0, 0]]"));
  ASSERT_TRUE(!!own) << llvm::toString(own.takeError());
  EXPECT_EQ(own->colour_of(1), (Colour{255, 0, 0}));
  EXPECT_EQ(own->colour_of(-1), (Colour{0, 0, 0}));
  EXPECT_EQ(llvm::toString(own->check_labels(2)), "");
  EXPECT_NE(llvm::toString(own->check_labels(3)), "");
  for (const char* text :
       {"[]", "{}", "[[1, 2]]", "[[1, 2, 256]]", "[[1, 2, -1]]", "[[1, 2, 0.5]]", "[1]", "["}) {
    EXPECT_NE(error_of(Palette::read(folder.file("p.json", text))), "") << text;
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(OutputFiles, AreWholeOrNotThere) {
  const Folder folder;
  const std::string path = folder.file("100% a.npy", "before");
  {
    llvm::Expected<OutputFile> file = OutputFile::open(path);
    ASSERT_TRUE(!!file) << llvm::toString(file.takeError());
    EXPECT_EQ(contents(path), "before");
    EXPECT_EQ(names_in(folder.path("")).size(), 2u);
  }
  EXPECT_EQ(contents(path), "before");
  EXPECT_EQ(names_in(folder.path("")), (std::vector<std::string>{"100% a.npy"}));
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(llvm::toString(write_file(path, "after")), "");
  EXPECT_EQ(contents(path), "after");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(names_in(folder.path("")), (std::vector<std::string>{"100% a.npy"}));

  std::filesystem::create_symlink("100% a.npy", folder.path("link"));
  ASSERT_EQ(llvm::toString(write_file(folder.path("link"), "through the link")), "");
  EXPECT_EQ(contents(path), "through the link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  ASSERT_EQ(llvm::toString(write_file("/dev/null", "gone")), "");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFiles, KeepTheirModeWhoeverWritesThem) {
  const Folder folder;
  const std::filesystem::path path = folder.file("a", "before");
  for (const unsigned mode : {0600u, 0664u}) {
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    llvm::Expected<OutputFile> file = OutputFile::open(path.string());
    ASSERT_TRUE(!!file) << llvm::toString(file.takeError());
    std::filesystem::remove(file->temporary_path());
    std::ofstream(file->temporary_path()) << "after";
    std::filesystem::permissions(file->temporary_path(), std::filesystem::perms::owner_all);
    ASSERT_EQ(llvm::toString(file->keep()), "");
    EXPECT_EQ(contents(path), "after");
    EXPECT_EQ(std::filesystem::status(path).permissions(), static_cast<std::filesystem::perms>(mode));
  }
}

TEST(OutputFiles, WhatAKilledProcessLeftIsInNobodysWay) {
  const Folder folder;
  const std::string left = ".minuet-" + std::to_string(::getpid()) + "-0.part";
  folder.file(left, "half");
  const std::string path = folder.path(std::string(250, 'n'));  // no longer name would be legal with a suffix
  ASSERT_EQ(llvm::toString(write_file(path, "whole")), "");
  EXPECT_EQ(contents(path), "whole");
  EXPECT_EQ(contents(folder.path(left)), "half");
  std::filesystem::create_symlink("nowhere", folder.path("link"));
  EXPECT_THAT(error_of(OutputFile::open(folder.path("link"))),
              testing::HasSubstr("a link to a file that is not there"));
}

TEST(OutputFiles, WhatCannotBeWrittenIsSaidAtOnce) {
  const Folder folder;
  EXPECT_THAT(error_of(OutputFile::open("/nowhere/at/all.npy")),
              testing::HasSubstr("no folder '/nowhere/at'"));
  EXPECT_THAT(error_of(OutputFile::open(folder.path(""))), testing::HasSubstr("it is a folder"));
  EXPECT_THAT(error_of(OutputFile::open("/dev/full/x")), testing::HasSubstr("no folder"));
  llvm::Error full = write_file("/dev/full", "x");
  EXPECT_EQ(llvm::errorToErrorCode(std::move(full)), std::make_error_code(std::errc::io_error));
}

TEST(OutputFiles, NoneIsAnotherOrAnInput) {
  const Folder folder;
  const std::string input = folder.file("in.bin", "x");
  std::filesystem::create_hard_link(input, folder.path("hard.bin"));
  std::filesystem::create_symlink("in.bin", folder.path("soft.bin"));
  const auto check = [&](const std::string& first, const std::string& second) {
    return llvm::toString(
        check_distinct({{"--a", first}, {"--b", second}}, {{"the cloud", input}, {"--none", ""}}));
  };
  EXPECT_EQ(check(folder.path("a"), folder.path("b")), "");
  EXPECT_EQ(check("-", "-"), "");
  EXPECT_EQ(check("/dev/null", "/dev/null"), "");
  EXPECT_THAT(check(folder.path("a"), folder.path("./a")),
              testing::HasSubstr("--a and --b are the same file"));
  for (const char* name : {"in.bin", "hard.bin", "soft.bin", "./in.bin"}) {
    EXPECT_THAT(check(folder.path("a"), folder.path(name)), testing::HasSubstr("would overwrite the cloud"))
        << name;
  }
}

}  // namespace
}  // namespace minuet::tool
