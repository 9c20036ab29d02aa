// The structs that the public headers declare.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/contents.h"

namespace minuet::abi {

/// The text of each public header of C. `source`: the folder that holds `include`.
inline std::vector<std::string> public_headers(const std::string& source) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(source + "/include/minuet"))
    if (entry.path().extension() == ".h") texts.push_back(contents(entry.path()));
  return texts;
}

/// "minuet_tensor", ...: the names that end in `ending`. `source`: the folder that holds `include`.
inline std::set<std::string> declared_structs(const std::string& source, const std::string& ending = "") {
  std::set<std::string> declared;
  for (const std::string& whole : public_headers(source)) {
    const std::regex pattern(R"(struct\s+(minuet_\w+)\s*\{)");
    for (std::sregex_iterator found(whole.begin(), whole.end(), pattern), end; found != end; ++found) {
      const std::string name = (*found)[1];
      if (name.ends_with(ending)) declared.insert(name);
    }
  }
  return declared;
}

}  // namespace minuet::abi
