#include "codegen/compile/entry.h"

#include <gtest/gtest.h>
#include <locale.h>

#include <algorithm>

#include <zstd_errors.h>

#include "codegen/base/sha256.h"
#include "tests/codegen/fakes.h"

namespace {
bool zstd_has_no_memory = false;
}

// The test is linked with --wrap=ZSTD_compress. NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" std::size_t __real_ZSTD_compress(void* to, std::size_t room, const void* from, std::size_t size,
                                            int level);
extern "C" std::size_t __wrap_ZSTD_compress(void* to, std::size_t room, const void* from, std::size_t size,
                                            int level) {
  if (zstd_has_no_memory) return static_cast<std::size_t>(-ZSTD_error_memory_allocation);
  return __real_ZSTD_compress(to, room, from, size, level);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace minuet {
namespace {

Entry make_entry() {
  FakeCompiler compiler;
  Entry entry;
  entry.request_key = sha256_hex("request");
  entry.build_key = sha256_hex("build");
  entry.name_expression = "minuet::gather<minuet::GatherSpec{.io = minuet::DType::F16}>";
  entry.binary = llvm::cantFail(compiler.compile({make_source("gather-f16"), "sm_90a"}, {}));
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

/// The thread's locale for the length of a scope; with an empty name that of the process, which has a decimal
/// comma where this test runs as cache_test.comma.
class ThreadLocale {
 public:
  explicit ThreadLocale(const std::string& name)
      : locale_(name.empty() ? LC_GLOBAL_LOCALE : ::newlocale(LC_ALL_MASK, name.c_str(), locale_t{})),
        before_(::uselocale(locale_)) {}
  ~ThreadLocale() {
    ::uselocale(before_);
    if (locale_ != LC_GLOBAL_LOCALE) ::freelocale(locale_);
  }

 private:
  const locale_t locale_, before_;
};

TEST(Entry, IsWrittenAndReadAlikeInEveryLocale) {
  Entry entry = make_entry();
  entry.binary.compile_ms = 1234567.0625;
  EXPECT_NE(write_manifest(entry).find("\"compile_ms\":1234567.0625,"), std::string::npos);
  for (const char* const writer : {"C", ""}) {
    for (const char* const reader : {"C", ""}) {
      std::string bytes;
      {
        const ThreadLocale locale(writer);
        bytes = write_entry(entry);
      }
      const ThreadLocale locale(reader);
      llvm::Expected<Entry> read = read_entry(bytes);
      ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
      EXPECT_EQ(read->binary.compile_ms, entry.binary.compile_ms);
    }
  }
}

TEST(Entry, R05_EqualEntriesAreEqualBytes) {
  EXPECT_EQ(write_entry(make_entry()), write_entry(make_entry()));
}

TEST(Entry, R11_WithoutMemoryToPackItACubinIsKeptAsItIs) {
  const Entry entry = make_entry();
  zstd_has_no_memory = true;
  const std::string bytes = write_entry(entry);
  zstd_has_no_memory = false;
  EXPECT_EQ(llvm::cantFail(read_entry(bytes)).binary.cubin, entry.binary.cubin);
  EXPECT_GT(bytes.size(), write_entry(entry).size());
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

TEST(Entry, R23_PtxIsCheckedAgainstItsArchitecture) {
  const auto refusal = [](const std::string& arch, const std::string& ptx) {
    Entry entry = make_entry();
    entry.binary.arch = arch;
    entry.binary.cubin = ptx;
    llvm::Expected<Entry> read = read_entry(write_entry(entry));
    return read ? std::string() : take_status(read.takeError()).message();
  };
  const std::string good = make_ptx("sm_90");
  EXPECT_EQ(refusal("compute_90", good), "");
  EXPECT_EQ(refusal("compute_100f", make_ptx("sm_100f")), "");
  EXPECT_NE(refusal("compute_90a", good), "") << "the suffix counts";
  EXPECT_NE(refusal("compute_90", make_ptx("sm_90a")), "");
  EXPECT_NE(refusal("compute_80", good), "");
  EXPECT_NE(refusal("compute_90", make_ptx("sm_90", "another")), "");
  EXPECT_NE(refusal("compute_90", make_ptx("sm_90", "kernel", std::string(1, '\0'))), "") << "no text";
  EXPECT_NE(refusal("compute_90", "// .target sm_90\n.entry kernel("), "");
  EXPECT_NE(refusal("compute_90", make_cubin({})), "") << "a cubin is no PTX";
  EXPECT_NE(refusal("sm_90", good), "") << "and PTX no cubin";
  EXPECT_NE(refusal("compute_90", ""), "");
}

TEST(Entry, R12_AnotherFormatIsAMiss) {
  std::string other = write_entry(make_entry());
  other[8] = static_cast<char>(other[8] + 1);
  const StatusError status = take_status(read_entry(other).takeError());
  EXPECT_NE(status.message().find("its format is not the one"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace minuet
