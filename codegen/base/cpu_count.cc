#include "codegen/base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "codegen/base/control_groups.h"
#include "codegen/base/system_file.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {
namespace {

/// Limits the size of the affinity mask, in CPUs. No machine has that many.
constexpr std::size_t kMostCpus = 1 << 20;

std::optional<std::int64_t> read_number(llvm::StringRef text) {
  std::int64_t number = 0;
  if (text.trim().getAsInteger(10, number)) return std::nullopt;
  return number;
}

/// Returns quota / period as a number of CPUs, rounded up. Returns std::nullopt if there is no quota, which
/// is the case if the control group's file contains "max" or -1.
std::optional<std::int64_t> cpus_of_quota(std::optional<std::int64_t> quota,
                                          std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

std::optional<std::int64_t> cpus_of_group(const GroupFolder& group) {
  if (group.is_version2) {
    // The file contains the quota and the period, for example "200000 100000" or "max 100000".
    const std::string text = read_system_file(group.path + "/cpu.max");
    const auto [quota, period] = llvm::StringRef(text).trim().split(' ');
    return cpus_of_quota(read_number(quota), read_number(period));
  }
  return cpus_of_quota(read_number(read_system_file(group.path + "/cpu.cfs_quota_us")),
                       read_number(read_system_file(group.path + "/cpu.cfs_period_us")));
}

}  // namespace

int cpus_of_thread() {
  const int machine = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (std::size_t cpus = CPU_SETSIZE; cpus <= kMostCpus; cpus *= 2) {
    std::vector<cpu_set_t> mask(cpus / CPU_SETSIZE);
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) {
      return std::clamp(CPU_COUNT_S(bytes, mask.data()), 1, machine);
    }
    if (errno != EINVAL) break;  // EINVAL means that the mask is too short, so a longer one is tried.
  }
  return machine;
}

int limit_by_groups(int cpus, const std::string& root) {
  for (const GroupFolder& group : control_groups(root, "cpu")) {
    if (const auto allowed = cpus_of_group(group)) {
      cpus = static_cast<int>(std::clamp<std::int64_t>(*allowed, 1, cpus));
    }
  }
  return cpus;
}

int cpu_count() {
  static const int allowed = limit_by_groups(INT_MAX, "");
  return std::min(cpus_of_thread(), allowed);
}

}  // namespace minuet
