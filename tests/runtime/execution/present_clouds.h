// Opens the clouds that benchmarks read.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/minuet/cloud/bench_clouds.h"

namespace minuet::abi {

/// Returns the clouds of these names (tool::open_bench_clouds()), or without names all known clouds whose
/// files exist.
inline std::vector<tool::BenchCloud> present_clouds(const std::vector<std::string>& names) {
  tool::BenchFiles files;
  files.data = tool::bench_data_folder("");
  llvm::Expected<std::vector<tool::BenchCloud>> opened = tool::open_bench_clouds(names, files);
  if (!opened) throw std::runtime_error(llvm::toString(opened.takeError()));
  std::vector<tool::BenchCloud> clouds;
  std::copy_if(opened->begin(), opened->end(), std::back_inserter(clouds),
               [](const tool::BenchCloud& cloud) { return !cloud.is_missing; });
  return clouds;
}

}  // namespace minuet::abi
