// The custom calls that prepare the parameters of a network, and that run a plan on a pyramid.
#include <optional>

#include "runtime/bindings/xla/described.h"
#include "runtime/bindings/xla/network_parameters.h"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

// Memory for the values of a plan's parameters, which each run sets before it computes.
//
// On the CPU a run is over when the call returns, and any number of threads may run one executable, so each
// call takes an object that no other call uses. On a GPU the work goes on behind the call. XLA orders the
// executions of one executable on a device, and one object belongs to one place in a program, so that one
// object for each device suffices. Graphs (command buffers) write and read its memory at every replay.
class RunValues {
 public:
  using Object = std::unique_ptr<minuet::Parameters>;
  // Puts an object there for the first call.
  void add(Object object) { give(std::move(object)); }
  Object take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    Object object = std::move(free_.back());
    free_.pop_back();
    return object;
  }
  void give(Object object) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
  }
  // Held while work with the only object of a GPU is enqueued.
  std::mutex& enqueueing() { return enqueueing_; }

 private:
  std::mutex mutex_, enqueueing_;
  std::vector<Object> free_;
};

class RunOperation final : public XlaOperation {
 public:
  explicit RunOperation(const XlaAttributes& attributes)
      : plan_(shared_plan(attributes.bytes("plan"))),
        pyramid_(shared_pyramid(attributes)),
        map_(attributes.integer32("map")) {
    const minuet_plan_info info = plan_->plan().info();
    inputs_ = info.inputs;
    outputs_ = info.outputs;
    const ParameterForm form = parameter_form(
        attributes, {ParameterForm::None, ParameterForm::Each, ParameterForm::Flat, ParameterForm::Prepared});
    is_prepared_ = form == ParameterForm::Prepared;
    if (form == ParameterForm::Each)
      parameters_.emplace(plan_->plan(), std::span<const std::int64_t>(), false);
    if (form == ParameterForm::Flat) {
      parameters_.emplace(plan_->plan(), attributes.integers("statistics"), true);
    }
    has_values_ = parameters_ && info.parameter_tensors > 0;
  }

  void load(const XlaPlace& place) override {
    once_(place, [&] {
      plan_->load(place);
      workspace_bytes_of(place) = minuet::run_bytes(plan_->plan(), place.arch, common());
      if (has_values_) values_of(place).add(make_values(place));
    });
  }

  void run(const XlaPlace& place, const XlaCall& call) override {
    const std::int64_t given = parameters_ ? parameters_->operand_count() : is_prepared_ ? 1 : 0;
    call.require(1 + inputs_ + given, outputs_, true);
    std::int64_t operand = 1 + inputs_;
    std::vector<minuet_array> values;
    if (parameters_) values = parameters_->operands(call, operand);
    const XlaWorkspace workspace(call, [&] { return workspace_bytes_of(place); });
    const XlaArray buffer = call.operand(0);
    std::vector<minuet_array> inputs, outputs;
    for (std::int64_t i = 0; i < inputs_; ++i) inputs.push_back(call.operand(1 + i).array());
    for (std::int64_t i = 0; i < outputs_; ++i) outputs.push_back(call.result(i).array());
    minuet_run_arguments arguments = common();
    arguments.buffer = buffer.of<void>(XLA_FFI_DataType_U8, 1);
    arguments.buffer_bytes = buffer.elements();
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    arguments.inputs = inputs.data();
    arguments.outputs = outputs.data();
    arguments.input_count = static_cast<std::int32_t>(inputs_);
    arguments.output_count = static_cast<std::int32_t>(outputs_);
    void* const stream = call.stream();
    if (is_prepared_) {
      const XlaArray prepared = call.operand(operand);
      arguments.prepared = prepared.of<void>(XLA_FFI_DataType_U8, 1);
      arguments.prepared_bytes = prepared.elements();
    }
    if (!has_values_) {
      minuet::run(plan_->plan(), place.device, arguments, stream);
      return;
    }
    RunValues& own = values_of(place);
    std::unique_lock<std::mutex> lock;
    if (!call.is_cpu()) lock = std::unique_lock(own.enqueueing());
    RunValues::Object object = own.take();
    if (!object) object = make_values(place);
    try {
      object->set({}, values, MINUET_WEIGHTS_MINUET, stream);
      arguments.parameters = object->get();
      minuet::run(plan_->plan(), place.device, arguments, stream);
    } catch (...) {
      own.give(std::move(object));
      throw;
    }
    own.give(std::move(object));
  }

 private:
  minuet_run_arguments common() const {
    minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
    arguments.pyramid = pyramid_->pyramid().get();
    arguments.map = map_;
    return arguments;
  }
  RunValues::Object make_values(const XlaPlace& place) const {
    auto object = std::make_unique<minuet::Parameters>(plan_->plan(), place.device);
    minuet_run_arguments arguments = common();
    arguments.parameters = object->get();
    minuet::run_load(plan_->plan(), place.device, arguments);
    return object;
  }
  RunValues& values_of(const XlaPlace& place) {
    const std::lock_guard lock(mutex_);
    return values_[&place];
  }
  std::int64_t& workspace_bytes_of(const XlaPlace& place) {
    const std::lock_guard lock(mutex_);
    return workspace_bytes_[&place];
  }

  std::shared_ptr<XlaPlan> plan_;
  std::shared_ptr<XlaPyramid> pyramid_;
  std::int32_t map_;
  std::int64_t inputs_ = 0, outputs_ = 0;
  std::optional<NetworkParameters> parameters_;
  bool is_prepared_ = false;
  bool has_values_ = false;  // A network may have no parameters to give.
  OnceByPlace once_;
  std::mutex mutex_;
  std::map<const XlaPlace*, RunValues> values_;
  std::map<const XlaPlace*, std::int64_t> workspace_bytes_;
};

// Writes parameters for any number of runs.
class PrepareOperation final : public XlaOperation {
 public:
  explicit PrepareOperation(const XlaAttributes& attributes)
      : plan_(shared_plan(attributes.bytes("plan"))),
        pyramid_(shared_pyramid(attributes)),
        map_(attributes.integer32("map")),
        parameters_(
            plan_->plan(), attributes.integers("statistics"),
            parameter_form(attributes, {ParameterForm::Each, ParameterForm::Flat}) == ParameterForm::Flat) {}

  void load(const XlaPlace& place) override { plan_->load(place); }

  void run(const XlaPlace& place, const XlaCall& call) override {
    std::int64_t operand = 0;
    const std::vector<minuet_array> values = parameters_.operands(call, operand);
    call.require(operand, 1, false);
    const XlaArray prepared = call.result(0);
    minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
    arguments.pyramid = pyramid_->pyramid().get();
    arguments.map = map_;
    minuet::prepare_parameters(plan_->plan(), place.device, arguments, values, MINUET_WEIGHTS_MINUET,
                               prepared.of<void>(XLA_FFI_DataType_U8, 1), prepared.elements(), call.stream());
  }

 private:
  std::shared_ptr<XlaPlan> plan_;
  std::shared_ptr<XlaPyramid> pyramid_;
  std::int32_t map_;
  NetworkParameters parameters_;
};

}  // namespace

std::unique_ptr<XlaOperation> make_prepare(const XlaAttributes& attributes) {
  return std::make_unique<PrepareOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_run(const XlaAttributes& attributes) {
  return std::make_unique<RunOperation>(attributes);
}

}  // namespace minuet_xla
