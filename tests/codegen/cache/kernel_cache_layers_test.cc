// The order memory, bundles, disk, compile; cancelling; counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/base/trace.h"
#include "tests/codegen/cache/layered_cache.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(KernelCacheLayers, R21_MemoryThenBundlesThenDiskThenCompile) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "one.bundle", {"gather"});
  make_bundle_of(folder / "two.bundle", {"gather", "scatter"});
  auto compiler = std::make_shared<FakeCompiler>();
  CacheOptions options = in_folder(folder / "cache");
  options.bundles = {{folder / "one.bundle", ""}};
  const Variables variables = {{"MINUET_BUNDLE_PATH", folder / "two.bundle"}};
  auto cache = open_cache(options, compiler, variables);
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle);
  EXPECT_EQ(origin_of(*cache, "scatter"), BinaryOrigin::Bundle);
  EXPECT_EQ(origin_of(*cache, "sort"), BinaryOrigin::Compiled);
  EXPECT_EQ(origin_of(*open_cache(options, compiler, variables), "sort"), BinaryOrigin::Disk);
  EXPECT_EQ(compiler->compiles, 1);
  llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
  EXPECT_EQ(cache->stats().memory_hits, 1);
  EXPECT_EQ(cache->stats().bundle_hits, 2);
}

TEST(KernelCacheLayers, R21_TheCallersBundlePathComesBeforeTheVariable) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "one.bundle", {"gather"});
  make_bundle_of(folder / "two.bundle", {"scatter"});
  const Variables variables = {{"MINUET_BUNDLE_PATH", folder / "two.bundle"},
                               {"MINUET_RECORD", folder / "requests.jsonl"}};
  CacheOptions options = without_disk();
  options.bundle_path = folder / "one.bundle";
  options.record = "";
  auto cache = open_cache(options, std::make_shared<FakeCompiler>(), variables);
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle);
  EXPECT_EQ(origin_of(*cache, "scatter"), BinaryOrigin::Compiled);
  options.bundle_path = "";
  EXPECT_EQ(origin_of(*open_cache(options, std::make_shared<FakeCompiler>(), variables), "gather"),
            BinaryOrigin::Compiled);
  EXPECT_FALSE(std::filesystem::exists(folder / "requests.jsonl")) << "an empty name is no file";
}

TEST(KernelCacheLayers, R10_ASharedFolderIsTheCallersWordBeforeTheVariables) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const auto directory = [&](std::optional<bool> shared, const char* variable) {
    CacheOptions options = in_folder(folder.path());
    options.shared = shared;
    return open_cache(options, nullptr, {{"MINUET_CACHE_SHARED", variable}})->directory();
  };
  EXPECT_EQ(directory(std::nullopt, "0"), "") << "others may write to it";
  EXPECT_EQ(directory(std::nullopt, "1"), folder.path());
  EXPECT_EQ(directory(true, "0"), folder.path());
  EXPECT_EQ(directory(false, "1"), "");
}

TEST(KernelCacheLayers, R09_TheCallersLimitComesBeforeTheVariable) {
  const struct {
    std::uint64_t caller;
    const char* variable;
    std::optional<std::uint64_t> expected;  // nothing where the variable is an error
  } cases[] = {{0, "", 0},
               {0, "5000", 5000},
               {7000, "", 7000},
               {7000, "5000", 7000},
               {7000, "1G", 7000},
               {7000, "0", 7000},
               {0, "1G", std::nullopt},
               {0, "0", std::nullopt},
               {0, "-1", std::nullopt}};
  for (const auto& [caller, variable, expected] : cases) {
    SCOPED_TRACE(testing::Message() << caller << " of the caller, MINUET_CACHE_MAX_BYTES=" << variable);
    CacheOptions options = without_disk();
    options.most_bytes = caller;
    llvm::Expected<CacheOptions> with =
        with_environment(options, make_environment({{"MINUET_CACHE_MAX_BYTES", variable}}));
    ASSERT_EQ(!!with, expected.has_value());
    if (with) {
      EXPECT_EQ(with->most_bytes, *expected);
    } else {
      EXPECT_THAT(take_status(with.takeError()).message(), HasSubstr(variable));
    }
  }
}

TEST(KernelCacheLayers, R21_ABundleNeedsNoCompilerAndNoDirectory) {
  const TemporaryFolder folder;
  // An older compiler's bundle; here there is none. The keys are those of the library's own headers.
  auto cache = open_cache(in_folder(folder / "cache"), nullptr);
  const StatusError missing = failure_of(*cache, make_source("gather"));
  EXPECT_EQ(missing.code(), StatusCode::Unavailable);
  make_bundle_of(folder / "a.bundle", {"gather"}, "sm_90a", "nvrtc 12.9 c d");
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->id_ = "";
  CacheOptions options = without_disk();
  options.bundles = {{folder / "a.bundle", ""}};
  auto host = open_cache(options, compiler);
  EXPECT_EQ(origin_of(*host, "gather"), BinaryOrigin::Bundle);
  EXPECT_EQ(compiler->compiles, 0);
}

TEST(KernelCacheLayers, R08_ACompilerThatComesLaterIsUsed) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->id_ = "";
  auto cache = open_cache(in_folder(folder.path()), compiler);
  const StatusError status = failure_of(*cache, make_source("gather"));
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.message(), "kernel gather for sm_90a must be compiled: the fake is not there");
  compiler->id_ = "fake 1";
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Compiled);
  EXPECT_TRUE(is_on_disk(*cache, "gather"));
}

TEST(KernelCacheLayers, R23_AnOlderMinorServesAndAnotherGpusCodeDoesNot) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "80.bundle", {"gather"}, "sm_80");
  make_bundle_of(folder / "90a.bundle", {"gather"}, "sm_90a");
  CacheOptions options = without_disk();
  options.bundles = {{folder.path(), ""}};
  auto cache = open_cache(options, std::make_shared<FakeCompiler>());
  EXPECT_EQ(origin_of(*cache, "gather", "sm_86"), BinaryOrigin::Bundle);
  EXPECT_EQ(cache->events().back().arch, "sm_80");
  EXPECT_EQ(origin_of(*cache, "gather", "sm_90"), BinaryOrigin::Compiled);
}

TEST(KernelCacheLayers, R23_PtxThatTheDriverRefusesIsCompiledHere) {
  const TemporaryFolder folder;
  FakeCompiler farm;
  farm.id_ = "nvrtc 13.0 a b";
  const KernelSource source = make_source("gather");
  Entry entry;
  entry.request_key = key_of(source, "compute_80");
  entry.name_expression = source.name_expression;
  entry.binary = llvm::cantFail(farm.compile({source, "compute_80"}, {}));
  llvm::cantFail(write_bundle(folder / "ptx.bundle", "compute_80", {entry}));
  CacheOptions options = without_disk();
  options.bundle_path = folder / "ptx.bundle";
  auto compiler = std::make_shared<FakeCompiler>();
  EXPECT_EQ(origin_of(*open_cache(options, compiler), "gather"), BinaryOrigin::Compiled);
  options.ptx = true;
  auto cache = open_cache(options, compiler);
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle);
  const auto ptx = llvm::cantFail(cache->get_or_compile({source, "sm_90a"}));
  EXPECT_EQ(ptx->arch, "compute_80");
  EXPECT_EQ(ptx->cubin, entry.binary.cubin);
  EXPECT_EQ(llvm::cantFail(cache->replace({source, "sm_90a"}, *ptx))->arch, "sm_90a") << "R28";
  EXPECT_EQ(llvm::cantFail(cache->get_or_compile({source, "sm_90a"}))->arch, "sm_90a");
  EXPECT_EQ(compiler->compiles, 2);
  // PTX is for bundles: a plan is compiled for a GPU.
  llvm::Expected<KernelCache::BinaryPointer> direct = cache->get_or_compile({source, "compute_90"});
  ASSERT_FALSE(direct);
  EXPECT_EQ(take_status(direct.takeError()).code(), StatusCode::InvalidArgument);
}

TEST(KernelCacheLayers, R21_AnotherKernelUnderAKeyOfABundleIsNotRun) {
  const TemporaryFolder folder;
  const KernelSource source = make_source("gather");
  make_bundle_of(folder / "a.bundle", {"gather"});
  Entry entry = llvm::cantFail(llvm::cantFail(Bundle::open(folder / "a.bundle"))->read(0));
  entry.name_expression = "minuet::scatter<1>";
  llvm::cantFail(write_bundle(folder / "b.bundle", "sm_90a", {entry}));
  Warnings warnings;
  CacheOptions options = without_disk();
  options.bundles = {{folder / "b.bundle", ""}, {folder / "a.bundle", ""}};
  options.warn = warnings.sink();
  auto cache = open_cache(options, std::make_shared<FakeCompiler>());
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle) << "of the next bundle";
  ASSERT_THAT(warnings.all(), SizeIs(1));
  EXPECT_THAT(warnings.all()[0], HasSubstr("b.bundle"));
}

/// Says so where it is asked which one it is, which may start a process.
class AskedCompiler : public FakeCompiler {
 public:
  llvm::Expected<NvrtcInfo> info(const CompileControl& control) override {
    ++asked;
    return FakeCompiler::info(control);
  }
  std::atomic<int> asked{0};
};

/// Has packed what it gives.
class PackingCompiler : public FakeCompiler {
 public:
  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) override {
    MINUET_ASSIGN(Binary binary, FakeCompiler::compile(request, control));
    Entry entry{request.key, build_key(request.key, id_), request.source.name_expression, binary};
    entry.binary.log = "as it was packed";
    packed = write_entry(entry);
    if (control.packed != nullptr) *control.packed = packed;
    return binary;
  }
  std::string packed;
};

TEST(KernelCacheLayers, R06_WhatTheHelperPackedIsPublishedAsItIs) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<PackingCompiler>();
  origin_of(*open_cache(in_folder(folder.path()), compiler), "gather");
  const std::vector<std::string> files = entries_in(folder.path());
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(contents(files[0]), compiler->packed);
}

/// Notes whether a kernel's build lock is held while the store is listed, which is what pruning begins with.
class LockedWhilePruned : public FileSystem {
 public:
  explicit LockedWhilePruned(std::string folder) : folder_(std::move(folder)) {}
  int list(int folder, std::vector<std::string>* names) override {
    ++lists;
    for (const std::string& file : files_below(folder_ + "/v1/lock")) {
      LockableFile lock(real_file_system(), ::open(file.c_str(), O_RDWR | O_CLOEXEC));
      if (!lock.try_lock()) ++held;
    }
    return FileSystem::list(folder, names);
  }
  int lists = 0, held = 0;

 private:
  const std::string folder_;
};

TEST(KernelCacheLayers, R09_NobodyWaitsForAKernelWhileTheStoreIsPruned) {
  const TemporaryFolder folder;
  origin_of(*make_cache(folder.path(), std::make_shared<FakeCompiler>()), "gather");
  set_age(folder / "v1/pruned", std::chrono::hours(1));
  LockedWhilePruned system(folder.path());
  auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>(), nullptr, system);
  EXPECT_EQ(origin_of(*cache, "scatter"), BinaryOrigin::Compiled);
  EXPECT_GT(system.lists, 0);
  EXPECT_EQ(system.held, 0);
}

TEST(KernelCacheLayers, R24_AnAddedBundleIsAskedFirstAndAWrongDigestAddsNothing) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = open_cache(without_disk(), compiler);
  const StatusError status = take_status(cache->add_bundle({folder / "a.bundle", std::string(64, '0')}));
  EXPECT_THAT(status.message(), HasSubstr("was expected"));
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Compiled) << "the JIT works all the same";
  EXPECT_FALSE(llvm::errorToBool(cache->add_bundle({folder / "a.bundle", ""})));
  EXPECT_EQ(origin_of(*open_cache(without_disk(), compiler), "gather"), BinaryOrigin::Compiled);
  auto other = open_cache(without_disk(), compiler);
  EXPECT_FALSE(llvm::errorToBool(other->add_bundle({folder / "a.bundle", ""})));
  EXPECT_EQ(origin_of(*other, "gather"), BinaryOrigin::Bundle);
}

TEST(KernelCacheLayers, R20_ADamagedKernelOfABundleInMemoryIsCompiled) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  std::string bytes = contents(folder / "a.bundle");
  auto compiler = std::make_shared<FakeCompiler>();
  const auto origin = [&] {
    auto cache = open_cache(without_disk(), compiler);
    EXPECT_FALSE(llvm::errorToBool(cache->add_bundle_memory({{bytes, ""}})));
    return origin_of(*cache, "gather");
  };
  EXPECT_EQ(origin(), BinaryOrigin::Bundle);
  const auto whole = llvm::cantFail(Bundle::open_memory(bytes));
  bytes[whole->item(0).offset] ^= 1;
  EXPECT_EQ(origin(), BinaryOrigin::Compiled);
}

TEST(KernelCacheLayers, R28_ARefusedKernelIsCompiledOnceAndReplacedEverywhere) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  auto compiler = std::make_shared<FakeCompiler>();
  CacheOptions options = in_folder(folder / "cache");
  options.bundles = {{folder / "a.bundle", ""}};
  auto cache = open_cache(options, compiler);
  const KernelSource source = make_source("gather");
  const auto refused = llvm::cantFail(cache->get_or_compile({source, "sm_90a"}));
  const auto fresh = llvm::cantFail(cache->replace({source, "sm_90a"}, *refused));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_NE(fresh, refused);
  EXPECT_EQ(llvm::cantFail(cache->get_or_compile({source, "sm_90a"})), fresh);
  EXPECT_TRUE(is_on_disk(*cache, "gather"));
  options.no_jit = true;
  auto strict = open_cache(options, compiler);
  const auto from_bundle = llvm::cantFail(strict->get_or_compile({source, "sm_90a"}));
  const StatusError status = take_status(strict->replace({source, "sm_90a"}, *from_bundle).takeError());
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_EQ(compiler->compiles, 1);
}

TEST(KernelCacheLayers, R28_WhatTheDriverRefusedIsNotFoundAgain) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  CacheOptions options = without_disk();
  options.bundles = {{folder / "a.bundle", ""}};
  options.no_jit = true;
  auto cache = open_cache(options, std::make_shared<FakeCompiler>());
  const auto refused = llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
  EXPECT_EQ(take_status(cache->replace({make_source("gather"), "sm_90a"}, *refused).takeError()).code(),
            StatusCode::FailedPrecondition);
  EXPECT_THAT(failure_of(*cache, make_source("gather")).message(), HasSubstr("the driver refused it"));
}

TEST(KernelCacheLayers, R32_CountersAreTheTruth) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [](const KernelSource& source) -> llvm::Error {
    if (source.display_name != "broken") return llvm::Error::success();
    return make_error(StatusCode::Internal, "no such kernel");
  };
  CacheOptions options = in_folder(folder / "cache");
  options.bundles = {{folder / "a.bundle", ""}};
  options.trace = std::make_shared<Trace>();
  auto cache = open_cache(options, compiler);
  std::int64_t bytes = 0;
  for (const char* name : {"gather", "scatter", "sort", "sort"}) {
    const auto binary = llvm::cantFail(cache->get_or_compile({make_source(name), "sm_90a"}));
    if (cache->stats().memory_hits == 0) bytes += static_cast<std::int64_t>(binary->cubin.size());
  }
  EXPECT_EQ(failure_of(*cache, make_source("broken")).code(), StatusCode::Internal);
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.bundle_hits, 1);
  EXPECT_EQ(stats.compiled, 2);
  EXPECT_EQ(stats.memory_hits, 1);
  EXPECT_EQ(stats.disk_hits, 0);
  EXPECT_EQ(stats.failures, 1);
  EXPECT_EQ(stats.waits, 0);
  EXPECT_EQ(stats.cubin_bytes, bytes);
  EXPECT_DOUBLE_EQ(stats.compile_ms, 5) << "the fake says 2.5 each";
  for (const char* span : {"\"bundle\"", "\"compile\"", "\"publish\"", "\"disk\""}) {
    EXPECT_THAT(options.trace->json(), HasSubstr(span));
  }
}

TEST(KernelCacheLayers, WhatIsCancelledBeforeItBeginsDoesNothing) {
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = open_cache(without_disk(), compiler);
  CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(failure_of(*cache, make_source("gather"), &cancel).code(), StatusCode::Cancelled);
  EXPECT_EQ(compiler->compiles, 0);
  EXPECT_EQ(failure_of(*cache, make_source("gather")).code(), StatusCode::Ok) << "nothing is remembered";
}

}  // namespace
}  // namespace minuet
