#include "codegen/helper/resources.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "llvm/ADT/StringRef.h"

namespace minuet {
namespace {

/// The number that the file begins with; none where there is no file, or it says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The number behind `name` in a file of names and numbers.
std::optional<std::int64_t> read_field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word, rest;
  std::int64_t number = 0;
  while (file >> word >> number && std::getline(file, rest)) {
    if (word == name) return number;
  }
  return std::nullopt;
}

/// What a version of control groups calls its files.
struct GroupFiles {
  const char* cpu;  // the folders in which the groups lie
  const char* memory;
  const char* limit;  // all below: of memory
  const char* usage;
  const char* reclaimable;  // a field of memory.stat
};
constexpr GroupFiles kVersion1 = {"sys/fs/cgroup/cpu", "sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"sys/fs/cgroup", "sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file"};

void limit_cores(const std::string& folder, Resources& resources) {
  std::ifstream file(folder + "/cpu.max");  // "200000 100000", or "max 100000"
  std::int64_t quota = 0, period = 0;
  if (!(file >> quota >> period)) {
    quota = read_number(folder + "/cpu.cfs_quota_us").value_or(-1);  // -1: no limit
    period = read_number(folder + "/cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return;
  const std::int64_t cores = (quota + period - 1) / period;
  resources.cores = static_cast<int>(std::clamp<std::int64_t>(cores, 1, resources.cores));
}

void limit_memory(const std::string& folder, const GroupFiles& files, Resources& resources) {
  const std::optional<std::int64_t> limit = read_number(folder + "/" + files.limit);
  if (!limit) return;
  // Copies of files that nobody used for a while count as used, and go when there is need.
  const std::int64_t used = read_number(folder + "/" + files.usage).value_or(0) -
                            read_field(folder + "/memory.stat", files.reclaimable).value_or(0);
  const std::int64_t left = std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, used));
  resources.memory_bytes = std::min(resources.memory_bytes, left);
}

/// Calls limit(folder) for the group `path` below `mount` and for all above it. In a container the path may
/// be the host's, which is not there: what is mounted is the container's own group then.
template <class Limit>
void for_each_group(const std::string& mount, llvm::StringRef path, const Limit& limit) {
  for (;; path = path.rsplit('/').first) {
    path = path.rtrim('/');
    limit(mount + path.str());
    if (path.empty()) return;
  }
}

}  // namespace

Resources available_resources(const std::string& root) {
  Resources resources;
  resources.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::optional<std::int64_t> available = read_field(root + "/proc/meminfo", "MemAvailable:");
  resources.memory_bytes = available ? *available * 1024 : INT64_MAX;
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/path" of version 2; "5:cpu,cpuacct:/path" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const auto [controllers, path] = llvm::StringRef(line).split(':').second.split(':');
    const std::string listed = "," + controllers.str() + ",";
    const GroupFiles& files = controllers.empty() ? kVersion2 : kVersion1;
    if (controllers.empty() || listed.find(",cpu,") != std::string::npos) {
      for_each_group(root + "/" + files.cpu, path,
                     [&](const std::string& folder) { limit_cores(folder, resources); });
    }
    if (controllers.empty() || listed.find(",memory,") != std::string::npos) {
      for_each_group(root + "/" + files.memory, path,
                     [&](const std::string& folder) { limit_memory(folder, files, resources); });
    }
  }
  return resources;
}

}  // namespace minuet
