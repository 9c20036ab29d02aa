// The test kernels as one text for NVRTC: no header of tests/ is embedded, so what they include is put in its
// place.
#pragma once

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "codegen/emit.h"
#include "llvm/Support/FormatVariadic.h"
#include "tests/kernels_templates/device/gemm_kernels.h"

namespace minuet {

/// The text of a file of the repository at `root`, with each file that it includes in the place of the first
/// line that does.
inline std::string inlined_text(const std::string& root, const std::string& path,
                                std::set<std::string>& seen) {
  std::ifstream file(root + "/" + path);
  if (!file) throw std::runtime_error("no " + path);
  std::string line, text;
  while (std::getline(file, line)) {
    static const std::string kInclude = "#include \"";
    if (line.rfind("#pragma once", 0) == 0) continue;
    if (line.rfind(kInclude, 0) != 0) {
      text += line + "\n";
      continue;
    }
    const std::string name = line.substr(kInclude.size(), line.rfind('"') - kInclude.size());
    if (seen.insert(name).second) text += inlined_text(root, name, seen);
  }
  return text;
}

inline KernelSource gemm_source(const std::string& root, const std::string& kernel, const std::string& type,
                                DType io, const std::string& spec, int least_sm) {
  const char* const type_name = kDTypeEnumerators[static_cast<int>(io)];
  KernelSource source;
  std::set<std::string> seen;
  // 177: a constant that nobody uses, of which headers are not accused and these no longer are headers.
  source.text = "#pragma nv_diag_suppress 177\n" +
                inlined_text(root, "tests/kernels_templates/device/" + kernel + ".h", seen);
  source.display_name = kernel + "-" + type_name;
  source.name_expression = llvm::formatv("minuet::{0}<minuet::{1}{{.io = minuet::DType::{2}, {3}}>", kernel,
                                         type, type_name, spec);
  source.least_sm = least_sm;
  return source;
}

inline KernelSource source_of(const std::string& root, const ClusterGemmSpec& s) {
  return gemm_source(
      root, "cluster_gemm", "ClusterGemmSpec", s.io,
      llvm::formatv(".warps = {0}, .columns = {1}, .step_words = {2}, .stages = {3}, .cluster = {4}", s.warps,
                    s.columns, s.step_words, s.stages, s.cluster),
      90);
}
inline KernelSource source_of(const std::string& root, const StagedGemmSpec& s) {
  return gemm_source(root, "staged_gemm", "StagedGemmSpec", s.io,
                     llvm::formatv(".warps = {0}, .columns = {1}, .step_words = {2}, .stages = {3}", s.warps,
                                   s.columns, s.step_words, s.stages),
                     80);
}

}  // namespace minuet
