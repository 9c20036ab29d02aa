#include "codegen/compile/resources.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "codegen/base/cpu_count.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// A machine with 64 GiB to spare, and control groups.
class Machine {
 public:
  explicit Machine(const std::string& group) {
    put("proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 67108864 kB\n");
    put("proc/self/cgroup", group);
  }
  Machine& put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, text);
    return *this;
  }
  Resources resources() const { return available_resources(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

const int kCores = cpus_of_thread();

TEST(Resources, R19_WithoutGroupsAllOfTheMachineIsThere) {
  for (const char* groups : {"", "0::/\n", "0::/user.slice/nobody.scope\n", "no groups at all\n"}) {
    const Resources resources = Machine(groups).resources();
    EXPECT_EQ(resources.cores, kCores) << groups;
    EXPECT_EQ(resources.memory_bytes, 64 * kGiB) << groups;
  }
  EXPECT_EQ(available_resources("/nowhere").memory_bytes, INT64_MAX);
}

TEST(Resources, R19_EachGroupAboveTheProcessLimitsIt) {
  Machine machine("0::/outer/inner\n");
  machine.put("sys/fs/cgroup/outer/cpu.max", "100000 100000\n")
      .put("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
      .put("sys/fs/cgroup/outer/memory.max", "max\n")
      .put("sys/fs/cgroup/outer/inner/memory.max", std::to_string(8 * kGiB) + "\n");
  EXPECT_EQ(machine.resources().cores, 1);
  EXPECT_EQ(machine.resources().memory_bytes, 8 * kGiB);
  // What is in use is gone, but for copies of files.
  machine.put("sys/fs/cgroup/outer/inner/memory.current", std::to_string(6 * kGiB) + "\n")
      .put("sys/fs/cgroup/outer/inner/memory.stat",
           "anon 5\ninactive_file " + std::to_string(3 * kGiB) + "\nactive_file 7\n");
  EXPECT_EQ(machine.resources().memory_bytes, 5 * kGiB);
  machine.put("sys/fs/cgroup/outer/memory.max", std::to_string(2 * kGiB) + "\n");
  EXPECT_EQ(machine.resources().memory_bytes, 2 * kGiB);
  machine.put("sys/fs/cgroup/outer/memory.current", std::to_string(3 * kGiB) + "\n");
  EXPECT_EQ(machine.resources().memory_bytes, 0);
}

TEST(Resources, R19_APartOfACoreIsACore) {
  EXPECT_EQ(Machine("0::/\n").put("sys/fs/cgroup/cpu.max", "5000 100000\n").resources().cores, 1);
  EXPECT_EQ(Machine("0::/\n").put("sys/fs/cgroup/cpu.max", "90000000 100000\n").resources().cores, kCores);
}

/// As a container of docker's sees its own group, under the name that it has on the host.
TEST(Resources, R19_AContainersGroupLiesWhereGroupsAreMounted) {
  Machine machine("0::/docker/0123\n");
  machine.put("sys/fs/cgroup/memory.max", std::to_string(kGiB) + "\n");
  EXPECT_EQ(machine.resources().memory_bytes, kGiB);
}

/// The memory of another group is not that of the process, wherever its mount stands in the list.
TEST(Resources, TheMountThatShowsTheGroup) {
  const std::string own = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  const std::string other = "29 23 0:26 /other /foreign rw - cgroup2 cgroup2 rw\n";
  for (const std::string& mounts : {own + other, other + own}) {
    Machine machine("0::/a\n");
    machine.put("proc/self/mountinfo", mounts).put("foreign/memory.max", std::to_string(kGiB) + "\n");
    EXPECT_EQ(machine.resources().memory_bytes, 64 * kGiB) << mounts;
    machine.put("sys/fs/cgroup/a/memory.max", std::to_string(3 * kGiB) + "\n");
    EXPECT_EQ(machine.resources().memory_bytes, 3 * kGiB) << mounts;
  }
}

TEST(Resources, R19_GroupsOfVersion1) {
  Machine machine("12:cpuset:/a\n5:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/a\n");
  machine.put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n")
      .put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
      .put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", std::to_string(4 * kGiB) + "\n")
      .put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", std::to_string(2 * kGiB) + "\n")
      .put("sys/fs/cgroup/memory/a/b/memory.stat",
           "cache 1\ntotal_inactive_file " + std::to_string(kGiB) + "\n");
  EXPECT_EQ(machine.resources().cores, 1);
  EXPECT_EQ(machine.resources().memory_bytes, 3 * kGiB);
  machine.put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(machine.resources().cores, kCores);
}

}  // namespace
}  // namespace minuet
