// Which compiled code a plan takes for a device (R23), and what it does when the device's driver refuses a
// kernel: compiled anew once, also for the next device (R28).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime/plan/compiled_plan.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

/// A device of host memory whose driver refuses the binaries with these bytes.
class RefusingDevice : public Device {
 public:
  explicit RefusingDevice(const char* arch = "sm_90a") { info_.name = "fake:0", info_.arch = arch; }
  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType dtype) const override { return dtype; }
  llvm::Expected<void*> allocate(i64 bytes) override { return std::malloc(static_cast<size_t>(bytes) + 1); }
  void release(void* memory) override { std::free(memory); }
  llvm::Error upload(void* target, const void* host, i64 bytes) override {
    std::memcpy(target, host, static_cast<size_t>(bytes));
    return llvm::Error::success();
  }
  llvm::Error clear(void* target, i64 bytes) override {
    std::memset(target, 0, static_cast<size_t>(bytes));
    return llvm::Error::success();
  }
  llvm::Error download(void*, const void*, i64) override { return llvm::Error::success(); }
  llvm::Error synchronize(void*) override { return llvm::Error::success(); }
  llvm::Error load(const BinaryList& binaries, const Reload& reload) override {
    for (std::shared_ptr<const Binary> binary : binaries) {
      if (refused.count(binary->compile_ms)) {
        MINUET_ASSIGN(binary, reload(*binary));
      }
      loaded[binary->display_name] = binary->compile_ms;
    }
    return llvm::Error::success();
  }
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice&,
                                                        std::shared_ptr<EngineShare>) override {
    return make_error(StatusCode::Unimplemented, "there is no engine");
  }
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override { return nullptr; }

  std::set<double> refused;  // by the number of their compile, which tells binaries of one name apart
  std::map<std::string, double> loaded;

 private:
  DeviceInfo info_;
};

/// Numbers its binaries, in the field for the time.
class NumberingCompiler : public FakeCompiler {
 public:
  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) override {
    MINUET_ASSIGN(Binary binary, FakeCompiler::compile(request, control));
    binary.compile_ms = ++numbers_;  // its own: threads compile at once
    return binary;
  }

 private:
  std::atomic<int> numbers_{0};
};

class PlanReload : public testing::Test {
 protected:
  void SetUp() override {
    ConvolutionProblem problem;
    problem.in_channels = problem.out_channels = 16;
    LayerParameters parameters;
    parameters.weight.assign(16 * 16, 1.0f);
    llvm::Expected<std::shared_ptr<const Plan>> plan = Plan::create(problem, parameters);
    ASSERT_TRUE(static_cast<bool>(plan)) << llvm::toString(plan.takeError());
    store_ = std::make_unique<PlanStore>(*plan, cache_);
    llvm::Expected<BinaryList> binaries = store_->compile("sm_90a");
    ASSERT_TRUE(static_cast<bool>(binaries)) << llvm::toString(binaries.takeError());
    kernels_ = static_cast<int>(binaries->size());
    ASSERT_EQ(compiler_->compiles, kernels_);
  }
  std::string load(std::shared_ptr<RefusingDevice> device) {
    llvm::Error error = store_->load(std::move(device));
    return error ? llvm::toString(std::move(error)) : "";
  }

  std::shared_ptr<NumberingCompiler> compiler_ = std::make_shared<NumberingCompiler>();
  std::shared_ptr<KernelCache> cache_ = make_cache("", compiler_);
  std::unique_ptr<PlanStore> store_;
  int kernels_ = 0;
};

TEST_F(PlanReload, R28_OneKernelIsCompiledAnew) {
  auto device = std::make_shared<RefusingDevice>();
  device->refused = {3};
  EXPECT_EQ(load(device), "");
  EXPECT_EQ(compiler_->compiles, kernels_ + 1);
  EXPECT_EQ(cache_->stats().compiled, kernels_ + 1);
  EXPECT_EQ(device->loaded.size(), static_cast<size_t>(kernels_));
  for (const auto& [name, number] : device->loaded) EXPECT_NE(number, 3) << name;
}

TEST_F(PlanReload, R28_TheNextDeviceGetsTheNewOne) {
  auto first = std::make_shared<RefusingDevice>(), second = std::make_shared<RefusingDevice>();
  first->refused = second->refused = {1, 2};
  EXPECT_EQ(load(first), "");
  EXPECT_EQ(load(second), "");
  EXPECT_EQ(compiler_->compiles, kernels_ + 2);
  EXPECT_EQ(first->loaded, second->loaded);
}

TEST_F(PlanReload, R28_AFailedCompileIsTheErrorOfTheLoad) {
  auto device = std::make_shared<RefusingDevice>();
  device->refused = {2};
  compiler_->before = [](const KernelSource&) {
    return make_error(StatusCode::Unavailable, "the compiler went away");
  };
  EXPECT_THAT(load(device), testing::HasSubstr("the compiler went away"));
  llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded = store_->loaded_on(*device);
  ASSERT_FALSE(static_cast<bool>(loaded));
  EXPECT_EQ(take_status(loaded.takeError()).code(), StatusCode::FailedPrecondition);
}

/// An sm_86 runs what was compiled for sm_80, with the candidates that were chosen for sm_80, until there is
/// something better; a Tegra of that major does not.
TEST_F(PlanReload, R23_ADeviceTakesThePlanOfAnOlderOne) {
  const auto arch_on = [&](const char* device_arch) {
    auto device = std::make_shared<RefusingDevice>(device_arch);
    const std::string refusal = load(device);
    if (!refusal.empty()) return refusal;
    const auto loaded = llvm::cantFail(store_->loaded_on(*device));
    const auto wanted = llvm::cantFail(CompiledPlan::create(store_->plan(), loaded->compiled->arch));
    const std::vector<Candidate>&taken = loaded->compiled->candidates[0], &chosen = wanted->candidates[0];
    EXPECT_EQ(taken.size(), chosen.size());
    for (size_t i = 0; i < std::min(taken.size(), chosen.size()); ++i) {
      EXPECT_EQ(taken[i].kernel, chosen[i].kernel);
      EXPECT_FALSE(taken[i].kernel.empty());
    }
    EXPECT_EQ(loaded->weights[0].size(), taken.size());
    EXPECT_EQ(device->loaded.size(), wanted->requests().size());
    return loaded->compiled->arch;
  };
  EXPECT_THAT(arch_on("sm_86"), testing::HasSubstr("not compiled for arch sm_86, which device fake:0 needs"));
  llvm::cantFail(store_->compile("sm_80"));
  EXPECT_EQ(arch_on("sm_86"), "sm_80");
  EXPECT_EQ(arch_on("sm_89"), "sm_80");
  llvm::cantFail(store_->compile("sm_86"));
  EXPECT_EQ(arch_on("sm_86"), "sm_86");
  EXPECT_EQ(arch_on("sm_89"), "sm_86");
  EXPECT_EQ(arch_on("sm_80"), "sm_80");
  EXPECT_EQ(arch_on("sm_90a"), "sm_90a");
  for (const char* const other : {"sm_87", "sm_100a"}) EXPECT_THAT(arch_on(other), testing::HasSubstr(other));
}

TEST_F(PlanReload, R28_ABinaryOfAnotherPlanIsNoneOfOurs) {
  Binary foreign;
  foreign.display_name = "somebody_elses", foreign.arch = "sm_90a";
  llvm::Expected<std::shared_ptr<const Binary>> made =
      cache_->replace(std::vector<KernelRequest>{{make_source("ours"), "sm_90a"}}, foreign);
  ASSERT_FALSE(static_cast<bool>(made));
  EXPECT_THAT(llvm::toString(made.takeError()), testing::HasSubstr("somebody_elses"));
}

}  // namespace
}  // namespace minuet
