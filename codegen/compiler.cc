#include "codegen/compiler.h"

namespace minuet {

std::vector<std::string> compile_options(llvm::StringRef arch) {
  return {"--std=c++20", ("-arch=" + arch).str(),
          "--no-source-include",  // headers come from memory or not at all (R3)
          // As on the CPU device: a fused multiply-add in one place and not the next would make them differ.
          "--fmad=false", "--ptxas-options=-v"};  // registers and spills in the log
}

}  // namespace minuet
