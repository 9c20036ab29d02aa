// The GPU that the tests of this folder share, and the kernels they ask for. No GPU: a reason to skip.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/expect.h"

namespace minuet {

struct Gpu {
  std::shared_ptr<CudaDevice> device;  // null: see reason
  std::string reason;

  static Gpu& get();
  /// Compiles what is not compiled yet, several at a time, and loads it.
  void load(const std::vector<KernelSource>& sources);
  void load_map(i32 ndim, const SearchChoice& search = {});
};

/// Skips where there is no GPU, fails where one does not open.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Gpu::get().device) MINUET_SKIP_OR_FAIL("gpu", Gpu::get().reason);
  }
  Gpu& gpu() { return Gpu::get(); }
  CudaDevice& device() { return *Gpu::get().device; }
};

}  // namespace minuet
