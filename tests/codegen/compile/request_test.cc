#include "codegen/compile/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "codegen/compile/helper_compiler.h"
#include "tests/codegen/fakes.h"
#include "tests/kernels_templates/test_kernels.h"

namespace minuet {
namespace {

using testing::HasSubstr;

KernelRequest example() { return {emit(GatherSpec{}), "sm_90a"}; }

std::string line_of(const KernelRequest& request) { return llvm::cantFail(write_request(request)); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Request, R19_ALineComesBackAsItWas) {
  KernelSource strange = example().source;
  strange.text += "// \"quotes\" \\ and \t tabs, \xc3\xa4 and a NUL-free end\n";
  const KernelRequest odd{strange, "sm_90a"};
  const std::string list = line_of(example()) + "\n\n" + line_of(odd) + "\n";
  const std::vector<RecordedRequest> read = llvm::cantFail(read_requests(list));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].request.source.text, odd.source.text);
  EXPECT_EQ(read[0].request.source.display_name, odd.source.display_name);
  EXPECT_EQ(read[0].request.source.name_expression, odd.source.name_expression);
  EXPECT_EQ(read[0].request.source.least_sm, odd.source.least_sm);
  EXPECT_EQ(read[0].request.arch, "sm_90a");
  EXPECT_TRUE(read[0].is_same_version);
  EXPECT_EQ(read[0].recorded_key, example().key);
  EXPECT_NE(odd.key, example().key);
}

TEST(Request, AListThatAnotherEditorSaved) {
  const std::string first = line_of(example()), second = line_of({emit(RelaySpec{}), "sm_90a"});
  for (const std::string& end : {std::string("\n"), std::string("\r\n"), std::string("\r")}) {
    for (const std::string& mark : {std::string(), std::string("\xef\xbb\xbf")}) {
      const std::string list = mark + first + end + " " + end + second + end;
      EXPECT_TRUE(begins_as_request(list));
      llvm::Expected<std::vector<RecordedRequest>> read = read_requests(list);
      ASSERT_TRUE(!!read) << llvm::toString(read.takeError());
      ASSERT_EQ(read->size(), 2u);
      EXPECT_TRUE((*read)[0].is_same_version && (*read)[1].is_same_version);
      const std::string error = llvm::toString(read_requests(list + "[]" + end).takeError());
      EXPECT_THAT(error, HasSubstr("line 4: a request must be a JSON object"));
    }
  }
  EXPECT_THAT(llvm::toString(read_requests("version https://git-lfs.github.com/spec/v1\n").takeError()),
              HasSubstr("`git lfs pull`"));
}

TEST(Request, R19_WhatARowAsksForTravelsAlong) {
  const std::string plain = line_of(example());
  EXPECT_EQ(plain.find("exact_arch"), std::string::npos);
  EXPECT_EQ(plain.find("options"), std::string::npos);
  const KernelRequest relay{emit(RelaySpec{}), "sm_90a"};
  const std::string line = line_of(relay);
  const std::vector<RecordedRequest> read = llvm::cantFail(read_requests(line));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_TRUE(read[0].is_same_version);
  EXPECT_EQ(read[0].request.source.exact_arch, "sm_90a");
  EXPECT_EQ(read[0].request.source.options, relay.source.options);
  KernelSource without = relay.source;
  without.options.clear();
  EXPECT_NE(key_of(without, "sm_90a"), relay.key);
  const HelperJob job = llvm::cantFail(decode_job(llvm::cantFail(encode_job({relay}))));
  EXPECT_EQ(job.request.source.options, relay.source.options);
}

TEST(Request, R19_ErrorsNameLineAndField) {
  const std::string good = line_of(example()), relay = line_of({emit(RelaySpec{}), "sm_90a"});
  const struct {
    std::string line;
    const char* words;
  } cases[] = {
      {"{no", "line 2: it is not JSON"},
      {"[]", "line 2: a request must be a JSON object"},
      {replaced(good, "\"schema\":1", "\"schema\":2"), "line 2: field \"schema\" is 2"},
      {replaced(good, "\"schema\"", "\"skema\""), "line 2: field \"schema\" is missing"},
      {replaced(good, "\"arch\":\"sm_90a\"", "\"arch\":\"sm_90 -G\""), "line 2: field \"arch\""},
      {replaced(good, "\"arch\":\"sm_90a\"", "\"arch\":90"),
       "line 2: field \"arch\" is missing or is not text"},
      {replaced(good, "\"least_sm\":80", "\"least_sm\":-1"), "line 2: field \"least_sm\""},
      {replaced(relay, "\"exact_arch\":\"sm_90a\"", "\"exact_arch\":90"), "line 2: field \"exact_arch\""},
      {replaced(relay, "--maxrregcount=64", "--pch-dir=/tmp"),
       "line 2: field \"options\" has an option that kernels may not use: --pch-dir=/tmp"},
      {replaced(relay, "\"options\":[", "\"options\":[7,"), "line 2: field \"options\""},
      {replaced(relay, "\"options\":[", "\"options\":7,\"x\":["), "line 2: field \"options\" is not a list"},
      {replaced(good, "\"name\"", "\"nome\""), "line 2: field \"name\""},
      {replaced(good, "\"expression\"", "\"express\""), "line 2: field \"expression\""},
      {replaced(good, "\"source\"", "\"sauce\""), "line 2: field \"source\""},
      {replaced(good, "\"request_key\"", "\"key\""), "line 2: field \"request_key\""}};
  for (const auto& test : cases) {
    llvm::Expected<std::vector<RecordedRequest>> read = read_requests(good + "\n" + test.line + "\n");
    ASSERT_FALSE(read) << test.line;
    const StatusError status = take_status(read.takeError());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(test.words));
  }
}

TEST(Request, R19_AnotherVersionIsNoErrorInAListAndIsOneForAHelper) {
  const std::string key = example().key;
  std::string other = key;
  other[0] = other[0] == '0' ? '1' : '0';
  const std::vector<RecordedRequest> read =
      llvm::cantFail(read_requests(replaced(line_of(example()), key, other)));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_FALSE(read[0].is_same_version);
  const std::string job = llvm::cantFail(encode_job({example()}));
  EXPECT_TRUE(static_cast<bool>(decode_job(job)));
  llvm::Expected<HelperJob> refused = decode_job(replaced(job, key, other));
  ASSERT_FALSE(refused);
  const StatusError status = take_status(refused.takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("the helper program belongs to another version"));
}

TEST(Request, R19_TextThatIsNotUtf8IsRefused) {
  KernelRequest request = example();
  request.source.text += "\xff\n";
  llvm::Expected<std::string> line = write_request(request);
  ASSERT_FALSE(line);
  EXPECT_EQ(take_status(line.takeError()).code(), StatusCode::InvalidArgument);
}

TEST(Protocol, AnIdentityComesBackAsItWas) {
  HelperJob job;
  job.identify = true;
  job.nvrtc = "/a/libnvrtc.so";
  job.others = {"/b/libnvrtc.so.13", "/c/libnvrtc.so.12"};
  const HelperJob read = llvm::cantFail(decode_job(llvm::cantFail(encode_job(job))));
  EXPECT_TRUE(read.identify);
  EXPECT_EQ(read.nvrtc, job.nvrtc);
  EXPECT_EQ(read.others, job.others);
  llvm::Expected<HelperJob> refused_job = decode_job("{\"identify\":true,\"request_key\":\"another\"}");
  ASSERT_FALSE(refused_job);
  EXPECT_EQ(take_status(refused_job.takeError()).code(), StatusCode::Unavailable);
  const NvrtcInfo info{"/a/libnvrtc.so", "13.0", "nvrtc 13.0 12 34", {"sm_80", "sm_90"}};
  const NvrtcInfo back = llvm::cantFail(decode_info(encode_info(info)));
  EXPECT_EQ(back.path, info.path);
  EXPECT_EQ(back.version, info.version);
  EXPECT_EQ(back.id, info.id);
  EXPECT_EQ(back.archs, info.archs);
  for (const char* bad : {"", "[]", "{}", "{\"path\":\"/a\",\"version\":\"13.0\"}"}) {
    llvm::Expected<NvrtcInfo> refused = decode_info(bad);
    EXPECT_FALSE(refused) << bad;
    if (!refused) llvm::consumeError(refused.takeError());
  }
}

TEST(Protocol, JobsAndAnswersComeBackAsTheyWere) {
  const HelperJob job{example(), "/a/libnvrtc.so"};
  const HelperJob read = llvm::cantFail(decode_job(llvm::cantFail(encode_job(job))));
  EXPECT_EQ(read.nvrtc, job.nvrtc);
  EXPECT_EQ(read.request.key, job.request.key);
  const HelperAnswer answer{StatusCode::Unavailable, "a \xff message", "detail", "", 12345};
  const HelperAnswer back = llvm::cantFail(decode_answer(encode_answer(answer), "entry"));
  EXPECT_EQ(back.code, answer.code);
  EXPECT_THAT(back.message, HasSubstr(" message"));
  EXPECT_EQ(back.detail, answer.detail);
  EXPECT_EQ(back.result, "entry");
  EXPECT_EQ(back.peak_bytes, answer.peak_bytes);
  for (const char* bad : {"", "[]", "{}", "{\"code\":99}"}) {
    llvm::Expected<HelperAnswer> refused = decode_answer(bad, "");
    EXPECT_FALSE(refused) << bad;
    llvm::consumeError(refused.takeError());
  }
}

TEST(Request, R19_ALineThatNestsWithoutEndIsAnError) {
  llvm::Expected<std::vector<RecordedRequest>> requests = read_requests(std::string(2000000, '['));
  ASSERT_FALSE(static_cast<bool>(requests));
  EXPECT_NE(llvm::toString(requests.takeError()).find("nests deeper"), std::string::npos);
}

std::string keys_of_every_kernel() {
  std::string keys;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) \
  keys += "key " + key_of(emit(Spec{}), "sm_90a") + "\n";
#include "kernels_templates/kernels.inc"
  return keys;
}

TEST(RequestChild, DISABLED_ChildPrintsKeys) { std::fputs(keys_of_every_kernel().c_str(), stdout); }

/// This program's output, run from another prefix, and by another user where this one may be.
std::string run_elsewhere(const TemporaryFolder& folder) {
  const std::string program = folder / "prefix/bin/program";
  std::filesystem::create_directories(folder / "prefix/bin");
  std::filesystem::copy_file("/proc/self/exe", program);
  ::chmod(folder.path().c_str(), 0755);
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(1);
    if (::chdir("/") != 0) ::_exit(1);
    const char* const environment[] = {"HOME=/nonexistent", "USER=nobody", "TMPDIR=/", nullptr};
    ::execle(program.c_str(), "program", "--gtest_also_run_disabled_tests",
             "--gtest_filter=RequestChild.DISABLED_ChildPrintsKeys", nullptr, environment);
    ::_exit(1);
  }
  ::close(ends[1]);
  std::string output;
  char part[4096];
  for (ssize_t count; (count = ::read(ends[0], part, sizeof part)) > 0;)
    output.append(part, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << output;
  return output;
}

TEST(Request, R01_AnotherPrefixAndAnotherUserHaveTheSameKeys) {
  const TemporaryFolder folder;
  EXPECT_THAT(run_elsewhere(folder), HasSubstr(keys_of_every_kernel()));
}

}  // namespace
}  // namespace minuet
