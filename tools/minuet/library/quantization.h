// Finds out how a network computes in 8 bits: the ranges of its tensors on given clouds, the layers that
// should keep floating numbers, and the errors of the result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/library/library.h"
#include "tools/minuet/library/magnitudes.h"

namespace minuet::tool {

/// Is the percentile where --percentile is not given.
constexpr double kUsualPercentile = 99.99;

/// Holds the values of the flags that say how to quantize.
struct QuantizationChoice {
  RangeMethod method = RangeMethod::Maximum;
  double percentile = kUsualPercentile;
  /// Limits the relative error of the outputs (Difference::relative()). The value 0 means no limit, so that
  /// every layer computes in 8 bits that can.
  double error_budget = 0;
  std::vector<std::string> floating;  ///< Names layers that keep floating numbers.
};

/// Describes a convolution of the network.
struct QuantizedLayer {
  std::string name;
  double range = 0;
  bool can_be_int8 = false, is_int8 = false;
  /// Says why the convolution keeps floating numbers, as the end of a sentence. It is empty for one that
  /// computes in 8 bits.
  std::string reason;
  /// Holds the relative error of the network's outputs if this layer alone computes in 8 bits. It is below 0
  /// if it was not measured, because there is no error budget or the layer alone cannot. It is infinite if
  /// an output then has another number of rows.
  double own_error = -1;
  /// Compares the layer's result in the quantized network with that in the floating one.
  Difference difference;
};

struct QuantizationReport {
  std::vector<QuantizedLayer> layers;
  /// Compares the outputs of the quantized network with those of the floating one. `name` is that of the
  /// output.
  struct Output {
    std::string name;
    bool has_error = true;  ///< Is false for an output of integers.
    Difference difference;
  };
  std::vector<Output> outputs;
  Difference all_outputs;
  /// Says for each output that has another number of rows in the quantized network why it has no error.
  std::vector<std::string> notes;
  std::string description;  ///< Holds the JSON text of the quantized network.
  int runs = 0;             ///< Counts the networks that were run.
};

/// Quantizes the network of `choice` by its results on the clouds. `say` is called with what is done next.
llvm::Expected<QuantizationReport> quantize_network(const Session& session, minuet_dtype dtype,
                                                    const NetworkChoice& network,
                                                    const std::vector<VoxelCloud>& clouds,
                                                    const QuantizationChoice& choice,
                                                    const std::function<void(std::string)>& say);

}  // namespace minuet::tool
