// The identity of the kernels among which tuning chooses. It is part of the environment of every result. All
// functions are pure.
#pragma once

#include <string>

#include "codegen/tuning/search_space.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// A family of kernels, or of calls of a library, among which tuning chooses.
struct TunedFamily {
  const char* name;
  int version;       // increase it when an edit changes which member is fastest
  std::string spec;  // the kernel with its default Spec; empty if it has no Spec
};

/// Returns a digest of the families and of the candidates of each task. It does not cover the text of
/// headers, so an edit of a comment, or of code that is as fast as before, invalidates no result.
std::string kernels_digest(llvm::ArrayRef<TunedFamily> families, llvm::ArrayRef<TuningTask> tasks);

/// Returns the families of this build.
std::vector<TunedFamily> tuned_families();
/// Returns the tasks of a few problems that together use the whole search space of this build.
std::vector<TuningTask> tuned_examples();

/// Returns the same GPU and toolkit with the kernels of this build.
TuningEnvironment with_kernels_of_this_build(TuningEnvironment environment);

}  // namespace minuet
