// The custom calls of batch norm in training: whole, or in two parts with a sum over ranks between them.
#include "minuet/batch_norm.hpp"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

// The part of a batch norm that a custom call computes.
enum NormPart : std::int64_t { kWhole = 0, kSum = 1, kApply = 2 };

minuet_batch_norm_options options_of(const XlaAttributes& attributes) {
  minuet_batch_norm_options options = MINUET_BATCH_NORM_OPTIONS_INIT;
  options.dtype = attributes.integer32("dtype");
  options.channels = attributes.integer32("channels");
  options.eps = static_cast<float>(attributes.real("eps"));
  options.has_residual = attributes.integer32("residual");
  options.has_relu = attributes.integer32("relu");
  if (attributes.has("momentum")) {
    options.momentum = static_cast<float>(attributes.real("momentum"));
    options.has_running_mean = 1;
  }
  return options;
}

// What both directions share.
class NormOperation : public XlaOperation {
 public:
  explicit NormOperation(const XlaAttributes& attributes)
      : options_(options_of(attributes)),
        part_(attributes.integer("part")),
        op_(shared_context(), options_) {}
  void load(const XlaPlace& place) override {
    once_(place, [&] { op_.load(place.device); });
  }

 protected:
  std::int64_t bytes(const XlaPlace& place, std::int64_t rows) const {
    return part_ == kApply ? 0 : op_.bytes(place.arch, rows);
  }
  const minuet_batch_norm_options options_;
  const std::int64_t part_;
  const minuet::BatchNormOp op_;

 private:
  OnceByPlace once_;
};

class NormForwardOperation final : public NormOperation {
 public:
  using NormOperation::NormOperation;
  void run(const XlaPlace& place, const XlaCall& call) override {
    const std::int64_t channels = options_.channels;
    CallReader reader(call);
    minuet_batch_norm_arguments arguments = MINUET_BATCH_NORM_ARGUMENTS_INIT;
    arguments.input = reader.operand().tensor();
    arguments.row_count = reader.count();
    if (part_ == kSum) {
      arguments.moments = reader.floats_out(2 * channels + 1);
    } else {
      arguments.weight = reader.floats_in(channels);
      arguments.bias = reader.floats_in(channels);
      if (options_.has_residual) arguments.residual = reader.operand().tensor();
      if (options_.has_running_mean) {
        arguments.running_mean = reader.floats_in(channels);
        arguments.running_variance = reader.floats_in(channels);
      }
      if (part_ == kApply) {
        const XlaArray moments = reader.operand();
        arguments.all_moments = moments.of<float>(XLA_FFI_DataType_F32);
        arguments.ranks = moments.elements() / (2 * channels + 1);
      }
      arguments.output = reader.result().tensor();
      arguments.saved = reader.floats_out(2 * channels + 1);
      if (options_.has_running_mean) {
        arguments.new_running_mean = reader.floats_out(channels);
        arguments.new_running_variance = reader.floats_out(channels);
      }
    }
    reader.finish();
    const XlaWorkspace workspace(call, [&] { return bytes(place, arguments.input.rows); });
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    if (part_ == kSum) {
      op_.sum(place.device, arguments, call.stream());
    } else if (part_ == kApply) {
      op_.apply(place.device, arguments, call.stream());
    } else {
      op_.forward(place.device, arguments, call.stream());
    }
  }
};

class NormGradientOperation final : public NormOperation {
 public:
  using NormOperation::NormOperation;
  void run(const XlaPlace& place, const XlaCall& call) override {
    const std::int64_t channels = options_.channels;
    CallReader reader(call);
    minuet_batch_norm_gradient_arguments arguments = MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT;
    arguments.input = reader.operand().tensor();
    arguments.out_gradient = reader.operand().tensor();
    arguments.row_count = reader.count();
    arguments.weight = reader.floats_in(channels);
    arguments.bias = reader.floats_in(channels);
    arguments.saved = reader.floats_in(2 * channels + 1);
    if (part_ == kApply) {
      if (options_.has_residual) arguments.residual_gradient = reader.operand().tensor();
      arguments.sums = reader.floats_in(2 * channels);
      arguments.input_gradient = reader.result().tensor();
    } else {
      if (options_.has_residual && options_.has_relu) arguments.output = reader.operand().tensor();
      if (part_ == kWhole) {
        arguments.input_gradient = reader.result().tensor();
      } else {
        arguments.sums = reader.floats_out(2 * channels);
      }
      arguments.weight_gradient = reader.floats_out(channels);
      arguments.bias_gradient = reader.floats_out(channels);
      if (options_.has_residual) arguments.residual_gradient = reader.result().tensor();
    }
    reader.finish();
    const XlaWorkspace workspace(call, [&] { return bytes(place, arguments.input.rows); });
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    if (part_ == kSum) {
      op_.sum_gradients(place.device, arguments, call.stream());
    } else if (part_ == kApply) {
      op_.apply_gradients(place.device, arguments, call.stream());
    } else {
      op_.backward(place.device, arguments, call.stream());
    }
  }
};

}  // namespace

std::unique_ptr<XlaOperation> make_batch_norm(const XlaAttributes& attributes) {
  return std::make_unique<NormForwardOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_batch_norm_gradient(const XlaAttributes& attributes) {
  return std::make_unique<NormGradientOperation>(attributes);
}

}  // namespace minuet_xla
