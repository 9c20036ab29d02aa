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

const std::vector<NetworkCase>& regression_networks() {
  using Op = oracle::NetworkLayer::Op;
  static const std::vector<NetworkCase> networks{
      // No bug so far: a concatenation of concatenations, over two coarser levels.
      NetworkCase{
          .dtype = DType::F16,
          .ndim = 2,
          .in_channels = 3,
          .layers =
              {{.op = Op::Block, .channels = 5},
               {.op = Op::Block, .channels = 3},
               {.op = Op::Concat, .channels = 1, .skip = 0},
               {.op = Op::Residual, .channels = 7, .kernel_size = {3, 3, 1, 1}},
               {.op = Op::Block, .channels = 4, .kernel_size = {2, 3, 1, 1}, .stride = {2, 3, 1, 1}},
               {.op = Op::Up, .channels = 2, .kernel_size = {2, 3, 1, 1}, .stride = {2, 3, 1, 1}, .skip = 0},
               {.op = Op::Concat, .channels = 1, .skip = 2},
               {.op = Op::Block, .channels = 9}},
          .points = 60,
          .seed = 1u},
  };
  return networks;
}

}  // namespace minuet
