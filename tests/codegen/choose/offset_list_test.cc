#include "codegen/choose/offset_list.h"

#include <gmock/gmock.h>

#include "codegen/choose/problem.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Kernel {
  AxisArray size{1, 1, 1, 1}, dilation{1, 1, 1, 1};
  OffsetList offsets = {};
};

std::string refusal(KernelShape shape, i32 ndim, Kernel kernel) {
  llvm::Error error = list_offsets(shape, ndim, kernel.size, kernel.dilation, kernel.offsets);
  return error ? llvm::toString(std::move(error)) : "";
}

Kernel listed(KernelShape shape, i32 ndim, Kernel kernel) {
  llvm::cantFail(list_offsets(shape, ndim, kernel.size, kernel.dilation, kernel.offsets));
  return kernel;
}

using Offset = AxisArray;

TEST(OffsetList, ACrossHasTheOrderOfItsBox) {
  const Kernel cross = listed(KernelShape::Cross, 3, {{3, 3, 3, 1}});
  EXPECT_THAT(cross.offsets,
              ElementsAre(Offset{-1, 0, 0, 0}, Offset{0, -1, 0, 0}, Offset{0, 0, -1, 0}, Offset{0, 0, 0, 0},
                          Offset{0, 0, 1, 0}, Offset{0, 1, 0, 0}, Offset{1, 0, 0, 0}));
  EXPECT_EQ(cross.size, (AxisArray{1, 1, 1, 1}));
  EXPECT_EQ(find_center(cross.offsets), 3);
}

TEST(OffsetList, ACrossOfEvenSizesAndDilations) {
  const Kernel cross = listed(KernelShape::Cross, 2, {{2, 4, 1, 1}, {5, 3, 1, 1}});
  EXPECT_THAT(cross.offsets, ElementsAre(Offset{0, -3, 0, 0}, Offset{0, 0, 0, 0}, Offset{0, 3, 0, 0},
                                         Offset{0, 6, 0, 0}, Offset{5, 0, 0, 0}));
  EXPECT_EQ(cross.dilation, (AxisArray{1, 1, 1, 1}));
  EXPECT_EQ(farthest_offset(cross.offsets, 1), 6);
}

TEST(OffsetList, TheOffsetZeroAloneIsABox) {
  EXPECT_TRUE(listed(KernelShape::Custom, 3, {.offsets = {{0, 0, 0, 0}}}).offsets.empty());
  EXPECT_TRUE(listed(KernelShape::Cross, 4, {}).offsets.empty());
  EXPECT_EQ(listed(KernelShape::Custom, 3, {.offsets = {{0, 1, 0, 0}}}).offsets.size(), 1u);
  EXPECT_EQ(listed(KernelShape::Box, 3, {{3, 2, 1, 1}}).size, (AxisArray{3, 2, 1, 1}));
}

TEST(OffsetList, WrongKernelsAreRefused) {
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {}), HasSubstr("there are no offsets"));
  EXPECT_THAT(refusal(KernelShape::Box, 3, {.offsets = {{1, 0, 0, 0}}}), HasSubstr("kernel shape is box"));
  EXPECT_THAT(refusal(KernelShape::Cross, 3, {.offsets = {{1, 0, 0, 0}}}),
              HasSubstr("kernel shape is cross"));
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {{3, 1, 1, 1}, {1, 1, 1, 1}, {{1, 0, 0, 0}}}),
              HasSubstr("leave its kernel size"));
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {{1, 1, 1, 1}, {1, 2, 1, 1}, {{1, 0, 0, 0}}}),
              HasSubstr("dilation"));
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {.offsets = {{1, 2, 3, 0}, {0, 0, 0, 0}, {1, 2, 3, 0}}}),
              HasSubstr("offsets 0 and 2 are equal"));
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {.offsets = {{0, 0, 0, 1}}}), HasSubstr("on axis 3"));
  EXPECT_THAT(refusal(KernelShape::Custom, 3, {.offsets = {{0, INT32_MIN, 0, 0}}}), HasSubstr("on axis 1"));
  EXPECT_THAT(refusal(KernelShape::Cross, 2, {{1 << 24, 1 << 24, 1, 1}}), HasSubstr("offsets"));
  EXPECT_THAT(refusal(KernelShape::Cross, 1, {{1 << 20, 1, 1, 1}, {1 << 10, 1, 1, 1}}), HasSubstr("product"));
  OffsetList many(static_cast<std::size_t>(kMostOffsets) + 1);
  for (std::size_t k = 0; k < many.size(); ++k) many[k][0] = static_cast<i32>(k);
  EXPECT_THAT(refusal(KernelShape::Custom, 1, {.offsets = many}), HasSubstr("at most"));
  many.pop_back();
  EXPECT_EQ(refusal(KernelShape::Custom, 1, {.offsets = many}), "");
}

TEST(OffsetList, AProblemWithAListHasNothingOfABox) {
  WindowProblem problem;
  problem.offsets = {{0, 1, 0, 0}, {0, -1, 0, 0}};
  EXPECT_FALSE(llvm::errorToBool(check_window(problem, 4, 4)));
  EXPECT_EQ(kernel_volume(problem), 2);
  WindowProblem sized = problem, padded = problem;
  sized.kernel_size[0] = 3;
  EXPECT_TRUE(llvm::errorToBool(check_window(sized, 4, 4)));
  padded.kind = ConvolutionKind::Strided;
  padded.padding = AxisArray{};
  EXPECT_TRUE(llvm::errorToBool(check_window(padded, 4, 4)));
}

}  // namespace
}  // namespace minuet
