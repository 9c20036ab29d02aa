// Bundles of what the real compiler gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "codegen/bundle/bundle.h"
#include "codegen/bundle/bundle_writer.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/emit.h"
#include "codegen/source/keys.h"
#include "tests/codegen/fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

/// Kernels of a small network: some of one name, as of its layers, and one with CUB in it.
std::vector<KernelSource> sources() {
  std::vector<KernelSource> all = {
      emit(PackSpec{}),       emit(UnpackSpec{}),     emit(DownsampleSpec{}),      emit(UniqueSpec{}),
      emit(CountPairsSpec{}), emit(MakeTablesSpec{}), emit(SearchKernelMapSpec{}), emit(ScanSpec{})};
  for (i32 channels : {32, 64, 96, 128}) {
    GatherSpec gather;
    gather.channels = channels;
    all.push_back(emit(gather));
    ScatterSpec scatter;
    scatter.channels = channels;
    all.push_back(emit(scatter));
  }
  return all;
}

class BundleNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
    if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
    compiler_ = *compiler;
  }

  std::vector<Entry> compile_all(const char* arch) {
    std::vector<Entry> entries;
    for (const KernelSource& source : sources()) {
      Entry entry;
      entry.request_key = key_of(source, arch);
      entry.name_expression = source.name_expression;
      llvm::Expected<Binary> binary = compiler_->compile({source, arch}, {});
      if (!binary) {
        ADD_FAILURE() << llvm::toString(binary.takeError());
        continue;
      }
      entry.binary = std::move(*binary);
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  std::shared_ptr<Compiler> compiler_;
};

TEST_F(BundleNvrtc, R20_AFifthOfTheRawCubinsAtMost) {
  const TemporaryFolder folder;
  const std::vector<Entry> entries = compile_all("sm_90a");
  const WrittenBundle written = llvm::cantFail(write_bundle(folder / "a.bundle", "sm_90a", entries));
  std::printf("%zu kernels, %llu bytes of raw cubins, bundle of %llu bytes: %.1f times smaller\n",
              entries.size(), static_cast<unsigned long long>(written.raw_cubin_bytes),
              static_cast<unsigned long long>(written.bytes),
              static_cast<double>(written.raw_cubin_bytes) / static_cast<double>(written.bytes));
  EXPECT_LE(written.bytes * 5, written.raw_cubin_bytes);
  const auto bundle = llvm::cantFail(Bundle::open(folder / "a.bundle"));
  EXPECT_THAT(llvm::cantFail(bundle->verify()).damaged, testing::IsEmpty());
  for (const Entry& entry : entries) {
    const Entry read = llvm::cantFail(bundle->read(bundle->find(entry.request_key).value()));
    EXPECT_EQ(read.binary.cubin, entry.binary.cubin);
    EXPECT_EQ(read.binary.lowered_name, entry.binary.lowered_name);
    EXPECT_EQ(read.binary.registers, entry.binary.registers);
    EXPECT_EQ(read.build_key, build_key(entry.request_key, llvm::cantFail(compiler_->info()).id));
  }
}

TEST_F(BundleNvrtc, R20_TwoCompilesMakeTheSameBundle) {
  const std::string first = llvm::cantFail(make_bundle("sm_80", compile_all("sm_80")));
  EXPECT_EQ(llvm::cantFail(make_bundle("sm_80", compile_all("sm_80"))), first);
}

}  // namespace
}  // namespace minuet
