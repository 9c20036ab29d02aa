#include "codegen/tuning/tuning_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "tests/codegen/cache/store_fakes.h"
#include "tests/codegen/choose/examples.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// The key-th of many entries, told apart by its channels.
TuningEntry numbered_entry(int key) {
  return make_entry(example_environment(), gather_bucket(DType::F16, key + 1, 27, kExampleRows),
                    measured(tile_config(1), 14000 + key), {});
}

TuningFolder load(const std::string& directory) {
  return llvm::cantFail(store_in(directory).load(environment_hash(example_environment())));
}

void expect_all_there(const std::string& directory, int keys) {
  const TuningFolder folder = load(directory);
  EXPECT_THAT(folder.skipped, IsEmpty());
  std::vector<bool> seen(static_cast<std::size_t>(keys), false);
  for (const TuningEntry& entry : folder.entries) {
    const int key = static_cast<int>(entry.bucket.channels) - 1;
    ASSERT_LT(key, keys);
    EXPECT_EQ(entry, numbered_entry(key));
    seen[static_cast<std::size_t>(key)] = true;
  }
  EXPECT_THAT(seen, testing::Each(true));
  EXPECT_THAT(files_below(directory), SizeIs(keys)) << "nothing but the entries is left";
}

TEST(TuningStore, R33_OneFileAnEntryInItsPlace) {
  const TemporaryFolder folder;
  TuningStore store(folder.path(), tuning_folder_of_cache(), process_policy(make_environment({})),
                    real_file_system());
  EXPECT_THAT(llvm::cantFail(store.environments()), IsEmpty());
  llvm::cantFail(store.publish(example_entry()));
  const std::string hash = environment_hash(example_environment());
  EXPECT_THAT(
      files_below(folder.path()),
      testing::ElementsAre(folder / ("tune/" + hash + "/" + bucket_hash(example_entry().bucket) + ".json")));
  EXPECT_THAT(llvm::cantFail(store.environments()), testing::ElementsAre(hash));
  const TuningFolder found = llvm::cantFail(store.load(hash));
  EXPECT_THAT(found.entries, testing::ElementsAre(example_entry()));
  EXPECT_THAT(found.skipped, IsEmpty());
  EXPECT_THAT(llvm::cantFail(store.load(std::string(64, '0'))).entries, IsEmpty());
}

TEST(TuningStore, R33_WhoOnlyReadsMakesNoFolders) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder / "nothing");
  EXPECT_THAT(llvm::cantFail(store.environments()), IsEmpty());
  EXPECT_THAT(llvm::cantFail(store.load(std::string(64, '0'))).entries, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / "nothing"));
}

/// Each process its own share of the keys, and all of them ten keys in common.
void tune_at_once(int processes, int keys) {
  const TemporaryFolder folder;
  const int common = 10, share = (keys - common) / processes;
  in_processes(processes, [&](int rank) {
    TuningStore store = store_in(folder.path());
    const int last = rank + 1 == processes ? keys : common + (rank + 1) * share;
    for (int key = common + rank * share; key < last; ++key) {
      if (llvm::errorToBool(store.publish(numbered_entry(key)))) return false;
      if (llvm::errorToBool(store.publish(numbered_entry(key % common)))) return false;
    }
    return true;
  });
  expect_all_there(folder.path(), keys);
}

TEST(TuningStore, R33_EightProcessesLoseNothing) { tune_at_once(8, 170); }

TEST(TuningStore, R33_EightProcessesLoseNothingOfAThousandKeys) {
  if (!long_tests_wanted()) GTEST_SKIP() << "MINUET_LONG_TESTS=1 runs it";
  tune_at_once(8, 1000);
}

/// Of one bucket each process has measured a tile of its own.
TEST(TuningStore, R33_WhatProcessesHaveOfOneBucketIsJoined) {
  const TemporaryFolder folder;
  const int processes = 8;
  const auto measured_by = [](int rank) {
    return make_entry(example_environment(), gather_bucket(DType::F16, 256, 27, kExampleRows),
                      measured(tile_config(8), 14000), {measured(tile_config(1 << rank), 9000 + rank)});
  };
  in_processes(processes, [&](int rank) {
    const TuningEntry mine = measured_by(rank);
    return !llvm::errorToBool(store_in(folder.path()).publish_joined(mine, merge_entries));
  });
  TuningEntry all = measured_by(0);
  for (int rank = 1; rank < processes; ++rank) all = merge_entries(all, measured_by(rank));
  EXPECT_THAT(load(folder.path()).entries, testing::ElementsAre(all));
}

TEST(TuningStore, R33_AResultOfOtherKernelsIsReplaced) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  TuningEntry older = example_entry(), newer = older;
  older.kernels = std::string(64, '0');
  newer.measurements.pop_back();
  llvm::cantFail(store.publish(older));
  llvm::cantFail(store.publish_joined(newer, merge_entries));
  EXPECT_THAT(load(folder.path()).entries, testing::ElementsAre(newer));
}

/// One wait for all of them, which ends as soon as it is told to; and they are kept all the same.
TEST(TuningStore, WhoWaitsForAnotherWriterCanBeStopped) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  llvm::cantFail(store.publish(numbered_entry(0)));
  const auto open_folder = [&]() -> llvm::Expected<FileHandle> {
    const std::string place =
        std::filesystem::path(files_below(folder.path()).front()).parent_path().string();
    return FileHandle(real_file_system(), ::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  };
  const FileLock other =
      take_file_lock(real_file_system(), open_folder, "lock", 0600, std::chrono::seconds(10), nullptr);
  ASSERT_TRUE(other.held());
  int asked = 0;
  llvm::cantFail(store.publish_joined({numbered_entry(0), numbered_entry(1), numbered_entry(2)},
                                      merge_entries, [&] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(load(folder.path()).entries, SizeIs(3));
}

TEST(TuningStore, R33_AnEntryOfANewerVersionStays) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  llvm::cantFail(store.publish(example_entry()));
  const std::string file = files_below(folder.path()).front();
  const std::string newer = "[{\"schema\": " + std::to_string(kTuningSchema + 1) + "}]";
  write_text(file, newer);
  EXPECT_EQ(take_status(store.publish(example_entry())).code(), StatusCode::FailedPrecondition);
  EXPECT_EQ(take_status(store.publish_joined(example_entry(), merge_entries)).code(),
            StatusCode::FailedPrecondition);
  EXPECT_EQ(contents(file), newer);
  for (const char* const replaced : {"[{\"schema\": 0}]", "[5, {}]", "{}", "damaged"}) {
    write_text(file, replaced);
    EXPECT_FALSE(llvm::errorToBool(store.publish(example_entry()))) << replaced;
  }
}

TEST(TuningStore, R33_WhatIsNoEntryIsSkippedWithItsReason) {
  const TemporaryFolder folder;
  llvm::cantFail(store_in(folder.path()).publish(example_entry()));
  const std::string file = files_below(folder.path()).front(), good = contents(file);
  const std::string place = std::filesystem::path(file).parent_path().string() + "/";
  auto expect_skipped = [&](const std::string& name, const std::string& reason) {
    SCOPED_TRACE(reason);
    const TuningFolder found = load(folder.path());
    ASSERT_THAT(found.skipped, SizeIs(1));
    EXPECT_THAT(found.skipped[0], HasSubstr(reason));
    EXPECT_THAT(found.entries, SizeIs(1));
    std::filesystem::remove_all(place + name);
  };
  const std::string other = std::string(64, 'c') + ".json";
  write_text(place + other, good.substr(0, good.size() / 2));
  expect_skipped(other, "damaged");
  write_text(place + other, good);
  expect_skipped(other, "another device, toolkit or problem than its path says");
  write_text(place + other, std::string(2 << 20, ' '));
  expect_skipped(other, "too long");
  std::filesystem::create_symlink(file, place + other);
  expect_skipped(other, "cannot be opened");
  ASSERT_EQ(::mkfifo((place + other).c_str(), 0600), 0);
  expect_skipped(other, "not a regular file");
  std::filesystem::create_directory(place + other);
  expect_skipped(other, "not a regular file");
  write_text(place + other, good);
  ASSERT_EQ(::chmod((place + other).c_str(), 0666), 0);
  expect_skipped(other, "other users may have written it");
  write_text(place + "tmp-1-2-3", "half an en");
  EXPECT_THAT(load(folder.path()).skipped, IsEmpty());
}

TEST(TuningStore, R33_AFolderThatOthersMayWriteToIsRefused) {
  const TemporaryFolder folder;
  llvm::cantFail(store_in(folder.path()).publish(example_entry()));
  const std::string place = std::filesystem::path(files_below(folder.path()).front()).parent_path().string();
  for (const std::string& open : {folder.path(), place}) {
    ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
    TuningStore store = store_in(folder.path());
    EXPECT_TRUE(llvm::errorToBool(store.load(environment_hash(example_environment())).takeError()));
    EXPECT_TRUE(llvm::errorToBool(store.publish(example_entry())));
    ASSERT_EQ(::chmod(open.c_str(), 0700), 0);
  }
}

TEST(TuningStore, R33_WhateverCallFailsNoPartialEntryIsSeen) {
  const std::string hash = environment_hash(example_environment());
  const TemporaryFolder counted;
  FailingFileSystem publish(-1, 0), load_calls(-1, 0);
  llvm::cantFail(store_in(counted.path(), publish).publish(example_entry()));
  EXPECT_THAT(llvm::cantFail(store_in(counted.path(), load_calls).load(hash)).entries, SizeIs(1));
  ASSERT_GT(publish.calls(), 10);
  ASSERT_GT(load_calls.calls(), 5);
  for (const int error : {ENOSPC, EROFS, EACCES, EMFILE, EIO, EINTR}) {
    for (int at = 0; at < publish.calls(); ++at) {
      SCOPED_TRACE("call " + std::to_string(at) + " fails with " + std::to_string(error));
      const TemporaryFolder folder;
      FailingFileSystem cold(at, error), warm(at, error);
      const bool failed = llvm::errorToBool(store_in(folder.path(), cold).publish(example_entry()));
      const TuningFolder seen = load(folder.path());
      EXPECT_THAT(seen.skipped, IsEmpty());
      EXPECT_THAT(seen.entries, SizeIs(failed ? 0 : 1));
      EXPECT_THAT(files_below(folder.path()), SizeIs(failed ? 0 : 1));
      llvm::cantFail(store_in(folder.path()).publish(example_entry()));
      // A read that fails is an error or a file that is passed over.
      llvm::Expected<TuningFolder> found = store_in(folder.path(), warm).load(hash);
      if (found) {
        EXPECT_EQ(found->entries.size() + found->skipped.size(), 1u);
      } else {
        llvm::consumeError(found.takeError());
      }
    }
  }
}

TEST(TuningStore, WhetherItTakesResultsIsKnownBefore) {
  const TemporaryFolder folder;
  const std::string hash = environment_hash(example_environment());
  llvm::cantFail(store_in(folder / "new").check_writable(hash));
  EXPECT_THAT(files_below(folder.path()), IsEmpty()) << "nothing is left of it";
  write_text(folder / "file", "");
  EXPECT_TRUE(llvm::errorToBool(store_in(folder / "file").check_writable(hash)));
  FailingFileSystem counted(-1, 0);
  llvm::cantFail(store_in(folder / "new", counted).check_writable(hash));
  for (int at = 0; at < counted.calls(); ++at) {
    FailingFileSystem full(at, ENOSPC);
    const bool failed = llvm::errorToBool(store_in(folder / "new", full).check_writable(hash));
    // A folder that is closed, and the file that was tried and is removed, say nothing about results.
    const bool matters = full.failed() != "close" && full.failed() != "unlink";
    EXPECT_TRUE(failed || !matters) << "call " << at << ", " << full.failed();
  }
}

}  // namespace
}  // namespace minuet
