#include "codegen/compile/resources.h"

#include <algorithm>
#include <optional>

#include "codegen/base/control_groups.h"
#include "codegen/base/cpu_count.h"
#include "codegen/base/system_file.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {
namespace {

/// Returns the number in the file, or nothing if there is no file or it says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  const std::string text = read_system_file(path);
  std::int64_t number = 0;
  if (llvm::StringRef(text).trim().getAsInteger(10, number)) return std::nullopt;
  return number;
}

/// Returns the number after `name` in a file whose lines are "name number unit".
std::optional<std::int64_t> read_field(const std::string& path, llvm::StringRef name) {
  const std::string text = read_system_file(path);
  for (llvm::StringRef rest = text; !rest.empty();) {
    const auto [line, next] = rest.split('\n');
    rest = next;
    const auto [word, value] = line.split(' ');
    std::int64_t number = 0;
    if (word == name && !value.ltrim().split(' ').first.getAsInteger(10, number)) return number;
  }
  return std::nullopt;
}

/// Holds names of memory files and fields of a control group, which depend on the version of control groups.
struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // This is a field of the file memory.stat.
};
constexpr MemoryFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

void limit_memory(const GroupFolder& group, Resources& resources) {
  const MemoryFiles& files = group.is_version2 ? kVersion2 : kVersion1;
  const std::optional<std::int64_t> limit = read_number(group.path + "/" + files.limit);
  if (!limit) return;
  // Cached file pages that were not used recently count as used, but are subtracted, because the system frees
  // them on demand.
  const std::int64_t used = read_number(group.path + "/" + files.usage).value_or(0) -
                            read_field(group.path + "/memory.stat", files.reclaimable).value_or(0);
  const std::int64_t left = std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, used));
  resources.memory_bytes = std::min(resources.memory_bytes, left);
}

}  // namespace

Resources available_resources(const std::string& root) {
  Resources resources;
  resources.cores = root.empty() ? cpu_count() : limit_by_groups(cpus_of_thread(), root);
  const std::optional<std::int64_t> available = read_field(root + "/proc/meminfo", "MemAvailable:");
  resources.memory_bytes = available ? *available * 1024 : INT64_MAX;
  for (const GroupFolder& group : control_groups(root, "memory")) limit_memory(group, resources);
  return resources;
}

}  // namespace minuet
