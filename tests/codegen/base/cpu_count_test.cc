#include "codegen/base/cpu_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <thread>

#include "codegen/base/control_groups.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kMachine = 64;  // CPUs

/// A file below the root of a machine that is not there.
struct File {
  std::string name, text;
};

struct Case {
  std::string what;
  std::vector<File> files;
  int cpus;
};

const std::string kVersion2 =
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kVersion1 =
    "25 24 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
    "27 25 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "28 25 0:25 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "29 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:4 - cgroup cgroup rw,cpu,cpuacct\n";
const std::string kGroups1 = "4:cpuset:/a/b\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a/b\n";

std::vector<File> version2(const std::string& group, std::vector<File> files) {
  files.push_back({"proc/self/cgroup", "0::" + group + "\n"});
  files.push_back({"proc/self/mountinfo", kVersion2});
  return files;
}

std::vector<File> version1(std::vector<File> files) {
  files.push_back({"proc/self/cgroup", kGroups1});
  files.push_back({"proc/self/mountinfo", kVersion1});
  return files;
}

std::vector<File> quota1(const std::string& group, const std::string& quota, const std::string& period) {
  const std::string folder = "sys/fs/cgroup/cpu,cpuacct" + group;
  return {{folder + "/cpu.cfs_quota_us", quota}, {folder + "/cpu.cfs_period_us", period}};
}

/// Makes a line of mountinfo that mounts a group of version 2.
std::string mount2(const std::string& group, const std::string& folder) {
  return "29 23 0:26 " + group + " " + folder + " rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
}

/// Makes a line of mountinfo that mounts a group of version 1 with the controller cpu.
std::string mount1(const std::string& group, const std::string& folder) {
  return "29 25 0:26 " + group + " " + folder + " rw - cgroup cgroup rw,cpu,cpuacct\n";
}

/// Several mounts show groups of one hierarchy, and only one of them shows the process's own group.
std::vector<Case> cases_of_mounts() {
  const std::string at = "sys/fs/cgroup", host = "host/sys/fs/cgroup";
  const std::string own = mount2("/", "/sys/fs/cgroup"), parents = mount2("/../..", "/host/sys/fs/cgroup");
  const std::string foreign = mount2("/other", "/foreign");
  const auto machine = [](const std::string& groups, const std::string& mounts, std::vector<File> files) {
    files.push_back({"proc/self/cgroup", groups});
    files.push_back({"proc/self/mountinfo", mounts});
    return files;
  };
  const auto quota1_at = [](const std::string& folder, const std::string& quota) -> std::vector<File> {
    return {{folder + "/cpu.cfs_quota_us", quota}, {folder + "/cpu.cfs_period_us", "100000\n"}};
  };
  const File two = {at + "/cpu.max", "200000 100000\n"};
  const File one_on_host = {host + "/cpu.max", "100000 100000\n"};
  const File one_of_other = {"foreign/cpu.max", "100000 100000\n"};
  const std::string other1 = mount1("/other", "/foreign"), root1 = mount1("/", "/sys/fs/cgroup/cpu");
  return {
      {"the host's groups first", machine("0::/\n", parents + own, {two, one_on_host}), 2},
      {"the host's groups last", machine("0::/\n", own + parents, {two, one_on_host}), 2},
      {"the host's groups, and no quota of its own", machine("0::/\n", parents + own, {one_on_host}),
       kMachine},
      {"another's quota first", machine("0::/a\n", foreign + own, {one_of_other}), kMachine},
      {"another's quota last", machine("0::/a\n", own + foreign, {one_of_other}), kMachine},
      {"its own quota behind another's mount",
       machine("0::/a\n", foreign + own, {{at + "/a/cpu.max", "300000 100000\n"}}), 3},
      {"the mount that shows the group more closely",
       machine("0::/pods/a\n", mount2("/", "/all") + mount2("/pods", "/pods") + mount2("/pods/a/b", "/b"),
               {{"pods/a/cpu.max", "300000 100000\n"}, {"b/cpu.max", "100000 100000\n"}}),
       3},
      {"of two that show the same the usual one",
       machine("0::/a\n", mount2("/", "/copy") + own + mount2("/", "/late"),
               {{at + "/a/cpu.max", "300000 100000\n"}}),
       3},
      {"a container's group by its host's name, beside another mount",
       machine("0::/kubepods/pod7\n", foreign + mount2("/../x", "/sys/fs/cgroup") + mount2("/b", "/late"),
               {two, one_of_other}),
       2},
      {"beside the namespace, shown by the parents' mount",
       machine("0::/../beside\n", own + mount2("/..", "/up"),
               {{"up/beside/cpu.max", "300000 100000\n"}, two}),
       3},
      {"a group whose name begins with points",
       machine("0::/..a\n", own, {{at + "/..a/cpu.max", "300000 100000\n"}}), 3},
      {"version 1, another's quota first",
       machine("3:cpu,cpuacct:/a\n", other1 + root1, quota1_at("foreign", "100000\n")), kMachine},
      {"version 1, its own behind another's mount",
       machine("3:cpu,cpuacct:/a\n", other1 + root1, quota1_at(at + "/cpu/a", "300000\n")), 3},
      {"version 1, a container whose host's groups are mounted too",
       machine("3:cpu,cpuacct:/docker/7\n",
               mount1("/", "/host/cpu") + mount1("/docker/7", "/sys/fs/cgroup/cpu"),
               quota1_at(at + "/cpu", "200000\n")),
       2},
  };
}

std::vector<Case> cases() {
  const std::string at = "sys/fs/cgroup";
  const std::string container =  // what is mounted is the container's group, by its name on the host
      "29 23 0:26 /docker/0123 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
  return {
      {"nothing there", {}, kMachine},
      {"no groups",
       {{"proc/self/cgroup", "no groups\n0:\n::\n"}, {"proc/self/mountinfo", "none\n - \n"}},
       kMachine},
      {"no quota", version2("/a", {{at + "/a/cpu.max", "max 100000\n"}}), kMachine},
      {"its own group", version2("/a", {{at + "/a/cpu.max", "300000 100000\n"}}), 3},
      {"the group above", version2("/a/b/c", {{at + "/a/cpu.max", "200000 100000\n"}}), 2},
      {"the root", version2("/a/b/c", {{at + "/cpu.max", "500000 100000\n"}}), 5},
      {"the least on the way",
       version2("/a/b", {{at + "/a/b/cpu.max", "400000 100000\n"},
                         {at + "/a/cpu.max", "200000 100000\n"},
                         {at + "/cpu.max", "max 100000"}}),
       2},
      {"the inner one is the least",
       version2("/a/b", {{at + "/a/b/cpu.max", "100000 50000\n"}, {at + "/a/cpu.max", "900000 100000\n"}}),
       2},
      {"a group beside it",
       version2("/a", {{at + "/b/cpu.max", "100000 100000\n"}, {at + "/ab/cpu.max", "1 1\n"}}), kMachine},
      {"a part of a CPU", version2("/", {{at + "/cpu.max", "5000 100000\n"}}), 1},
      {"one and a part", version2("/", {{at + "/cpu.max", "100001 100000\n"}}), 2},
      {"more than there is", version2("/", {{at + "/cpu.max", "90000000 100000\n"}}), kMachine},
      {"a quota past 32 bits", version2("/", {{at + "/cpu.max", "9223372036854775807 1\n"}}), kMachine},
      {"damaged", version2("/", {{at + "/cpu.max", "100000\n"}}), kMachine},
      {"damaged period", version2("/", {{at + "/cpu.max", "100000 0\n"}}), kMachine},
      {"negative", version2("/", {{at + "/cpu.max", "-100000 100000\n"}}), kMachine},
      {"version 1", version1(quota1("/a/b", "300000\n", "100000\n")), 3},
      {"version 1, above", version1(quota1("/a", "300000\n", "100000\n")), 3},
      {"version 1, the root", version1(quota1("", "300000\n", "100000\n")), 3},
      {"version 1, none", version1(quota1("/a/b", "-1\n", "100000\n")), kMachine},
      {"version 1 has no cpu.max", version1({{at + "/cpu,cpuacct/a/b/cpu.max", "100000 100000\n"}}),
       kMachine},
      {"another controller's folder",
       version1({{at + "/cpuset/a/b/cpu.cfs_quota_us", "100000\n"},
                 {at + "/cpuset/a/b/cpu.cfs_period_us", "100000\n"}}),
       kMachine},
      {"a container's own group",
       {{"proc/self/cgroup", "3:cpu:/docker/0123\n"},
        {"proc/self/mountinfo", container},
        {at + "/cpu/cpu.cfs_quota_us", "200000\n"},
        {at + "/cpu/cpu.cfs_period_us", "100000\n"}},
       2},
      {"a group in a container",
       {{"proc/self/cgroup", "3:cpu:/docker/0123/inner\n"},
        {"proc/self/mountinfo", container},
        {at + "/cpu/inner/cpu.cfs_quota_us", "200000\n"},
        {at + "/cpu/inner/cpu.cfs_period_us", "100000\n"}},
       2},
      {"a name of the host that is not mounted here",
       version2("/kubepods/pod7", {{at + "/cpu.max", "200000 100000\n"}}), 2},
      {"outside of the namespace", version2("/../other", {{at + "/cpu.max", "200000 100000\n"}}), 2},
      {"a group whose name only begins as the mount's",
       {{"proc/self/cgroup", "3:cpu:/docker/01234\n"},
        {"proc/self/mountinfo", container},
        {at + "/cpu/cpu.cfs_quota_us", "200000\n"},
        {at + "/cpu/cpu.cfs_period_us", "100000\n"},
        {at + "/cpu4/cpu.cfs_quota_us", "100000\n"},
        {at + "/cpu4/cpu.cfs_period_us", "100000\n"}},
       2},
      {"mounted elsewhere, with a blank",
       {{"proc/self/cgroup", "0::/a\n"},
        {"proc/self/mountinfo", "29 23 0:26 / /my\\040groups rw - cgroup2 none rw\n"},
        {"my groups/a/cpu.max", "200000 100000\n"}},
       2},
      {"both versions at once",
       {{"proc/self/cgroup", "3:cpu,cpuacct:/a\n0::/b\n"},
        {"proc/self/mountinfo", kVersion1 + "40 25 0:40 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"},
        {at + "/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n"},
        {at + "/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
        {at + "/unified/b/cpu.max", "300000 100000\n"}},
       3},
      {"without mountinfo, version 2",
       {{"proc/self/cgroup", "0::/a\n"}, {at + "/a/cpu.max", "200000 100000\n"}},
       2},
      {"without mountinfo, version 1",
       {{"proc/self/cgroup", "5:cpu,cpuacct:/a\n"},
        {at + "/cpu/a/cpu.cfs_quota_us", "200000\n"},
        {at + "/cpu/a/cpu.cfs_period_us", "100000\n"}},
       2},
  };
}

void expect_cpus(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    const TemporaryFolder root;
    for (const File& file : test.files) {
      const std::filesystem::path path = root / file.name;
      std::filesystem::create_directories(path.parent_path());
      write_text(path, file.text);
    }
    EXPECT_EQ(limit_by_groups(kMachine, root.path()), test.cpus) << test.what;
    EXPECT_EQ(limit_by_groups(1, root.path()), 1) << test.what;
  }
}

TEST(CpuCount, TheLeastQuotaOnTheWayToTheRoot) { expect_cpus(cases()); }
TEST(CpuCount, TheMountThatShowsTheGroup) { expect_cpus(cases_of_mounts()); }

TEST(CpuCount, MountsAreReadFieldByField) {
  const std::vector<GroupMount> mounts = parse_group_mounts(
      kVersion1 + "1 2 0:1 /a\\134b /c\\011d rw - cgroup2 x y\n1 2 0:1 / /short rw - cgroup2\nrubbish\n\n");
  ASSERT_EQ(mounts.size(), 4u) << "a tmpfs is none";
  EXPECT_THAT(mounts[2].controllers, ElementsAre("rw", "cpu", "cpuacct"));
  EXPECT_EQ(mounts[2].folder, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_THAT(mounts[3].controllers, IsEmpty());
  EXPECT_EQ(mounts[3].group, "/a\\b");
  EXPECT_EQ(mounts[3].folder, "/c\td");
}

/// On a thread of its own, whose mask is its own.
TEST(CpuCount, TheAffinityMaskOfTheThread) {
  const int before = cpus_of_thread();
  EXPECT_GE(before, 1);
  EXPECT_LE(before, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::thread([] {
    cpu_set_t mask, one;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cpus_of_thread(), 1);
    EXPECT_EQ(cpu_count(), 1);
  }).join();
  EXPECT_EQ(cpus_of_thread(), before) << "other threads keep theirs";
  EXPECT_LE(cpu_count(), before);
}

}  // namespace
}  // namespace minuet
