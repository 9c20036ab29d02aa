// Keeps the tables of ops that pool all rows of each batch item.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

std::unique_ptr<OpWork> make_global_pool_work(const OpWorkContext& context);

}  // namespace minuet
