// Cases that once failed, as the random problems print them: every check runs them all.
#pragma once

#include <vector>

#include "tests/cases/convolution_cases.h"
#include "tests/cases/random_networks.h"

namespace minuet {

const std::vector<ConvolutionCase>& regression_cases();
const std::vector<NetworkCase>& regression_networks();

}  // namespace minuet
