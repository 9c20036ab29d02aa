// Cases that once failed, as the random problems print them: every check runs them all.
#pragma once

#include <vector>

#include "tests/cases/convolution_cases.h"

namespace minuet {

const std::vector<ConvolutionCase>& regression_cases();

}  // namespace minuet
