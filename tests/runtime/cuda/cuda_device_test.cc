#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/environment.h"

namespace minuet {
namespace {

StatusError status_of(llvm::Error error) { return take_status(std::move(error)); }

TEST(CudaDevice, SaysWhatIsMissingWithoutADriver) {
  llvm::Expected<const Driver*> driver = Driver::get();
  if (driver) GTEST_SKIP() << "there is a CUDA driver here";
  llvm::consumeError(driver.takeError());

  llvm::Expected<std::shared_ptr<Device>> device = open_cuda_device(0);
  ASSERT_FALSE(static_cast<bool>(device));
  const StatusError no_device = status_of(device.takeError());
  EXPECT_EQ(no_device.code(), StatusCode::Unavailable);
  EXPECT_NE(no_device.message().find("CUDA driver"), std::string::npos) << no_device.message();
  EXPECT_NE(no_device.message().find("install"), std::string::npos) << no_device.message();

  llvm::Expected<CudaSystem> system = cuda_system();
  ASSERT_FALSE(static_cast<bool>(system));
  const StatusError no_system = status_of(system.takeError());
  EXPECT_EQ(no_system.code(), StatusCode::Unavailable);
  EXPECT_EQ(no_system.message(), no_device.message());
}

TEST(CudaDevice, NamesEveryPlaceItLookedForCublasLt) {
  const EnvironmentVariable named("MINUET_CUBLASLT", "/nowhere/libcublasLt.so.13");
  const std::vector<std::string> candidates = cublaslt_candidates();
  llvm::Expected<const CublasLt*> library = CublasLt::get();
  EXPECT_EQ(candidates, std::vector<std::string>{"/nowhere/libcublasLt.so.13"});
  ASSERT_FALSE(static_cast<bool>(library));
  const StatusError error = status_of(library.takeError());
  EXPECT_EQ(error.code(), StatusCode::Unavailable);
  EXPECT_NE(error.message().find("/nowhere/libcublasLt.so.13"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("MINUET_CUBLASLT"), std::string::npos) << error.message();
}

TEST(CudaDevice, TheCallersCublasLtComesBeforeTheVariable) {
  const EnvironmentVariable named("MINUET_CUBLASLT", "/nowhere/libcublasLt.so.13");
  llvm::Expected<const CublasLt*> library = CublasLt::get("/elsewhere/libcublasLt.so.13");
  ASSERT_FALSE(static_cast<bool>(library));
  const std::string error = status_of(library.takeError()).message();
  EXPECT_NE(error.find("/elsewhere/"), std::string::npos) << error;
  EXPECT_EQ(error.find("/nowhere/"), std::string::npos) << error;
}

TEST(CudaDevice, LooksInWheels) {
  const std::string root = testing::TempDir() + "minuet-wheels";
  const std::string folder = root + "/lib/python3.12/site-packages/nvidia/cu13/lib";
  ASSERT_EQ(std::system(("mkdir -p " + folder + " && touch " + folder + "/libcublasLt.so.13").c_str()), 0);
  const EnvironmentVariable active("VIRTUAL_ENV", root);
  const std::vector<std::string> candidates = cublaslt_candidates();
  EXPECT_EQ(candidates.front(), "libcublasLt.so.13");
  EXPECT_NE(std::find(candidates.begin(), candidates.end(), folder + "/libcublasLt.so.13"), candidates.end());
}

TEST(CudaDevice, WritesVersions) {
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(version_text(12080), "12.8");
  EXPECT_EQ(version_text(0), "0.0");
}

}  // namespace
}  // namespace minuet
