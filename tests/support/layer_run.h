// Runs one convolution on an engine, without plans or executions: the engine's own tests.
//
// Every buffer is poisoned first; groups are made at random, so that an engine that does not obey the
// plan it is given fails.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/engine/device.h"
#include "runtime/engine/ops/convolution.h"
#include "tests/cases/convolution_cases.h"

namespace minuet {

/// Takes the value, or fails the test with the error's message and ends it.
template <class T>
T take(llvm::Expected<T> value) {
  if (!value) {
    ADD_FAILURE() << llvm::toString(value.takeError());
    throw std::runtime_error("a setup step failed");  // gtest reports it and goes on to the next test
  }
  return std::move(*value);
}
inline void take(llvm::Error error) {
  if (!error) return;
  ADD_FAILURE() << llvm::toString(std::move(error));
  throw std::runtime_error("a setup step failed");
}

/// Device memory that is poisoned at birth and released at the end.
class TestBuffer {
 public:
  TestBuffer(Device& device, i64 bytes);
  template <class T>
  TestBuffer(Device& device, const std::vector<T>& values)
      : TestBuffer(device, static_cast<i64>(values.size() * sizeof(T))) {
    take(device.upload(data_, values.data(), bytes_));
  }
  ~TestBuffer();
  TestBuffer(const TestBuffer&) = delete;

  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  i64 bytes() const { return bytes_; }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    take(device_.download(values.data(), data_, bytes_));
    return values;
  }
  template <class T>
  T read_first() const {
    T value;
    take(device_.download(&value, data_, sizeof(T)));
    return value;
  }

 private:
  Device& device_;
  void* data_ = nullptr;
  i64 bytes_ = 0;
};

struct LayerRunOptions {
  KeyType key = KeyType::U32;  // U64 is used anyway where 32 bits do not suffice
  i32 row_padding = 0;         // further elements in each row of input, output and residual
};

struct LayerResult {
  std::vector<float> output;        // [out rows, out_channels], the caller's order
  std::vector<oracle::Pair> pairs;  // in the caller's rows, sorted
  bool padding_clean = true;        // elements between rows stay as they were
  bool padding_rows_zero = true;    // of the gather buffer
  std::vector<char> bytes;          // the output as stored
};

/// The test's coordinates must be unique.
LayerResult run_layer(Device& device, const ConvolutionCase& test, const ConvolutionData& data,
                      const LayerRunOptions& options = {});

/// The problem that the runtime would make of a case, for rows with `row_padding` more elements.
ConvolutionProblem problem_of(const ConvolutionCase& test, i32 row_padding = 0);

/// Cases of every kind whose kernel is a list of 3 or 130 offsets, with and without the centre. The CUDA
/// device searches the longer lists in several launches.
std::vector<ConvolutionCase> listed_cases(i64 points);

/// Groups of neighbours by size, heights and group ends at random.
GroupPlan random_groups(const std::vector<i32>& counts, i32 direct_offset, u64 seed);

}  // namespace minuet
