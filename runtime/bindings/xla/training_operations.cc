// The custom calls of the two passes of a network's training plan.
#include "runtime/bindings/xla/described.h"
#include "runtime/bindings/xla/network_parameters.h"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

// What both passes share.
class PassOperation : public XlaOperation {
 public:
  explicit PassOperation(const XlaAttributes& attributes)
      : training_(shared_training(attributes)),
        pyramid_(shared_pyramid(attributes)),
        parameters_(
            training_->network(), attributes.integers("statistics"),
            parameter_form(attributes, {ParameterForm::Each, ParameterForm::Flat}) == ParameterForm::Flat) {
    const minuet_plan_info info = training_->network().info();
    inputs_ = info.inputs;
    outputs_ = info.outputs;
    for (std::int32_t i = 0; i < info.outputs; ++i) {
      is_integer_.push_back(training_->network().output(i).element == MINUET_ELEMENT_I32);
    }
  }
  void load(const XlaPlace& place) override {
    once_(place, [&] {
      training_->load(place);
      sizes_of(place) = training_->training().bytes(place.arch, pyramid_->pyramid());
    });
  }

 protected:
  minuet_training_sizes& sizes_of(const XlaPlace& place) {
    const std::lock_guard lock(mutex_);
    return sizes_[&place];
  }
  // Returns `count` operands, or results, and moves `place` behind them.
  static std::vector<minuet_array> operands_of(const XlaCall& call, std::int64_t& place, std::int64_t count) {
    std::vector<minuet_array> arrays;
    for (std::int64_t i = 0; i < count; ++i) arrays.push_back(call.operand(place++).array());
    return arrays;
  }
  static std::vector<minuet_array> results_of(const XlaCall& call, std::int64_t& place, std::int64_t count) {
    std::vector<minuet_array> arrays;
    for (std::int64_t i = 0; i < count; ++i) arrays.push_back(call.result(place++).array());
    return arrays;
  }
  // The library requires a list, also where a network has no parameters.
  static const minuet_array* list(const std::vector<minuet_array>& arrays) {
    static const minuet_array none = {};
    return arrays.empty() ? &none : arrays.data();
  }
  // The fields that the arguments of both passes have.
  template <class Arguments>
  void fill(Arguments& arguments, const XlaArray& buffer, const std::vector<minuet_array>& parameters,
            const XlaWorkspace& workspace) const {
    arguments.pyramid = pyramid_->pyramid().get();
    arguments.buffer = buffer.of<void>(XLA_FFI_DataType_U8, 1);
    arguments.buffer_bytes = buffer.elements();
    arguments.parameters = list(parameters);
    arguments.parameter_count = static_cast<std::int32_t>(parameters.size());
    arguments.weights_order = MINUET_WEIGHTS_MINUET;
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
  }

  std::shared_ptr<XlaTraining> training_;
  std::shared_ptr<XlaPyramid> pyramid_;
  NetworkParameters parameters_;
  std::int64_t inputs_ = 0, outputs_ = 0;
  std::vector<bool> is_integer_;  // of each output

 private:
  OnceByPlace once_;
  std::mutex mutex_;
  std::map<const XlaPlace*, minuet_training_sizes> sizes_;
};

class ForwardPassOperation final : public PassOperation {
 public:
  using PassOperation::PassOperation;
  void run(const XlaPlace& place, const XlaCall& call) override {
    std::int64_t operand = 1, result = 0;
    const std::vector<minuet_array> inputs = operands_of(call, operand, inputs_);
    const std::vector<minuet_array> parameters = parameters_.operands(call, operand);
    const std::vector<minuet_array> outputs = results_of(call, result, outputs_);
    const XlaArray kept = call.result(result++);
    std::vector<minuet_array> statistics;  // Frozen batch norms keep theirs.
    if (!training_->is_frozen()) {
      statistics = parameters_.results(call, result, parameters, NetworkParameters::Part::Statistics);
    }
    call.require(operand, result, true);
    const XlaWorkspace workspace(call, [&] { return sizes_of(place).forward_workspace; });
    minuet_training_forward_arguments arguments = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
    fill(arguments, call.operand(0), parameters, workspace);
    arguments.new_statistics = statistics.empty() ? nullptr : statistics.data();
    arguments.inputs = inputs.data();
    arguments.outputs = outputs.data();
    arguments.input_count = static_cast<std::int32_t>(inputs_);
    arguments.output_count = static_cast<std::int32_t>(outputs_);
    arguments.kept = kept.of<void>(XLA_FFI_DataType_U8, 1);
    arguments.kept_bytes = kept.elements();
    training_->training().forward(place.device, arguments, call.stream());
  }
};

class BackwardPassOperation final : public PassOperation {
 public:
  using PassOperation::PassOperation;
  void run(const XlaPlace& place, const XlaCall& call) override {
    std::int64_t operand = 1, result = 0;
    const std::vector<minuet_array> parameters = parameters_.operands(call, operand);
    std::vector<minuet_array> out_gradients;
    for (const bool is_integer : is_integer_) {
      // Integers, the results of an argmax, have no gradient.
      out_gradients.push_back(is_integer ? minuet_array{} : call.operand(operand++).array());
    }
    const XlaArray kept = call.operand(operand++);
    const std::vector<minuet_array> gradients =
        parameters_.results(call, result, parameters, NetworkParameters::Part::Trained);
    std::vector<minuet_array> input_gradients;
    for (std::int64_t i = 0; i < inputs_; ++i) {
      const bool is_wanted = training_->input_gradients() >> i & 1;
      input_gradients.push_back(is_wanted ? call.result(result++).array() : minuet_array{});
    }
    call.require(operand, result, true);
    const XlaWorkspace workspace(call, [&] { return sizes_of(place).backward_workspace; });
    minuet_training_backward_arguments arguments = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
    fill(arguments, call.operand(0), parameters, workspace);
    arguments.out_gradients = out_gradients.data();
    arguments.out_gradient_count = static_cast<std::int32_t>(outputs_);
    arguments.parameter_gradients = list(gradients);
    arguments.input_gradients = training_->input_gradients() ? input_gradients.data() : nullptr;
    arguments.kept = kept.of<void>(XLA_FFI_DataType_U8, 1);
    arguments.kept_bytes = kept.elements();
    training_->training().backward(place.device, arguments, call.stream());
  }
};

}  // namespace

std::unique_ptr<XlaOperation> make_training_forward(const XlaAttributes& attributes) {
  return std::make_unique<ForwardPassOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_training_backward(const XlaAttributes& attributes) {
  return std::make_unique<BackwardPassOperation>(attributes);
}

}  // namespace minuet_xla
