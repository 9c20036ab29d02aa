// What the cuBLASLt stand-in computes, and that everything it checks is found.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "tests/support/random.h"
#include "tests/support/software_cuda/cublaslt_fixture.h"

namespace minuet::software {
namespace {

using testing::HasSubstr;

Case batched(Mode mode) {
  Case test;
  test.mode = mode;
  test.batch = mode == Mode::Single ? 1 : 3;
  return test;
}

/// Streams are only told apart.
CUstream_st* stream_of(uintptr_t number) { return reinterpret_cast<CUstream_st*>(number); }

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
        test.m = random.between(1, 40), test.n = random.between(1, 70), test.k = random.between(1, 90);
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

// ---- refusals -----------------------------------------------------------------------------------

TEST_F(CublasltTest, TheLibraryAsItIsOpened) {
  EXPECT_GE(library_.cublasLtGetVersion(), 130000u);
  EXPECT_STREQ(library_.cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  const int64_t before = counts().handles;
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(library_.cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(counts().handles, before + 1);
  EXPECT_EQ(library_.cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library_.cublasLtDestroy(handle), CUBLAS_STATUS_NOT_INITIALIZED);
  Call call{Case()};
  call.handle = handle;
  EXPECT_EQ(call.look_up(), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_F(CublasltTest, DescriptorsThatAreNone) {
  cublasLtMatrixLayoutOpaque_t layout;
  std::memset(&layout, 0xcd, sizeof(layout));
  EXPECT_EQ(library_.cublasLtMatrixLayoutInit_internal(&layout, sizeof(layout) - 8, CUDA_R_16F, 8, 8, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  const int32_t batch = 2;
  const uint64_t wide = 2;
  EXPECT_EQ(library_.cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(refusal(), HasSubstr("never initialised"));
  Call call(batched(Mode::Strided));
  EXPECT_EQ(library_.cublasLtMatrixLayoutSetAttribute(&call.layouts[0], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &wide, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  const int64_t wrong_calls = counts().wrong_calls;
  Call spoilt = call;
  spoilt.layouts[1] = layout;
  EXPECT_EQ(spoilt.look_up(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(spoilt.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  spoilt = call;
  std::memset(&spoilt.operation, 0, sizeof(spoilt.operation));
  EXPECT_EQ(spoilt.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  spoilt = call;
  std::memset(&spoilt.preference, 0, sizeof(spoilt.preference));
  EXPECT_EQ(spoilt.look_up(), CUBLAS_STATUS_INVALID_VALUE);
  for (int operand : {0, 1, 3}) {
    spoilt = call;
    spoilt.addresses[operand] = nullptr;
    EXPECT_EQ(spoilt.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  }
  EXPECT_EQ(counts().wrong_calls, wrong_calls + 7);
  EXPECT_TRUE(device_.queue.empty());
}

TEST_F(CublasltTest, LayoutsThatDoNotFit) {
  Call call(batched(Mode::Strided));
  auto refused = [&](const auto& spoil) {
    Call spoilt = call;
    spoil(spoilt);
    EXPECT_EQ(spoilt.look_up(), CUBLAS_STATUS_INVALID_VALUE);
    return refusal();
  };
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.lay_out(1, 17, 24, 17); }), HasSubstr("B's rows"));
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.lay_out(3, 9, 24, 9); }), HasSubstr("output's rows"));
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.lay_out(3, 8, 23, 8); }), HasSubstr("output's columns"));
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.lay_out(0, 8, 16, 7); }), HasSubstr("leading dimension"));
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.lay_out(0, 0, 16, 8); }), HasSubstr("no elements"));
  EXPECT_THAT(refused([](Call& spoilt) { spoilt.set_batch(0, 2, 128); }), HasSubstr("batch counts"));
  EXPECT_THAT(refused([](Call& spoilt) {
                spoilt.test.mode = Mode::Pointers;
                spoilt.set_batch(0, 3, 0);
              }),
              HasSubstr("batch modes"));
  Case mixed;
  mixed.type = DType::F16, mixed.out = DType::BF16;
  EXPECT_EQ(Call(mixed).look_up(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasltTest, AlgorithmsForSomethingElse) {
  const Case plain = batched(Mode::Strided);
  Call call(plain);
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(refusal(), HasSubstr("no look-up"));
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  auto refused_for = [&](const auto& change) {
    Case other = plain;
    change(other);
    Call target(other);
    target.algorithm = call.algorithm;
    EXPECT_EQ(target.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
    return refusal();
  };
  EXPECT_THAT(refused_for([](Case& other) { other.out = DType::F32; }), HasSubstr("other types"));
  EXPECT_THAT(refused_for([](Case& other) { other.mode = Mode::Pointers; }), HasSubstr("batch mode"));
  EXPECT_THAT(refused_for([](Case& other) { other.row_major[3] = true; }), HasSubstr("order"));
  EXPECT_THAT(refused_for([](Case& other) { other.k = 17; }), HasSubstr("m or k"));
  EXPECT_THAT(refused_for([](Case& other) { other.n = 49; }), HasSubstr("size of n"));
  EXPECT_THAT(refused_for([](Case& other) { other.batch = 7; }), HasSubstr("size of batch"));
  call.algorithm.data[2] ^= 1;
  EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(refusal(), HasSubstr("no look-up"));
  // A height that is alike may have it.
  Case alike = plain;
  alike.n = 30;
  Call other(alike);
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  other.algorithm = call.algorithm;
  EXPECT_EQ(other.enqueue(), CUBLAS_STATUS_SUCCESS);
  device_.run_all();
  EXPECT_TRUE(other.is_right());
}

// ---- faults -------------------------------------------------------------------------------------

class CublasltFaultTest : public CublasltTest {
 protected:
  /// What the device says once the work has run.
  std::string fault_of(Call& call) {
    EXPECT_EQ(call.enqueue(), CUBLAS_STATUS_SUCCESS) << refusal();
    EXPECT_EQ(faults(), "") << "before it ran";
    device_.run_all();
    return faults();
  }
};

TEST_F(CublasltFaultTest, AddressesThatAreNoBetterAlignedThanTheyAre) {
  library_.set_scarcity(0);
  for (Mode mode : {Mode::Single, Mode::Strided, Mode::Pointers}) {
    for (int operand : {0, 1, 3}) {
      Case test = batched(mode);
      test.n = 16;
      Call call(test);
      call.promise(16);
      ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
      char* moved = device_.allocate(4096) + 8;
      if (mode == Mode::Pointers) {
        static_cast<char**>(call.addresses[operand])[1] = moved;
      } else {
        call.addresses[operand] = moved;
      }
      const char* names[] = {"A", "B", "C", "D"};
      EXPECT_THAT(fault_of(call), testing::AllOf(HasSubstr(std::string(": ") + names[operand] + " of member"),
                                                 HasSubstr("promised to be 16")));
      call.promise(8);
      ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(fault_of(call), "");
    }
  }
}

/// The first member may lie well, and the next one not.
TEST_F(CublasltFaultTest, StridesAndLeadingDimensionsThatLoseTheAlignment) {
  Call call(batched(Mode::Strided));
  call.promise(16);
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  call.set_batch(0, 3, 8 * 16 - 4);
  EXPECT_THAT(fault_of(call), HasSubstr("A of member 1"));
  Call rows{Case()};
  rows.promise(16);
  ASSERT_EQ(rows.look_up(), CUBLAS_STATUS_SUCCESS);
  rows.addresses[1] = device_.allocate(24 * 18 * 2);
  rows.lay_out(1, 16, 24, 18);
  EXPECT_THAT(fault_of(rows), HasSubstr("B's leading dimension 18"));
  ASSERT_EQ(rows.look_up(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(fault_of(rows), "");
}

TEST_F(CublasltFaultTest, OperandsThatReachOutOfTheirAllocation) {
  library_.set_scarcity(0);
  for (Mode mode : {Mode::Single, Mode::Strided, Mode::Pointers}) {
    for (int operand : {0, 1, 2, 3}) {
      Case test = batched(mode);
      test.beta = 1;
      test.ld_padding = 2;
      Call call(test);
      ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
      if (mode == Mode::Pointers) {
        static_cast<char**>(call.addresses[operand])[2] += 2;
      } else {
        call.addresses[operand] = static_cast<char*>(call.addresses[operand]) + 2;
      }
      EXPECT_THAT(fault_of(call), HasSubstr("is in no allocation")) << operand;
    }
  }
  Call call(batched(Mode::Pointers));
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  call.addresses[1] = static_cast<char**>(call.addresses[1]) + 1;
  EXPECT_THAT(fault_of(call), HasSubstr("B's table"));
}

TEST_F(CublasltFaultTest, OutputsThatOverlap) {
  library_.set_scarcity(0);
  Call call(batched(Mode::Strided));
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  Call spoilt = call;
  spoilt.set_batch(3, 3, 100);
  EXPECT_THAT(fault_of(spoilt), HasSubstr("overlaps D of member 0"));
  spoilt = call;
  spoilt.addresses[3] = spoilt.addresses[1];
  EXPECT_THAT(fault_of(spoilt), HasSubstr("overlaps"));
  spoilt = call;
  spoilt.addresses[3] = spoilt.workspace + 4096;
  EXPECT_THAT(fault_of(spoilt), HasSubstr("the workspace"));
  // What is only read may be one for all.
  spoilt = call;
  spoilt.set_batch(0, 3, 0);
  EXPECT_EQ(fault_of(spoilt), "");
  Case pointers = batched(Mode::Pointers);
  Call table(pointers);
  ASSERT_EQ(table.look_up(), CUBLAS_STATUS_SUCCESS);
  static_cast<char**>(table.addresses[3])[2] = table.memory[3];
  EXPECT_THAT(fault_of(table), HasSubstr("overlaps D of member"));
}

TEST_F(CublasltFaultTest, Workspaces) {
  Call call{Case()};
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  ASSERT_GE(call.needs, 1024u);
  Call spoilt = call;
  spoilt.workspace_bytes = call.needs - 1;
  EXPECT_EQ(spoilt.enqueue(), CUBLAS_STATUS_INVALID_VALUE);
  spoilt.workspace_bytes = call.needs;
  EXPECT_EQ(fault_of(spoilt), "");
  spoilt = call;
  spoilt.workspace = nullptr;
  EXPECT_THAT(fault_of(spoilt), HasSubstr("there is none"));
  spoilt.workspace = call.workspace + 8;
  EXPECT_THAT(fault_of(spoilt), HasSubstr("not aligned"));
  spoilt.workspace = call.workspace + 16;
  EXPECT_THAT(fault_of(spoilt), HasSubstr("in no allocation"));
}

/// The look-up keeps to the workspace that it is told of, and needs none where there is none.
TEST_F(CublasltFaultTest, NoWorkspaceIsAPlaceToo) {
  Call call{Case()};
  const uint64_t none = 0;
  ASSERT_EQ(library_.cublasLtMatmulPreferenceSetAttribute(
                &call.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &none, sizeof(none)),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(call.needs, 0u);
  call.workspace = nullptr;
  call.workspace_bytes = 0;
  EXPECT_EQ(fault_of(call), "");
  EXPECT_TRUE(call.is_right());
}

/// Two streams at once in one workspace, whole or in part, in some order of their pieces.
TEST_F(CublasltFaultTest, AWorkspaceThatTwoStreamsShare) {
  Call first{Case()}, second{Case()};
  ASSERT_EQ(first.look_up(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(second.look_up(), CUBLAS_STATUS_SUCCESS);
  auto run_between = [&] {
    EXPECT_EQ(first.enqueue(stream_of(1)), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(second.enqueue(stream_of(2)), CUBLAS_STATUS_SUCCESS);
    for (std::size_t index : {0, 1, 1, 0}) device_.run(index);
    return faults();
  };
  EXPECT_EQ(run_between(), "");
  second.workspace = first.workspace;
  EXPECT_THAT(run_between(), HasSubstr("somebody wrote to the workspace"));
  // Its end is the other's beginning.
  char* both = device_.allocate(2 * first.workspace_bytes);
  first.workspace = both;
  second.workspace = both + first.workspace_bytes - 256;
  EXPECT_THAT(run_between(), HasSubstr("somebody wrote to the workspace"));
  second.workspace = both + first.workspace_bytes;
  EXPECT_EQ(run_between(), "");
}

/// It is full of what is no number when the product has run.
TEST_F(CublasltFaultTest, AWorkspaceIsWrittenOver) {
  Call call{Case()};
  ASSERT_EQ(call.look_up(), CUBLAS_STATUS_SUCCESS);
  std::memset(call.workspace, 0, call.workspace_bytes);
  EXPECT_EQ(fault_of(call), "");
  float value;
  std::memcpy(&value, call.workspace, sizeof(value));
  EXPECT_NE(value, value);
  std::memcpy(&value, call.workspace + call.workspace_bytes - sizeof(value), sizeof(value));
  EXPECT_NE(value, value);
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
