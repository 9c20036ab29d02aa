// What is not compiled: NO_JIT, and the list of what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/codegen/cache/layered_cache.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(KernelCacheLayers, R22_WithoutJitTheFolderNeedsNoCompiler) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  origin_of(*open_cache(in_folder(folder.path()), compiler), "gather");
  compiler->id_ = "";
  CacheOptions options = in_folder(folder.path());
  options.no_jit = true;
  EXPECT_EQ(origin_of(*open_cache(options, compiler), "gather"), BinaryOrigin::Disk);
  EXPECT_THAT(
      failure_of(*open_cache(options, compiler), make_source("scatter")).message(),
      HasSubstr("is in no bundle (no bundle is open) and not in the cache folder, and MINUET_NO_JIT"));
}

TEST(KernelCacheLayers, R22_NoJitIsAnErrorThatNamesWhatToDo) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = open_cache(in_folder(folder / "cache"), compiler, {{"MINUET_NO_JIT", "1"}});
  const StatusError status = failure_of(*cache, make_source("gather"));
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  for (const char* part : {"gather", "sm_90a", "MINUET_NO_JIT", "request key ", "minuet precompile --from"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_EQ(compiler->compiles, 0);
  EXPECT_THAT(files_below(folder.path()), IsEmpty()) << "neither a directory nor a lock is made";
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));
}

TEST(KernelCacheLayers, R22_ABundleThatComesLaterMendsAMiss) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  CacheOptions options = without_disk();
  options.no_jit = true;
  auto cache = open_cache(options, std::make_shared<FakeCompiler>());
  EXPECT_EQ(failure_of(*cache, make_source("gather")).code(), StatusCode::FailedPrecondition);
  EXPECT_FALSE(llvm::errorToBool(cache->add_bundle({folder / "a.bundle", ""})));
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle);
}

TEST(KernelCacheLayers, R22_NoJitStillReadsTheDiskAndChangesNothingThere) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  origin_of(*open_cache(in_folder(folder.path()), compiler), "gather");
  const std::vector<std::string> before = files_below(folder.path());
  CacheOptions options = in_folder(folder.path());
  options.no_jit = true;
  EXPECT_EQ(origin_of(*open_cache(options, compiler), "gather"), BinaryOrigin::Disk);
  for (const std::string& file : before) {
    if (file.find("/obj/") != std::string::npos) write_text(file, "damaged");
  }
  EXPECT_EQ(failure_of(*open_cache(options, compiler), make_source("gather")).code(),
            StatusCode::FailedPrecondition);
  EXPECT_EQ(files_below(folder.path()), before);
}

/// Without JIT entries are found by the compilers that the folder names. A process that finds an entry there
/// names its compiler again, so that it does not matter how the name was lost.
TEST(KernelCacheLayers, R22_AnEntryThatIsFoundNamesItsCompilerAgain) {
  const std::pair<const char*, std::function<void(const std::string&)>> losses[] = {
      {"the folder is removed", [](const std::string& path) { std::filesystem::remove_all(path); }},
      {"the folder is emptied",
       [](const std::string& path) {
         for (const std::string& file : files_below(path)) std::filesystem::remove(file);
       }},
      {"a file was in the place of the folder",
       [](const std::string& path) { std::filesystem::remove(path); }}};
  for (const auto& [what, lose] : losses) {
    SCOPED_TRACE(what);
    const TemporaryFolder folder;
    const std::string names = folder / "v1/compilers";
    std::filesystem::create_directories(folder / "v1");
    if (what == std::string("a file was in the place of the folder")) write_text(names, "");
    auto compiler = std::make_shared<FakeCompiler>();
    EXPECT_EQ(origin_of(*open_cache(in_folder(folder.path()), compiler), "gather"), BinaryOrigin::Compiled);
    lose(names);
    CacheOptions options = in_folder(folder.path());
    options.no_jit = true;
    EXPECT_EQ(failure_of(*open_cache(options, nullptr), make_source("gather")).code(),
              StatusCode::FailedPrecondition);
    EXPECT_EQ(origin_of(*open_cache(in_folder(folder.path()), compiler), "gather"), BinaryOrigin::Disk);
    EXPECT_EQ(failure_of(*open_cache(options, nullptr), make_source("gather")).code(), StatusCode::Ok);
  }
}

/// A kernel that the driver refused is found by no device any more, also where a bundle's code for an older
/// GPU serves several.
TEST(KernelCacheLayers, R28_WhatTheDriverRefusedIsFoundByNoDevice) {
  const struct {
    const char *bundle, *refusing, *other;
  } cases[] = {{"sm_80", "sm_80", "sm_86"},
               {"sm_80", "sm_86", "sm_80"},
               {"sm_80", "sm_86", "sm_89"},
               {"sm_86", "sm_89", "sm_89"},
               {"sm_86", "sm_89", "sm_86"}};
  for (const auto& [bundle, refusing, other] : cases) {
    SCOPED_TRACE(std::string(bundle) + " refused by " + refusing + ", then for " + other);
    const TemporaryFolder folder;
    make_bundle_of(folder / "a.bundle", {"gather", "scatter"}, bundle);
    CacheOptions options = without_disk();
    options.bundles = {{folder / "a.bundle", ""}};
    options.no_jit = true;
    auto cache = open_cache(options, std::make_shared<FakeCompiler>());
    const auto refused = llvm::cantFail(cache->get_or_compile({make_source("gather"), refusing}));
    EXPECT_EQ(refused->arch, bundle);
    EXPECT_EQ(take_status(cache->replace({make_source("gather"), refusing}, *refused).takeError()).code(),
              StatusCode::FailedPrecondition);
    for (const char* arch : {refusing, other}) {
      llvm::Expected<KernelCache::BinaryPointer> found = cache->get_or_compile({make_source("gather"), arch});
      EXPECT_FALSE(!!found) << arch;
      EXPECT_THAT(found ? "" : take_status(found.takeError()).message(), HasSubstr("the driver refused it"));
    }
    EXPECT_EQ(origin_of(*cache, "scatter", other), BinaryOrigin::Bundle) << "the other kernels stay";
  }
}

TEST(KernelCacheLayers, R22_NoJitStartsNoHelper) {
  const TemporaryFolder folder;
  for (const char* id : {"nvrtc 12.9 a b", "nvrtc 13.0 a b"}) {
    auto compiler = std::make_shared<FakeCompiler>();
    compiler->id_ = id;
    origin_of(*open_cache(in_folder(folder.path()), compiler),
              id == std::string("nvrtc 12.9 a b") ? "old" : "new");
  }
  make_bundle_of(folder / "a.bundle", {"gather"});
  CacheOptions options = in_folder(folder.path());
  options.no_jit = true;
  options.bundles = {{folder / "a.bundle", ""}};
  auto compiler = std::make_shared<AskedCompiler>();
  auto cache = open_cache(options, compiler);
  // Of every compiler whose kernels the folder has.
  EXPECT_EQ(origin_of(*cache, "old"), BinaryOrigin::Disk);
  EXPECT_EQ(origin_of(*cache, "new"), BinaryOrigin::Disk);
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Bundle);
  EXPECT_EQ(failure_of(*cache, make_source("scatter")).code(), StatusCode::FailedPrecondition);
  EXPECT_EQ(compiler->asked, 0);
}

TEST(KernelCacheLayers, R22_AVariableThatMeansNothingIsAnError) {
  for (const auto& [name, value] : Variables{
           {"MINUET_NO_JIT", "yes"}, {"MINUET_CACHE_MAX_BYTES", "1G"}, {"MINUET_CACHE_SHARED", "true"}}) {
    auto cache =
        KernelCache::create(without_disk(), nullptr, make_environment({{name, value}}), real_file_system());
    const StatusError status = take_status(cache.takeError());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(KernelCacheLayers, R22_WhatNoBundleHadIsRecorded) {
  const TemporaryFolder folder;
  make_bundle_of(folder / "a.bundle", {"gather"});
  CacheOptions options = in_folder(folder / "cache");
  options.bundles = {{folder / "a.bundle", ""}};
  const Variables variables = {{"MINUET_RECORD", folder / "requests.jsonl"}};
  for (int process = 0; process < 2;
       ++process) {  // the second one finds the kernel on disk, and records it too
    auto cache = open_cache(options, std::make_shared<FakeCompiler>(), variables);
    for (const char* name : {"gather", "scatter", "scatter"}) origin_of(*cache, name);
  }
  const auto requests = llvm::cantFail(read_requests(contents(folder / "requests.jsonl")));
  ASSERT_THAT(requests, SizeIs(2));
  for (const RecordedRequest& recorded : requests) {
    EXPECT_EQ(recorded.request.source.display_name, "scatter");
    EXPECT_EQ(recorded.request.source.text, make_source("scatter").text);
    EXPECT_EQ(recorded.request.arch, "sm_90a");
  }
}

TEST(KernelCacheLayers, R22_ATornLineOfARecordCostsThatLineOnly) {
  const TemporaryFolder folder;
  const std::string record = folder / "requests.jsonl";
  CacheOptions options = without_disk();
  options.record = record;
  for (const char* name : {"gather", "scatter"}) {
    origin_of(*open_cache(options, std::make_shared<FakeCompiler>()), name);
    // Here a process ends in the middle of its second line, or its disk is full.
    const std::string whole = contents(record);
    write_text(record, whole + whole.substr(0, whole.size() / 3));
  }
  std::vector<int> truncated_lines;
  const auto requests = llvm::cantFail(read_requests(contents(record), &truncated_lines));
  EXPECT_THAT(truncated_lines, testing::ElementsAre(2, 4));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].request.source.display_name, "gather");
  EXPECT_EQ(requests[1].request.source.display_name, "scatter");
}

TEST(KernelCacheLayers, R22_ALineTornAfterItsFirstBytesCostsThatLineOnly) {
  for (const std::size_t size : {1, 5, 8}) {
    const TemporaryFolder folder;
    CacheOptions options = without_disk();
    options.record = folder / "requests.jsonl";
    write_text(*options.record, kRequestStart.substr(0, size).str());
    origin_of(*open_cache(options, std::make_shared<FakeCompiler>()), "gather");
    std::vector<int> truncated_lines;
    const auto requests = llvm::cantFail(read_requests(contents(*options.record), &truncated_lines));
    EXPECT_THAT(truncated_lines, testing::ElementsAre(1)) << size;
    EXPECT_THAT(requests, SizeIs(1)) << size;
  }
}

TEST(KernelCacheLayers, ARecordThatAnEditorSavedIsAppendedTo) {
  const TemporaryFolder folder;
  CacheOptions options = without_disk();
  options.record = folder / "requests.jsonl";
  origin_of(*open_cache(options, std::make_shared<FakeCompiler>()), "gather");
  write_text(*options.record, "\xef\xbb\xbf" + contents(*options.record));
  origin_of(*open_cache(options, std::make_shared<FakeCompiler>()), "scatter");
  EXPECT_THAT(llvm::cantFail(read_requests(contents(*options.record))), SizeIs(2));
}

TEST(KernelCacheLayers, R22_ARecordThatCannotBeWrittenIsAWarning) {
  const TemporaryFolder folder;
  Warnings warnings;
  CacheOptions options = without_disk();
  options.record = folder / "missing/requests.jsonl";
  options.warn = warnings.sink();
  auto cache = open_cache(options, std::make_shared<FakeCompiler>());
  EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Compiled);
  ASSERT_THAT(warnings.all(), SizeIs(1));
  EXPECT_THAT(warnings.all()[0], HasSubstr("missing/requests.jsonl"));
}

TEST(KernelCacheLayers, R22_NothingIsAppendedToAFileThatIsNoRecord) {
  for (const char* const text : {"{\"keep\": \"me\"}\n", "x", "\n"}) {
    const TemporaryFolder folder;
    Warnings warnings;
    CacheOptions options = without_disk();
    options.record = folder / "user.json";
    options.warn = warnings.sink();
    write_text(*options.record, text);
    auto cache = open_cache(options, std::make_shared<FakeCompiler>());
    EXPECT_EQ(origin_of(*cache, "gather"), BinaryOrigin::Compiled);
    EXPECT_EQ(contents(*options.record), text);
    ASSERT_THAT(warnings.all(), SizeIs(1));
    EXPECT_THAT(warnings.all()[0], HasSubstr("is not a list of kernels"));
  }
}

}  // namespace
}  // namespace minuet
