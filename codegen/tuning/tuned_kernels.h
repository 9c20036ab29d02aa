// Identifies the kernels among which an operation of tuning chooses. Every result contains this identity. All
// functions are pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/tuning/search_space.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Describes a family of kernels, or of calls of a library, among which tuning chooses.
struct TunedFamily {
  const char* name;
  Operation operation;  // This operation chooses among the members of the family.
  int version;          // Increase it when an edit changes which member is fastest.
  std::string spec;     // This is the kernel with its default Spec, or empty if it has no Spec.
};

using KernelsDigests = std::map<Operation, std::string>;

/// Returns for each operation a digest of the families and tasks among which it chooses. These are its own
/// and, for a dataflow, those of all kernels that run a layer. The digest does not cover the text of headers,
/// so an edit of a comment, or an edit of code that does not change its speed, invalidates no result.
KernelsDigests kernels_digests(llvm::ArrayRef<TunedFamily> families, llvm::ArrayRef<TuningTask> tasks);

/// Returns the families of this build.
std::vector<TunedFamily> tuned_families();
/// Returns the tasks of a few problems that together use the whole search space of this build. They include
/// the defaults of many fused kernels, because default_config_of() does not return these.
std::vector<TuningTask> tuned_examples();

/// Returns the entry with the digest of this build's kernels.
TuningEntry with_kernels_of_this_build(TuningEntry entry);
/// Returns true if the entry chose among the kernels of this build.
bool is_of_this_build(const TuningEntry& entry);

}  // namespace minuet
