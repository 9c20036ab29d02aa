// Gather: copies, padding rows and tf32 rounding, for every dtype, channel count and tile.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/kernels_templates/features.h"
// features.h first: it brings the shim's names.
#include "kernels_templates/gmas/gather.h"

namespace minuet {
namespace {

struct Padding {
  std::vector<i32> ends, start;  // by offset
  i64 rows = 0;
};

/// Runs of unused buffer rows as padding of some offsets; the rest of them must stay untouched.
Padding pad(const std::vector<bool>& used, i32 volume) {
  Padding padding;
  i64 row = 0;
  const i64 buffer_rows = static_cast<i64>(used.size());
  for (i32 k = 0; k < volume; ++k) {
    while (row < buffer_rows && used[static_cast<std::size_t>(row)]) ++row;
    padding.start.push_back(static_cast<i32>(row));
    const i64 most = k % 3 == 1 ? 0 : 5;  // every third offset has none
    for (i64 n = 0; n < most && row < buffer_rows && !used[static_cast<std::size_t>(row)]; ++n, ++row)
      ++padding.rows;
    padding.ends.push_back(static_cast<i32>(padding.rows));
    if (k % 2 == 0) ++row;
  }
  return padding;
}

using GatherKernel = void (*)(const GatherParams&);

/// Of a kernel with `spec`, whose dtype is T: an instance a dtype, not one a kernel.
template <DType T>
void check_gathered(const GatherSpec& spec, GatherKernel kernel, i64 rows, i32 volume, int variant) {
  SCOPED_TRACE("dtype " + std::to_string(static_cast<i32>(T)) + " channels " + std::to_string(spec.channels) +
               " tile " + std::to_string(spec.tile) + " vector " + std::to_string(spec.vector_bytes) +
               " rows " + std::to_string(rows));
  Random random(300 + static_cast<u64>(rows));
  const i64 buffer_rows = rows * volume / 2 + 20;
  Matrix<T> features(rows, spec.channels, spec.channels + 16);
  features.fill(random, rows);
  std::vector<i32> unused;
  const std::vector<i32> table = random_table(random, volume, rows, buffer_rows, &unused);
  std::vector<bool> used(static_cast<std::size_t>(buffer_rows), true);
  for (const i32 slot : unused) used[static_cast<std::size_t>(slot)] = false;
  const Padding padding = pad(used, volume);

  GatherParams params{};
  params.features = features.elements();
  params.ld = features.ld();
  params.rows = rows;
  params.table = table.data();
  params.volume = volume;
  params.padding_rows = padding.rows;
  params.padding_ends = padding.ends.data();
  params.padding_start = padding.start.data();
  constexpr i64 kUntouched = -1, kZero = -2;
  std::vector<i64> origin(static_cast<std::size_t>(buffer_rows), kUntouched);
  for (std::size_t entry = 0; entry < table.size(); ++entry) {
    if (table[entry] >= 0) origin[static_cast<std::size_t>(table[entry])] = static_cast<i64>(entry) % rows;
  }
  for (i32 k = 0; k < volume; ++k) {
    const i32 size = padding.ends[k] - (k == 0 ? 0 : padding.ends[k - 1]);
    for (i32 n = 0; n < size; ++n) origin[static_cast<std::size_t>(padding.start[k] + n)] = kZero;
  }
  // Whole, or in slices, each of which leaves alone what is of others.
  const Matrix<T> poison(buffer_rows, spec.channels, spec.channels);
  std::vector<i64> ends{buffer_rows};
  if (variant % 2 == 1) ends = {buffer_rows / 4, buffer_rows / 2, buffer_rows / 2, buffer_rows};
  for (const i64 end : ends) {
    params.first_row = params.last_row;
    params.last_row = static_cast<i32>(end);
    SCOPED_TRACE("slice from " + std::to_string(params.first_row) + " to " + std::to_string(end));
    Matrix<T> buffer(buffer_rows, spec.channels, spec.channels);
    params.buffer = buffer.elements() + params.first_row * spec.channels;
    shim::launch(kernel, params, shim::small_grid(variant, spec.threads));
    const auto is_poison = [&](i64 first, i64 last) {
      const i64 begin = first * spec.channels, elements = (last - first) * spec.channels;
      return std::equal(buffer.elements() + begin, buffer.elements() + begin + elements,
                        poison.elements() + begin);
    };
    ASSERT_TRUE(is_poison(0, params.first_row) && is_poison(end, buffer_rows));
    for (i64 row = params.first_row; row < end; ++row) {
      const i64 from = origin[static_cast<std::size_t>(row)];
      for (i64 c = 0; c < spec.channels; ++c) {
        if (from == kUntouched) {
          ASSERT_TRUE(buffer.is_poison(row, c));
          continue;
        }
        const u32 stored = from == kZero ? 0 : features.bits(from, c);
        ASSERT_EQ(buffer.bits(row, c), T == DType::TF32 ? round_to_tf32(stored) : stored) << row << " " << c;
      }
    }
  }
}

template <DType T, i32 Channels, i32 Tile, i32 VectorBytes>
void expect_gathered(i64 rows, i32 volume, int variant) {
  constexpr GatherSpec kSpec{
      .io = T, .channels = Channels, .tile = Tile, .vector_bytes = VectorBytes, .threads = 64};
  check_gathered<T>(kSpec, &gather<kSpec>, rows, volume, variant);
}

template <DType T>
void expect_all_gathered() {
  int variant = 0;
  for_channels_and_tiles<dtype_bytes(T)>([&]<i32 Channels, i32 Tile, i32 VectorBytes>() {
    for (const i64 rows : {0, 1, 31}) expect_gathered<T, Channels, Tile, VectorBytes>(rows, 27, variant++);
  });
}
TEST(Gather, F32) { expect_all_gathered<DType::F32>(); }
TEST(Gather, Tf32) { expect_all_gathered<DType::TF32>(); }
TEST(Gather, F16) { expect_all_gathered<DType::F16>(); }
TEST(Gather, Bf16) { expect_all_gathered<DType::BF16>(); }

TEST(Gather, ManyRowsAndOddVolumes) {
  for (const i32 volume : {1, 8, 9, 10, 27, 125}) {
    expect_gathered<DType::F16, 32, 8, 16>(2, volume, volume);
    expect_gathered<DType::TF32, 4, 4, 16>(1000, volume, volume + 1);
  }
}

TEST(GatherShape, ThreadsOfARowTouchNeighbouringVectors) {
  using Shape = GatherShape<GatherSpec{.io = DType::F16, .channels = 64, .tile = 16, .vector_bytes = 16}>;
  EXPECT_EQ(Shape::kThreads, 4);
  EXPECT_EQ(Shape::kVectors, 2);
  EXPECT_EQ(Shape::vector_start(1, 0) - Shape::vector_start(0, 0), 16);
  EXPECT_EQ(Shape::vector_start(0, 1), 64);
}

/// Zeros as far as one likes: a page is there once it is written to.
class FarMemory {
 public:
  explicit FarMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {}
  ~FarMemory() {
    if (good()) ::munmap(data_, bytes_);
  }
  FarMemory(const FarMemory&) = delete;
  bool good() const { return data_ != MAP_FAILED; }
  u32* at(i64 byte) const { return reinterpret_cast<u32*>(static_cast<char*>(data_) + byte); }

 private:
  std::size_t bytes_;
  void* data_;
};

// Rows whose first byte, and whose first element, is past 2^31: of the features by their pitch, of the buffer
// by their number; and a padding row there.
TEST(Gather, RowsPastTwoToTheThirtyOne) {
  constexpr GatherSpec kSpec{.io = DType::F32, .channels = 256, .tile = 4, .vector_bytes = 16, .threads = 64};
  constexpr i64 kPitch = (i64{1} << 31) + 64, kRowBytes = 1024;
  const i32 far = (i32{1} << 23) + 5, padding = far + 3;  // elements past 2^31, bytes past 2^33
  const FarMemory features(static_cast<std::size_t>((kPitch + 256) * 4)),
      buffer((padding + i64{1}) * kRowBytes);
  if (!features.good() || !buffer.good()) GTEST_SKIP() << "17 GB of addresses are not to be had";
  for (i32 c = 0; c < 256; ++c) features.at(kPitch * 4)[c] = 1000u + static_cast<u32>(c);
  std::fill_n(buffer.at(padding * kRowBytes), 256, 7u);
  const i32 table[] = {-1, far}, ends[] = {1}, start[] = {padding};
  GatherParams params{};
  params.features = features.at(0);
  params.ld = kPitch;
  params.rows = 2;
  params.table = table;
  params.volume = 1;
  params.last_row = padding + 1;
  params.padding_rows = 1;
  params.padding_ends = ends;
  params.padding_start = start;
  params.buffer = buffer.at(0);
  shim::launch(&gather<kSpec>, params, shim::small_grid(0, kSpec.threads));
  for (i32 c = 0; c < 256; ++c) {
    ASSERT_EQ(buffer.at(far * kRowBytes)[c], 1000u + static_cast<u32>(c));
    ASSERT_EQ(buffer.at(padding * kRowBytes)[c], 0u);
  }
}

}  // namespace
}  // namespace minuet
