// The cuBLASLt stand-in on its own: a device that is no more than a list of allocations and a queue, and one
// problem.
#pragma once

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels_templates/shared/types.h"
#include "tests/support/software_cuda/cublaslt_control.h"

namespace minuet::software {

/// What the stand-in takes for the driver: this program exports its functions.
class FakeDevice {
 public:
  struct Work {
    CUstream_st* stream;
    void (*work)(void* state);
    void* state;
    void (*release)(void* state);
  };
  static FakeDevice& get();

  /// On 256 bytes; between bytes that are no allocation's.
  char* allocate(std::size_t bytes);
  bool holds(const void* memory, std::size_t bytes) const;
  /// Runs piece `index` of the queue, and takes it out of it.
  void run(std::size_t index = 0);
  void run_all();
  void clear();

  std::vector<Work> queue;
  std::vector<std::string> faults;
  int takes = -1;  // so much work is taken; -1: all

 private:
  struct Allocation {
    std::unique_ptr<char[]> memory;
    char* begin;
    std::size_t bytes;
  };
  std::vector<Allocation> allocations_;
};

struct Library {
#define MINUET_CUBLASLT_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/cublaslt.inc"
  decltype(&::software_cublaslt_counts) counts = nullptr;
  decltype(&::software_cublaslt_last_refusal) last_refusal = nullptr;
  decltype(&::software_cublaslt_fail_lookups) fail_lookups = nullptr;
  decltype(&::software_cublaslt_fail_matmuls) fail_matmuls = nullptr;
  decltype(&::software_cublaslt_hide_algorithms) hide_algorithms = nullptr;
  decltype(&::software_cublaslt_set_scarcity) set_scarcity = nullptr;
  decltype(&::software_cublaslt_refuse_inexact) refuse_inexact = nullptr;
  decltype(&::software_cublaslt_reset) reset = nullptr;

  static const Library& get();
};

enum class Mode { Single, Strided, Pointers };

struct Case {
  DType type = DType::F16, out = DType::F16;
  int64_t m = 8, n = 24, k = 16;
  Mode mode = Mode::Single;
  int batch = 1;
  bool row_major[4] = {};
  int64_t ld_padding = 0;  // elements between rows that are nobody's
  float alpha = 1, beta = 0;
  uint64_t seed = 1;
};

/// Three members where there are any.
inline Case batched(Mode mode) {
  Case test;
  test.mode = mode;
  test.batch = mode == Mode::Single ? 1 : 3;
  return test;
}

/// Everything that one call takes, to be spoilt by a test before it calls.
struct Call {
  explicit Call(const Case& test);

  cublasStatus_t look_up();
  cublasStatus_t enqueue(CUstream_st* stream = nullptr);
  /// Looks up, enqueues and runs. True where all went well.
  bool run();
  /// Layout `operand` again with another extent or leading dimension.
  void lay_out(int operand, int64_t rows, int64_t columns, int64_t ld);
  void set_batch(int operand, int32_t batch, int64_t stride);
  void promise(uint32_t alignment);
  /// Compares D with sums in fp64, and what lies between its rows with what lay there.
  testing::AssertionResult is_right() const;

  Case test;
  cublasLtHandle_t handle;
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t layouts[4];
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t needs = 0;  // the algorithm's workspace
  char* memory[4];        // the elements
  void* addresses[4];     // the same, or tables of pointers
  char* workspace;
  std::size_t workspace_bytes = std::size_t{64} << 10;

 private:
  int64_t rows(int operand) const { return operand == 1 ? test.k : test.m; }
  int64_t columns(int operand) const { return operand == 0 ? test.k : test.n; }
  int64_t ld(int operand) const;
  int64_t stride(int operand) const;
  int64_t index(int operand, int64_t member, int64_t row, int64_t column) const;
  DType type(int operand) const { return operand < 2 ? test.type : test.out; }
  void fill(int operand);

  std::vector<float> values_[4];  // as stored
};

class CublasltTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// The faults since the last time.
  std::string faults();
  static std::string refusal();
  static SoftwareCublasltCounts counts();

  FakeDevice& device_ = FakeDevice::get();
  const Library& library_ = Library::get();
};

}  // namespace minuet::software
