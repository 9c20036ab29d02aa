#include "codegen/compile/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

const KernelSource kSource{"gather-f16", "line one\nline two\nline three\nline four\nline five\nline six\n",
                           "minuet::gather<1>", 80};

CompileFailure failure(int status, std::string name, std::string log) {
  return {status,
          std::move(name),
          std::move(log),
          "sm_90a",
          {"--std=c++20", "-arch=sm_90a"},
          "0123456789abcdef",
          "NVRTC 13.0 (/lib/libnvrtc.so.13)",
          {"sm_80", "sm_90"}};
}

llvm::StringRef no_header(llvm::StringRef) { return {}; }

TEST(Diagnostics, SaysWhatTheAssemblerRefuses) {
  const auto message_of = [](const char* log) {
    return compile_error(failure(6, "NVRTC_ERROR_COMPILATION", log), kSource, no_header).message();
  };
  EXPECT_EQ(message_of("ptxas info    : 0 bytes gmem\nptxas fatal   : (C7602) Insufficient registers (80)\n"),
            "gather-f16 for sm_90a: the kernel does not compile: (C7602) Insufficient registers (80)");
  EXPECT_EQ(
      message_of("ptxas error   : Entry function 'f' uses too much shared data\n"),
      "gather-f16 for sm_90a: the kernel does not compile: Entry function 'f' uses too much shared data");
}

TEST(Diagnostics, R31_ReportOfASyntaxErrorIsWhole) {
  const StatusError status = compile_error(
      failure(6, "NVRTC_ERROR_COMPILATION",
              "minuet_kernel.cu(2): error: expected a \";\"\n\na/b.h(3): error: second\n1 error detected\n"),
      kSource,
      [](llvm::StringRef name) { return name == "a/b.h" ? llvm::StringRef("h1\nh2\nh3\nh4\n") : ""; });
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_EQ(status.message(), "gather-f16 for sm_90a: the kernel does not compile: expected a \";\"");
  EXPECT_EQ(status.detail(),
            "kernel: gather-f16\n"
            "name: minuet::gather<1>\n"
            "arch: sm_90a\n"
            "compiler: NVRTC 13.0 (/lib/libnvrtc.so.13)\n"
            "status: NVRTC_ERROR_COMPILATION (6)\n"
            "options: --std=c++20 -arch=sm_90a\n"
            "request: 0123456789abcdef\n"
            "log:\n"
            "minuet_kernel.cu(2): error: expected a \";\"\n"
            "\n"
            "a/b.h(3): error: second\n"
            "1 error detected\n"
            "lines:\n"
            "minuet_kernel.cu:\n"
            "      1 | line one\n"
            ">     2 | line two\n"
            "      3 | line three\n"
            "      4 | line four\n"
            "      5 | line five\n"
            "a/b.h:\n"
            "      1 | h1\n"
            "      2 | h2\n"
            ">     3 | h3\n"
            "      4 | h4\n"
            "      5 | \n"
            "source:\n" +
                kSource.text +
                "\n"
                "to repeat: save the source and the line\n"
                "  void* const minuet_kernel = reinterpret_cast<void*>(&minuet::gather<1>);\n"
                "as minuet_kernel.cu and run, in Minuet's source folder\n"
                "  nvcc -cubin -I. -std=c++20 --fmad=false -arch=sm_90a minuet_kernel.cu\n");
}

TEST(Diagnostics, R31_AnUnknownArchitectureNamesTheKnownOnes) {
  CompileFailure unknown =
      failure(5, "NVRTC_ERROR_INVALID_OPTION", "nvrtc: error: invalid value for -arch\n");
  unknown.arch = "sm_130";
  const StatusError status = compile_error(unknown, kSource, no_header);
  EXPECT_EQ(status.code(), StatusCode::Unimplemented);
  EXPECT_THAT(status.message(), HasSubstr("cannot compile for sm_130, only for sm_80, sm_90"));
  EXPECT_THAT(status.message(), HasSubstr("MINUET_NVRTC"));
}

TEST(Diagnostics, R31_AnotherBadOptionIsNotBlamedOnTheArchitecture) {
  const StatusError status =
      compile_error(failure(5, "NVRTC_ERROR_INVALID_OPTION", "unrecognized option --x"), kSource, no_header);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("refused an option: unrecognized option --x"));
}

TEST(Diagnostics, R31_MissingBuiltinsSayWhereToPutThem) {
  const StatusError status =
      compile_error(failure(7, "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", ""), kSource, no_header);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("libnvrtc-builtins"));
}

TEST(Diagnostics, R31_OutOfMemoryIsAResource) {
  EXPECT_EQ(compile_error(failure(1, "NVRTC_ERROR_OUT_OF_MEMORY", ""), kSource, no_header).code(),
            StatusCode::ResourceExhausted);
}

TEST(Diagnostics, R31_AMissingHeaderIsNamed) {
  const StatusError status = compile_error(
      failure(
          6, "NVRTC_ERROR_COMPILATION",
          "minuet_kernel.cu(1): catastrophic error: could not open source file \"x.h\" (no directories)\n"),
      kSource, no_header);
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("\"x.h\""));
  EXPECT_THAT(status.message(), HasSubstr("among the roots in codegen/source/CMakeLists.txt"));
}

TEST(Diagnostics, R31_StrangeLogsAreQuotedAsTheyAre) {
  const std::string log =
      "x(): error: a\n(99999999999): error: b\nminuet_kernel.cu(70): error: past the end\n";
  const StatusError status = compile_error(failure(6, "E", log), kSource, no_header);
  EXPECT_THAT(status.detail(), HasSubstr(log));
  EXPECT_THAT(status.detail(), Not(HasSubstr(">    70")));
}

}  // namespace
}  // namespace minuet
