// The real NVRTC. Tests that need a process of their own run this executable again, for a test
// whose name starts with Child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "codegen/compile/compiler.h"
#include "codegen/compile/entry.h"
#include "codegen/source/embedded_headers.h"
#include "codegen/source/emit.h"
#include "codegen/source/keys.h"
#include "tests/codegen/fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kArch = "sm_90a";

std::string shell(const std::string& command) {
  std::string output;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> bytes;
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe))
    output.append(bytes.data(), count);
  ::pclose(pipe);
  return output;
}

/// Runs one Child test in a new process, in `folder`, behind `prefix` (variables, or a tracer).
std::string child(const std::string& test, const std::string& folder, const std::string& prefix = "") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return shell("cd '" + folder + "' && " + prefix + " '" + self +
               "' --gtest_also_run_disabled_tests --gtest_filter=Nvrtc.DISABLED_" + test + " 2>&1");
}

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
    if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
    compiler_ = *compiler;
  }
  StatusError failure(const KernelSource& source, const char* arch = kArch) {
    llvm::Expected<Binary> binary = compiler_->compile({source, arch}, {});
    EXPECT_FALSE(binary);
    return take_status(binary.takeError());
  }
  std::shared_ptr<Compiler> compiler_;
};

KernelSource own_source(const std::string& text) {
  KernelSource source = make_source("probe", text);
  source.name_expression = "probe<1>";
  return source;
}

// ---- children ------------------------------------------------------------------------------

/// The digests of two cubins, one with templates of CUB in it.
TEST_F(Nvrtc, DISABLED_ChildPrintsDigests) {
  for (const KernelSource& source : {emit(GatherSpec{}), emit(ScanSpec{})}) {
    const Binary binary = llvm::cantFail(compiler_->compile({source, kArch}, {}));
    std::printf("digest %s\n", sha256_hex(binary.cubin).c_str());
  }
}

class NvrtcChild : public testing::Test {};

/// Opens the library named by MINUET_NVRTC alone.
TEST(NvrtcChild, DISABLED_ChildOpens) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (compiler) {
    std::printf("id %s\n", llvm::cantFail((*compiler)->info()).id.c_str());
    return;
  }
  const StatusError status = take_status(compiler.takeError());
  std::printf("error %d %s %s\n", static_cast<int>(status.code()), status.message().c_str(),
              status.detail().c_str());
}

std::string open_in_child(const std::string& library) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return shell("MINUET_NVRTC='" + library + "' '" + self +
               "' --gtest_also_run_disabled_tests --gtest_filter=NvrtcChild.DISABLED_ChildOpens 2>&1");
}

std::vector<std::string> lines_with(const std::string& text, const std::string& word) {
  std::vector<std::string> lines;
  llvm::SmallVector<llvm::StringRef, 0> all;
  llvm::StringRef(text).split(all, '\n');
  for (llvm::StringRef line : all) {
    if (line.contains(word)) lines.push_back(line.str());
  }
  return lines;
}

// ---- requirements ----------------------------------------------------------------------------

TEST_F(Nvrtc, R02_TheIdIsVersionAndBuildIds) {
  const NvrtcInfo info = llvm::cantFail(compiler_->info());
  EXPECT_THAT(info.id, testing::MatchesRegex("nvrtc [0-9]+\\.[0-9]+ [0-9a-f]+ [0-9a-f]+"));
  EXPECT_THAT(info.id, HasSubstr(info.version));
  EXPECT_THAT(info.archs, testing::Contains("sm_90"));
  EXPECT_EQ(llvm::cantFail(open_nvrtc(info.path)), compiler_);
}

TEST_F(Nvrtc, R02_APatchedLibraryIsAnotherCompilerAndACopyIsNot) {
  const NvrtcInfo info = llvm::cantFail(compiler_->info());
  const std::filesystem::path library = info.path;
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "copy");
  std::filesystem::create_directories(folder / "patched");
  const std::string builtins = "libnvrtc-builtins.so." + info.version;
  for (const std::string place : {"copy/", "patched/"}) {
    std::filesystem::create_symlink(library.parent_path() / builtins, folder / (place + builtins));
  }
  std::filesystem::copy_file(library, folder / "copy/libnvrtc.so.13");
  llvm::SmallVector<llvm::StringRef, 4> words;  // "nvrtc", the version, the library's build-id, the builtins'
  llvm::StringRef(info.id).split(words, ' ');
  ASSERT_EQ(words.size(), 4u) << info.id;
  write_text(folder / "patched/libnvrtc.so.13",
             with_another_build_id(contents(library.string()), words[2].str()));
  const std::string id = "id " + info.id;
  EXPECT_THAT(open_in_child(folder / "copy/libnvrtc.so.13"), HasSubstr(id));
  const std::string patched = open_in_child(folder / "patched/libnvrtc.so.13");
  EXPECT_THAT(patched, HasSubstr("id nvrtc "));
  EXPECT_THAT(patched, Not(HasSubstr(id)));
}

TEST_F(Nvrtc, R03_AFileOnDiskIsNeverRead) {
  const TemporaryFolder folder;
  write_text(folder / "poison.h", "#define POISON 1\n");
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const StatusError status = failure(
      own_source("#include \"poison.h\"\ntemplate <int> __global__ void probe() { int x = POISON; }\n"));
  std::filesystem::current_path(old);
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("poison.h"));
}

TEST_F(Nvrtc, R03_NoHeaderIsOpened) {
  if (shell("command -v strace").empty()) GTEST_SKIP() << "no strace";
  const TemporaryFolder folder;
  const std::string output =
      child("ChildPrintsDigests", folder.path(), "strace -f -e trace=open,openat,openat2 -o trace.txt");
  if (lines_with(output, "digest ").size() != 2) GTEST_SKIP() << "strace does not run here: " << output;
  const std::string trace = contents(folder / "trace.txt");
  ASSERT_THAT(trace, HasSubstr("libnvrtc"));
  for (const char* word : {"include/", ".cuh", ".h\"", "cccl"}) {
    EXPECT_THAT(lines_with(trace, word), testing::IsEmpty()) << word;
  }
}

TEST_F(Nvrtc, R04_EqualRequestsGiveEqualBytesInEveryProcess) {
  const TemporaryFolder one, two;
  const std::string first = child("ChildPrintsDigests", one.path());
  ASSERT_THAT(lines_with(first, "digest "), testing::SizeIs(2)) << first;
  EXPECT_EQ(lines_with(child("ChildPrintsDigests", two.path()), "digest "), lines_with(first, "digest "));
  const Binary here = llvm::cantFail(compiler_->compile({emit(GatherSpec{}), kArch}, {}));
  EXPECT_EQ(lines_with(first, "digest ")[0], "digest " + sha256_hex(here.cubin));
}

TEST_F(Nvrtc, R05_ARealEntryComesBackFromDisk) {
  const TemporaryFolder folder;
  const KernelSource source = emit(GatherSpec{});
  const auto compiled = llvm::cantFail(make_cache(folder.path(), compiler_)->get_or_compile({source, kArch}));
  auto cache = make_cache(folder.path(), compiler_);
  const auto loaded = llvm::cantFail(cache->get_or_compile({source, kArch}));
  EXPECT_EQ(cache->stats().compiled, 0);
  EXPECT_EQ(loaded->cubin, compiled->cubin);
  EXPECT_EQ(loaded->lowered_name, compiled->lowered_name);
  EXPECT_EQ(loaded->registers, compiled->registers);
  EXPECT_EQ(loaded->params_bytes, static_cast<int>(sizeof(GatherParams)));
  EXPECT_THAT(loaded->lowered_name, HasSubstr("6gather"));
}

TEST_F(Nvrtc, R15_NoSignalHandlerIsTouched) {
  std::vector<struct sigaction> before(NSIG);
  for (int number = 1; number < NSIG; ++number) {
    ::sigaction(number, nullptr, &before[static_cast<std::size_t>(number)]);
  }
  llvm::cantFail(compiler_->compile({emit(UniqueSpec{}), kArch}, {}));
  llvm::consumeError(compiler_->compile({own_source("syntax error"), kArch}, {}).takeError());
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction after = {};
    ::sigaction(number, nullptr, &after);
    EXPECT_EQ(before[static_cast<std::size_t>(number)].sa_handler, after.sa_handler) << "signal " << number;
  }
}

/// Times are printed beside their goals; what is asserted is why they are small: no toolkit header of CUB, a
/// small cubin.
TEST_F(Nvrtc, R29_CompileTimesBesideTheirGoals) {
  struct Case {
    KernelSource source;
    bool uses_cub;
    double goal_ms;
  };
  const Case cases[] = {{emit(FindBoundsSpec{}), false, 60},       {emit(UniqueSpec{}), false, 60},
                        {emit(GatherSpec{}), false, 60},           {emit(ScatterSpec{}), false, 60},
                        {emit(SearchKernelMapSpec{}), false, 800}, {emit(ScanSpec{}), true, 1600},
                        {emit(RadixPassSpec{}), true, 1600}};
  for (const Case& one : cases) {
    const Binary binary = llvm::cantFail(compiler_->compile({one.source, kArch}, {}));
    std::printf("%-40s %7.0f ms (goal %.0f), %zu bytes\n", one.source.display_name.c_str(), binary.compile_ms,
                one.goal_ms, binary.cubin.size());
    EXPECT_EQ(header_closure(one.source.text).cccl, one.uses_cub) << one.source.display_name;
    if (!one.uses_cub) {
      EXPECT_LE(binary.cubin.size(), 20u * 1024) << one.source.display_name;
    }
  }
}

TEST_F(Nvrtc, R31_ASyntaxErrorShowsItsLines) {
  const StatusError status =
      failure(own_source("// one\ntemplate <int> __global__ void probe() {\n  int x = ;\n}\n"));
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              HasSubstr("probe for sm_90a: the kernel does not compile: expected an expression"));
  EXPECT_THAT(status.detail(), HasSubstr("minuet_kernel.cu(3): error: expected an expression"));
  EXPECT_THAT(status.detail(), HasSubstr(">     3 |   int x = ;"));
  EXPECT_THAT(status.detail(), HasSubstr("NVRTC_ERROR_COMPILATION"));
}

TEST_F(Nvrtc, R31_AStaticAssertInAHeaderShowsTheHeader) {
  GatherSpec spec;
  spec.channels = 65;  // tile 8 does not divide it
  const StatusError status = failure(emit(spec));
  EXPECT_THAT(status.message(), HasSubstr("static assertion failed"));
  EXPECT_THAT(status.detail(), HasSubstr("kernels_templates/gmas/gather.h:\n"));
}

TEST_F(Nvrtc, TheUnitCatchesAForgottenFieldAndAnotherLayout) {
  std::vector<SpecField> fields = spec_fields(GatherSpec{});
  const SpecField dropped = fields.back();
  fields.pop_back();
  auto unit = [&](std::size_t params_bytes) {
    return emit_fields("gather", "kernels_templates/gmas/gather.h", "GatherSpec", "GatherParams",
                       params_bytes, 80, fields);
  };
  EXPECT_EQ(failure(unit(sizeof(GatherParams))).code(), StatusCode::Internal) << "a field is missing";
  fields.push_back(dropped);
  EXPECT_THAT(failure(unit(sizeof(GatherParams) + 8)).message(), HasSubstr("disagree about its layout"));
}

TEST_F(Nvrtc, R31_AnUnknownArchitectureNamesTheKnownOnes) {
  const StatusError status = failure(emit(GatherSpec{}), "sm_42");
  EXPECT_EQ(status.code(), StatusCode::Unimplemented);
  EXPECT_THAT(status.message(), HasSubstr("cannot compile for sm_42, only for sm_"));
}

TEST_F(Nvrtc, R31_NothingIsPrinted) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  failure(own_source("syntax error"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace minuet
