#include "codegen/base/elf.h"

#include <elf.h>
#include <gtest/gtest.h>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

/// A note of GNU's; two bytes of it need none to fill up.
std::string make_note(Elf64_Word type, const std::string& value) {
  const Elf64_Nhdr head = {4, static_cast<Elf64_Word>(value.size()), type};
  std::string note(reinterpret_cast<const char*>(&head), sizeof head);
  note += std::string("GNU\0", 4) + value;
  note.resize((note.size() + 3) / 4 * 4);
  return note;
}

TEST(Elf, ReadsTheFactsOfACubin) {
  CubinSketch sketch;
  sketch.sm = 120;
  sketch.max_threads = {64, 4, 1};
  sketch.params_bytes = 184;
  const CubinFacts facts = llvm::cantFail(read_cubin(make_cubin(sketch), "kernel"));
  EXPECT_EQ(facts.sm, 120);
  EXPECT_EQ(facts.max_threads, 256);
  EXPECT_EQ(facts.params_bytes, 184);
}

TEST(Elf, WithoutALaunchBoundABlockIsAsLargeAsAnyMayBe) {
  CubinSketch sketch;
  sketch.max_threads = {};
  EXPECT_EQ(llvm::cantFail(read_cubin(make_cubin(sketch), "kernel")).max_threads, 1024);
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
  EXPECT_TRUE(llvm::errorToBool(read_cubin("\x7f"
                                           "ELF of another kind",
                                           "kernel")
                                    .takeError()));
  EXPECT_TRUE(llvm::errorToBool(read_cubin("", "kernel").takeError()));
}

TEST(Elf, R02_TheBuildIdIsFoundAmongTheNotes) {
  const std::string id = make_note(NT_GNU_BUILD_ID, "\x01\xab"), other = make_note(1, "other");
  EXPECT_EQ(find_build_id(id), "01ab");
  EXPECT_EQ(find_build_id(other + id), "01ab");
  EXPECT_EQ(find_build_id(other), "");
  constexpr std::size_t kFilling = 2;
  for (std::size_t size = 0; size < id.size() - kFilling; ++size)
    EXPECT_EQ(find_build_id(id.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace minuet
