// The accuracy of gradients of weights from lists of 1e4 to 1e7 pairs, against float64, and their bits with
// other capacities of the list.
#include <cstring>

#include "tests/runtime/execution/gradient_fixture.h"

namespace minuet::abi {
namespace {

std::vector<uint32_t> bits_in(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

/// A list of random pairs of one offset, whose gradient of the weight follows from how often each pair is
/// there.
struct LongList {
  static constexpr int64_t kRows = 251;
  int channels;
  DType dtype;
  std::vector<float> features, out_gradient;
  std::vector<int32_t> pairs;

  LongList(DType type, int width, int64_t count) : channels(width), dtype(type) {
    Random random(static_cast<uint64_t>(width) + 7);
    // Sums of positive numbers lose most, because tensor cores truncate.
    const auto values = [&] {
      std::vector<float> made(static_cast<size_t>(kRows * channels));
      for (float& value : made) value = round_to(storage_type(dtype), random.uniform(0, 1));
      return made;
    };
    features = values(), out_gradient = values();
    pairs.reserve(static_cast<size_t>(3 * count));
    for (int64_t i = 0; i < count; ++i) {
      const auto row = [&] { return static_cast<int32_t>(random.below(kRows)); };
      pairs.insert(pairs.end(), {0, row(), row()});
    }
  }
  std::vector<double> expected() const {
    const auto rows = static_cast<size_t>(kRows), width = static_cast<size_t>(channels);
    std::vector<double> counts(rows * rows), sums(rows * width), weight(width * width);
    for (size_t i = 0; i < pairs.size(); i += 3)
      ++counts[static_cast<size_t>(pairs[i + 1]) * rows + static_cast<size_t>(pairs[i + 2])];
    for (size_t in = 0; in < rows; ++in) {
      for (size_t out = 0; out < rows; ++out) {
        for (size_t o = 0; o < width; ++o)
          sums[in * width + o] += counts[in * rows + out] * operand(dtype, out_gradient[out * width + o]);
      }
    }
    for (size_t in = 0; in < rows; ++in) {
      for (size_t i = 0; i < width; ++i) {
        const double x = operand(dtype, features[in * width + i]);
        for (size_t o = 0; o < width; ++o) weight[i * width + o] += x * sums[in * width + o];
      }
    }
    return weight;
  }
};

class LongLists : public Gradient {
 protected:
  GradientOp op_of(int channels) {
    ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, channels, channels, 8);
    test.kernel_size = test.dilation = {1, 1, 1, 1};
    return make_op(problem_of(test), MINUET_GRADIENT_WEIGHT);
  }
  std::vector<float> weight_of(minuet_gradient_op* op, const LongList& list, int64_t most_pairs) {
    const int channels = list.channels;
    std::vector<int32_t> padded = list.pairs;
    padded.resize(static_cast<size_t>(3 * most_pairs), -7);
    const Buffer pairs(machine(), padded),
        count(machine(), std::vector<int32_t>{static_cast<int32_t>(list.pairs.size() / 3)});
    const Buffer input(machine(), encode(dtype(), list.features)),
        gradient(machine(), encode(dtype(), list.out_gradient));
    const Buffer weight(machine(), int64_t{channels} * channels * 4),
        workspace(machine(), Room::bytes_of(machine(), op, most_pairs, LongList::kRows));
    const minuet_array array = array_of(weight.data(), {1, channels, channels}, MINUET_ELEMENT_F32);
    minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
    given.pairs = pairs.integers(), given.most_pairs = most_pairs, given.pair_count = count.integers();
    given.input = tensor(input, LongList::kRows, channels, dtype());
    given.out_gradient = tensor(gradient, LongList::kRows, channels, dtype());
    given.weight_gradient = &array;
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check(minuet_gradient_compute(op, machine().device(), &given, nullptr));
    return weight.read<float>();
  }
};

/// However many pairs an offset has, the sums of tensor cores are cut into segments before they lose
/// accuracy. On a GPU, the numbers of pairs are just as many as give every part two segments of the most
/// steps that one may have, 112 of 16-bit elements: 396 parts of 64 channels, and 66 of 256 channels.
TEST_P(LongLists, KeepTheirAccuracy) {
  std::vector<std::pair<int, int64_t>> shapes{{64, 10'000}};
  if (!machine().is_software())
    shapes.insert(shapes.end(), {{16, kSanitized ? 20'000 : 200'000}, {32, 70'000}});
  if (!machine().is_cpu() && !machine().is_software()) {
    constexpr int64_t kPairs = 2 * 112 * 64;
    shapes.insert(shapes.end(),
                  {{64, 396 * kPairs}, {64, 10'000'000}, {128, 132 * kPairs}, {256, 66 * kPairs}});
  }
  for (const auto& [channels, pairs] : shapes) {
    SCOPED_TRACE(testing::Message() << channels << " channels, " << pairs << " pairs");
    const LongList list(dtype(), channels, pairs);
    const std::vector<double> expected = list.expected();
    const GradientOp op = op_of(channels);
    const std::vector<float> got = weight_of(op.get(), list, pairs);
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
      size += expected[i] * expected[i];
    }
    EXPECT_LT(std::sqrt(error / size), 5e-5);
    RecordProperty("error_" + std::to_string(channels) + "_" + std::to_string(pairs),
                   std::to_string(std::sqrt(error / size)));
    EXPECT_EQ(bits_in(weight_of(op.get(), list, pairs)), bits_in(got)) << "a repetition has other bits";
  }
}

/// Lists of at least 1e5 pairs have larger tiles on some GPUs, and the bits are the same.
TEST_P(LongLists, HaveTheSameBitsWithAnyCapacity) {
  const bool is_fast = !machine().is_cpu() && !machine().is_software();
  const LongList list(dtype(), 256, is_fast ? 60'000 : 300);
  const GradientOp op = op_of(256);
  EXPECT_EQ(bits_in(weight_of(op.get(), list, 100'000)), bits_in(weight_of(op.get(), list, 99'999)));
}

MINUET_INSTANTIATE_DEVICE_TEST(LongLists);

}  // namespace
}  // namespace minuet::abi
