// Reads the golden problems: float64 results that an independent program computed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/oracle.h"

namespace minuet {

/// The folder with golden problems and real clouds: MINUET_SHARED, else ../shared beside the source.
std::string shared_folder();
bool have_golden();

/// A whole safetensors file, its values converted to what the tests use.
struct GoldenFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, std::vector<int32_t>> integers;  // I32
  std::map<std::string, std::vector<float>> floats;      // F32
  std::map<std::string, std::vector<double>> doubles;    // F64
  std::string path;

  std::vector<int32_t> list(const std::string& key) const;  // "[3, 3, 3]"
  oracle::Axes axes(const std::string& key) const;          // missing axes are 1
  bool flag(const std::string& key) const { return metadata.at(key) == "true"; }
};

/// Fails the test, with the reason, where the file cannot be read.
GoldenFile read_golden(const std::string& name);

/// Names of the single-layer problems that there are, without ".safetensors"; fixed, so that a test
/// has the same cases with and without the folder.
const std::vector<std::string>& golden_layers();

#define MINUET_SKIP_WITHOUT_GOLDEN()                                                    \
  if (!::minuet::have_golden())                                                         \
  MINUET_SKIP_OR_FAIL("golden", "no golden problems in '" + ::minuet::shared_folder() + \
                                    "'; MINUET_SHARED names "                           \
                                    "the folder")

}  // namespace minuet
