// Counts the CPUs that this process may use. The threads of the CPU device, the loading of parameters and the
// number of compiler processes all use this count.
#pragma once

#include <string>

namespace minuet {

/// Returns the minimum of the machine's CPUs, the calling thread's affinity mask, and the CPU quotas of this
/// process's control groups and their parents, but at least 1. Quotas are rounded up to whole CPUs. They are
/// read once per process, the affinity mask at every call. Thread-safe.
int cpu_count();

/// Returns the minimum of the machine's CPUs and the calling thread's affinity mask, but at least 1.
int cpus_of_thread();

/// Returns the minimum of `cpus` and the CPUs that the control groups allow. `root` is the folder that
/// contains proc/ and sys/.
int limit_by_groups(int cpus, const std::string& root);

}  // namespace minuet
