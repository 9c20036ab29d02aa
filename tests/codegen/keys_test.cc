#include "codegen/keys.h"

#include <gtest/gtest.h>

#include <functional>

namespace minuet {
namespace {

struct Request {
  KernelSource source{"gather-f16", "#include <x>\n", "minuet::gather<1>", 80};
  std::string headers = "digest";
  std::vector<std::string> options = {"--std=c++20", "-arch=sm_90a"};
  std::string arch = "sm_90a";
  std::string key() const { return request_key(source, headers, options, arch); }
};

// Golden: a change here makes every cache in the world cold, so it must be meant (kKeySchema).
TEST(Keys, R01_GoldenKeys) {
  EXPECT_EQ(Request().key(), "ac92939485614b8c9322b172b34159284cb9315f18784e789d1f41b35e37bd97");
  EXPECT_EQ(build_key(Request().key(), "nvrtc 13.0 a b"),
            "5edd3b47c9747c7c4d8eb69f9f835286191b157980f9aca67cdd309b1e365891");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Keys, R01_EveryFieldChangesTheKey) {
  const std::vector<std::function<void(Request&)>> changes = {
      [](Request& r) { r.source.display_name += "x"; }, [](Request& r) { r.source.text += " "; },
      [](Request& r) { r.source.name_expression = "minuet::gather<2>"; },
      [](Request& r) { r.headers = "digess"; }, [](Request& r) { r.options.push_back("-DX"); },
      [](Request& r) { r.options.pop_back(); }, [](Request& r) { r.arch = "sm_90"; },
      [](Request& r) { r.source.options = {"--maxrregcount=64"}; },
      [](Request& r) {
        r.source.options = {"--maxrregcount=6", "4"};
      },
      // The same letters in other fields: the lengths keep them apart.
      [](Request& r) { r.source.display_name = "gather-f1", r.source.text = "6" + r.source.text; },
      [](Request& r) { r.options = {"--std=c++20-arch=sm_90a"}; }};
  std::vector<std::string> keys = {Request().key()};
  for (const auto& change : changes) {
    Request request;
    change(request);
    for (const std::string& other : keys) EXPECT_NE(request.key(), other) << "change " << keys.size();
    keys.push_back(request.key());
  }
}

TEST(Keys, R01_WhatChangesNoCodeChangesNoKey) {
  for (const char* option : {"--frandom-seed=0x12", "--no-cache", "--pch", "--create-pch=x", "-pch-dir=/tmp",
                             "--fdevice-time-trace=f"}) {
    Request request;
    request.options.insert(request.options.begin(), option);
    EXPECT_EQ(request.key(), Request().key()) << option;
  }
}

TEST(Keys, R01_PtxHasAKeyOfItsOwn) {
  Request code, ptx;
  code.arch = "sm_90", ptx.arch = "compute_90";
  EXPECT_NE(code.key(), ptx.key());
}

TEST(Keys, R02_ABuildIdMakesAnotherBuildKey) {
  const std::string request = Request().key();
  EXPECT_NE(build_key(request, "nvrtc 13.0 aa bb"), build_key(request, "nvrtc 13.0 aa bc"));
  EXPECT_EQ(build_key(request, "nvrtc 13.0 aa bb"), build_key(request, "nvrtc 13.0 aa bb"));
}

}  // namespace
}  // namespace minuet
