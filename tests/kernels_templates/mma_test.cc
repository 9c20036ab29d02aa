// Operations of a whole warp in the shim: tensor cores, ldmatrix, shuffles; and a kernel that feeds them with
// asynchronous copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/kernels_templates/gemm_runs.h"

namespace minuet {
namespace {

using testing::HasSubstr;

template <StagedGemmSpec S>
void expect_staged(u64 seed, i32 rows, i32 steps) {
  const GemmProblem problem = random_gemm(seed, S.io, rows, S.columns, steps, S.step_words);
  for (const Turns& turns : all_turns()) {
    EXPECT_LE(worst_error(problem, run_staged_gemm<S>(problem, turns)), kGemmBound)
        << text_of(turns) << ", problem " << seed;
  }
}

TEST(StagedGemm, RightInEveryOrderAndType) {
  expect_staged<StagedGemmSpec{.io = DType::F16}>(21, 40, 7);
  expect_staged<StagedGemmSpec{.io = DType::BF16, .warps = 1, .columns = 16, .stages = 2}>(22, 16, 4);
  expect_staged<StagedGemmSpec{.io = DType::TF32, .step_words = 24, .stages = 4}>(23, 33, 5);
  expect_staged<StagedGemmSpec{.io = DType::F16, .columns = 8}>(24, 3, 1);
}

template <GemmFault F>
void expect_staged_found(const char* name, const char* message) {
  constexpr StagedGemmSpec kSpec{.columns = 16, .fault = F};
  const GemmProblem problem = random_gemm(25, kSpec.io, 64, kSpec.columns, 6, kSpec.step_words);
  std::string thrown;
  const int found = times_found(
      problem, [&](const Turns& turns) { return run_staged_gemm<kSpec>(problem, turns); }, &thrown);
  std::cout << name << ": found in " << found << " of " << all_turns().size() << " orders\n";
  EXPECT_GT(found, 0) << name;
  EXPECT_THAT(thrown, HasSubstr(message)) << name;
}

TEST(StagedGemm, FaultsAreFound) {
  expect_staged_found<GemmFault::NoCopyWait>("NoCopyWait", "");
  expect_staged_found<GemmFault::NoBlockBarrier>("NoBlockBarrier", "");
  expect_staged_found<GemmFault::DivergentLdmatrix>("DivergentLdmatrix", "different operations");
}

// ---- fragments, as the PTX ISA's figures have them ------------------------------------------------------

struct MmaParams {
  const float *a, *b;  // [16][depth], [depth][8]
  float* sum;          // [16][8]
};

/// Of 16-bit elements: "Matrix Fragments for mma.m16n8k16 with floating point type".
template <DType T>
void multiply_16_bits(const MmaParams& p) {
  const i32 lane = static_cast<i32>(threadIdx.x), group = lane >> 2, in_group = lane & 3;
  u16 a[8], b[4];
  float c[4];
  for (i32 i = 0; i < 8; ++i) {
    const i32 row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const i32 column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a[i] = to_16_bits<T>(p.a[row * 16 + column]);
  }
  for (i32 i = 0; i < 4; ++i) {
    const i32 row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    b[i] = to_16_bits<T>(p.b[row * 8 + group]);
  }
  for (i32 i = 0; i < 4; ++i) {
    c[i] = p.sum[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  }
  const auto pair = [](const u16* halves) { return halves[0] | static_cast<u32>(halves[1]) << 16; };
  const u32 a_words[4] = {pair(a), pair(a + 2), pair(a + 4), pair(a + 6)},
            b_words[2] = {pair(b), pair(b + 2)};
  mma<T>(c, a_words, b_words);
  for (i32 i = 0; i < 4; ++i) {
    p.sum[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = c[i];
  }
}

/// "Matrix Fragments for mma.m16n8k8", of .tf32.
void multiply_tf32(const MmaParams& p) {
  const i32 lane = static_cast<i32>(threadIdx.x), group = lane >> 2, in_group = lane & 3;
  u32 a[4], b[2];
  float c[4];
  for (i32 i = 0; i < 4; ++i) {
    const i32 row = i == 0 || i == 2 ? group : group + 8, column = i < 2 ? in_group : in_group + 4;
    a[i] = bits_of(p.a[row * 8 + column]);
    c[i] = p.sum[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  }
  for (i32 i = 0; i < 2; ++i) b[i] = bits_of(p.b[(i == 0 ? in_group : in_group + 4) * 8 + group]);
  mma<DType::TF32>(c, a, b);
  for (i32 i = 0; i < 4; ++i) {
    p.sum[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = c[i];
  }
}

/// "Matrix Fragments for mma.m16n8k32", of .s8 and of T. The sums are a[16][32] * b[32][8].
template <DType T>
void multiply_8_bits(const MmaParams& p) {
  const i32 lane = static_cast<i32>(threadIdx.x), group = lane >> 2, in_group = lane & 3;
  u32 a[4] = {}, b[2] = {};
  i32 c[4];
  const auto put = [](u32& word, i32 i, float value) {
    word |= (static_cast<u32>(static_cast<i32>(value)) & 0xffu) << (i & 3) * 8;
  };
  for (i32 i = 0; i < 16; ++i) {
    const i32 row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
    put(a[i / 4], i, p.a[row * 32 + in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0)]);
  }
  for (i32 i = 0; i < 8; ++i) put(b[i / 4], i, p.b[(in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0)) * 8 + group]);
  const auto place = [&](i32 i) { return (i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1); };
  for (i32 i = 0; i < 4; ++i) c[i] = static_cast<i32>(p.sum[place(i)]);
  mma<T>(c, a, b);
  for (i32 i = 0; i < 4; ++i) p.sum[place(i)] = static_cast<float>(c[i]);
}

/// Small whole numbers: every product and sum is exact, in any order.
void expect_product(void (*kernel)(const MmaParams&), i32 depth, int order, i32 most_a = 8, i32 least_b = -8,
                    i32 most_b = 8) {
  Random random(31);
  std::vector<float> a, b, sum, expected;
  for (i32 i = 0; i < 16 * depth; ++i) a.push_back(static_cast<float>(random.between(-most_a, most_a)));
  for (i32 i = 0; i < depth * 8; ++i) b.push_back(static_cast<float>(random.between(least_b, most_b)));
  for (i32 i = 0; i < 16 * 8; ++i) {
    sum.push_back(static_cast<float>(random.between(-100, 100)));
    float total = sum.back();
    for (i32 k = 0; k < depth; ++k) total += a[i / 8 * depth + k] * b[k * 8 + i % 8];
    expected.push_back(total);
  }
  shim::launch(kernel, MmaParams{a.data(), b.data(), sum.data()},
               {.threads = 32, .order = static_cast<shim::Order>(order)});
  EXPECT_EQ(sum, expected);
}

TEST(Mma, FragmentsLieAsThePtxIsaSays) {
  for (int order = 0; order < 3; ++order) {
    expect_product(&multiply_16_bits<DType::F16>, 16, order);
    expect_product(&multiply_16_bits<DType::BF16>, 16, order);
    expect_product(&multiply_tf32, 8, order);
    expect_product(&multiply_8_bits<DType::U8>, 32, order, 127, 0, 255);
    expect_product(&multiply_8_bits<DType::S8>, 32, order, 127, -127, 127);
  }
}

TEST(Mma, WhatIsBelowATf32IsCutOff) {
  std::vector<float> a(16 * 8, 0.0f), b(8 * 8, 0.0f), sum(16 * 8, 0.0f);
  a[0] = float_of(0x3f801fffu);  // 1 and all that a tf32 does not have
  b[0] = 1;
  shim::launch(&multiply_tf32, MmaParams{a.data(), b.data(), sum.data()}, {.threads = 32});
  EXPECT_EQ(sum[0], 1.0f);
}

// ---- the warp's own operations --------------------------------------------------------------------------

struct WarpParams {
  i32* out;  // [10][32]
};

void shuffle_all_ways(const WarpParams& p) {
  const i32 lane = static_cast<i32>(threadIdx.x % 32), value = 100 + lane;
  const i32 results[] = {
      __shfl_sync(~0u, value, 5),
      __shfl_sync(~0u, value, 9, 8),
      __shfl_xor_sync(~0u, value, 3),
      __shfl_up_sync(~0u, value, 2),
      __shfl_down_sync(~0u, value, 4, 16),
      static_cast<i32>(__ballot_sync(~0u, lane % 3 == 0)),
      __reduce_min_sync(~0u, value - 200),
      __reduce_add_sync(~0u, value),
      __any_sync(~0u, lane == 7) + 2 * __all_sync(~0u, lane < 31),
      lane < 16 ? __reduce_max_sync(0xffffu, value) : __reduce_max_sync(0xffff0000u, -value)};
  __syncwarp();
  if (threadIdx.x < 32) return;  // the second warp's answers
  for (i32 i = 0; i < 10; ++i) p.out[i * 32 + lane] = results[i];
}

TEST(Warp, ShufflesVotesAndReductions) {
  for (int order = 0; order < 3; ++order) {
    std::vector<i32> out = poisoned<i32>(320);
    shim::launch(&shuffle_all_ways, WarpParams{out.data()},
                 {.threads = 64, .order = static_cast<shim::Order>(order)});
    for (i32 lane = 0; lane < 32; ++lane) {
      const i32 expected[] = {105,
                              100 + lane / 8 * 8 + 1,
                              100 + (lane ^ 3),
                              lane < 2 ? 100 + lane : 98 + lane,
                              lane % 16 < 12 ? 104 + lane : 100 + lane,
                              0x49249249,
                              -100,
                              3696,
                              1,
                              lane < 16 ? 115 : -116};
      for (i32 i = 0; i < 10; ++i)
        EXPECT_EQ(out[i * 32 + lane], expected[i]) << "operation " << i << ", lane " << lane;
    }
  }
}

template <int Case>
void misuse_warp(const WarpParams&) {
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  if (Case == 0 && lane == 4) return;
  if (Case == 1 && lane == 4) __syncthreads();
  if (Case == 2 && lane == 4) __ballot_sync(~0u, 1);
  if (Case == 3 && lane == 4) __syncwarp(0xffu);
  if (Case == 4) __shfl_sync(0xffffffffu >> 1, lane, 0);
  if (Case == 5 && lane != 31) __shfl_sync(0xffffffffu >> 1, lane, 31);
  __syncwarp();
  if (Case == 1) __syncthreads();
}

std::string warp_error(void (*kernel)(const WarpParams&), int order) {
  try {
    shim::launch(kernel, WarpParams{}, {.threads = 32, .order = static_cast<shim::Order>(order)});
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

TEST(Warp, AThreadThatIsElsewhereIsAnError) {
  for (int order = 0; order < 3; ++order) {
    EXPECT_THAT(warp_error(&misuse_warp<0>, order),
                HasSubstr("1 threads have ended, 31 threads wait at a warp"));
    EXPECT_THAT(warp_error(&misuse_warp<1>, order),
                HasSubstr("1 threads wait at __syncthreads, 31 threads wait at a"));
    EXPECT_THAT(warp_error(&misuse_warp<2>, order), HasSubstr("different operations"));
    EXPECT_NE(warp_error(&misuse_warp<3>, order), "");
    EXPECT_THAT(warp_error(&misuse_warp<4>, order), HasSubstr("not in the mask"));
    EXPECT_THAT(warp_error(&misuse_warp<5>, order), HasSubstr("takes no part"));
    EXPECT_EQ(warp_error(&misuse_warp<6>, order), "");
  }
}

void multiply_in_half_a_warp(const WarpParams&) {
  float sum[4] = {};
  const u32 a[4] = {}, b[2] = {};
  mma<DType::F16>(sum, a, b);
}

TEST(Mma, WantsTheWholeWarp) {
  EXPECT_THROW(shim::launch(&multiply_in_half_a_warp, WarpParams{}, {.threads = 48}), std::logic_error);
  EXPECT_NO_THROW(shim::launch(&multiply_in_half_a_warp, WarpParams{}, {.threads = 64}));
}

}  // namespace
}  // namespace minuet
