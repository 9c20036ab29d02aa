// The tests' own list of kernels (device/kernels.inc), for the library's emit and all behind it.
//
// No header of tests/ is embedded: what a kernel includes is put in its place, and the source is one text.
#pragma once

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "codegen/source/emit.h"
#include "tests/kernels_templates/device/gemm_kernels.h"
#include "tests/kernels_templates/device/relay_kernel.h"

namespace minuet {

inline SpecField spec_field(const char* name, GemmFault value) {
  const std::string number = std::to_string(static_cast<int>(value));
  return {name, "minuet::GemmFault{" + number + "}", name + number};
}

#define MINUET_KERNEL_ROW MINUET_DEFINE_KERNEL_ROW
#include "tests/kernels_templates/device/kernels.inc"

/// `text` with each file of the repository at `root` that it includes in the place of the first line that
/// does.
inline std::string inlined_text(const std::string& root, std::istream& text, std::set<std::string>& seen) {
  std::string line, result;
  while (std::getline(text, line)) {
    static const std::string kInclude = "#include \"";
    if (line.rfind("#pragma once", 0) == 0) continue;
    if (line.rfind(kInclude, 0) != 0) {
      result += line + "\n";
      continue;
    }
    const std::string path = line.substr(kInclude.size(), line.rfind('"') - kInclude.size());
    if (!seen.insert(path).second) continue;
    std::ifstream file(root + "/" + path);
    if (!file) throw std::runtime_error("no " + path);
    result += inlined_text(root, file, seen);
  }
  return result;
}

/// emit(), with the headers of the repository at `root` inside.
template <class Spec>
KernelSource emit_whole(const std::string& root, const Spec& spec) {
  KernelSource source = emit(spec);
  std::istringstream text(source.text);
  std::set<std::string> seen;
  // 177: a constant that nobody uses, of which headers are not accused and these no longer are headers.
  source.text = "#pragma nv_diag_suppress 177\n" + inlined_text(root, text, seen);
  return source;
}

}  // namespace minuet
