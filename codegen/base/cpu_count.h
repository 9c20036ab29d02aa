// How many CPUs this process may use: the one place where they are counted, for the threads of the CPU
// device, for loading and for the processes that compile.
#pragma once

#include <string>

namespace minuet {

/// The least of what the machine has, of the calling thread's affinity mask, and of the CPU quotas of this
/// process's control groups and of all groups above them; at least 1. A part of a CPU counts as one. Quotas
/// are read once a process, the affinity mask at every call. Thread-safe.
int cpu_count();

/// What the machine has, or the calling thread's affinity mask where that is less.
int cpus_of_thread();

/// `cpus`, or what the control groups allow where that is less. `root` is the folder in which proc/ and sys/
/// lie.
int limit_by_groups(int cpus, const std::string& root);

}  // namespace minuet
