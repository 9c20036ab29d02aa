#include "codegen/source/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "codegen/source/embed/header_blob.h"
#include "tests/codegen/fakes.h"

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

/// Changes one option at a time: leaves it out, gives it another value, renames it, moves it.
TEST(Keys, R01_EveryOptionOfACompileChangesTheKey) {
  for (const char* arch : {"sm_80", "sm_90a", "compute_90"}) {
    Request request;
    request.arch = arch;
    request.options = compile_options(arch);
    const std::vector<std::string> whole = request.options;
    std::set<std::string> keys = {request.key()};
    std::size_t changes = 1;
    const auto expect_another = [&](const std::string& what) {
      EXPECT_TRUE(keys.insert(request.key()).second) << arch << ": " << what;
      ++changes;
      request.options = whole;
    };
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::string& option = whole[i];
      const llvm::StringRef value = llvm::StringRef(option).split('=').second;
      request.options.erase(request.options.begin() + static_cast<std::ptrdiff_t>(i));
      expect_another("without " + option);
      request.options[i] = option.substr(0, option.size() - value.size()) + "other";
      expect_another("another value of " + option);
      request.options[i] = option + "x";
      expect_another("more than " + option);
      request.options[i] = option.substr(1);
      expect_another("a dash less of " + option);
      request.options.push_back(option);
      expect_another("twice " + option);
      // One of the source's own is the same letters in another place, and means the same to the compiler.
      if (i > 0) std::swap(request.options[i - 1], request.options[i]), expect_another("moved " + option);
    }
    EXPECT_EQ(keys.size(), changes);
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

// ---- headers ------------------------------------------------------------------------------------------

constexpr const char* kGather = "kernels_templates/gmas/gather.h";

/// A source for each kernel, by its name.
std::map<std::string, KernelSource> one_of_each_kernel() {
  std::map<std::string, KernelSource> sources;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) sources[#name] = emit(Spec{});
#include "kernels_templates/kernels.inc"
  return sources;
}

/// The index as it would be with another text in the header of that name.
std::vector<HeaderRow> with_another(llvm::StringRef name, const char* digest) {
  std::vector<HeaderRow> index = kernel_headers().vec();
  const auto row =
      std::find_if(index.begin(), index.end(), [&](const HeaderRow& one) { return one.name == name; });
  EXPECT_NE(row, index.end());
  row->digest = digest;
  return index;
}

std::set<std::string> names_in(const HeaderClosure& closure) {
  std::set<std::string> names;
  for (const HeaderRow* header : closure.ours) names.insert(header->name);
  return names;
}

TEST(HeaderIndex, R01_ItIsOfTheBytesThatAreEmbedded) {
  std::string text, last;
  for (const HeaderRow& row : kernel_headers()) {
    const std::string bytes = contents(MINUET_SOURCE_DIR "/" + std::string(row.name));
    EXPECT_EQ(row.digest, sha256_hex(bytes)) << row.name;
    std::string includes;
    for (const std::string& name : included_names(bytes)) includes += name + "\n";
    EXPECT_EQ(row.includes, includes) << row.name;
    EXPECT_LT(last, row.name) << "sorted";
    last = row.name;
    text += "#include \"" + last + "\"\n";
  }
  EXPECT_GE(kernel_headers().size(), 24u);
  EXPECT_EQ(header_closure(text).ours.size(), kernel_headers().size());
}

TEST(HeaderIndex, R01_ACommentInOneHeaderLeavesTheOthersKernelsAlone) {
  const std::string digest =
      sha256_hex(contents(MINUET_SOURCE_DIR "/" + std::string(kGather)) + "// a comment\n");
  const std::vector<HeaderRow> changed = with_another(kGather, digest.c_str());
  int kept = 0, lost = 0;
  for (const auto& kernel : one_of_each_kernel()) {
    const std::string& name = kernel.first;
    const KernelSource& source = kernel.second;
    const bool reads_it = names_in(header_closure(source.text)).count(kGather) != 0;
    const auto key = [&](llvm::ArrayRef<HeaderRow> index) {
      return request_key(source, header_digest(source.text, index), {}, "sm_90a");
    };
    EXPECT_EQ(key(kernel_headers()) != key(changed), reads_it) << name;
    ++(reads_it ? lost : kept);
    EXPECT_TRUE(reads_it || name != "gather");
    EXPECT_FALSE(reads_it && name.find("radix") == 0) << name;
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(kept, 10);
}

TEST(HeaderIndex, R01_WhatAHeaderIncludesChangesWhoeverReadsIt) {
  const std::vector<HeaderRow> changed = with_another("kernels_templates/shared/types.h", "another");
  for (const auto& [name, source] : one_of_each_kernel())
    EXPECT_NE(header_digest(source.text), header_digest(source.text, changed)) << name;
}

TEST(HeaderIndex, R29_OnlyScanAndSortIncludeCubOrCudaStd) {
  std::set<std::string> with_cub;
  for (const auto& [name, source] : one_of_each_kernel()) {
    if (header_closure(source.text).cccl) with_cub.insert(name);
  }
  EXPECT_THAT(with_cub, testing::ElementsAre("radix_histogram", "radix_pass", "scan"));
}

TEST(HeaderIndex, R29_TheToolkitsHeadersCountWhereOneIsIncluded) {
  const HeaderClosure plain = header_closure(emit(UniqueSpec{}).text);
  EXPECT_FALSE(plain.cuda || plain.cccl);
  EXPECT_FALSE(header_closure(emit(GatherSpec{}).text).cccl);
  const HeaderClosure scan = header_closure(emit(ScanSpec{}).text);
  EXPECT_TRUE(scan.cccl && scan.cuda);
  const std::set<std::string> digests = {header_digest(""), header_digest("#include <cuda_fp16.h>\n"),
                                         header_digest("#include <cub/block/block_load.cuh>\n")};
  EXPECT_EQ(digests.size(), 3u);
  EXPECT_EQ(header_digest("#include <cuda_fp16.h>\n"), header_digest("#include <cuda_bf16.h>\n"));
}

TEST(HeaderIndex, R01_WhatIsKnownOfAListOfIncludesIsOfThatList) {
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, source] : one_of_each_kernel()) {
      EXPECT_EQ(header_use(source.text).digest, header_digest(source.text)) << name;
      EXPECT_EQ(header_use(source.text).cccl, header_closure(source.text).cccl) << name;
    }
    EXPECT_EQ(header_use("").digest, header_digest(""));
  }
  EXPECT_EQ(&header_use("#include <a>\nint x;\n"), &header_use("#include <a>\n"));
}

TEST(HeaderIndex, R03_AnIncludeThatLeavesTheSetIsNamed) {
  EXPECT_EQ(header_closure("#include \"/etc/passwd\"\n").outside, "/etc/passwd");
  EXPECT_EQ(header_closure("#include \"kernels_templates/../../x.h\"\n").outside,
            "kernels_templates/../../x.h");
  EXPECT_EQ(header_closure(emit(ScanSpec{}).text).outside, "");
}

}  // namespace
}  // namespace minuet
