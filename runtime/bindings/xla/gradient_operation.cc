// The custom call that computes the gradients of a convolution's weight and bias.
#include "minuet/gradient.hpp"
#include "runtime/bindings/xla/described.h"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

class ParameterGradientsOperation final : public XlaOperation {
 public:
  explicit ParameterGradientsOperation(const XlaAttributes& attributes)
      : convolution_(attributes.integers("convolution")),
        which_(attributes.integer32("which")),
        op_(shared_context(), convolution_.options, which_) {}

  void load(const XlaPlace& place) override {
    once_(place, [&] { op_.load(place.device); });
  }

  void run(const XlaPlace& place, const XlaCall& call) override {
    const bool has_weight = which_ & MINUET_GRADIENT_WEIGHT, has_bias = which_ & MINUET_GRADIENT_BIAS;
    call.require(has_weight ? 5 : 2, has_weight + has_bias, true);
    const minuet_convolution_options& options = convolution_.options;
    minuet_gradient_arguments arguments = MINUET_GRADIENT_ARGUMENTS_INIT;
    arguments.out_gradient = tensor_of(call.operand(0));
    auto* const row_count = call.operand(1).of<std::int32_t>(XLA_FFI_DataType_S32, -1, 1);
    minuet_array weight_gradient = {};
    if (has_weight) {
      arguments.input = tensor_of(call.operand(2));
      const XlaArray pairs = call.operand(3);
      arguments.pairs = pairs.of<std::int32_t>(XLA_FFI_DataType_S32, 2);
      arguments.most_pairs = pairs.elements() / 3;
      arguments.pair_count = call.operand(4).of<std::int32_t>(XLA_FFI_DataType_S32, -1, 1);
      const std::int64_t inner = options.in_channels / options.groups;
      call.result(0).require(XLA_FFI_DataType_F32, 3, convolution_.volume * inner * options.out_channels);
      weight_gradient = call.result(0).array();
      arguments.weight_gradient = &weight_gradient;
      arguments.weights_order = MINUET_WEIGHTS_MINUET;
      arguments.swapped = options.transposed;
    }
    if (has_bias) {
      arguments.row_count = row_count;
      arguments.bias_gradient =
          call.result(has_weight).of<float>(XLA_FFI_DataType_F32, 1, options.out_channels);
    }
    const XlaWorkspace workspace(
        call, [&] { return op_.bytes(place.arch, arguments.most_pairs, arguments.out_gradient.rows); });
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    op_.compute(place.device, arguments, call.stream());
  }

 private:
  // Features with the dtype of the options, which may be TF32 for memory of f32.
  minuet_tensor tensor_of(const XlaArray& array) const {
    minuet_tensor tensor = array.tensor();
    if (convolution_.options.dtype == MINUET_TF32 && tensor.dtype == MINUET_F32) tensor.dtype = MINUET_TF32;
    return tensor;
  }

  DescribedConvolution convolution_;
  minuet_gradient which_;
  minuet::GradientOp op_;
  OnceByPlace once_;
};

}  // namespace

std::unique_ptr<XlaOperation> make_parameter_gradients(const XlaAttributes& attributes) {
  return std::make_unique<ParameterGradientsOperation>(attributes);
}

}  // namespace minuet_xla
