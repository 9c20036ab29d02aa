// Provides the parameters of convolutions and of chains of pointwise steps on the host. They are read from a
// file or drawn at random. Batch norms are folded into them, and weights are rounded to the dtype.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/program/program.h"
#include "runtime/weights/quantized_weight.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// Holds the parameters of one op in fp32. All vectors are empty for an op without parameters. The problem's
/// dtype can hold all values of `weight` exactly. A chain of pointwise steps has scales and shifts of each
/// Affine step, one after the other.
struct LayerParameters {
  std::vector<float> weight;  // The shape is [volume, in_channels / groups, out_channels].
  std::vector<float> scale;   // Holds [out_channels] numbers, or none if there is no scale and shift.
  std::vector<float> shift;
  std::vector<float> residual_factor;  // Holds [out_channels] numbers if the residual has 8-bit elements.
};

/// Holds the number of elements of each vector of LayerParameters.
struct ParameterCounts {
  i64 weight = 0, scale = 0, shift = 0, residual_factor = 0;
};
/// Returns the numbers for a layer with a valid problem. The weight has less than 2^53 elements.
ParameterCounts parameter_counts(const ProgramLayer& layer);

/// Returns the index of the first value that is not finite in the dtype, or nullopt if there is none.
std::optional<std::size_t> find_lost(DType dtype, llvm::ArrayRef<float> values);

/// Returns the values rounded to the dtype, as GEMMs multiply them. Sets `all_finite` to true if all rounded
/// values are finite, and otherwise to false.
std::vector<float> rounded_copy(DType dtype, llvm::ArrayRef<float> values, bool& all_finite);

/// Returns the end of an error message about a value that is not finite in the dtype, for example "which fp16
/// cannot hold; use bf16, tf32 or fp32; the option ...".
std::string overflow_text(DType dtype, float value);

/// Returns why a convolution with an 8-bit input and these floating parameters must keep floating numbers, or
/// nothing if 8 bits can hold them (weights/quantized_weight.h).
llvm::Expected<std::optional<std::string>> keep_floating_reason(const ProgramLayer& layer,
                                                                const LayerParameters& parameters);

/// Reads parameters from a file, or draws them at random. Drawn convolution weights are normally distributed
/// with variance 2 / (volume * in_channels / groups), and drawn batch norms are near the identity. A drawn
/// tensor depends only on its name and the seed.
class ParameterSource {
 public:
  explicit ParameterSource(uint64_t seed) : seed_(seed) {}
  explicit ParameterSource(std::shared_ptr<WeightsFile> file) : file_(std::move(file)) {}
  /// Returns a source that has no values, for a plan whose values are set later.
  static ParameterSource without_values() {
    ParameterSource source(uint64_t{0});
    source.has_values_ = false;
    return source;
  }
  bool has_values() const { return has_values_; }

  /// Returns the number of output channels of a network's head, whose weight is the tensor `name.weight`, or
  /// 0 if the file has no such tensor. If the parameters are drawn at random, it returns 0 too.
  llvm::Expected<i32> head_channels(const std::string& name, i32 in_channels) const;
  /// Runs check_weights() if the parameters come from a file.
  llvm::Error check(const Program& program) const;
  llvm::Expected<LayerParameters> layer(const ProgramLayer& layer) const;

 private:
  struct Draw {
    double mean, deviation;
  };
  std::vector<float> draw(const std::string& name, i64 count, Draw draw) const;
  llvm::Expected<std::vector<float>> vector(const std::string& name, i64 channels, Draw draw) const;
  /// Returns the result of ParameterSource::vector(), or `channels` copies of `where_absent` if the name is
  /// empty.
  llvm::Expected<std::vector<float>> optional_vector(const std::string& name, i64 channels,
                                                     float where_absent, Draw draw) const;
  llvm::Expected<std::vector<float>> weight(const ProgramLayer& layer) const;
  llvm::Error refuse_weight(const ProgramLayer& layer) const;
  llvm::Error fold_batch_norm(const AffineNames& names, const std::string& bias, const std::string& layer,
                              i64 channels, LayerParameters& parameters) const;
  llvm::Error fold_scale_shift(const ProgramLayer& layer, i64 channels, LayerParameters& parameters) const;
  llvm::Expected<LayerParameters> chain(const ProgramLayer& layer) const;

  bool allows_non_finite() const { return file_ && file_->options().allow_non_finite; }

  std::shared_ptr<WeightsFile> file_;
  uint64_t seed_ = 0;
  bool has_values_ = true;
};

}  // namespace minuet
