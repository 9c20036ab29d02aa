// Lets convolutions compute the chains of pointwise steps behind them, which then need no pass over memory of
// their own.
#pragma once

#include "runtime/program/program.h"

namespace minuet {

/// Changes the layers of a program so that its convolutions compute what chains would compute. Storages have
/// no places yet when the function is called. It is a pure function of the program.
///
/// If only the chain reads the result of a convolution, the convolution takes over the leading steps that fit
/// into its epilogue, in this order: an Affine step, which becomes its scale and shift, an Add step, whose
/// operand becomes its residual, and an activation. Each of them requires that the convolution has no later
/// part of the epilogue yet. The parameters of the Affine step keep their names. What the convolution
/// computes is not rounded in between. A chain without further steps is removed.
///
/// Each other chain that consists of an Affine step, which an activation may follow, and that reads the whole
/// result of a convolution, moves to the place right behind the convolution, whose kernel computes it as its
/// second output (ConvolutionProblem::second_output). Each convolution has at most one.
void cover_chains(Program& program);

}  // namespace minuet
