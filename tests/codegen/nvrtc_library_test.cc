#include "codegen/nvrtc_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NvrtcPlaces places(std::map<std::string, std::string> variables) {
  return {"", make_environment(std::move(variables)), "", "", {"/loaded/libnvrtc.so.13"}};
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
  const std::vector<std::string> homes = {"toolkit/lib64",
                                          "venv/lib/python3.11/site-packages/nvidia/cu13/lib",
                                          "site/nvidia/cu13/lib", "wheels/nvidia/cu13/lib"};
  for (const std::string& home : homes) {
    std::filesystem::create_directories(folder / home);
    write_text(folder / (home + "/libnvrtc.so.13"), "");
  }
  std::filesystem::create_directory(folder / "site/minuet");
  NvrtcPlaces all = places({{"CUDA_HOME", folder / "toolkit"}, {"VIRTUAL_ENV", folder / "venv"}});
  all.own_folder = folder / "site/minuet";
  all.wheel_folder = folder / "wheels";
  const std::vector<std::string> candidates = nvrtc_candidates(all);
  EXPECT_EQ(index_of(candidates, "libnvrtc.so.13"), 0u);
  std::size_t last = 0;
  for (const std::string& home :
       {homes[0], homes[1], std::string("site/minuet/../nvidia/cu13/lib"), homes[3]}) {
    const std::size_t index = index_of(candidates, folder / (home + "/libnvrtc.so.13"));
    EXPECT_GT(index, last) << home;
    EXPECT_LT(index, candidates.size()) << home;
    last = index;
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
  EXPECT_THAT(take_status(nvrtc_not_found(named, tried)).message(),
              HasSubstr("that fits at '/env/libnvrtc.so', which MINUET_NVRTC names: install"));
  named.library = "/caller/libnvrtc.so";
  EXPECT_THAT(take_status(nvrtc_not_found(named, tried)).message(),
              HasSubstr("that fits at '/caller/libnvrtc.so': install"));
}

TEST(NvrtcLibrary, R31_MissingBuiltinsSayWhereToPutThem) {
  const NvrtcLibrary library{nullptr, "/some/folder/libnvrtc.so.13"};
  const StatusError status = take_status(open_builtins(library, "99.9").takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("/some/folder/libnvrtc.so.13 is there, but libnvrtc-builtins.so.99.9"));
}

}  // namespace
}  // namespace minuet
