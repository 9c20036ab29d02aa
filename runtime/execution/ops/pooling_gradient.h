// Keeps the counts of the gradients of average poolings.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

std::unique_ptr<OpWork> make_pooling_gradient_work(const OpWorkContext& context);

}  // namespace minuet
