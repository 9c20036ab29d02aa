// Implements training.h: the forward and the backward pass of a network.
#include "codegen/base/number_text.h"
#include "runtime/abi/pyramid_options.h"
#include "runtime/abi/single_op.h"
#include "runtime/weights/given_weight.h"

namespace minuet {
namespace {

[[gnu::cold]] llvm::Expected<TrainingOptions> read_training_options(const minuet_training_options& given) {
  MINUET_TRY(check_flags({{given.frozen_batch_norms, "frozen_batch_norms"},
                          {given.is_cumulative, "is_cumulative"},
                          {given.recompute_blocks, "recompute_blocks"}}));
  if (!(given.momentum >= 0 && given.momentum <= 1)) {
    return make_error(StatusCode::InvalidArgument,
                      "momentum is {0}; it must be above 0 and at most 1, or 0 for 0.1",
                      number_text(given.momentum));
  }
  if (given.is_cumulative != 0 && given.momentum != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "momentum is {0}, but is_cumulative gives all batches the same share: set momentum to 0",
        number_text(given.momentum));
  }
  MINUET_TRY(check_choice(given.branches, 2, "branches"));
  TrainingOptions options;
  options.has_branches = given.branches != 1;
  options.input_gradients = given.input_gradients;
  options.freezes_batch_norms = given.frozen_batch_norms != 0;
  options.recomputes_blocks = given.recompute_blocks != 0;
  if (given.momentum != 0) options.momentum = given.momentum;
  if (given.is_cumulative != 0) options.momentum = 0;
  options.is_cumulative = given.is_cumulative != 0;
  MINUET_TRY(check_list(given.recompute, "recompute", given.recompute_count, "recompute_count"));
  for (i32 i = 0; i < given.recompute_count; ++i) {
    MINUET_TRY(check_pointer(given.recompute[i], ("recompute[" + std::to_string(i) + "]").c_str()));
    options.recomputed.emplace_back(given.recompute[i]);
  }
  return options;
}

/// Describes memory that a call is given. A name is made of it only for a message.
struct CallMemory {
  const char* name = "";
  i32 element = -1;  // Is the number of the array if `name` is a list.
  MemoryRows rows;

  NamedMemory named() const {
    return {element < 0 ? std::string(name) : llvm::formatv("{0}[{1}]", name, element).str(), rows};
  }
};
using CallMemoryList = std::vector<CallMemory>;

/// Reads the arrays of one argument. An array without data has no shape in the result. Adds the memory of the
/// others to `memory`.
llvm::Expected<std::vector<GivenArray>> read_list(const char* name, const minuet_array* arrays, i64 count,
                                                  ArrayUse use, bool on_gpu, CallMemoryList& memory) {
  MINUET_TRY(check_pointer(arrays, name));
  std::vector<GivenArray> list(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (arrays[i].data == nullptr) continue;
    auto array = read_array(arrays[i], use);
    const auto number = static_cast<i32>(i);
    if (!array) return annotate(array.takeError(), CallMemory{name, number, {}}.named().name);
    if (array->on_host && on_gpu) {
      return make_error(StatusCode::InvalidArgument, "{0}[{1}]: it is on the host: give device memory", name,
                        i);
    }
    memory.push_back({name, number, memory_of(array->data, spanned_bytes(*array))});
    list[i] = std::move(*array);
  }
  return list;
}

llvm::Error check_length(const char* name, i64 given, std::size_t wanted) {
  if (given == static_cast<i64>(wanted)) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be {2}", name, given, wanted);
}

/// Returns InvalidArgument if an array that is needed has no data, or if one that is not has.
llvm::Error check_given(const char* name, std::size_t number, const GivenArray& array, bool is_needed,
                        const char* why) {
  if ((array.data != nullptr) == is_needed) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}[{1}] {2} data, but {3}", name, number,
                    is_needed ? "has no" : "has", why);
}

/// Checks that no written memory overlaps other memory. Most calls have many arrays that lie far apart, for
/// which one walk over the sorted memory suffices.
llvm::Error check_all_apart(const CallMemoryList& written, const CallMemoryList& read) {
  struct Range {
    std::uintptr_t begin, end;
    bool is_written;
  };
  std::vector<Range> ranges;
  ranges.reserve(written.size() + read.size());
  const auto add = [&](const CallMemoryList& list, bool is_written) {
    for (const CallMemory& memory : list) {
      const MemoryRows& rows = memory.rows;
      if (rows.rows == 0) continue;
      const auto bytes = static_cast<std::uintptr_t>((rows.rows - 1) * rows.stride + rows.width);
      ranges.push_back({rows.begin, rows.begin + bytes, is_written});
    }
  };
  add(written, true);
  add(read, false);
  llvm::sort(ranges, [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::uintptr_t end = 0, end_of_written = 0;
  bool may_overlap = false;
  for (const Range& range : ranges) {
    may_overlap |= range.begin < (range.is_written ? end : end_of_written);
    end = std::max(end, range.end);
    if (range.is_written) end_of_written = std::max(end_of_written, range.end);
  }
  if (!may_overlap) return llvm::Error::success();
  std::vector<NamedMemory> named_written, named_read;
  for (const CallMemory& memory : written) named_written.push_back(memory.named());
  for (const CallMemory& memory : read) named_read.push_back(memory.named());
  return check_apart(named_written, named_read);
}

bool is_statistic(const PlanParameter& parameter) {
  return parameter.role == ParameterRole::NormMean || parameter.role == ParameterRole::NormVariance;
}

/// Reads the arguments that both passes have, and the memory of the call.
template <class Given>
class PassReader {
 public:
  PassReader(const minuet_training& training, const minuet_device& device, const Given& given)
      : training_(training),
        given_(given),
        parameters_of_(training.training->passes().parameters),
        on_gpu_(!device.open->device()->info().arch.empty()) {}

  llvm::Error read_common() {
    MINUET_TRY(check_pointer(given_.pyramid, "pyramid"));
    use_.pyramid = given_.pyramid->pyramid;
    MINUET_TRY(check_length("parameter_count", given_.parameter_count, parameters_of_.size()));
    MINUET_TRY(check_choice(given_.weights_order, static_cast<i32>(kLastWeightsOrder), "weights_order"));
    order_ = given_.weights_order == MINUET_WEIGHTS_AS_DESCRIBED
                 ? training_.described_order
                 : static_cast<WeightsOrder>(given_.weights_order);
    MINUET_ASSIGN(parameters_, read_list("parameters", given_.parameters, given_.parameter_count,
                                         ArrayUse::Parameter, on_gpu_, read_));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      MINUET_TRY(check_given("parameters", i, parameters_[i], true, "every parameter needs a value"));
    }
    run_.buffer = const_cast<void*>(given_.buffer);
    run_.buffer_bytes = given_.buffer_bytes;
    run_.workspace = given_.workspace, run_.workspace_bytes = given_.workspace_bytes;
    run_.kept = const_cast<void*>(given_.kept), run_.kept_bytes = given_.kept_bytes;
    read_.push_back({"buffer", -1, memory_of(given_.buffer, given_.buffer_bytes)});
    written_.push_back({"workspace", -1, memory_of(given_.workspace, given_.workspace_bytes)});
    return llvm::Error::success();
  }

 protected:
  const minuet_training& training_;
  const Given& given_;
  const std::vector<PlanParameter>& parameters_of_;
  const bool on_gpu_;
  PyramidUse use_;
  PyramidRun run_;
  WeightsOrder order_ = WeightsOrder::Minuet;
  std::vector<GivenArray> parameters_, inputs_, outputs_;
  CallMemoryList written_, read_;
};

class ForwardReader : public PassReader<minuet_training_forward_arguments> {
 public:
  using PassReader::PassReader;

  llvm::Error read() {
    MINUET_TRY(read_common());
    const Program& program = training_.training->passes().forward.program;
    MINUET_TRY(check_length("input_count", given_.input_count, program.inputs.size()));
    MINUET_TRY(check_length("output_count", given_.output_count, program.outputs.size()));
    written_.push_back({"kept", -1, memory_of(given_.kept, given_.kept_bytes)});
    MINUET_TRY(read_statistics());
    MINUET_ASSIGN(inputs_,
                  read_list("inputs", given_.inputs, given_.input_count, ArrayUse::RunInput, on_gpu_, read_));
    MINUET_ASSIGN(outputs_, read_list("outputs", given_.outputs, given_.output_count, ArrayUse::RunOutput,
                                      on_gpu_, written_));
    return check_all_apart(written_, read_);
  }

  llvm::Error run(const Device& device, void* stream) {
    run_.inputs = inputs_, run_.outputs = outputs_;
    ForwardArguments arguments{{parameters_, order_}, statistics_, batches_, new_batches_};
    return training_.training->forward(device, use_, run_, arguments, stream);
  }

 private:
  llvm::Error read_statistics() {
    const TrainingOptions& options = training_.training->passes().options;
    const bool has_counts = given_.batch_count || given_.new_batch_count;
    if (given_.new_statistics == nullptr) {
      return refuse_unused(has_counts, "batch_count or new_batch_count", "new_statistics is null");
    }
    if (options.freezes_batch_norms) {
      return make_error(
          StatusCode::InvalidArgument,
          "new_statistics is given, but the batch norms are frozen and change none: leave it null");
    }
    CallMemoryList memory;
    MINUET_ASSIGN(statistics_, read_list("new_statistics", given_.new_statistics, given_.parameter_count,
                                         ArrayUse::Parameter, on_gpu_, memory));
    for (std::size_t i = 0; i < statistics_.size(); ++i) {
      const bool is_needed = is_statistic(parameters_of_[i]);
      MINUET_TRY(check_given(
          "new_statistics", i, statistics_[i], is_needed,
          is_needed ? "the parameter is a running statistic" : "the parameter is no running statistic"));
    }
    // A statistic that is stored in place counts as written only.
    llvm::erase_if(read_, [&](const CallMemory& other) {
      return other.element >= 0 && parameters_[other.element].data == statistics_[other.element].data;
    });
    written_.insert(written_.end(), memory.begin(), memory.end());
    return read_counts(options.is_cumulative);
  }

  llvm::Error read_counts(bool is_cumulative) {
    const bool has_norms = !training_.training->passes().forward.norms.empty();
    if (is_cumulative && has_norms) MINUET_TRY(check_pointer(given_.batch_count, "batch_count"));
    if (given_.new_batch_count) {
      MINUET_TRY(check_pointer(given_.batch_count, "batch_count"));
      MINUET_TRY(refuse_unused(!has_norms, "new_batch_count",
                               "the network has no batch norm, which counts the batches"));
    }
    MINUET_TRY(check_alignment(given_.batch_count, alignof(i64), "batch_count"));
    MINUET_TRY(check_alignment(given_.new_batch_count, alignof(i64), "new_batch_count"));
    batches_ = reinterpret_cast<const i64*>(given_.batch_count);
    new_batches_ = reinterpret_cast<i64*>(given_.new_batch_count);
    if (batches_ != new_batches_) read_.push_back(word_of("batch_count", batches_));
    written_.push_back(word_of("new_batch_count", new_batches_));
    return llvm::Error::success();
  }

  static CallMemory word_of(const char* name, const i64* word) {
    return {name, -1, memory_of(word, word ? static_cast<i64>(sizeof(i64)) : 0)};
  }

  std::vector<GivenArray> statistics_;
  const i64* batches_ = nullptr;
  i64* new_batches_ = nullptr;
};

class BackwardReader : public PassReader<minuet_training_backward_arguments> {
 public:
  using PassReader::PassReader;

  llvm::Error read() {
    MINUET_TRY(read_common());
    MINUET_TRY(check_flags({{given_.accumulate, "accumulate"}}));
    read_.push_back({"kept", -1, memory_of(given_.kept, given_.kept_bytes)});
    MINUET_TRY(read_gradients());
    MINUET_TRY(read_outputs());
    MINUET_TRY(read_inputs());
    return check_all_apart(written_, read_);
  }

  llvm::Error run(const Device& device, void* stream) {
    run_.inputs = inputs_, run_.outputs = outputs_;
    BackwardArguments arguments{{parameters_, order_}, gradients_, given_.accumulate != 0};
    return training_.training->backward(device, use_, run_, arguments, stream);
  }

 private:
  llvm::Error read_gradients() {
    MINUET_ASSIGN(gradients_, read_list("parameter_gradients", given_.parameter_gradients,
                                        given_.parameter_count, ArrayUse::Parameter, on_gpu_, written_));
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const GivenArray& array = gradients_[i];
      if (array.data == nullptr) continue;
      if (is_statistic(parameters_of_[i])) {
        return make_error(StatusCode::InvalidArgument,
                          "parameter_gradients[{0}] has data, but a running statistic has no gradient: leave "
                          "the data null",
                          i);
      }
      if (array.element != ElementType::F32) {
        return make_error(StatusCode::InvalidArgument,
                          "parameter_gradients[{0}]: its element is {1}; it must be f32 (0)", i,
                          element_name(array.element));
      }
      if (llvm::Error error = check_distinct(array)) {
        return annotate(std::move(error), llvm::formatv("parameter_gradients[{0}]", i).str());
      }
    }
    return llvm::Error::success();
  }

  llvm::Error read_outputs() {
    const std::vector<i32>& gradients = training_.training->passes().backward.out_gradients;
    MINUET_TRY(check_length("out_gradient_count", given_.out_gradient_count, gradients.size()));
    MINUET_ASSIGN(inputs_, read_list("out_gradients", given_.out_gradients, given_.out_gradient_count,
                                     ArrayUse::RunInput, on_gpu_, read_));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (gradients[i] >= 0) continue;
      MINUET_TRY(check_given("out_gradients", i, inputs_[i], false, "the output has integers"));
    }
    return llvm::Error::success();
  }

  llvm::Error read_inputs() {
    const std::vector<i32>& gradients = training_.training->passes().backward.input_gradients;
    if (given_.input_gradients == nullptr) {
      outputs_.resize(gradients.size());
    } else {
      MINUET_ASSIGN(outputs_,
                    read_list("input_gradients", given_.input_gradients, static_cast<i64>(gradients.size()),
                              ArrayUse::RunOutput, on_gpu_, written_));
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const bool is_needed = gradients[i] >= 0;
      MINUET_TRY(check_given("input_gradients", i, outputs_[i], is_needed,
                             is_needed
                                 ? "the training plan was created with this bit of input_gradients"
                                 : "the training plan was created without this bit of input_gradients"));
    }
    return llvm::Error::success();
  }

  std::vector<GivenArray> gradients_;
};

/// Implements the calls of both passes.
template <class Reader, class Given>
minuet_status call(const char* function, minuet_training* training, minuet_device* device,
                   const Given* arguments, const Given& defaults, const std::shared_ptr<RunPool>& runs,
                   void* stream) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const Given given, read_options(arguments, defaults));
    Reader reader(*training, *device, given);
    MINUET_TRY(reader.read());
    const Trace::Span span(device->open->trace(), "run", function);
    note_runs(*given.pyramid, runs);
    return reader.run(*device->open->device(), stream);
  });
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_training_create(minuet_context* context, minuet_plan* network,
                                     const minuet_training_options* options, minuet_training** training) {
  return guarded("minuet_training_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(network, "network"));
    MINUET_TRY(check_pointer(training, "training"));
    MINUET_ASSIGN(const minuet_training_options given,
                  read_options(options, minuet_training_options(MINUET_TRAINING_OPTIONS_INIT)));
    MINUET_ASSIGN(const TrainingOptions own, read_training_options(given));
    const Plan& plan = network->store->plan();
    MINUET_ASSIGN(std::shared_ptr<Training> made, Training::create(plan, context->context->cache(), own));
    *training = new minuet_training{context->context, std::move(made),
                                    plan.network->problem.description.weights_order};
    return llvm::Error::success();
  });
}

void minuet_training_destroy(minuet_training* training) { delete training; }

minuet_status minuet_training_query_kept(minuet_training* training, int32_t tensor, minuet_kept_info* info) {
  return guarded("minuet_training_query_kept", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(training, "training"));
    MINUET_TRY(check_info(info, "info"));
    const TrainingPasses& passes = training->training->passes();
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= passes.kept.size()) {
      return make_error(StatusCode::OutOfRange, "tensor is {0}; {1} are kept, numbered from 0", tensor,
                        passes.kept.size());
    }
    const Program& program = passes.forward.program;
    const KeptTensor& kept = passes.kept[static_cast<std::size_t>(tensor)];
    const TensorSpec& spec = program.tensors[kept.tensor];
    minuet_kept_info answer = MINUET_KEPT_INFO_INIT;
    answer.name = kept.name.c_str();
    answer.level = spec.level;
    answer.channels = spec.channels;
    answer.element = program.storages[spec.storage].holds_integers
                         ? MINUET_ELEMENT_I32
                         : static_cast<minuet_element>(storage_type(program.dtype));
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_training_create_pyramid(minuet_training* training, const minuet_pyramid_options* options,
                                             minuet_pyramid** pyramid) {
  return guarded("minuet_training_create_pyramid", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(training, "training"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_ASSIGN(const minuet_pyramid_options given,
                  read_options(options, minuet_pyramid_options(MINUET_PYRAMID_OPTIONS_INIT)));
    if (given.network) {
      return make_error(
          StatusCode::InvalidArgument,
          "network is given, but the pyramid has the levels of the training plan: leave it null");
    }
    const Training& own = *training->training;
    MINUET_ASSIGN(PyramidDescription description,
                  read_pyramid_of_network(given, own.passes().forward.program,
                                          [&](llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> slots,
                                              PyramidDescription& described) {
                                            return own.describe(capacities, slots, described);
                                          }));
    if (description.keep_first_duplicate) {
      return make_error(StatusCode::InvalidArgument,
                        "keep_first_duplicate is 1, but the gradients of duplicates would have to be added: "
                        "leave it 0, and remove duplicates before");
    }
    MINUET_ASSIGN(std::shared_ptr<const Pyramid> made, Pyramid::create(std::move(description)));
    *pyramid = new minuet_pyramid{training->context, std::move(made), {}, {}, {}};
    return llvm::Error::success();
  });
}

minuet_status minuet_training_bytes(minuet_training* training, const char* arch, minuet_pyramid* pyramid,
                                    minuet_training_sizes* sizes) {
  return guarded("minuet_training_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(training, "training"));
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_info(sizes, "sizes"));
    MINUET_ASSIGN(const std::string own_arch, read_arch(arch));
    if (!own_arch.empty() && !parse_arch(own_arch)) return not_an_arch(own_arch);
    MINUET_ASSIGN(const std::shared_ptr<Device> device,
                  measured_device(own_arch, training->context->cpu_threads()));
    PyramidUse use;
    use.pyramid = pyramid->pyramid;
    MINUET_ASSIGN(const TrainingBytes bytes, training->training->bytes(device, use));
    minuet_training_sizes answer = MINUET_TRAINING_SIZES_INIT;
    answer.kept = bytes.kept;
    answer.forward_workspace = bytes.forward_workspace;
    answer.backward_workspace = bytes.backward_workspace;
    return write_info(answer, sizes, "sizes");
  });
}

minuet_status minuet_training_load(minuet_training* training, minuet_device* device) {
  return guarded("minuet_training_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(training, "training"));
    MINUET_TRY(check_pointer(device, "device"));
    SourceList kernels = training->training->kernels(device->open->device()->info().arch);
    MINUET_TRY(device->open->load_kernels(kernels.take()));
    return training->training->load(device->open->device());
  });
}

minuet_status minuet_training_forward(minuet_training* training, minuet_device* device,
                                      const minuet_training_forward_arguments* arguments, void* stream) {
  constexpr const char* kName = "minuet_training_forward";
  if (training == nullptr) return guarded(kName, [&] { return check_pointer(training, "training"); });
  return call<ForwardReader>(kName, training, device, arguments,
                             minuet_training_forward_arguments(MINUET_TRAINING_FORWARD_ARGUMENTS_INIT),
                             training->training->forward_runs(), stream);
}

minuet_status minuet_training_backward(minuet_training* training, minuet_device* device,
                                       const minuet_training_backward_arguments* arguments, void* stream) {
  constexpr const char* kName = "minuet_training_backward";
  if (training == nullptr) return guarded(kName, [&] { return check_pointer(training, "training"); });
  return call<BackwardReader>(kName, training, device, arguments,
                              minuet_training_backward_arguments(MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT),
                              training->training->backward_runs(), stream);
}

}  // extern "C"
