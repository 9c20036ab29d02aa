#include "codegen/compile/nvrtc_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NvrtcPlaces places(std::map<std::string, std::string> variables) {
  return {"", make_environment(std::move(variables)), "", {"/loaded/libnvrtc.so.13"}};
}

std::size_t index_of(const std::vector<std::string>& candidates, const std::string& path) {
  return static_cast<std::size_t>(std::find(candidates.begin(), candidates.end(), path) - candidates.begin());
}

TEST(NvrtcLibrary, R18_ANamedLibraryStandsAlone) {
  NvrtcPlaces named = places({{"MINUET_NVRTC", "/env/libnvrtc.so"}});
  EXPECT_THAT(nvrtc_candidates(named), ElementsAre("/env/libnvrtc.so"));
  named.library = "/caller/libnvrtc.so";
  EXPECT_THAT(nvrtc_candidates(named), ElementsAre("/caller/libnvrtc.so"));
}

TEST(NvrtcLibrary, ANamedFolderMeansTheLibraryInIt) {
  const TemporaryFolder folder;
  write_text(folder / "libnvrtc.so.13", "");
  EXPECT_THAT(nvrtc_candidates(places({{"MINUET_NVRTC", folder.path()}})),
              ElementsAre(folder / "libnvrtc.so.13"));
}

TEST(NvrtcLibrary, LoaderThenToolkitsThenWheels) {
  const TemporaryFolder folder;
  const std::vector<std::string> homes = {
      "toolkit/lib64", "venv/lib/python3.11/site-packages/nvidia/cu13/lib", "site/nvidia/cu13/lib"};
  for (const std::string& home : homes) {
    std::filesystem::create_directories(folder / home);
    for (const char* name : {"/libnvrtc.so.13", "/libnvrtc.so.12"}) write_text(folder / (home + name), "");
  }
  std::filesystem::create_directory(folder / "site/minuet");
  NvrtcPlaces all = places({{"CUDA_HOME", folder / "toolkit"}, {"VIRTUAL_ENV", folder / "venv"}});
  all.own_folder = folder / "site/minuet";
  const std::vector<std::string> candidates = nvrtc_candidates(all);
  // CUDA 13 from wherever it is, before CUDA 12 of the loader.
  EXPECT_EQ(index_of(candidates, "libnvrtc.so.13"), 0u);
  std::ptrdiff_t last = -1;
  for (const char* soname : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    for (const std::string& path :
         {std::string(soname), folder / (homes[0] + "/" + soname), folder / (homes[1] + "/" + soname),
          folder / ("site/minuet/../nvidia/cu13/lib/" + std::string(soname))}) {
      const auto index = static_cast<std::ptrdiff_t>(index_of(candidates, path));
      EXPECT_GT(index, last) << path;
      EXPECT_LT(index, std::ssize(candidates)) << path;
      last = index;
    }
  }
  EXPECT_EQ(candidates.back(), "/loaded/libnvrtc.so.13");
}

TEST(NvrtcLibrary, WhatIsNoLibraryIsSaidWithTheLoadersReason) {
  const TemporaryFolder folder;
  write_text(folder / "libnvrtc.so.13", "no library");
  std::string tried;
  EXPECT_FALSE(open_nvrtc_library(folder / "libnvrtc.so.13", tried));
  EXPECT_FALSE(open_nvrtc_library("/nowhere/libnvrtc.so.13", tried));
  const StatusError status = take_status(nvrtc_not_found(places({}), tried));
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("pip install nvidia-cuda-nvrtc"));
  EXPECT_THAT(status.detail(), HasSubstr("/nowhere/libnvrtc.so.13"));
  EXPECT_THAT(status.detail(), HasSubstr(folder / "libnvrtc.so.13"));

  NvrtcPlaces named = places({{"MINUET_NVRTC", "/env/libnvrtc.so"}});
  EXPECT_THAT(
      take_status(nvrtc_not_found(named, tried)).message(),
      HasSubstr("no suitable libnvrtc was found at '/env/libnvrtc.so', which MINUET_NVRTC names: install"));
  named.library = "/caller/libnvrtc.so";
  EXPECT_THAT(take_status(nvrtc_not_found(named, tried)).message(),
              HasSubstr("no suitable libnvrtc was found at '/caller/libnvrtc.so': install"));
}

/// Opens `library`, puts the file `other` in its place, and has the ids of both.
void expect_another_id(const std::string& library,
                       const std::function<std::string(std::string, std::string)>& change) {
  const TemporaryFolder folder;
  const std::string path = folder / "libnvrtc.so.13", other = folder / "other.so";
  std::filesystem::copy_file(library, path);
  std::string tried;
  const std::optional<NvrtcLibrary> first = open_nvrtc_library(path, tried);
  ASSERT_TRUE(first) << tried;
  const std::string id = first->build_id();
  EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]+"));
  write_text(other, change(contents(path), id));
  const std::optional<NvrtcLibrary> second = open_nvrtc_library(other, tried);
  ASSERT_TRUE(second) << tried;
  EXPECT_NE(second->build_id(), id);
  std::filesystem::rename(other, path);
  EXPECT_EQ(first->build_id(), id);
}

TEST(NvrtcLibrary, R02_TheBuildIdIsOfWhatIsOpenAndNotOfWhatLiesThereNow) {
  expect_another_id(MINUET_PROBE_LIBRARY, with_another_build_id);
}

TEST(NvrtcLibrary, R02_WithoutABuildIdItsBytesTellALibrary) {
  expect_another_id(MINUET_PROBE_WITHOUT_ID, [](std::string bytes, const std::string&) {
    const std::size_t constant = bytes.find("a constant");
    EXPECT_LT(constant, bytes.size());
    return bytes.replace(constant, 1, "A");
  });
}

TEST(NvrtcLibrary, R31_MissingBuiltinsSayWhereToPutThem) {
  const NvrtcLibrary library{nullptr, "/some/folder/libnvrtc.so.13"};
  const StatusError status = take_status(open_builtins(library, "99.9").takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("/some/folder/libnvrtc.so.13 was found, but libnvrtc-builtins.so.99.9"));
}

}  // namespace
}  // namespace minuet
