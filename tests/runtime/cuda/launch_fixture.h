// Kernels of the tests' own list on the GPU, by the library's emit, cache, module and launch.
#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/launcher.h"
#include "tests/kernels_templates/test_kernels.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"

namespace minuet {

class LaunchTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    scope_ = std::make_unique<ContextScope>(device().driver(), device().context());
    launcher_ = take(Launcher::create(gpu().device, take(SideStreams::create(gpu().device))));
    const Driver& driver = device().driver();
    take(check(driver, driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    take(launcher_->begin(stream_));
  }
  void TearDown() override {
    launcher_.reset();
    if (stream_ != nullptr) static_cast<void>(device().driver().cuStreamDestroy(stream_));
    scope_.reset();
  }

  Launcher& launcher() { return *launcher_; }
  /// `root`: of the repository.
  template <class Spec>
  Kernel<typename KernelRow<Spec>::Params> load(const std::string& root, const Spec& spec) {
    gpu().load({emit_whole(root, spec)});
    return take(device().kernel(spec));
  }

 private:
  std::unique_ptr<ContextScope> scope_;
  CUstream stream_ = nullptr;
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace minuet
