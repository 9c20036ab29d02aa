// What the compiler made of kernels before, kept in a folder for all processes of a build: suites compile
// many of the same kernels, each into caches of its own. Where SOFTWARE_CUDA_STORE names no folder, nothing
// is kept.
#pragma once

#include <string>

namespace minuet::software_cuda {

/// What keep() was given for the equal `key`; empty: nothing. `digest` stands for all that is the same for
/// every kernel of a build. Thread-safe, and so among processes.
std::string kept(const std::string& digest, const std::string& key);

/// Keeps `library` for `key`, and nothing of other digests. Where it cannot, it does not.
void keep(const std::string& digest, const std::string& key, const std::string& library);

}  // namespace minuet::software_cuda
