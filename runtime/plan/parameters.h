// Parameters of convolutions on the host: read or drawn, batch norm folded, rounded to the dtype.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/program/program.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// One op's parameters, fp32; an op without parameters has none. `weight` holds values that the problem's
/// dtype holds exactly.
struct LayerParameters {
  std::vector<float> weight;  // [volume, in_channels, out_channels]
  std::vector<float> scale;   // [out_channels], empty where the problem has none
  std::vector<float> shift;
};

/// The index of the first value that is not finite in the dtype.
std::optional<std::size_t> find_lost(DType dtype, llvm::ArrayRef<float> values);

/// Values as GEMMs of the dtype multiply them; tells whether all of them are finite.
std::vector<float> rounded_copy(DType dtype, llvm::ArrayRef<float> values, bool& all_finite);

/// "which fp16 cannot hold; take bf16, tf32 or fp32; the option ..."
std::string overflow_text(DType dtype, float value);

/// From a file, or drawn: convolutions normal with variance 2 / (volume * in_channels), batch norm
/// near the identity. A tensor's draw depends on its name and the seed only.
class ParameterSource {
 public:
  explicit ParameterSource(uint64_t seed) : seed_(seed) {}
  explicit ParameterSource(std::shared_ptr<const WeightsFile> file) : file_(std::move(file)) {}

  /// Output channels of `name.weight`, or 0 where there is none (drawn networks have no such head).
  llvm::Expected<i32> head_channels(const std::string& name, i32 in_channels) const;
  /// check_weights, where they come from a file.
  llvm::Error check(const Program& program) const;
  llvm::Expected<LayerParameters> layer(const ProgramLayer& layer) const;

 private:
  struct Draw {
    double mean, deviation;
  };
  std::vector<float> draw(const std::string& name, i64 count, Draw draw) const;
  llvm::Expected<std::vector<float>> vector(const std::string& name, i64 channels, Draw draw) const;
  /// The same, or `channels` times `where_absent` where the name is empty.
  llvm::Expected<std::vector<float>> optional_vector(const std::string& name, i64 channels,
                                                     float where_absent, Draw draw) const;
  llvm::Expected<std::vector<float>> weight(const ProgramLayer& layer) const;
  llvm::Error refuse_weight(const ProgramLayer& layer) const;
  llvm::Error fold_batch_norm(const ProgramLayer& layer, LayerParameters& parameters) const;

  bool allows_non_finite() const { return file_ && file_->options().allow_non_finite; }

  std::shared_ptr<const WeightsFile> file_;
  uint64_t seed_ = 0;
};

}  // namespace minuet
