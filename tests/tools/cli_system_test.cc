// The tool where the system refuses: full disks, limits, closed streams.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>

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
    EXPECT_EQ(finished.err, "minuet: the standard output cannot be written\n");
  }
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
    EXPECT_TRUE(!!llvm::expectedToOptional(llvm::json::parse(contents(report_)))) << closed;
  }
}

}  // namespace
}  // namespace minuet::tool
