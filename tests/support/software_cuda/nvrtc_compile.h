// A kernel's source -> a host library with the kernel in it, by the compiler that built the tests.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace minuet::software_cuda {

struct Unit {
  std::string name;  // of the program, for messages
  std::string text;
  std::map<std::string, std::string> headers;  // by the name they are included as
  std::string kernel;                          // name expression
  std::vector<std::string> defines;            // "-DNAME=value"
};

struct Built {
  std::string library;  // bytes of the shared library; empty: it does not compile
  std::string log;
  int max_threads = 0;
  int params_bytes = 0;
};

/// Runs the compiler in a folder of its own, which is gone afterwards. Equal units give equal bytes.
/// Thread-safe. Throws std::runtime_error where there is no folder or no compiler.
Built build_kernel(const Unit& unit);

/// "_ZN6minuet6gatherE_0123456789abcdef" of "minuet::gather<...>": one symbol's name an expression.
std::string lowered_name(const std::string& kernel);

}  // namespace minuet::software_cuda
