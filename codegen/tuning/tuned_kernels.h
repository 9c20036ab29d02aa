// Computes digests of the kernels among which tuning chooses. Every stored result contains such a digest, so
// that a result of other kernels is not used. All functions are pure.
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
  int version;          // Increase this number when an edit of the code changes which member is fastest.
  /// Holds the C++ name of the kernel template with default arguments, or is empty if the family is not a
  /// kernel template.
  std::string spec;
};

using KernelsDigests = std::map<Operation, std::string>;

/// Returns for each Operation a digest of its families and its tasks. For Operation::Dataflow, the digest
/// also covers the operations that tune the kernels of a layer. The digest does not cover the text of
/// headers, so an edit of a comment, or an edit of code that does not change its speed, invalidates no
/// result.
KernelsDigests kernels_digests(llvm::ArrayRef<TunedFamily> families, llvm::ArrayRef<TuningTask> tasks);

/// Returns the families of kernels and library calls that this build of the library can tune.
std::vector<TunedFamily> tuned_families();
/// Returns the tasks of a few problems that together use the whole search space of this build. They include
/// the defaults of many fused kernels, so that the digest changes if a default changes. For other kernels,
/// default_config_of() shows whether the default has changed.
std::vector<TuningTask> tuned_examples();

/// Returns the entry after its digest is set to that of this build's kernels.
TuningEntry with_kernels_of_this_build(TuningEntry entry);
/// Returns true if the entry has the digest of this build's kernels.
bool is_of_this_build(const TuningEntry& entry);

}  // namespace minuet
