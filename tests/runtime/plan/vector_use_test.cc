// Parameters are rounded by the widest vector instructions that the machine has, many numbers a call. The
// linker leads each call of vector_kernels() to this file (CMakeLists.txt), which counts what its functions
// are given.
#include <gmock/gmock.h>

#include <atomic>

#include "runtime/plan/plan.h"
#include "runtime/vector/vector_kernels.h"
#include "runtime/weights/rounding.h"

extern "C" {
const minuet::VectorKernels* __real__ZN6minuet14vector_kernelsENS_9VectorSetE(minuet::VectorSet set);
const minuet::VectorKernels* __wrap__ZN6minuet14vector_kernelsENS_9VectorSetE(minuet::VectorSet set);
}

namespace minuet {
namespace {

constexpr i64 kAtOnce = 4096;

/// What one of the functions was given.
struct Given {
  std::atomic<i64> calls = 0, numbers = 0;
  void add(i64 count) { ++calls, numbers += count; }
  void clear() { calls = 0, numbers = 0; }
};
Given rounded, narrowed, widened;

const VectorKernels& best() {
  static const VectorKernels* const kernels =
      __real__ZN6minuet14vector_kernelsENS_9VectorSetE(VectorSet::Best);
  return *kernels;
}

const VectorKernels& counting() {
  static const VectorKernels kernels = [] {
    VectorKernels made = best();
    made.round = [](DType type, const float* values, float* target, i64 count) {
      rounded.add(count);
      return best().round(type, values, target, count);
    };
    made.narrow = [](DType type, const float* input, void* output, i64 count) {
      narrowed.add(count);
      return best().narrow(type, input, output, count);
    };
    made.widen = [](DType type, const void* input, float* output, i64 count) {
      widened.add(count);
      best().widen(type, input, output, count);
    };
    return made;
  }();
  return kernels;
}

/// All numbers were given once, and not a few at a time.
void expect_all(Given& given, i64 numbers) {
  EXPECT_EQ(given.numbers, numbers);
  EXPECT_LE(given.calls, (numbers + kAtOnce - 1) / kAtOnce);
  given.clear();
}

TEST(VectorUse, TheBestSetIsTheWidestThatTheMachineHas) {
  const VectorKernels* widest = nullptr;
  for (const VectorSet set : {VectorSet::Baseline, VectorSet::Avx2, VectorSet::Avx512}) {
    if (const VectorKernels* const kernels = vector_kernels(set)) widest = kernels;
  }
  EXPECT_STREQ(best().name, widest->name);
}

TEST(VectorUse, NumbersAreConvertedInLargeBlocks) {
  constexpr std::size_t kCount = 3 * kAtOnce + 5;
  std::vector<float> values(kCount, 0.1f);
  std::vector<char> stored(kCount * sizeof(float));
  rounded.clear(), narrowed.clear(), widened.clear();
  for (const DType type : kDTypes) {
    round_values(type, values.data(), kCount, values.data());
    expect_all(rounded, kCount);
    store_values(type, values.data(), kCount, stored.data());
    expect_all(narrowed, kCount);
    load_values(type, stored.data(), kCount, values.data());
    expect_all(widened, kCount);
  }
}

/// A single convolution's plan rounds the weights that it is given, and a network's the drawn ones.
TEST(VectorUse, CreatingAPlanRoundsAllWeightsSo) {
  ConvolutionProblem problem;
  problem.kernel_size = {3, 3, 3, 1};
  problem.in_channels = 20, problem.out_channels = 30;
  LayerParameters given;
  given.weight.assign(27 * 20 * 30, 0.1f);
  NetworkProblem network;
  network.description = llvm::cantFail(parse_network(
      R"({"name": "n", "ndim": 3, "in_channels": 20, "channels": [30], "layers": [
          {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})"));
  rounded.clear();
  for (const DType type : kDTypes) {
    problem.dtype = network.dtype = type;
    llvm::cantFail(Plan::create(problem, given));
    expect_all(rounded, 27 * 20 * 30);
    llvm::cantFail(Plan::create(network, ParameterSource(uint64_t{1})));
    expect_all(rounded, 27 * 20 * 30);
  }
}

/// The parameters of a temporary would be gone when they are read.
static_assert(!std::is_constructible_v<GivenParameters, LayerParameters>);
static_assert(!std::is_constructible_v<GivenParameters, const LayerParameters>);
static_assert(std::is_constructible_v<GivenParameters, const LayerParameters&>);

}  // namespace
}  // namespace minuet

const minuet::VectorKernels* __wrap__ZN6minuet14vector_kernelsENS_9VectorSetE(minuet::VectorSet set) {
  if (set == minuet::VectorSet::Best) return &minuet::counting();
  return __real__ZN6minuet14vector_kernelsENS_9VectorSetE(set);
}
