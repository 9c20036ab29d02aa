// The structs that the public headers declare.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "tests/support/contents.h"

namespace minuet::abi {

/// "minuet_tensor", ...: the names that end in `ending`. `source`: the folder that holds `include`.
inline std::set<std::string> declared_structs(const std::string& source, const std::string& ending = "") {
  std::set<std::string> declared;
  for (const char* header : {"minuet.h", "kernels.h", "points.h", "pointwise.h", "pyramid.h", "tuning.h"}) {
    const std::string whole = contents(source + "/include/minuet/" + header);
    const std::regex pattern(R"(struct\s+(minuet_\w+)\s*\{)");
    for (std::sregex_iterator found(whole.begin(), whole.end(), pattern), end; found != end; ++found) {
      const std::string name = (*found)[1];
      if (name.ends_with(ending)) declared.insert(name);
    }
  }
  return declared;
}

}  // namespace minuet::abi
