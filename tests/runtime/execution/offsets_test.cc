// Kernels with a list of offsets through the C ABI, on every device and in every type: the laws that connect
// them with boxes, and lists at the limits. Random lists are among the cases of random_test.cc.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"
#include "tests/support/pooling_abi.h"

namespace minuet::abi {
namespace {

using oracle::Axes;

/// The offsets of a box, x slowest, in tensor strides.
std::vector<Axes> box_offsets(const ConvolutionCase& test) {
  std::vector<Axes> offsets{Axes{0, 0, 0, 0}};
  for (size_t a = 0; a < static_cast<size_t>(test.ndim); ++a) {
    std::vector<Axes> longer;
    for (const Axes& offset : offsets) {
      for (int i = 0; i < test.kernel_size[a]; ++i) {
        longer.push_back(offset);
        longer.back()[a] = (i - (test.kernel_size[a] - 1) / 2) * test.dilation[a];
      }
    }
    offsets = longer;
  }
  return offsets;
}

/// The same problem with a list in place of the box.
ConvolutionCase listed(ConvolutionCase test, std::vector<Axes> offsets) {
  test.kernel_size = test.dilation = {1, 1, 1, 1};
  test.offsets = std::move(offsets);
  return test;
}

class OffsetsTest : public DeviceTest {
 protected:
  ConvolutionCase case_of(ConvolutionKind kind) {
    const bool is_small = machine().is_software() || kSanitized;
    ConvolutionCase test = small_case(dtype(), kind, 16, 24, is_small ? 60 : 700);
    test.residual = false;
    test.duplicates = 0;
    return test;
  }

  std::vector<char> run(const ConvolutionCase& test, const ConvolutionData& data) {
    Convolution convolution(machine(), test, data, MINUET_DATAFLOW_FUSED);
    EXPECT_EQ(convolution.status(), MINUET_OK) << last_error();
    if (convolution.status() != MINUET_OK) return {};
    const Map map = make_map(machine(), test, data);
    EXPECT_EQ(map.pairs, expected_pairs(data));
    return convolution.run(convolution.execution().get(), map, data);
  }

  void check_case(const ConvolutionCase& test) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    std::vector<double> magnitudes;
    const std::vector<double> expected = expected_output(test, data, &magnitudes);
    const std::vector<float> output = decode(dtype(), run(test, data));
    EXPECT_TRUE(is_close(select_rows(output, test.out_channels, data.rows), expected, magnitudes,
                         test.out_channels, test.dtype));
  }
};

/// A list of the offsets of a box, in the box's order, has the pairs and the bits of the box.
TEST_P(OffsetsTest, AListThatIsABoxHasItsBits) {
  for (const ConvolutionKind kind : all_kinds()) {
    ConvolutionCase box = case_of(kind);
    box.kernel_size = {3, 3, 2, 1};
    box.dilation = {1, 2, 1, 1};
    const ConvolutionCase list = listed(box, box_offsets(box));
    SCOPED_TRACE(list.name());
    const ConvolutionData data = make_data(box), of_list = make_data(list);
    ASSERT_EQ(data.weight, of_list.weight);
    ASSERT_EQ(data.out_coordinates, of_list.out_coordinates);
    const std::vector<char> bits = run(box, data);
    EXPECT_EQ(run(list, of_list), bits);
    EXPECT_GT(bits.size(), 0u);
  }
}

TEST_P(OffsetsTest, AListOfTheOffsetZeroIsALinearLayer) {
  const ConvolutionCase linear = listed(case_of(ConvolutionKind::Submanifold), {});
  const ConvolutionCase list = listed(linear, {{0, 0, 0, 0}});
  EXPECT_EQ(run(list, make_data(list)), run(linear, make_data(linear)));
}

TEST_P(OffsetsTest, OneOffsetThatIsNotZeroIsNoIdentity) {
  for (const ConvolutionKind kind : all_kinds()) check_case(listed(case_of(kind), {{0, 1, 0, 0}}));
}

TEST_P(OffsetsTest, ListsWithoutTheCentreAndListsOfSeveralMaskWords) {
  check_case(listed(case_of(ConvolutionKind::Submanifold), {{1, 0, 0, 0}, {0, -1, 0, 0}, {2, 2, -3, 0}}));
  ConvolutionCase wide = case_of(ConvolutionKind::Submanifold);
  wide.kernel_size = {5, 5, 3, 1};
  wide.out_channels = 8;
  std::vector<Axes> offsets = box_offsets(wide);  // 75, more than one launch searches
  std::reverse(offsets.begin(), offsets.end());
  check_case(listed(wide, offsets));
}

/// No coordinate is that far away, so that only the near offset has pairs.
TEST_P(OffsetsTest, OffsetsFarOutsideOfTheCloud) {
  const int32_t far = 1 << 20;
  for (const ConvolutionKind kind : all_kinds())
    check_case(listed(case_of(kind), {{far, -far, far, 0}, {0, 0, 0, 0}, {0, 0, -far, 0}}));
}

TEST_P(OffsetsTest, PoolingsTakeListsToo) {
  for (const ConvolutionKind kind : all_kinds()) {
    ConvolutionCase box = case_of(kind);
    box.out_channels = box.in_channels;
    box.kernel_size = {3, 2, 3, 1};
    const ConvolutionCase list = listed(box, box_offsets(box));
    const ConvolutionData data = make_data(list);
    for (const minuet_reduction reduction : {MINUET_REDUCE_MAX, MINUET_REDUCE_AVERAGE, MINUET_REDUCE_SUM}) {
      const Pooling of_box(machine(), pooling_of(box, reduction));
      const Pooling of_list(machine(), pooling_of(list, reduction));
      ASSERT_EQ(of_box.status(), MINUET_OK) << last_error();
      ASSERT_EQ(of_list.status(), MINUET_OK) << last_error();
      const Map box_map = make_map(machine(), box, data), list_map = make_map(machine(), list, data);
      EXPECT_EQ(of_list.run(list_map, data.features, data.out_rows()),
                of_box.run(box_map, data.features, data.out_rows()));
    }
  }
}

TEST_P(OffsetsTest, OfAnotherListAMapIsRefused) {
  const ConvolutionCase test = listed(case_of(ConvolutionKind::Submanifold), {{0, 1, 0, 0}, {0, 0, 0, 0}});
  ConvolutionCase other = test;
  std::swap(other.offsets[0], other.offsets[1]);
  const ConvolutionData data = make_data(test);
  Convolution convolution(machine(), test, data);
  const Map map = make_map(machine(), other, data);
  const Execution execution = convolution.execution();
  minuet_kernel_map* const handle = map.map.get();
  EXPECT_EQ(minuet_execution_prepare_maps(execution.get(), &handle, 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), testing::HasSubstr("offsets"));
}

MINUET_INSTANTIATE_DEVICE_TEST(OffsetsTest);

}  // namespace
}  // namespace minuet::abi
