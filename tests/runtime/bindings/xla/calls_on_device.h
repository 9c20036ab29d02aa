// What tests of custom calls on a device share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "minuet/minuet.hpp"
#include "runtime/bindings/xla/minuet_xla.h"
#include "tests/runtime/bindings/xla/made_up_xla.h"

namespace minuet_xla::testing {

/// Returns normally distributed numbers, of a seed that is printed.
std::vector<float> normal(std::size_t count);

/// Returns what a test on this device is called.
std::string name_of(const ::testing::TestParamInfo<const char*>& info);

template <class T>
constexpr XLA_FFI_DataType type_of() {
  if constexpr (std::is_same_v<T, float>) return XLA_FFI_DataType_F32;
  if constexpr (std::is_same_v<T, std::int32_t>) return XLA_FFI_DataType_S32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return XLA_FFI_DataType_U32;
  return XLA_FFI_DataType_U8;
}

/// Tests of custom calls on the device that the parameter names, with the arrays of their calls.
class CallsOnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_.emplace(context_, GetParam());
    } catch (const minuet::Exception& error) {
      if (std::string(GetParam()) == "cpu" || error.status() != MINUET_UNAVAILABLE) throw;
      GTEST_SKIP() << std::string(error.what()).substr(0, std::string(error.what()).find(" ("));
    }
    arch_ = device_->info().arch;
    xla_ = &fresh_xla();
    ASSERT_EQ(outcome_of(minuet_xla_register(made_up_api())).message, "");
  }

  const MadeUpXla::Registered& handlers(const std::string& name) const {
    return xla_->find(name, is_cpu() ? "Host" : "CUDA");
  }
  bool is_cpu() const { return std::string(GetParam()) == "cpu"; }

  // An array on the device. It stays until the end of the test.
  template <class T>
  Site::Array array(const std::vector<T>& values, std::vector<std::int64_t> shape) {
    auto buffer = std::make_shared<minuet::Buffer<T>>(*device_, values);
    kept_.push_back(buffer);
    return {type_of<T>(), buffer->get(), std::move(shape)};
  }
  // One that is full of garbage, which a float reads as NaN.
  template <class T>
  Site::Array poisoned(std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t length : shape) count *= static_cast<std::size_t>(length);
    std::vector<T> values(count);
    std::fill_n(reinterpret_cast<unsigned char*>(values.data()), count * sizeof(T), 0xff);
    return array(values, std::move(shape));
  }
  template <class T>
  std::vector<T> read(const Site::Array& array) {
    device_->synchronize();
    std::size_t count = 1;
    for (const std::int64_t length : array.shape) count *= static_cast<std::size_t>(length);
    std::vector<T> values(count);
    minuet::check(minuet_device_copy(device_->get(), values.data(), array.data,
                                     static_cast<std::int64_t>(count * sizeof(T)), 1));
    return values;
  }
  // Appends the workspace of a call on a GPU.
  std::vector<Site::Array> with_workspace(std::vector<Site::Array> results, std::int64_t bytes) {
    if (!is_cpu()) results.push_back(poisoned<unsigned char>({std::max<std::int64_t>(1, bytes)}));
    return results;
  }

  static void expect_close(const std::vector<float>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-4) << i;
  }

  const minuet::Context context_;
  std::optional<minuet::Device> device_;
  std::string arch_;
  MadeUpXla* xla_ = nullptr;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace minuet_xla::testing
