// The tool where the system refuses: full disks, limits, closed streams.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/base/cpu_count.h"
#include "codegen/base/json_text.h"
#include "codegen/compile/entry.h"
#include "llvm/Support/JSON.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

class CliSystem : public testing::Test {
 protected:
  std::string run(const std::string& more) const {
    return tool_under_test() +
           " run --device cpu --network sparseresnet21d --channels 4,6,8,7 --synthetic object --points 5000 "
           "--voxel-size 0.01 --output " +
           output_ + more;
  }
  /// Of a shell; -1 where the process did not end by itself.
  static int exit_code(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const Folder folder_;
  const std::string output_ = folder_.path("o.npy"), report_ = folder_.path("report.json");
};

TEST_F(CliSystem, AFullDiskIsNoFaultOfTheUsers) {
  for (const char* argument : {"info", "--help", "--version"}) {
    const Finished finished = minuet_to("/dev/full", {argument});
    EXPECT_EQ(finished.code, 1) << argument;
    EXPECT_EQ(finished.err, "minuet: cannot write to the standard output\n");
  }
}

/// The folder is past its limit, and these commands use no kernel of it.
TEST_F(CliSystem, LookingAtACacheRemovesNothing) {
  const std::string cache = folder_.path("cache"), limit = "MINUET_CACHE_MAX_BYTES=1 ";
  const std::string shelf = cache + "/v" + std::to_string(kEntryFormat) + "/obj/ab";
  std::filesystem::create_directories(shelf);
  for (std::filesystem::path path = shelf; path != folder_.path("cache"); path = path.parent_path())
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::filesystem::permissions(cache, std::filesystem::perms::owner_all);
  const std::string entries[] = {shelf + "/" + std::string(62, '0'), shelf + "/" + std::string(62, '1')};
  const auto make_entries = [&] {
    for (const std::string& entry : entries) std::ofstream(entry) << std::string(1000, 'e');
  };
  const auto left = [&] {
    return std::count_if(std::begin(entries), std::end(entries),
                         [](const std::string& entry) { return std::filesystem::exists(entry); });
  };
  for (const char* command : {"info", "tune show --device cpu --network sparseresnet21d", "tune list",
                              "cache list", "cache verify", "cache stats", "cache inspect ab"}) {
    make_entries();
    exit_code(limit + tool_under_test() + " " + command + " --cache " + cache + " > /dev/null 2>&1");
    EXPECT_EQ(left(), 2) << command;
  }
  EXPECT_EQ(exit_code(limit + run(" --cache " + cache + " > /dev/null")), 0);
  EXPECT_EQ(left(), 0) << "a command that may use kernels keeps the limit";
}

TEST_F(CliSystem, ALimitOfAFilesSizeLeavesNothing) {
  const std::string errors = folder_.path("errors");
  EXPECT_EQ(exit_code("ulimit -f 4; " + run(" > /dev/null 2> " + errors)), 1);
  EXPECT_THAT(contents(errors), HasSubstr("cannot be written: File too large"));
  EXPECT_FALSE(std::filesystem::exists(output_));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("")))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".part")));
}

TEST_F(CliSystem, ClosedStreamsEndNothingAndGetNoFilesNumber) {
  EXPECT_EQ(exit_code(run(" > /dev/null")), 0);
  const std::string whole = contents(output_);
  for (const char* closed : {" >&- 2>&-", " >&- 2> /dev/null", " <&- >&- 2>&-"}) {
    EXPECT_EQ(exit_code(run(" --json " + report_ + closed)), 1) << closed;
    EXPECT_EQ(contents(output_), whole) << closed;
    EXPECT_TRUE(!!llvm::expectedToOptional(parse_json(contents(report_)))) << closed;
  }
}

/// " 3 threads," of the device's description in a report of `run`, as a number.
class CliThreads : public CliSystem {
 protected:
  int threads_of(const std::string& more) const {
    EXPECT_EQ(exit_code(run(more + " --json " + report_ + " > /dev/null")), 0);
    const std::string description = json_in(report_).getString("description")->str();
    const size_t end = description.find(" thread");
    return std::stoi(description.substr(description.rfind(' ', end - 1) + 1));
  }
};

TEST_F(CliThreads, AreAtMostOneForEachCpu) {
  const int cpus = cpu_count();
  EXPECT_EQ(threads_of(""), cpus);
  EXPECT_EQ(threads_of(" --threads 1"), 1);
  EXPECT_EQ(threads_of(" --threads 4096"), cpus);
  // A program that this thread starts has its mask, as one behind `taskset -c 0` has.
  std::thread([&] {
    cpu_set_t mask, one;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(threads_of(""), 1);
    EXPECT_EQ(threads_of(" --threads 128"), 1);
  }).join();
}

TEST_F(CliThreads, AWrongNumberIsAnErrorThatNamesTheFlag) {
  for (const char* command : {"run", "bench", "view", "tune run"}) {
    for (const char* number : {"0", "-1", "4097", "1.5", "two"}) {
      const std::string errors = folder_.path("errors");
      EXPECT_EQ(exit_code(tool_under_test() + " " + command + " --threads " + number + " 2> " + errors), 2)
          << command << " " << number;
      EXPECT_THAT(contents(errors), HasSubstr("--threads")) << command << " " << number;
    }
  }
}

}  // namespace
}  // namespace minuet::tool
