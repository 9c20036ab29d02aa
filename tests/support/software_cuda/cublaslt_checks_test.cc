// Everything that the cuBLASLt stand-in checks is found: what a call is refused for, and what the device
// faults on.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/software_cuda/cublaslt_fixture.h"

namespace minuet::software {
namespace {

using testing::HasSubstr;

/// Streams are only told apart.
CUstream_st* stream_of(uintptr_t number) { return reinterpret_cast<CUstream_st*>(number); }

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
TEST_F(CublasltFaultTest, StridesThatLoseTheAlignmentAndOtherLeadingDimensions) {
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
  EXPECT_NE(rows.enqueue(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(refusal(), HasSubstr("other leading dimensions"));
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

}  // namespace
}  // namespace minuet::software
