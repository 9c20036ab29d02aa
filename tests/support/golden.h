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

/// Names of all single-layer problems in the folder, without ".safetensors", in ascending order.
std::vector<std::string> golden_layers();

/// Which of the kinds that Minuet does not have yet the problem is of, by its metadata; empty where it has
/// the kind. Fails the test for metadata that are not known here.
std::string why_not_built(const GoldenFile& file);

#define MINUET_SKIP_WITHOUT_GOLDEN()                                                    \
  if (!::minuet::have_golden())                                                         \
  MINUET_SKIP_OR_FAIL("golden", "no golden problems in '" + ::minuet::shared_folder() + \
                                    "'; MINUET_SHARED names "                           \
                                    "the folder")

}  // namespace minuet
