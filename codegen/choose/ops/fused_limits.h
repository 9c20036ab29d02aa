// Declares what the choices of the fused kernel for warps and for warpgroups share.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

// The following limits were measured on an H200 in fp16 (`minuet-study specs`).
inline constexpr i32 kTile = 16;  // A tensor core product has this many columns.
// A thread block computes at most this many columns (output channels). 128 output channels run faster in two
// blocks of 64 columns.
inline constexpr i32 kMostColumns = 96;
inline constexpr i32 kMultiprocessors = 132;
// A launch with warpgroups has at least this many blocks.
inline constexpr i64 kFewestBlocks = kMultiprocessors / 4;
// From this number of rows on, more warps hide loads better than prefetching within a warp.
inline constexpr i64 kManyRows = 3 << 15, kVeryManyRows = 1 << 19;
// With many more rows than this, the other warps of a multiprocessor hide the waits for row numbers, so that
// warps do not stage them.
inline constexpr i64 kMostStagedRows = 1 << 15;
// The products of at most this many kernel offsets take too little time to hide the loads.
inline constexpr i32 kFewOffsets = 8;
// Warps divide the steps of the reduction among themselves only if there are at least this many steps.
inline constexpr i32 kFewSteps = 4;

/// Returns true if each output row has an input row at no more than one offset. The kernel then has a single
/// offset, or the convolution is transposed and its kernel is no larger than its stride on any axis.
bool has_one_offset(const ConvolutionProblem& problem);

/// Returns true if warps read the numbers of their input rows at enough offsets to stage them in shared
/// memory, and not at so many that this takes much of it.
bool may_stage_rows(const FusedSpec& spec, const ConvolutionProblem& problem);

/// Returns true if a multiprocessor of sm_90 has the shared memory for FusedSpec::blocks blocks.
bool fits_multiprocessor(const FusedSpec& spec);

}  // namespace minuet
