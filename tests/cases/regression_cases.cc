#include "tests/cases/regression_cases.h"

namespace minuet {

const std::vector<ConvolutionCase>& regression_cases() {
  static const std::vector<ConvolutionCase> cases{
      // No bug so far. This one shows the form: duplicates in a cloud at the end of 32 bits, after an empty
      // one.
      ConvolutionCase{.kind = ConvolutionKind::Transposed,
                      .dtype = DType::F16,
                      .ndim = 2,
                      .points = 40,
                      .in_channels = 7,
                      .out_channels = 5,
                      .kernel_size = {2, 3, 1, 1},
                      .stride = {2, 3, 1, 1},
                      .one_sign = true,
                      .shift_alone = true,
                      .coarse_side = CoarseSide::Apart,
                      .origin = {2147483000, 0, 0, 0},
                      .duplicates = 3,
                      .earlier_points = 0,
                      .seed = 1u},
  };
  return cases;
}

}  // namespace minuet
