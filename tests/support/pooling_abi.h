// Poolings through the C ABI.
#pragma once

#include <vector>

#include "tests/support/abi.h"

namespace minuet::abi {

/// The pooling of a case's kernel map.
minuet_pooling_options pooling_of(const ConvolutionCase& test, minuet_reduction reduction);

/// A pooling, compiled and loaded.
class Pooling {
 public:
  Pooling(Machine& machine, const minuet_pooling_options& options);
  /// What create answered; the object is of no use where it is not MINUET_OK.
  minuet_status status() const { return status_; }
  minuet_plan* plan() const { return plan_.get(); }
  Execution execution(minuet_queue* queue = nullptr) const;
  /// The output as stored, [out_rows, channels], for what is prepared; buffers are poisoned first.
  std::vector<char> run(minuet_execution* execution, const std::vector<float>& features,
                        int64_t out_rows) const;
  /// The same of an execution of its own. Features and output are in the order of the data that the map was
  /// made of.
  std::vector<char> run(const Map& map, const std::vector<float>& features, int64_t out_rows) const;

 private:
  Machine& machine_;
  minuet_pooling_options options_;
  minuet_status status_ = MINUET_OK;
  Plan plan_{nullptr, {minuet_plan_destroy}};
};

}  // namespace minuet::abi
