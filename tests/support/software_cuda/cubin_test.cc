#include "tests/support/software_cuda/cubin.h"

#include <elf.h>
#include <gtest/gtest.h>

#include "codegen/base/elf.h"

namespace minuet::software_cuda {
namespace {

Cubin sample() {
  Cubin cubin;
  cubin.kernel = "_ZN6minuet6gatherE_0123456789abcdef";
  cubin.library = std::string(
      "\x7f"
      "ELF\0any bytes\xff",
      15);
  cubin.sm = 120;
  cubin.max_threads = 256;
  cubin.params_bytes = 184;
  return cubin;
}

void expect_equal(const std::optional<Cubin>& found, const Cubin& expected) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->kernel, expected.kernel);
  EXPECT_EQ(found->library, expected.library);
  EXPECT_EQ(found->sm, expected.sm);
  EXPECT_EQ(found->max_threads, expected.max_threads);
  EXPECT_EQ(found->params_bytes, expected.params_bytes);
}

/// Followed by bytes that are none of its own, as in memory.
std::optional<Cubin> unwrap_bytes(const std::string& image) {
  return unwrap((image + "what follows").c_str());
}

TEST(SoftwareCubin, ComesBack) {
  Cubin cubin = sample();
  expect_equal(unwrap_bytes(wrap(cubin)), cubin);
  expect_equal(unwrap(wrap_as_ptx(cubin, "sm_120").c_str()), cubin);
  cubin.max_threads = 0;
  cubin.library.clear();
  expect_equal(unwrap_bytes(wrap(cubin)), cubin);
}

TEST(SoftwareCubin, TheLibraryReadsItsFacts) {
  const Cubin cubin = sample();
  const CubinFacts facts = llvm::cantFail(read_cubin(wrap(cubin), cubin.kernel));
  EXPECT_EQ(facts.sm, 120);
  EXPECT_EQ(facts.max_threads, 256);
  EXPECT_EQ(facts.params_bytes, 184);
  EXPECT_TRUE(llvm::errorToBool(read_cubin(wrap(cubin), "another").takeError()));
}

TEST(SoftwareCubin, AnotherHeaderIsRefused) {
  for (const std::size_t at :
       {std::size_t{EI_OSABI}, std::size_t{EI_ABIVERSION}, offsetof(Elf64_Ehdr, e_type)}) {
    for (int value = 0; value < 256; ++value) {
      std::string image = wrap(sample());
      if (image[at] == static_cast<char>(value)) continue;
      image[at] = static_cast<char>(value);
      EXPECT_FALSE(unwrap_bytes(image).has_value()) << "byte " << at << " is " << value;
    }
  }
}

TEST(SoftwareCubin, EveryDamagedByteIsRefused) {
  const std::string image = wrap(sample());
  for (std::size_t at = 0; at < image.size(); ++at) {
    std::string damaged = image;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(unwrap_bytes(damaged).has_value()) << "byte " << at;
  }
}

TEST(SoftwareCubin, OtherTextsAreRefused) {
  for (const char* text :
       {"", "\x7f", "// PTX", ".version 9.0\n.target sm_90\n", "// PTX of the software CUDA device\n"}) {
    EXPECT_FALSE(unwrap(text).has_value()) << text;
  }
  const std::string ptx = wrap_as_ptx(sample(), "sm_120");
  EXPECT_FALSE(unwrap(ptx.substr(0, ptx.size() - 20).c_str()).has_value()) << "cut";
  std::string damaged = ptx;
  damaged[ptx.size() - 30] = damaged[ptx.size() - 30] == '0' ? '1' : '0';
  EXPECT_FALSE(unwrap(damaged.c_str()).has_value()) << "another digit";
  damaged[ptx.size() - 30] = 'x';
  EXPECT_FALSE(unwrap(damaged.c_str()).has_value()) << "no digit";
}

}  // namespace
}  // namespace minuet::software_cuda
