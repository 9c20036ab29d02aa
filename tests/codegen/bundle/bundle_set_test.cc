#include "codegen/bundle/bundle_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "codegen/base/own_image.h"
#include "codegen/bundle/bundle_writer.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"
#include "tests/codegen/bundle/bundle_fakes.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Bundles in a folder of their own, and what they warn of.
struct Fixture {
  TemporaryFolder folder;
  Warnings warnings;
  BundleOptions options;
  Fixture() { options.warn = warnings.sink(); }
  std::string put(const std::string& name, const std::vector<Entry>& entries,
                  const std::string& arch = "sm_90a") {
    put_bundle(folder / name, entries, arch);
    return folder / name;
  }
};

/// Arch and compiler of what is found, or "miss: <why>".
std::string ask(const BundleSet& set, const std::string& name, const std::string& target = "sm_90a") {
  std::string why;
  const std::optional<Entry> entry = set.find(fake_request(name, target), &why);
  return entry ? entry->binary.arch + ", " + entry->binary.compiler_id : "miss: " + why;
}

TEST(BundleSet, R21_ABundleOfNvrtc129IsHit) {
  Fixture at;
  at.options.places = {{at.put("a.bundle", {make_kernel("gather", "sm_90a", "nvrtc 12.9 1 2")}), ""}};
  const BundleSet set(at.options);
  EXPECT_EQ(ask(set, "gather"), "sm_90a, nvrtc 12.9 1 2");
  EXPECT_THAT(ask(set, "scatter"), HasSubstr("in none of the bundles"));
  EXPECT_THAT(at.warnings.all(), IsEmpty());
}

/// A library whose gather.h has one more comment, with the bundle that was made before.
TEST(BundleSet, R01_ACommentInGatherLeavesABundlesOtherKernelsValid) {
  Fixture at;
  const KernelSource gather = emit(GatherSpec{}), pass = emit(RadixPassSpec{});
  std::vector<Entry> entries;
  for (const KernelSource& source : {gather, pass}) {
    Entry entry = make_kernel(source.display_name);
    entry.request_key = key_of(source, "sm_90a");
    entry.name_expression = source.name_expression;
    entries.push_back(std::move(entry));
  }
  at.options.places = {{at.put("a.bundle", entries), ""}};
  const BundleSet set(at.options);
  std::vector<HeaderRow> changed = kernel_headers().vec();
  for (HeaderRow& row : changed) {
    if (row.name == llvm::StringRef("kernels_templates/gmas/gather.h")) row.digest = "of another text";
  }
  const auto is_found = [&](const KernelSource& source, llvm::ArrayRef<HeaderRow> index) {
    KernelRequest request{source, "sm_90a"};
    request.key = request_key(source, header_digest(source.text, index), compile_options("sm_90a"), "sm_90a");
    return set.find(request).has_value();
  };
  EXPECT_TRUE(is_found(gather, kernel_headers()));
  EXPECT_TRUE(is_found(pass, kernel_headers()));
  EXPECT_FALSE(is_found(gather, changed));
  EXPECT_TRUE(is_found(pass, changed));
}

TEST(BundleSet, R21_ACompilerNewerThanTheHostIsForThePolicyAnyOnly) {
  Fixture at;
  const std::string path = at.put("a.bundle", {make_kernel("gather", "sm_90a", "nvrtc 14.1 1 2"),
                                               make_kernel("scatter", "sm_90a", "unnamed")});
  at.options.places = {{path, ""}};
  EXPECT_THAT(ask(BundleSet(at.options), "gather"), AllOf(HasSubstr("nvrtc 14.1"), HasSubstr("CUDA 13")));
  EXPECT_THAT(ask(BundleSet(at.options), "scatter"), HasSubstr("unnamed"));
  at.options.cuda_major = 14;
  EXPECT_EQ(ask(BundleSet(at.options), "gather"), "sm_90a, nvrtc 14.1 1 2");
  at.options.cuda_major = 13;
  at.options.policy = BundlePolicy::Any;
  EXPECT_EQ(ask(BundleSet(at.options), "gather"), "sm_90a, nvrtc 14.1 1 2");
  EXPECT_EQ(ask(BundleSet(at.options), "scatter"), "sm_90a, unnamed");
}

TEST(BundleSet, R21_TheOrderIsCallerThenListThenTheLibrarysFolder) {
  Fixture at;
  const auto kernel = [](const char* name, const char* compiler) {
    return std::vector<Entry>{make_kernel(name, "sm_90a", compiler)};
  };
  ASSERT_EQ(::mkdir((at.folder / "lib").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((at.folder / "many").c_str(), 0700), 0);
  const std::string first = at.put("first", kernel("a", "nvrtc 12.1 "));
  auto both = kernel("a", "nvrtc 12.2 ");
  both.push_back(make_kernel("b", "sm_90a", "nvrtc 12.2 "));
  const std::string second = at.put("second", both);
  at.put("many/2.bundle", kernel("c", "nvrtc 12.4 "));
  at.put("many/1.bundle", kernel("c", "nvrtc 12.3 "));
  at.put("many/no", kernel("d", "nvrtc 12.0 "));
  at.put("lib/minuet-sm_90a.bundle",
         {make_kernel("a"), make_kernel("b"), make_kernel("c"), make_kernel("d")});
  at.put("lib/other.bundle", kernel("e", "nvrtc 12.0 "));
  at.options.places = {{first, ""}};
  at.options.search_path = ":" + second + "::" + at.folder / "many" + ":";
  at.options.library_folder = at.folder / "lib";
  const BundleSet set(at.options);
  EXPECT_THAT(set.bundles(), SizeIs(5));
  EXPECT_EQ(ask(set, "a"), "sm_90a, nvrtc 12.1 ");
  EXPECT_EQ(ask(set, "b"), "sm_90a, nvrtc 12.2 ");
  EXPECT_EQ(ask(set, "c"), "sm_90a, nvrtc 12.3 ");
  EXPECT_EQ(ask(set, "d"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(ask(set, "e"), HasSubstr("miss"));  // its file does not start with minuet-
  EXPECT_THAT(at.warnings.all(), IsEmpty());
}

TEST(BundleSet, R21_WhatIsNotThereIsAWarningAndTheRestWorks) {
  Fixture at;
  const std::string good = at.put("good.bundle", {make_kernel("gather")});
  write_text(at.folder / "bad.bundle", "text");
  at.options.places = {{at.folder / "none.bundle", ""}, {at.folder / "bad.bundle", ""}, {good, ""}};
  at.options.library_folder = at.folder / "no folder";
  const BundleSet set(at.options);
  EXPECT_EQ(ask(set, "gather"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr("none.bundle"), HasSubstr("bad.bundle")));
  EXPECT_THAT(ask(BundleSet({}), "gather"), HasSubstr("no bundle is open"));
}

TEST(BundleSet, R21_AFolderWithoutBundlesIsAWarning) {
  Fixture at;
  const TemporaryFolder empty;
  at.options.search_path = empty / "";
  at.options.library_folder = empty / "";  // which is asked whether anybody put one there or not
  EXPECT_THAT(BundleSet(at.options).bundles(), IsEmpty());
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr("it is a folder without any *.bundle file")));
}

TEST(BundleSet, R23_TheBestArchThatRunsIsTaken) {
  Fixture at;
  for (const char* arch : {"sm_80", "sm_86", "sm_100", "sm_100a", "sm_100f", "sm_120f"}) {
    at.put(std::string(arch) + ".bundle", {make_kernel("gather", arch)}, arch);
  }
  at.put("more.bundle", {make_kernel("scatter", "sm_80")}, "sm_80");
  at.options.places = {{at.folder.path(), ""}};
  const BundleSet set(at.options);
  const auto arch_for = [&](const char* target) { return ask(set, "gather", target).substr(0, 7); };
  EXPECT_EQ(arch_for("sm_80"), "sm_80, ");
  EXPECT_EQ(arch_for("sm_89"), "sm_86, ");
  EXPECT_EQ(arch_for("sm_100a"), "sm_100a");
  EXPECT_EQ(arch_for("sm_100"), "sm_100,");
  EXPECT_EQ(arch_for("sm_103a"), "sm_100f");
  EXPECT_EQ(arch_for("sm_121a"), "sm_120f");
  EXPECT_THAT(ask(set, "gather", "sm_90a"), HasSubstr("no bundle has kernels that run on sm_90a"));
  EXPECT_THAT(ask(set, "gather", "sm_87"), HasSubstr("no bundle has kernels that run on sm_87"));
  // A bundle for the exact arch that lacks the kernel does not hide one for a lower minor.
  EXPECT_EQ(ask(set, "scatter", "sm_86").substr(0, 7), "sm_80, ");
}

TEST(BundleSet, R23_PtxIsTakenLastAndWhereItIsAskedFor) {
  Fixture at;
  for (const char* arch : {"compute_80", "compute_90", "compute_90a", "sm_80"}) {
    at.put(std::string(arch) + ".bundle", {make_kernel("gather", arch)}, arch);
  }
  at.options.places = {{at.folder.path(), ""}};
  EXPECT_THAT(ask(BundleSet(at.options), "gather", "sm_90a"),
              AllOf(HasSubstr("no bundle has kernels that run on sm_90a"), HasSubstr("bundle_ptx")));
  at.options.ptx = true;
  const BundleSet set(at.options);
  const auto arch_for = [&](const char* target) {
    return llvm::StringRef(ask(set, "gather", target)).split(',').first.str();
  };
  EXPECT_EQ(arch_for("sm_90a"), "compute_90a");
  EXPECT_EQ(arch_for("sm_100a"), "compute_90");
  EXPECT_EQ(arch_for("sm_89"), "sm_80");
  EXPECT_EQ(arch_for("sm_87"), "compute_80");
  EXPECT_THAT(ask(set, "gather", "sm_75"), HasSubstr("no bundle has kernels that run on sm_75"));
  EXPECT_THAT(at.warnings.all(), IsEmpty());
}

TEST(BundleSet, R24_ABundleWithAnotherDigestIsIgnored) {
  Fixture at;
  const std::string path = at.put("a.bundle", {make_kernel("gather")});
  const std::string other = at.put("b.bundle", {make_kernel("scatter")});
  const std::string digest = sha256_hex(contents(path));
  const std::string wrong = sha256_hex("other");
  at.options.places = {{path, wrong}, {other, ""}};
  const BundleSet set(at.options);
  EXPECT_THAT(ask(set, "gather"), HasSubstr("miss"));
  EXPECT_EQ(ask(set, "scatter"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), ElementsAre(AllOf(HasSubstr(path), HasSubstr(digest), HasSubstr(wrong))));
}

TEST(BundleSet, R24_ABundleWithTheExpectedDigestIsUsed) {
  Fixture at;
  const std::string path = at.put("a.bundle", {make_kernel("gather")});
  const std::string digest = sha256_hex(contents(path));
  at.options.places = {{path, llvm::StringRef(digest).upper()}};
  EXPECT_EQ(ask(BundleSet(at.options), "gather"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), IsEmpty());
  // Any one byte, and be it of the trailing digest that no lookup reads, makes another file.
  std::string bytes = contents(path);
  for (std::size_t byte : {bytes.size() - 1, bytes.size() - 40}) {
    std::string bad = bytes;
    bad[byte] ^= 1;
    write_text(path, bad);
    EXPECT_THAT(ask(BundleSet(at.options), "gather"), HasSubstr("no bundle is open")) << byte;
  }
  EXPECT_THAT(at.warnings.all(), SizeIs(2));
}

TEST(BundleSet, R20_WhatOthersMayWriteToIsNotUsedUnlessItsDigestIsExpected) {
  Fixture at;
  const std::string path = at.put("a.bundle", {make_kernel("gather")});
  at.options.places = {{path, ""}};
  for (const mode_t mode : {0660u, 0606u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const BundleSet set(at.options);
    EXPECT_THAT(ask(set, "gather"), HasSubstr("no bundle is open"));
  }
  EXPECT_THAT(at.warnings.all(), SizeIs(2));
  EXPECT_THAT(at.warnings.all(), testing::Each(AllOf(HasSubstr(path), HasSubstr("others may"))));
  BundleSet empty({});
  EXPECT_TRUE(llvm::errorToBool(empty.add({path, ""})));
  at.options.places = {{path, sha256_hex(contents(path))}};
  EXPECT_EQ(ask(BundleSet(at.options), "gather"), std::string("sm_90a, ") + kHost);
}

TEST(BundleSet, R20_ABundleIsWrittenSoThatOnlyItsOwnerChangesIt) {
  Fixture at;
  const mode_t before = ::umask(0);
  const std::string path = at.put("a.bundle", {make_kernel("gather")});
  ::umask(before);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST(BundleSet, R24_ADigestForAFolderPinsNothingAndIsRefused) {
  Fixture at;
  at.put("a.bundle", {make_kernel("gather")});
  at.options.places = {{at.folder.path(), sha256_hex("any")}};
  EXPECT_THAT(ask(BundleSet(at.options), "gather"), HasSubstr("miss"));
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr("folder")));
}

TEST(BundleSet, R20_ADamagedKernelIsOneWarningAndNotAskedAgain) {
  Fixture at;
  const std::string path = at.put("a.bundle", {make_kernel("gather"), make_kernel("scatter")});
  const auto bundle = llvm::cantFail(Bundle::open(path));
  const std::size_t index = bundle->find(fake_request("gather").key).value();
  std::string bytes = contents(path);
  bytes[bundle->item(index).offset + 3] ^= 1;
  write_text(path, bytes);
  at.options.places = {{path, ""}};
  const BundleSet set(at.options);
  EXPECT_THAT(ask(set, "gather"), HasSubstr("damaged"));
  EXPECT_THAT(ask(set, "gather"), HasSubstr("damaged"));
  EXPECT_EQ(ask(set, "scatter"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr(fake_request("gather").key)));
  // The next bundle may have it whole.
  at.options.places.push_back({at.put("b.bundle", {make_kernel("gather")}), ""});
  EXPECT_EQ(ask(BundleSet(at.options), "gather"), std::string("sm_90a, ") + kHost);
}

TEST(BundleSet, R21_AnAddedBundleInMemoryIsAskedFirst) {
  Fixture at;
  at.options.places = {{at.put("a.bundle", {make_kernel("gather"), make_kernel("scatter")}), ""}};
  at.options.ptx = true;
  BundleSet set(at.options);
  const auto bytes_of = [](const std::string& name, const std::string& arch, const std::string& compiler) {
    return llvm::cantFail(make_bundle(arch, {make_kernel(name, arch, compiler)}));
  };
  EXPECT_EQ(error_of(set.add_memory({{bytes_of("gather", "sm_90a", "nvrtc 12.1 "), ""}})), "");
  EXPECT_EQ(ask(set, "gather"), "sm_90a, nvrtc 12.1 ");
  EXPECT_EQ(ask(set, "scatter"), std::string("sm_90a, ") + kHost);
  EXPECT_EQ(error_of(set.add_memory({{bytes_of("sort", "compute_80", kHost), ""}})), "");
  EXPECT_EQ(ask(set, "sort"), std::string("compute_80, ") + kHost);
  const std::string newer = bytes_of("merge", "sm_90a", "nvrtc 14.1 1 2");
  EXPECT_EQ(error_of(set.add_memory({{newer, ""}})), "");
  EXPECT_THAT(ask(set, "merge"), HasSubstr("the bundle of " + std::to_string(newer.size()) +
                                           " bytes in memory has it for sm_90a, but its compiler"));
  EXPECT_THAT(at.warnings.all(), IsEmpty());
}

/// Equal bytes are held once, whoever adds them, and one bundle of several that is none adds nothing.
TEST(BundleSet, R21_EqualBundlesInMemoryAreHeldOnce) {
  BundleSet set({});
  const std::string one = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather")})),
                    two = llvm::cantFail(make_bundle("sm_80", {make_kernel("gather", "sm_80")}));
  EXPECT_NE(error_of(set.add_memory({{one, ""}, {"text", ""}})), "");
  EXPECT_THAT(set.bundles(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of(set.add_memory({{one, sha256_hex(one)}})), "");
    EXPECT_EQ(error_of(set.add_memory({{std::string(two), ""}, {std::string(one), ""}, {two, ""}})), "");
    EXPECT_NE(error_of(set.add_memory({{one, sha256_hex(two)}})), "") << "an expected digest still counts";
  }
  const BundleSet::BundleList held = set.bundles();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0]->arch(), "sm_80");
  EXPECT_EQ(held[1]->arch(), "sm_90a");
}

TEST(BundleSet, R24_ABundleInMemoryWithAnotherDigestIsNotAdded) {
  BundleSet set({});
  const std::string bytes = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather")}));
  const std::string digest = sha256_hex(bytes);
  for (const std::string& wrong : {sha256_hex("other"), digest.substr(1), digest + "0", std::string("x")}) {
    const StatusError error = take_status(set.add_memory({{bytes, wrong}}));
    EXPECT_EQ(error.code(), StatusCode::FailedPrecondition);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(" bytes in memory: its SHA-256 is " + digest),
                                       HasSubstr(wrong + " was expected")));
  }
  EXPECT_EQ(take_status(set.add_memory({{"text", ""}})).code(), StatusCode::InvalidArgument);
  EXPECT_THAT(set.bundles(), IsEmpty());
  EXPECT_EQ(error_of(set.add_memory({{bytes, llvm::StringRef(digest).upper()}})), "");
  EXPECT_EQ(ask(set, "gather"), std::string("sm_90a, ") + kHost);
}

TEST(BundleSet, R20_ADamagedKernelInMemoryIsOneWarningAndTheNextBundlesIsTaken) {
  Fixture at;
  at.options.places = {{at.put("a.bundle", {make_kernel("gather")}), ""}};
  BundleSet set(at.options);
  std::string bytes = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather"), make_kernel("scatter")}));
  const auto whole = llvm::cantFail(Bundle::open_memory(bytes));
  for (std::size_t i = 0; i < whole->size(); ++i) bytes[whole->item(i).offset + 3] ^= 1;
  EXPECT_EQ(error_of(set.add_memory({{bytes, ""}})), "");
  EXPECT_EQ(ask(set, "gather"), std::string("sm_90a, ") + kHost);
  EXPECT_EQ(ask(set, "gather"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr("a kernel of " + whole->name() + " is not used (" +
                                                       fake_request("gather").key)));
  EXPECT_THAT(ask(set, "scatter"), HasSubstr(whole->name() + " has it for sm_90a, but it is damaged"));
}

/// With right digests and a right key, which whoever writes a bundle can give to any kernel.
TEST(BundleSet, R20_AKernelUnderAnothersKeyIsNotUsed) {
  Fixture at;
  Entry entry = make_kernel("gather");
  entry.name_expression = make_source("scatter").name_expression;
  at.options.places = {{at.put("a.bundle", {entry, make_kernel("sort")}), ""}};
  const BundleSet set(at.options);
  EXPECT_THAT(ask(set, "gather"), HasSubstr("another kernel has the same key"));
  EXPECT_EQ(ask(set, "sort"), std::string("sm_90a, ") + kHost);
  EXPECT_THAT(at.warnings.all(), ElementsAre(HasSubstr("another kernel has the same key")));
}

TEST(BundleSet, R28_ARejectedKernelIsNotGivenAgain) {
  Fixture at;
  at.options.places = {{at.put("a.bundle", {make_kernel("gather"), make_kernel("scatter")}), ""}};
  BundleSet set(at.options);
  EXPECT_EQ(ask(set, "gather"), std::string("sm_90a, ") + kHost);
  set.reject(fake_request("gather").key);
  EXPECT_THAT(ask(set, "gather"), HasSubstr("the driver refused it"));
  EXPECT_EQ(ask(set, "scatter"), std::string("sm_90a, ") + kHost);
}

TEST(BundleSet, R21_TheLibrarysOwnFolderIsKnown) {
  // Here: that of this test, which is no library's.
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_TRUE(std::filesystem::equivalent(own_folder(), program.parent_path())) << own_folder();
  EXPECT_TRUE(std::filesystem::equivalent(own_image(), program)) << own_image();
}

}  // namespace
}  // namespace minuet
