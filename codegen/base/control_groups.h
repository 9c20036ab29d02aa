// Finds the control groups (cgroups, version 1 and 2) that this process is in. Containers, services and batch
// systems set limits there.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// A line of /proc/self/cgroup: "0::/path" of version 2, "5:cpu,cpuacct:/path" of version 1.
struct GroupMembership {
  std::vector<std::string> controllers;  // empty: version 2, where a group has all controllers
  std::string path;                      // from the root of its hierarchy
};
std::vector<GroupMembership> parse_group_memberships(llvm::StringRef text);

/// A line of /proc/self/mountinfo that mounts control groups.
struct GroupMount {
  std::vector<std::string> controllers;  // as above
  std::string group;                     // the group that is mounted there: "/", or a container's own
  std::string folder;                    // where it is mounted
};
std::vector<GroupMount> parse_group_mounts(llvm::StringRef text);

/// The folder of one control group.
struct GroupFolder {
  std::string path;
  bool is_version2 = false;
};
/// The groups of this process that have `controller` ("cpu", "memory"), with all groups above them as far as
/// their mount shows them, the innermost first. `root` is the folder in which proc/ and sys/ lie. If several
/// mounts show a group, the one that shows it most closely is used, and of equal ones that in sys/fs/cgroup.
/// Groups are looked for in sys/fs/cgroup if mountinfo names no mount. A folder of the list need not exist.
std::vector<GroupFolder> control_groups(const std::string& root, llvm::StringRef controller);

}  // namespace minuet
