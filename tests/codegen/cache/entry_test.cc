#include "codegen/cache/entry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/keys.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

Entry make_entry() {
  FakeCompiler compiler;
  Entry entry;
  entry.request_key = sha256_hex("request");
  entry.build_key = sha256_hex("build");
  entry.name_expression = "minuet::gather<minuet::GatherSpec{.io = minuet::DType::F16}>";
  entry.binary = llvm::cantFail(compiler.compile(make_source("gather-f16"), "sm_90a", "12", {}));
  entry.binary.log = "a \"quoted\" log\nof two lines \xff";
  return entry;
}

TEST(Entry, R05_ReadsBackWhatWasWritten) {
  const Entry entry = make_entry();
  const Entry read = llvm::cantFail(read_entry(write_entry(entry)));
  EXPECT_EQ(read.request_key, entry.request_key);
  EXPECT_EQ(read.build_key, entry.build_key);
  EXPECT_EQ(read.name_expression, entry.name_expression);
  EXPECT_EQ(read.binary.cubin, entry.binary.cubin);
  EXPECT_EQ(read.binary.lowered_name, "kernel");
  EXPECT_EQ(read.binary.display_name, "gather-f16");
  EXPECT_EQ(read.binary.arch, "sm_90a");
  EXPECT_EQ(read.binary.registers, 32);
  EXPECT_EQ(read.binary.shared_bytes, 512);
  EXPECT_EQ(read.binary.local_bytes, 8);
  EXPECT_EQ(read.binary.max_threads, 128);
  EXPECT_EQ(read.binary.params_bytes, 80);
  EXPECT_EQ(read.binary.compile_ms, 2.5);
  EXPECT_EQ(read.binary.compiler_id, "fake 1");
  EXPECT_EQ(read.binary.log.substr(0, 14), "a \"quoted\" log");
}

TEST(Entry, R05_EqualEntriesAreEqualBytes) {
  EXPECT_EQ(write_entry(make_entry()), write_entry(make_entry()));
}

TEST(Entry, R07_EveryFlippedByteIsFound) {
  const std::string good = write_entry(make_entry());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_TRUE(llvm::errorToBool(read_entry(bad).takeError())) << "byte " << at << " of " << good.size();
  }
}

TEST(Entry, R07_EveryTruncationIsFound) {
  const std::string good = write_entry(make_entry());
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(llvm::errorToBool(read_entry(good.substr(0, size)).takeError())) << size << " bytes";
  }
  EXPECT_TRUE(llvm::errorToBool(read_entry(good + "x").takeError()));
}

TEST(Entry, R07_ACubinForAnotherArchitectureIsRefused) {
  Entry entry = make_entry();
  entry.binary.arch = "sm_80";  // the digest is right, the cubin says sm_90
  EXPECT_TRUE(llvm::errorToBool(read_entry(write_entry(entry)).takeError()));
}

TEST(Entry, R12_AnotherFormatIsAMiss) {
  std::string other = write_entry(make_entry());
  other[8] = static_cast<char>(other[8] + 1);
  const StatusError status = take_status(read_entry(other).takeError());
  EXPECT_NE(status.message().find("another format"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace minuet
