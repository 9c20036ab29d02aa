#include "codegen/compile/pch_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/codegen/fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

/// A process that owns a folder with something in it and waits to be killed; its number.
pid_t start_owner(const std::string& parent) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto folder = llvm::cantFail(PchFolder::create(parent));
    write_text(folder->path() + "/minuet_kernel_0.pch", "bytes");
    static_cast<void>(!::write(ready[1], "x", 1));
    while (true) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return owner;
}

void kill_and_wait(pid_t process) {
  ::kill(process, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
}

TEST(PchFolder, R30_IsPrivateAndGoesWithItsOwner) {
  const TemporaryFolder parent;
  {
    const auto folder = llvm::cantFail(PchFolder::create(parent.path()));
    struct stat status;
    ASSERT_EQ(::stat(folder->path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u);
    write_text(folder->path() + "/minuet_kernel_0.pch", "bytes");
    EXPECT_EQ(sweep_pch_folders(parent.path()), 0) << "its owner is there";
    EXPECT_TRUE(std::filesystem::exists(folder->path() + "/minuet_kernel_0.pch"));
  }
  EXPECT_THAT(names_in(parent.path()), testing::IsEmpty());
}

TEST(PchFolder, R30_WhatAKilledOwnerLeftGoesAtTheNextStart) {
  const TemporaryFolder parent;
  const pid_t alive = start_owner(parent.path());
  const pid_t killed = start_owner(parent.path());
  ASSERT_EQ(names_in(parent.path()).size(), 2u);
  kill_and_wait(killed);
  EXPECT_EQ(names_in(parent.path()).size(), 2u);
  const auto mine = llvm::cantFail(PchFolder::create(parent.path()));
  EXPECT_EQ(names_in(parent.path()).size(), 2u)
      << "the killed one's is gone, the live one's and mine are there";
  kill_and_wait(alive);
  EXPECT_EQ(sweep_pch_folders(parent.path()), 1);
  EXPECT_EQ(names_in(parent.path()).size(), 1u);
}

TEST(PchFolder, R30_WhatIsNotOursStays) {
  const TemporaryFolder parent, elsewhere;
  write_text(elsewhere / "precious", "");
  std::filesystem::create_directory_symlink(elsewhere.path(), parent / "minuet-pch-link");
  std::filesystem::create_directory(parent / "another");
  write_text(parent / "minuet-pch-file", "");
  EXPECT_EQ(sweep_pch_folders(parent.path()), 0);
  EXPECT_EQ(names_in(parent.path()).size(), 3u);
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "precious"));
  if (::geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root; the rest was tested";
  std::filesystem::create_directory(parent / "minuet-pch-theirs");
  ASSERT_EQ(::chown((parent / "minuet-pch-theirs").c_str(), 12345, 12345), 0);
  EXPECT_EQ(sweep_pch_folders(parent.path()), 0);
  EXPECT_TRUE(std::filesystem::exists(parent / "minuet-pch-theirs"));
}

TEST(PchFolder, R30_AForkOfTheOwnerRemovesNothing) {
  const TemporaryFolder parent;
  auto folder = llvm::cantFail(PchFolder::create(parent.path()));
  const pid_t child = ::fork();
  if (child == 0) {
    folder.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder->path()));
}

TEST(PchFolder, R30_AFolderThatCannotBeIsAnError) {
  llvm::Expected<std::unique_ptr<PchFolder>> folder = PchFolder::create("/nonexistent");
  ASSERT_FALSE(folder);
  EXPECT_EQ(take_status(folder.takeError()).code(), StatusCode::Unavailable);
}

/// Makes and leaves folders for as long as it is asked to; status 1 where one was taken from it.
int race(const std::string& parent, int rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < rounds; ++i) {
    llvm::Expected<std::unique_ptr<PchFolder>> folder = PchFolder::create(parent);
    if (!folder) {
      std::fprintf(stderr, "%s\n", llvm::toString(folder.takeError()).c_str());
      return 2;
    }
    const std::string file = (*folder)->path() + "/minuet_kernel_0.pch";
    write_text(file, "bytes");
    ::usleep(random() % 300);
    if (contents(file) != "bytes") return 1;
    if (random() % 8 == 0) {
      // Leaves an orphan behind, as a killed process does, for the others to sweep.
      static_cast<void>(folder->release());
      ::kill(::getpid(), SIGKILL);
    }
  }
  return 0;
}

TEST(PchFolder, R30_EightProcessesRace) {
  const bool is_long = long_tests_wanted();
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  const TemporaryFolder parent;
  std::vector<pid_t> running;
  int left = is_long ? 2000 : 100;
  for (unsigned i = 0; left > 0 || !running.empty(); ++i) {
    while (left > 0 && running.size() < 8) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(race(parent.path(), 20, seed + 1000 * i + static_cast<unsigned>(left)));
      running.push_back(child);
      --left;
    }
    int status = 0;
    const pid_t ended = ::waitpid(running.front(), &status, 0);
    ASSERT_EQ(ended, running.front());
    running.erase(running.begin());
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "status " << status;
  }
  sweep_pch_folders(parent.path());
  EXPECT_THAT(names_in(parent.path()), testing::IsEmpty());
}

}  // namespace
}  // namespace minuet
