// Command lines, malformed, wrong in meaning and right (cli_cases.inc): each has its exit code, says one
// sentence or what it did, and changes no file but those that it names. The tool is the one in MINUET_CLI of
// the environment (tests/install gives the installed one), else the one that was built.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>

#include "codegen/base/sha256.h"
#include "tests/support/environment.h"
#include "tests/support/expect.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/commands/cli_files.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

struct CliCase {
  /// NAME=value for the environment, then the arguments; 'quotes' hold blanks. RUN is
  /// `run --device D --network tiny.json`, with voxels of 0.5 m where the line has no --voxel-size; D is the
  /// device.
  const char* line;
  int code;
  const char* says;         ///< on stderr where it fails, else on stdout
  const char* writes = "";  ///< the files that are new or changed, with blanks between
  const char* digest = "";  ///< first digits of the first one's sha256
  const char* warns = "";   ///< on stderr of what succeeds; empty: nothing may be there
};

// All forms of the forty points have these voxels, those of the far ones, and those of v.npy: digests of
// files that another program made by the definition.
#define VOXELS "3296be1f"
#define UTM_VOXELS "47669baf"
#define LOST_LABELS "5d0ed9df"
#define GIVEN_VOXELS "9465f0ae"

constexpr CliCase kCases[] = {
#include "tests/tools/minuet/commands/cli_cases.inc"
#include "tests/tools/minuet/commands/cli_cases_files.inc"
#include "tests/tools/minuet/commands/cli_cases_graphs.inc"
#include "tests/tools/minuet/commands/cli_cases_grids.inc"
#include "tests/tools/minuet/commands/cli_cases_pages.inc"
};

static_assert(std::size(kCases) >= 200);

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!open) words.emplace_back();
      open = true;
    } else if (c == ' ' && !quoted) {
      open = false;
    } else {
      if (!open) words.emplace_back();
      open = true;
      words.back() += c;
    }
  }
  return words;
}

class CliTable : public testing::TestWithParam<const char*> {
 protected:
  CliTable() {
    if (std::string(GetParam()) == "cuda:0" && minuet({"info"}).out.find("cuda:0") == std::string::npos) {
      has_device_ = false;
      return;
    }
    make_cli_files(folder_.path(""));
    std::filesystem::create_directories(folder_.path("home/.nv/ComputeCache"));  // the driver makes it
    std::filesystem::current_path(folder_.path(""));
  }
  ~CliTable() override { std::filesystem::current_path(here_); }

  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path(""))) {
      const std::string name = std::filesystem::relative(entry.path(), folder_.path(""));
      files[name] = entry.is_regular_file() ? contents(entry.path()) : "";
    }
    return files;
  }

  void check(const CliCase& one);

  bool has_device_ = true;
  std::map<std::string, std::string> before_;  // each line leaves the folder so

 private:
  const std::filesystem::path here_ = std::filesystem::current_path();
  const Folder folder_, cache_;
  const EnvironmentVariable home_{"HOME", folder_.path("home")}, xdg_{"XDG_CACHE_HOME", cache_.path("")};
};

void CliTable::check(const CliCase& one) {
  SCOPED_TRACE(one.line);
  std::list<std::string> names;  // an EnvironmentVariable does not keep its own
  std::list<EnvironmentVariable> environment;
  std::vector<std::string> arguments;
  for (const std::string& word : split(one.line)) {
    if (arguments.empty() && word.rfind("MINUET_", 0) == 0) {
      const size_t equals = word.find('=');
      names.push_back(word.substr(0, equals));
      environment.emplace_back(names.back().c_str(), word.substr(equals + 1));
    } else if (word == "RUN") {
      arguments.insert(arguments.end(), {"run", "--device", GetParam(), "--network", "tiny.json"});
      if (std::string(one.line).find("--voxel-size") == std::string::npos) {
        arguments.insert(arguments.end(), {"--voxel-size", "0.5"});
      }
    } else {
      arguments.push_back(word == "D" ? GetParam() : word);
    }
  }
  const Finished finished = minuet(arguments);
  std::map<std::string, std::string> after = snapshot();
  EXPECT_EQ(finished.code, one.code) << finished.err;
  if (one.code != 0) {
    EXPECT_EQ(finished.out, "");
    EXPECT_THAT(finished.err, testing::StartsWith("minuet: "));
    EXPECT_THAT(finished.err, HasSubstr(one.says));
    EXPECT_THAT(one.line, testing::Not(HasSubstr(one.says)));  // an error that only echoes the line is none
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
  } else {
    EXPECT_THAT(finished.out, HasSubstr(one.says));
    EXPECT_THAT(finished.err, HasSubstr(one.warns));
    if (!*one.warns) {
      EXPECT_EQ(finished.err, "");
    }
  }
  bool is_first = true;
  for (const std::string& name : split(one.writes)) {
    const auto written = after.find(name);
    if (written == after.end()) {
      ADD_FAILURE() << name << " was not written";
      continue;
    }
    EXPECT_FALSE(written->second.empty()) << name;
    if (is_first && *one.digest) {
      EXPECT_THAT(sha256_hex(written->second), testing::StartsWith(one.digest)) << name;
    }
    is_first = false;
    after.erase(written);
    if (before_.count(name) == 0) std::filesystem::remove(name);
    if (before_.count(name) != 0) std::ofstream(name, std::ios::binary) << before_.at(name);
  }
  for (const auto& [name, bytes] : after) {
    const auto was = before_.find(name);
    EXPECT_TRUE(was != before_.end() && was->second == bytes) << name << " was changed";
  }
  for (const auto& [name, bytes] : before_) {
    const std::vector<std::string> named = split(one.writes);
    const bool may_change = std::count(named.begin(), named.end(), name) > 0;
    EXPECT_TRUE(may_change || after.count(name) > 0) << name << " is gone";
  }
}

TEST_P(CliTable, EveryLine) {
  if (!has_device_) MINUET_SKIP_OR_FAIL("gpu", "there is no usable GPU");
  before_ = snapshot();
  for (const CliCase& one : kCases) check(one);
}

INSTANTIATE_TEST_SUITE_P(On, CliTable, testing::Values("cpu", "cuda:0"), [](const auto& info) {
  return std::string(info.param).substr(0, info.param[1] == 'p' ? 3 : 4);
});

}  // namespace
}  // namespace minuet::tool
