// Finds the control groups (cgroups, version 1 and 2) that this process is in. Containers, services and batch
// systems set limits there.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// Holds a line of /proc/self/cgroup, such as "0::/path" in version 2 or "5:cpu,cpuacct:/path" in version 1.
struct GroupMembership {
  std::vector<std::string> controllers;  ///< Is empty for version 2, where a group has all controllers.
  std::string path;                      ///< Gives the group's path from the root of its hierarchy.
};
std::vector<GroupMembership> parse_group_memberships(llvm::StringRef text);

/// Holds a line of /proc/self/mountinfo that mounts control groups.
struct GroupMount {
  std::vector<std::string> controllers;  ///< Is empty for control groups of version 2.
  /// Names the group whose folder is mounted: "/" for the root group, or the group of a container, for
  /// example.
  std::string group;
  std::string folder;  ///< Gives the path of the mount point.
};
std::vector<GroupMount> parse_group_mounts(llvm::StringRef text);

/// Names the folder of one control group.
struct GroupFolder {
  std::string path;
  bool is_version2 = false;
};
/// Returns the groups of this process that have `controller` ("cpu" or "memory"), and all their parent groups
/// that are visible in the mount, the innermost first. `root` is the folder that contains proc/ and sys/. If
/// a group is visible in several mounts, the function uses the mount with the longest group path, and among
/// equally long ones the mount in sys/fs/cgroup. If mountinfo names no mount, it assumes one in
/// sys/fs/cgroup. The returned folders need not exist.
std::vector<GroupFolder> control_groups(const std::string& root, llvm::StringRef controller);

}  // namespace minuet
