// Counts the CPUs that this process may use. The threads of the CPU device, the loading of parameters and the
// number of compiler processes all use this count.
#pragma once

#include <string>

namespace minuet {

/// Returns the minimum of three numbers of CPUs, but at least 1: those of the machine, those in the calling
/// thread's affinity mask, and those that the quotas of this process's control groups and their parents
/// allow. Quotas are rounded up to whole CPUs. The function reads the quotas once per process and the
/// affinity mask at every call. It is thread-safe.
int cpu_count();

/// Returns the smaller of two numbers of CPUs, but at least 1: those of the machine, and those in the calling
/// thread's affinity mask.
int cpus_of_thread();

/// Returns the smaller of `cpus` and the number of CPUs that the control groups allow. `root` is the folder
/// that contains proc/ and sys/.
int limit_by_groups(int cpus, const std::string& root);

}  // namespace minuet
