#include "codegen/base/control_groups.h"

#include <algorithm>

#include "codegen/base/system_file.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

using Words = llvm::SmallVector<llvm::StringRef, 16>;

std::vector<std::string> split_list(llvm::StringRef list) {
  Words words;
  list.split(words, ',', -1, /*KeepEmpty=*/false);
  return {words.begin(), words.end()};
}

/// mountinfo writes blanks, tabs, line ends and backslashes of paths as \040, \011, \012 and \134.
std::string unescaped(llvm::StringRef text) {
  std::string path;
  while (!text.empty()) {
    unsigned code = 0;
    if (text.size() >= 4 && text[0] == '\\' && !text.substr(1, 3).getAsInteger(8, code) && code < 256) {
      path += static_cast<char>(code);
      text = text.drop_front(4);
    } else {
      path += text.front();
      text = text.drop_front();
    }
  }
  return path;
}

bool has(const std::vector<std::string>& controllers, llvm::StringRef controller) {
  return controllers.empty() || llvm::is_contained(controllers, controller);
}

/// The folder of the group `path` below a mount. A container may see its group under the name that it has on
/// the host, which is not below what is mounted: the mount is the container's own group then.
std::string folder_below(const GroupMount& mount, llvm::StringRef path) {
  llvm::StringRef group = llvm::StringRef(mount.group).rtrim('/');
  if (!path.consume_front(group) || (!path.empty() && path.front() != '/') || path.contains("/..")) return "";
  return path.rtrim('/').str();
}

/// By custom, where mountinfo does not say.
GroupMount usual_mount(const GroupMembership& membership, llvm::StringRef controller) {
  const std::string folder = "/sys/fs/cgroup";
  return {membership.controllers, "/",
          membership.controllers.empty() ? folder : folder + "/" + controller.str()};
}

}  // namespace

std::vector<GroupMembership> parse_group_memberships(llvm::StringRef text) {
  std::vector<GroupMembership> memberships;
  Words lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef line : lines) {
    const auto [number, rest] = line.split(':');
    const auto [controllers, path] = rest.split(':');
    if (path.empty() || path.front() != '/') continue;
    if (controllers.empty() != (number == "0")) continue;  // "0::" is version 2, and nothing else is
    memberships.push_back({split_list(controllers), path.str()});
  }
  return memberships;
}

std::vector<GroupMount> parse_group_mounts(llvm::StringRef text) {
  std::vector<GroupMount> mounts;
  Words lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef line : lines) {
    // "30 23 0:26 /group /folder rw,nosuid shared:9 - cgroup2 source rw,cpu": any number of words before the
    // "-".
    const auto [before, after] = line.split(" - ");
    Words place, kind;
    before.split(place, ' ', -1, /*KeepEmpty=*/false);
    after.split(kind, ' ', -1, /*KeepEmpty=*/false);
    if (place.size() < 5 || kind.size() < 3) continue;
    if (kind[0] == "cgroup2") {
      mounts.push_back({{}, unescaped(place[3]), unescaped(place[4])});
    } else if (kind[0] == "cgroup") {
      mounts.push_back({split_list(kind[2]), unescaped(place[3]), unescaped(place[4])});
    }
  }
  return mounts;
}

std::vector<GroupFolder> control_groups(const std::string& root, llvm::StringRef controller) {
  std::vector<GroupFolder> folders;
  const std::vector<GroupMount> mounts = parse_group_mounts(read_system_file(root + "/proc/self/mountinfo"));
  for (const GroupMembership& membership :
       parse_group_memberships(read_system_file(root + "/proc/self/cgroup"))) {
    if (!has(membership.controllers, controller)) continue;
    const bool is_version2 = membership.controllers.empty();
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const GroupMount& candidate) {
      return candidate.controllers.empty() == is_version2 && has(candidate.controllers, controller);
    });
    const GroupMount used = mount != mounts.end() ? *mount : usual_mount(membership, controller);
    const std::string below = folder_below(used, membership.path);
    for (llvm::StringRef path = below;; path = path.rsplit('/').first.rtrim('/')) {
      folders.push_back({root + used.folder + path.str(), is_version2});
      if (path.empty()) break;
    }
  }
  return folders;
}

}  // namespace minuet
