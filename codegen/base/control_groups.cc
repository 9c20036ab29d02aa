#include "codegen/base/control_groups.h"

#include <optional>
#include <utility>

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

/// Decodes a path of mountinfo, in which \040, \011, \012 and \134 stand for a blank, a tab, a line end and a
/// backslash.
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

constexpr llvm::StringLiteral kUsualFolder = "/sys/fs/cgroup";

/// Returns true if `path` is `folder` or is inside it.
bool is_in(llvm::StringRef path, llvm::StringRef folder) {
  folder = folder.rtrim('/');
  return path.consume_front(folder) && (path.empty() || path.front() == '/');
}

bool has_parent_step(llvm::StringRef path) {
  Words steps;
  path.split(steps, '/', -1, /*KeepEmpty=*/false);
  return llvm::is_contained(steps, "..");
}

/// Returns the path of a group relative to the mounted group, or std::nullopt if the group is not visible in
/// the mount. A group outside the cgroup namespace has a path such as "/../other" and is visible only in a
/// mount of "/..".
std::optional<std::string> path_below(const GroupMount& mount, llvm::StringRef group) {
  if (!is_in(group, mount.group)) return std::nullopt;
  const llvm::StringRef below = group.drop_front(llvm::StringRef(mount.group).rtrim('/').size()).rtrim('/');
  if (has_parent_step(below)) return std::nullopt;
  return below.str();
}

/// Holds a mount of the hierarchy of control groups that the process is in, and the path of the process's
/// group below the mount point.
struct GroupPlace {
  const GroupMount* mount;
  std::string below;
};

/// Returns true if `mount` is a better choice than `other`. The process's control group must be visible in
/// both mounts or in neither. If it is visible in both (`shows_group`), a longer path of the mounted group is
/// better, because a mount with a shorter one also contains other groups, for example a host folder mounted
/// in a container. Among mounts with equally long paths, one in kUsualFolder is better.
bool is_better(const GroupMount& mount, const GroupMount& other, bool shows_group) {
  const auto rank = [&](const GroupMount& candidate) {
    return std::pair(shows_group ? candidate.group.size() : 0, is_in(candidate.folder, kUsualFolder));
  };
  return rank(mount) > rank(other);
}

/// Chooses the best mount, if possible one in which the control group `group` is visible. If it is visible in
/// no mount, the process may be in a container and see the group's path on the host. The mount in
/// kUsualFolder then shows the container's own group.
GroupPlace choose_place(const std::vector<const GroupMount*>& mounts, llvm::StringRef group) {
  GroupPlace best = {nullptr, ""};
  bool best_shows = false;
  for (const GroupMount* const mount : mounts) {
    const std::optional<std::string> below = path_below(*mount, group);
    const bool shows = below.has_value();
    if (best.mount && shows <= best_shows && (shows < best_shows || !is_better(*mount, *best.mount, shows)))
      continue;
    best = {mount, below.value_or("")};
    best_shows = shows;
  }
  return best;
}

/// Returns the mount of control groups that a system usually has. It is used if mountinfo names no such
/// mount.
GroupMount usual_mount(const GroupMembership& membership, llvm::StringRef controller) {
  const std::string folder = kUsualFolder.str();
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
    // Only lines of version 2 have the number 0, and only they name no controllers. A line for which just one
    // of the two holds is skipped.
    if (controllers.empty() != (number == "0")) continue;
    memberships.push_back({split_list(controllers), path.str()});
  }
  return memberships;
}

std::vector<GroupMount> parse_group_mounts(llvm::StringRef text) {
  std::vector<GroupMount> mounts;
  Words lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef line : lines) {
    // A line has the form "30 23 0:26 /group /folder rw,nosuid shared:9 - cgroup2 source rw,cpu". The number
    // of words before the "-" varies, but the fourth is always the mounted group and the fifth the mount
    // point.
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
    std::vector<const GroupMount*> candidates;
    for (const GroupMount& mount : mounts) {
      if (mount.controllers.empty() == is_version2 && has(mount.controllers, controller))
        candidates.push_back(&mount);
    }
    const GroupMount usual = usual_mount(membership, controller);
    if (candidates.empty()) candidates.push_back(&usual);
    const GroupPlace place = choose_place(candidates, membership.path);
    for (llvm::StringRef path = place.below;; path = path.rsplit('/').first.rtrim('/')) {
      folders.push_back({root + place.mount->folder + path.str(), is_version2});
      if (path.empty()) break;
    }
  }
  return folders;
}

}  // namespace minuet
