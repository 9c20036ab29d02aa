// The identity of the kernels that tuning chooses among, a part of the environment of every result (R33).
// Pure.
#pragma once

#include <string>

#include "codegen/tuning/search_space.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// A family of kernels, or of the library's calls, that is chosen within.
struct TunedFamily {
  const char* name;
  int version;       // raised when an edit changes which of the family is fastest
  std::string spec;  // the kernel with every field of its Spec as by default; empty where it has no Spec
};

/// A digest of the families and of what there is to try for each of the tasks. It does not read the text of
/// headers: an edit of a comment, or of code that is as fast as before, orphans no result.
std::string kernels_digest(llvm::ArrayRef<TunedFamily> families, llvm::ArrayRef<TuningTask> tasks);

/// Those of this build.
std::vector<TunedFamily> tuned_families();
/// The search space of this build, for a few problems that between them use all of it.
std::vector<TuningTask> tuned_examples();

/// The same GPU and toolkit with the kernels of this build.
TuningEnvironment as_of_this_build(TuningEnvironment environment);

}  // namespace minuet
