#include "runtime/engine/overlap.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/support/random.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::set<std::uintptr_t> bytes_of(const MemoryRows& memory) {
  std::set<std::uintptr_t> bytes;
  for (i64 row = 0; row < memory.rows; ++row) {
    for (i64 byte = 0; byte < memory.width; ++byte) {
      bytes.insert(memory.begin + static_cast<std::uintptr_t>(row * memory.stride + byte));
    }
  }
  return bytes;
}

bool share_a_byte(const MemoryRows& a, const MemoryRows& b) {
  const std::set<std::uintptr_t> of_a = bytes_of(a), of_b = bytes_of(b);
  return std::any_of(of_a.begin(), of_a.end(), [&](std::uintptr_t byte) { return of_b.count(byte) != 0; });
}

bool ranges_meet(const MemoryRows& a, const MemoryRows& b) {
  const std::set<std::uintptr_t> of_a = bytes_of(a), of_b = bytes_of(b);
  return !of_a.empty() && !of_b.empty() && *of_a.begin() <= *of_b.rbegin() && *of_b.begin() <= *of_a.rbegin();
}

/// Byte by byte, for all pairs of small matrices: exact by strides that are the same and for single rows, by
/// the ranges else.
TEST(Overlap, IsThatOfTheBytes) {
  Random random(41);
  int apart_inside = 0, together = 0;
  for (int repeat = 0; repeat < 6000; ++repeat) {
    const auto draw = [&](i64 stride) {
      MemoryRows memory;
      memory.begin = 1000 + random.below(60);
      memory.rows = static_cast<i64>(random.below(6));
      memory.width = static_cast<i64>(random.below(static_cast<uint64_t>(stride) + 1));
      memory.stride = stride;
      return memory;
    };
    const i64 stride = 1 + static_cast<i64>(random.below(12));
    const MemoryRows a = draw(stride);
    const MemoryRows b = draw(random.below(3) == 0 ? 1 + static_cast<i64>(random.below(12)) : stride);
    const bool is_exact = a.stride == b.stride || a.rows <= 1 || b.rows <= 1;
    const bool expected = is_exact ? share_a_byte(a, b) : ranges_meet(a, b);
    ASSERT_EQ(overlap(a, b), expected)
        << a.begin << " " << a.rows << " " << a.stride << " " << a.width << ", " << b.begin << " " << b.rows
        << " " << b.stride << " " << b.width;
    ASSERT_EQ(overlap(b, a), expected);
    apart_inside += is_exact && !expected && ranges_meet(a, b);
    together += expected;
  }
  EXPECT_GT(apart_inside, 100);
  EXPECT_GT(together, 200);
}

TEST(Overlap, OfLargeMatrices) {
  const std::uintptr_t base = std::uintptr_t{1} << 46;
  const MemoryRows left{base, i64{1} << 31, 4096, 2048}, right{base + 2048, i64{1} << 31, 4096, 2048};
  EXPECT_FALSE(overlap(left, right));
  EXPECT_FALSE(overlap(right, left));
  const MemoryRows wider{base + 2047, i64{1} << 31, 4096, 2048};
  EXPECT_TRUE(overlap(left, wider));
  EXPECT_TRUE(overlap(wider, left));
  const MemoryRows last{base + ((std::uintptr_t{1} << 31) - 1) * 4096, 1, 4096, 1};
  EXPECT_TRUE(overlap(left, last));
  EXPECT_FALSE(overlap(right, last));
}

/// The names are those of the header: the inputs, the residual, the outputs and the workspace.
TEST(Overlap, BothAreNamed) {
  std::vector<char> memory(1 << 12);
  const auto at = [&](i64 place) { return Tensor{memory.data() + place, 4, 8, 8, DType::F32}; };  // 128 bytes
  const MemoryRows workspace = memory_of(memory.data() + 2048, 1024), none = memory_of(nullptr, 0);
  struct Row {
    std::vector<Tensor> inputs, outputs;
    MemoryRows workspace;
    const char *one, *other;  // null: they lie apart
  };
  const Row rows[] = {
      {{at(0), at(128)}, {at(256)}, workspace, nullptr, nullptr},
      {{at(0), at(0)}, {at(128)}, workspace, nullptr, nullptr},
      {{at(0), at(128)}, {at(0)}, workspace, "output 0", "input 0 overlap"},
      {{at(0), at(128)}, {at(252)}, workspace, "output 0", "input 1 (the residual)"},
      {{at(0)}, {at(128), at(224)}, workspace, "output 1", "output 0"},
      {{at(0)}, {at(128), at(2048)}, workspace, "output 1", "the workspace"},
      {{at(0)}, {at(128), at(2048)}, none, nullptr, nullptr},
      {{at(3068)}, {at(128)}, workspace, "the workspace", "input 0"},
      {{at(3072)}, {at(128)}, workspace, nullptr, nullptr},
  };
  for (const Row& row : rows) {
    const std::string text =
        llvm::toString(check_apart(memory_of(row.inputs), memory_of(row.outputs), row.workspace, true));
    if (!row.one) {
      EXPECT_EQ(text, "");
      continue;
    }
    EXPECT_THAT(text, AllOf(HasSubstr(row.one), HasSubstr(row.other), HasSubstr("overlap")));
  }
  const MemoryRows inputs[] = {memory_of(at(0)), memory_of(at(128))};
  EXPECT_THAT(llvm::toString(check_apart(inputs, memory_of(at(128)), none, false)),
              HasSubstr("output 0 and input 1 overlap"));
}

}  // namespace
}  // namespace minuet
