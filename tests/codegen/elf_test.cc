#include "codegen/elf.h"

#include <gtest/gtest.h>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

TEST(Elf, ReadsTheFactsOfACubin) {
  CubinSketch sketch;
  sketch.sm = 120;
  sketch.registers = 77;
  sketch.frame_bytes = 24;
  sketch.shared_bytes = 4096;
  sketch.max_threads = {64, 4, 1};
  sketch.params_bytes = 184;
  const CubinFacts facts = llvm::cantFail(read_cubin(make_cubin(sketch), "kernel"));
  EXPECT_EQ(facts.sm, 120);
  EXPECT_EQ(facts.registers, 77);
  EXPECT_EQ(facts.local_bytes, 24);
  EXPECT_EQ(facts.shared_bytes, 4096);
  EXPECT_EQ(facts.max_threads, 256);
  EXPECT_EQ(facts.params_bytes, 184);
}

TEST(Elf, WithoutALaunchBoundTheRegistersBoundTheBlock) {
  CubinSketch sketch;
  sketch.max_threads = {};
  sketch.registers = 128;
  EXPECT_EQ(llvm::cantFail(read_cubin(make_cubin(sketch), "kernel")).max_threads, 512);
}

TEST(Elf, R07_EveryTruncationIsRefused) {
  const std::string cubin = make_cubin({});
  for (std::size_t size = 0; size < cubin.size(); ++size) {
    // Into a buffer of its own, so that a sanitizer sees a read past the end.
    const std::vector<char> cut(cubin.begin(), cubin.begin() + static_cast<std::ptrdiff_t>(size));
    llvm::Expected<CubinFacts> facts = read_cubin(llvm::StringRef(cut.data(), cut.size()), "kernel");
    EXPECT_FALSE(facts) << size << " bytes";
    llvm::consumeError(facts.takeError());
  }
}

TEST(Elf, R07_NoByteMakesAReadOutOfBounds) {
  const std::string cubin = make_cubin({});
  for (std::size_t at = 0; at < cubin.size(); ++at) {
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::vector<char> bytes(cubin.begin(), cubin.end());
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      llvm::consumeError(read_cubin(llvm::StringRef(bytes.data(), bytes.size()), "kernel").takeError());
    }
  }
}

TEST(Elf, R07_AnotherMachineOrKernelIsRefused) {
  EXPECT_FALSE(llvm::errorToBool(read_cubin(make_cubin({}), "kernel").takeError()));
  EXPECT_TRUE(llvm::errorToBool(read_cubin(make_cubin({}), "another").takeError()));
  EXPECT_TRUE(llvm::errorToBool(read_cubin(make_library("id"), "kernel").takeError()));
  EXPECT_TRUE(llvm::errorToBool(read_cubin("", "kernel").takeError()));
}

TEST(Elf, R02_BuildIdOfALibrary) {
  const TemporaryFolder folder;
  write_text(folder / "a.so", make_library("\x01\xab"));
  write_text(folder / "b.so", make_library("\x01\xac"));
  write_text(folder / "copy.so", make_library("\x01\xab"));
  EXPECT_EQ(llvm::cantFail(read_build_id(folder / "a.so")), "01ab");
  EXPECT_EQ(llvm::cantFail(read_build_id(folder / "copy.so")), "01ab");
  EXPECT_EQ(llvm::cantFail(read_build_id(folder / "b.so")), "01ac");
}

TEST(Elf, R02_ALibraryWithoutBuildIdIsKnownByItsBytes) {
  const TemporaryFolder folder;
  write_text(folder / "a.so", make_library(""));
  write_text(folder / "b.so", make_library("") + "x");
  EXPECT_EQ(llvm::cantFail(read_build_id(folder / "a.so")).size(), 64u);
  EXPECT_NE(llvm::cantFail(read_build_id(folder / "a.so")), llvm::cantFail(read_build_id(folder / "b.so")));
  write_text(folder / "text", "no library");
  EXPECT_TRUE(llvm::errorToBool(read_build_id(folder / "text").takeError()));
  EXPECT_TRUE(llvm::errorToBool(read_build_id(folder / "nothing").takeError()));
}

}  // namespace
}  // namespace minuet
