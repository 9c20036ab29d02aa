// Problems drawn from a seed over everything that the C ABI lets a single convolution be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cases/convolution_cases.h"

namespace minuet {

ConvolutionCase draw_case(DType dtype, uint64_t seed);

/// True where the library has to take the case: coordinates fit 32 bits and their keys 64, and the fp64
/// oracle is done with it in a moment.
bool is_feasible(const ConvolutionCase& test);

/// Feasible cases that are a step simpler in one respect, great steps first.
std::vector<ConvolutionCase> simpler_cases(const ConvolutionCase& test);

/// C++ text of the case: every field that is not as in ConvolutionCase{}. For regression_cases.cc.
std::string as_initializer(const ConvolutionCase& test);

/// MINUET_TEST_SEED, else another one in every process.
uint64_t run_seed();
/// Seed of one of the cases that a run draws.
uint64_t case_seed(uint64_t run, uint64_t stream, uint64_t index);

}  // namespace minuet
