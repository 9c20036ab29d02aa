// Finds the control groups (cgroups, version 1 and 2) that this process is in. Containers, services and batch
// systems set limits there.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// A line of /proc/self/cgroup, such as "0::/path" in version 2 or "5:cpu,cpuacct:/path" in version 1.
struct GroupMembership {
  std::vector<std::string> controllers;  ///< empty for version 2, where a group has all controllers
  std::string path;                      ///< the group's path from the root of its hierarchy
};
std::vector<GroupMembership> parse_group_memberships(llvm::StringRef text);

/// A line of /proc/self/mountinfo that mounts control groups.
struct GroupMount {
  std::vector<std::string> controllers;  ///< empty for version 2
  std::string group;                     ///< the mounted group: "/", or for example that of a container
  std::string folder;                    ///< the mount point
};
std::vector<GroupMount> parse_group_mounts(llvm::StringRef text);

/// The folder of one control group.
struct GroupFolder {
  std::string path;
  bool is_version2 = false;
};
/// Returns the groups of this process that have `controller` ("cpu", "memory") and all their parent groups
/// that are visible in the mount, the innermost first. `root` is the folder that contains proc/ and sys/. If
/// a group is visible in several mounts, the mount with the longest group path is used, and among equal ones
/// the mount in sys/fs/cgroup. If mountinfo names no mount, sys/fs/cgroup is assumed. The returned folders
/// need not exist.
std::vector<GroupFolder> control_groups(const std::string& root, llvm::StringRef controller);

}  // namespace minuet
