// What the cuBLASLt stand-in computes, and what a test may ask of it.
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "tests/support/random.h"
#include "tests/support/software_cuda/cublaslt_fixture.h"

namespace minuet::software {
namespace {

// ---- products -----------------------------------------------------------------------------------

TEST_F(CublasltTest, ProductsOfEveryTypeAndMode) {
  library_.set_scarcity(0);
  constexpr uint64_t kSeed = 20250611;
  RecordProperty("seed", std::to_string(kSeed));
  Random random(kSeed);
  const std::pair<DType, DType> types[] = {{DType::F16, DType::F16},   {DType::F16, DType::F32},
                                           {DType::BF16, DType::BF16}, {DType::BF16, DType::F32},
                                           {DType::F32, DType::F32},   {DType::TF32, DType::F32}};
  for (auto [type, out] : types) {
    for (Mode mode : {Mode::Single, Mode::Strided, Mode::Pointers}) {
      for (int orders = 0; orders < 16; ++orders) {
        Case test = batched(mode);
        test.type = type, test.out = out;
        test.m = random.between(1, 24), test.n = random.between(1, 40), test.k = random.between(1, 48);
        for (int i = 0; i < 4; ++i) test.row_major[i] = orders >> i & 1;
        test.ld_padding = random.between(0, 5);
        test.alpha = orders % 3 == 0 ? 1.0f : 0.75f;
        test.beta = orders % 2 == 0 ? 0.0f : -1.5f;
        test.seed = random.next();
        SCOPED_TRACE(testing::Message() << "seed " << kSeed << " type " << static_cast<int>(type) << " mode "
                                        << static_cast<int>(mode) << " orders " << orders);
        Call call(test);
        ASSERT_TRUE(call.run()) << refusal() << faults();
        ASSERT_TRUE(call.is_right());
        device_.clear();
      }
    }
  }
}

TEST_F(CublasltTest, MoreColumnsThanOnePanel) {
  Case test;
  test.n = 2500;
  Call call(test);
  ASSERT_TRUE(call.run()) << refusal();
  EXPECT_TRUE(call.is_right());
}

TEST_F(CublasltTest, CMayBeD) {
  Case test;
  test.beta = 1;
  Call call(test);
  std::copy(call.memory[2], call.memory[2] + test.m * test.n * 2, call.memory[3]);
  call.addresses[2] = call.addresses[3];
  ASSERT_TRUE(call.run()) << refusal();
  EXPECT_TRUE(call.is_right());
}

/// Alpha, beta, layouts and addresses are taken at the call; elements when the work runs, each time.
TEST_F(CublasltTest, WhatTheHostHasIsTakenAtTheCall) {
  Call call(batched(Mode::Strided));
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(call.enqueue(), CUBLAS_STATUS_SUCCESS);
  Call spoilt = call;
  std::memset(static_cast<void*>(&call.layouts), 0, sizeof(call.layouts));
  std::memset(&call.algorithm, 0, sizeof(call.algorithm));
  call.test.alpha = 7;
  EXPECT_EQ(counts().products, 0);
  // A replay of a graph runs what it captured once more.
  const std::vector<FakeDevice::Work> captured = device_.queue;
  for (const FakeDevice::Work& piece : captured) piece.work(piece.state);
  EXPECT_TRUE(spoilt.is_right());
  std::memset(spoilt.memory[3], 0x7f, 4);
  device_.run_all();
  EXPECT_TRUE(spoilt.is_right());
  EXPECT_EQ(counts().products, 2);
}

/// One order, where a caller forbids that partial sums are added in place; else another each time.
TEST_F(CublasltTest, SumsThatMayBeAddedInPlaceHaveNoOrder) {
  for (bool in_place : {false, true}) {
    Case test;
    test.type = test.out = DType::F32;
    test.k = 1000;
    Call call(test);
    const uint32_t schemes = in_place ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    ASSERT_EQ(library_.cublasLtMatmulPreferenceSetAttribute(
                  &call.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)),
              CUBLAS_STATUS_SUCCESS);
    std::set<std::string> results;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(call.run()) << refusal();
      ASSERT_TRUE(call.is_right());
      results.emplace(call.memory[3], static_cast<std::size_t>(test.m * test.n) * sizeof(float));
    }
    EXPECT_EQ(results.size() > 1, in_place);
  }
}

// ---- what a test asks for -----------------------------------------------------------------------

TEST_F(CublasltTest, FailuresOnDemand) {
  Call call{Case()};
  library_.fail_lookups(2, CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_EQ(call.look_up(), CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_EQ(call.look_up(), CUBLAS_STATUS_ALLOC_FAILED);
  EXPECT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  library_.fail_matmuls(1, CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_TRUE(device_.queue.empty());
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_SUCCESS);
  device_.run_all();
  const SoftwareCublasltCounts now = counts();
  EXPECT_EQ(now.lookups, 3);
  EXPECT_EQ(now.lookups_found, 1);
  EXPECT_EQ(now.matmuls, 2);
  EXPECT_EQ(now.matmuls_enqueued, 1);
  EXPECT_EQ(now.products, 1);
  EXPECT_EQ(now.wrong_calls, 0);
  // The driver may refuse either piece.
  for (int takes : {0, 1}) {
    device_.takes = takes;
    EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_EXECUTION_FAILED);
    device_.takes = -1;
    device_.run_all();
  }
  EXPECT_EQ(counts().products, 1);
}

TEST_F(CublasltTest, ModesWithoutAlgorithms) {
  const std::pair<uint32_t, Mode> modes[] = {{kSoftwareCublasltSingle, Mode::Single},
                                             {kSoftwareCublasltStrided, Mode::Strided},
                                             {kSoftwareCublasltPointers, Mode::Pointers}};
  library_.set_scarcity(0);
  for (auto [bit, hidden] : modes) {
    for (auto [other, mode] : modes) {
      Call call(batched(mode));
      library_.hide_algorithms(bit);
      EXPECT_EQ(call.look_up() == CUBLAS_STATUS_SUCCESS, bit != other);
      library_.hide_algorithms(kSoftwareCublasltAll);
      EXPECT_EQ(call.look_up(), CUBLAS_STATUS_NOT_SUPPORTED);
    }
  }
}

TEST_F(CublasltTest, PointerArraysAreScarce) {
  int found = 0;
  for (int n = 1; n <= 200; ++n) {
    Case test = batched(Mode::Pointers);
    test.n = n;
    Call call(test);
    const bool there = call.look_up() == CUBLAS_STATUS_SUCCESS;
    EXPECT_EQ(call.look_up() == CUBLAS_STATUS_SUCCESS, there) << "the same answer for the same shape";
    found += there;
    device_.clear();
  }
  EXPECT_GT(found, 150);
  EXPECT_LT(found, 198);
}

TEST_F(CublasltTest, OnlyExactAlgorithmsOnDemand) {
  Case test;
  Call looked_up(test);
  ASSERT_EQ(looked_up.look_up(), CUBLAS_STATUS_SUCCESS);
  test.n = 30;
  Call call(test);
  call.algorithm = looked_up.algorithm;
  library_.refuse_inexact(1);
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(counts().wrong_calls, 0);
  ASSERT_TRUE(call.run()) << refusal();
  EXPECT_TRUE(call.is_right());
}

TEST_F(CublasltTest, ThreadsAtOnce) {
  Call call{Case()};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([call, this]() mutable {
      for (int j = 0; j < 50; ++j) {
        EXPECT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
        library_.set_scarcity(8);
        EXPECT_GT(counts().lookups, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts().lookups_found, 200);
}

}  // namespace
}  // namespace minuet::software
