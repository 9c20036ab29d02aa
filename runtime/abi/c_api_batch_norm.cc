// Implements batch_norm.h: batch norms in training.
#include "runtime/abi/single_op.h"

namespace minuet {
namespace {

/// Limits the ranks, so that the bytes of all of their moments, which are kMostRanks * (2 * 65536 + 1) * 4 at
/// most, fit in an i64.
constexpr i64 kMostRanks = 65536;

[[gnu::cold]] llvm::Expected<BatchNormChoice> read_batch_norm(const minuet_batch_norm_options& given) {
  MINUET_TRY(check_flags({{given.has_running_mean, "has_running_mean"},
                          {given.is_cumulative, "is_cumulative"},
                          {given.has_residual, "has_residual"},
                          {given.has_relu, "has_relu"}}));
  BatchNormProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.channels = given.channels;
  if (given.eps != 0) problem.eps = given.eps;
  problem.momentum = given.momentum;
  problem.has_running_mean = given.has_running_mean != 0;
  problem.is_cumulative = given.is_cumulative != 0;
  problem.has_residual = given.has_residual != 0;
  problem.has_relu = given.has_relu != 0;
  MINUET_TRY(validate(problem));
  return choose_batch_norm(problem);
}

/// Reads the memory of one call, and lists what the call writes and reads.
class NormReader {
 public:
  NormReader(const BatchNormProblem& problem, NormShape& shape) : problem_(problem), shape_(shape) {}

  /// Reads the input, whose number of rows the other tensors must have, and the count.
  llvm::Error read_input(const minuet_tensor& given, const i32* count, NormRows& rows) {
    MINUET_ASSIGN(const Tensor tensor, read_matrix(given, "input", problem_.channels, problem_.dtype));
    MINUET_TRY(check_alignment(count, kWordBytes, "row_count"));
    shape_ = {tensor.rows, count, problem_.channels};
    rows = {tensor.data, tensor.ld};
    read_.push_back({"input", memory_of(tensor)});
    read_.push_back(optional_memory("row_count", count, kWordBytes));
    return llvm::Error::success();
  }
  llvm::Error read_rows(const char* name, const minuet_tensor& given, NormRows& rows) {
    return add_rows(name, given, rows, read_);
  }
  llvm::Error write_rows(const char* name, const minuet_tensor& given, NormRows& rows) {
    return add_rows(name, given, rows, written_);
  }
  /// Reads or writes `elements` numbers at `pointer`.
  template <class T>
  llvm::Error read(const char* name, const T* pointer, i64 elements) {
    MINUET_TRY(check_array(pointer, elements, name, alignof(T)));
    return read_optional(name, pointer, elements);
  }
  template <class T>
  llvm::Error write(const char* name, T* pointer, i64 elements) {
    MINUET_TRY(check_array(pointer, elements, name, alignof(T)));
    return write_optional(name, pointer, elements);
  }
  template <class T>
  llvm::Error read_optional(const char* name, const T* pointer, i64 elements) {
    MINUET_TRY(check_alignment(pointer, alignof(T), name));
    read_.push_back(optional_memory(name, pointer, elements * static_cast<i64>(sizeof(T))));
    return llvm::Error::success();
  }
  template <class T>
  llvm::Error write_optional(const char* name, T* pointer, i64 elements) {
    MINUET_TRY(check_alignment(pointer, alignof(T), name));
    written_.push_back(optional_memory(name, pointer, elements * static_cast<i64>(sizeof(T))));
    return llvm::Error::success();
  }
  /// Replaces numbers, which may be stored in place.
  template <class T>
  llvm::Error replace(const char* old_name, const T* old_pointer, const char* new_name, T* new_pointer,
                      i64 elements) {
    MINUET_TRY(check_array(old_pointer, elements, old_name, alignof(T)));
    if (old_pointer != new_pointer) MINUET_TRY(read_optional(old_name, old_pointer, elements));
    return write(new_name, new_pointer, elements);
  }
  llvm::Expected<NormWorkspace> use_workspace(void* workspace, i64 bytes) {
    const i64 needed = NormWorkspace(problem_.channels, shape_.rows, nullptr).bytes;
    MINUET_TRY(check_block("workspace", workspace, bytes, needed));
    written_.push_back({"workspace", memory_of(workspace, needed)});
    return NormWorkspace(problem_.channels, shape_.rows, workspace);
  }
  llvm::Error check_all_apart() const { return check_apart(written_, read_); }

 private:
  llvm::Error add_rows(const char* name, const minuet_tensor& given, NormRows& rows,
                       std::vector<NamedMemory>& list) {
    MINUET_ASSIGN(const Tensor tensor, read_matrix(given, name, problem_.channels, problem_.dtype));
    if (tensor.rows != shape_.rows) {
      return make_error(StatusCode::InvalidArgument, "{0} has {1} rows; it must have {2}, as input has", name,
                        tensor.rows, shape_.rows);
    }
    rows = {tensor.data, tensor.ld};
    list.push_back({name, memory_of(tensor)});
    return llvm::Error::success();
  }

  const BatchNormProblem& problem_;
  NormShape& shape_;
  std::vector<NamedMemory> written_, read_;
};

/// Returns InvalidArgument if an argument is given although the op was created without its option.
llvm::Error refuse_without(const char* option, bool is_given, const char* name) {
  return refuse_unused(is_given, name, "the op was created without " + std::string(option));
}

llvm::Error read_running(const BatchNormProblem& problem, const minuet_batch_norm_arguments& given,
                         NormReader& reader, RunningStatistics& running) {
  constexpr const char* kOption = "has_running_mean";
  if (!problem.has_running_mean) {
    MINUET_TRY(refuse_without(kOption, given.running_mean || given.running_variance || given.batch_count,
                              "running_mean, running_variance or batch_count"));
    return refuse_without(kOption,
                          given.new_running_mean || given.new_running_variance || given.new_batch_count,
                          "new_running_mean, new_running_variance or new_batch_count");
  }
  const i64 channels = problem.channels;
  MINUET_TRY(reader.replace("running_mean", given.running_mean, "new_running_mean", given.new_running_mean,
                            channels));
  MINUET_TRY(reader.replace("running_variance", given.running_variance, "new_running_variance",
                            given.new_running_variance, channels));
  if (problem.is_cumulative || given.batch_count || given.new_batch_count) {
    const auto* const old_count = reinterpret_cast<const i64*>(given.batch_count);
    auto* const new_count = reinterpret_cast<i64*>(given.new_batch_count);
    MINUET_TRY(reader.replace("batch_count", old_count, "new_batch_count", new_count, 1));
    running.batches = old_count, running.new_batches = new_count;
  }
  running.mean = given.running_mean, running.variance = given.running_variance;
  running.new_mean = given.new_running_mean, running.new_variance = given.new_running_variance;
  running.momentum = problem.momentum;
  running.is_cumulative = problem.is_cumulative ? 1 : 0;
  return llvm::Error::success();
}

llvm::Error read_apply(const BatchNormProblem& problem, const minuet_batch_norm_arguments& given,
                       NormReader& reader, BatchNormParams& params) {
  const i64 channels = problem.channels;
  if (problem.has_residual) {
    MINUET_TRY(reader.read_rows("residual", given.residual, params.residual));
  } else {
    MINUET_TRY(refuse_without("has_residual", is_given(given.residual), "residual"));
  }
  MINUET_TRY(reader.write_rows("output", given.output, params.output));
  MINUET_TRY(reader.read_optional("weight", given.weight, channels));
  MINUET_TRY(reader.read_optional("bias", given.bias, channels));
  MINUET_TRY(reader.write("saved", given.saved, 2 * channels + 1));
  params.weight = given.weight, params.bias = given.bias;
  params.saved = given.saved;
  params.eps = problem.eps;
  return read_running(problem, given, reader, params.running);
}

llvm::Expected<BatchNormParams> read_forward(const BatchNormProblem& problem, NormSteps steps,
                                             const minuet_batch_norm_arguments& given) {
  BatchNormParams params = {};
  NormReader reader(problem, params.shape);
  const i64 numbers = 2 * i64{problem.channels} + 1;
  MINUET_TRY(reader.read_input(given.input, given.row_count, params.input));
  if (steps != NormSteps::Sum) MINUET_TRY(read_apply(problem, given, reader, params));
  if (steps == NormSteps::Sum) {
    MINUET_TRY(reader.write("moments", given.moments, numbers));
    params.merged = given.moments;
  }
  if (steps == NormSteps::Apply) {
    if (given.ranks < 1 || given.ranks > kMostRanks) {
      return make_error(StatusCode::InvalidArgument, "ranks is {0}; it must be 1 to {1}", given.ranks,
                        kMostRanks);
    }
    MINUET_TRY(reader.read("all_moments", given.all_moments, given.ranks * numbers));
    params.moments = given.all_moments, params.ranks = given.ranks;
  } else {
    MINUET_ASSIGN(const NormWorkspace workspace,
                  reader.use_workspace(given.workspace, given.workspace_bytes));
    params.pieces = workspace.pieces, params.shift = workspace.sums;
  }
  MINUET_TRY(reader.check_all_apart());
  return params;
}

/// Reads the gradient of the residual, which the first step writes and the second reads if it is masked.
llvm::Error read_residual_gradient(const BatchNormProblem& problem, NormSteps steps,
                                   const minuet_batch_norm_gradient_arguments& given, NormReader& reader,
                                   NormRows& rows) {
  constexpr const char* kName = "residual_gradient";
  if (!problem.has_residual) return refuse_without("has_residual", is_given(given.residual_gradient), kName);
  if (steps != NormSteps::Apply) {
    if (!problem.has_relu && !is_given(given.residual_gradient)) return llvm::Error::success();
    return reader.write_rows(kName, given.residual_gradient, rows);
  }
  return problem.has_relu ? reader.read_rows(kName, given.residual_gradient, rows) : llvm::Error::success();
}

llvm::Error read_gradient_sums(const BatchNormProblem& problem, NormSteps steps,
                               const minuet_batch_norm_gradient_arguments& given, NormReader& reader,
                               BatchNormGradientParams& params) {
  if (problem.mask() == ReluMask::Output) {
    MINUET_TRY(reader.read_rows("output", given.output, params.output));
  } else {
    MINUET_TRY(refuse_without("both has_relu and has_residual", is_given(given.output), "output"));
  }
  MINUET_TRY(reader.write_optional("weight_gradient", given.weight_gradient, problem.channels));
  MINUET_TRY(reader.write_optional("bias_gradient", given.bias_gradient, problem.channels));
  params.weight_gradient = given.weight_gradient, params.bias_gradient = given.bias_gradient;
  params.adds = given.accumulate;
  MINUET_ASSIGN(const NormWorkspace workspace, reader.use_workspace(given.workspace, given.workspace_bytes));
  params.pieces = workspace.pieces;
  if (steps == NormSteps::Both) params.sums = workspace.sums;
  return llvm::Error::success();
}

llvm::Expected<BatchNormGradientParams> read_backward(const BatchNormProblem& problem, NormSteps steps,
                                                      const minuet_batch_norm_gradient_arguments& given) {
  BatchNormGradientParams params = {};
  NormReader reader(problem, params.shape);
  const i64 channels = problem.channels;
  MINUET_TRY(check_flags({{given.accumulate, "accumulate"}}));
  MINUET_TRY(reader.read_input(given.input, given.row_count, params.input));
  const bool is_masked = steps == NormSteps::Apply && problem.mask() == ReluMask::Output;
  if (!is_masked) MINUET_TRY(reader.read_rows("out_gradient", given.out_gradient, params.out_gradient));
  MINUET_TRY(reader.read_optional("weight", given.weight, channels));
  MINUET_TRY(reader.read_optional("bias", given.bias, channels));
  MINUET_TRY(reader.read("saved", given.saved, 2 * channels + 1));
  params.weight = given.weight, params.bias = given.bias;
  params.saved = given.saved;
  MINUET_TRY(read_residual_gradient(problem, steps, given, reader, params.residual_gradient));
  if (steps != NormSteps::Apply) MINUET_TRY(read_gradient_sums(problem, steps, given, reader, params));
  if (steps == NormSteps::Sum) MINUET_TRY(reader.write("sums", given.sums, 2 * channels));
  if (steps == NormSteps::Apply) MINUET_TRY(reader.read("sums", given.sums, 2 * channels));
  if (steps != NormSteps::Both) params.sums = given.sums;
  if (steps != NormSteps::Sum)
    MINUET_TRY(reader.write_rows("input_gradient", given.input_gradient, params.input_gradient));
  MINUET_TRY(reader.check_all_apart());
  return params;
}

/// Implements the six calls. read(problem, steps, arguments) returns the parameters of `run`.
template <class Arguments, class Read, class Run>
minuet_status call(const char* function, NormSteps steps, minuet_batch_norm_op* op, minuet_device* device,
                   const Arguments* arguments, const Arguments& defaults, void* stream, const Read& read,
                   const Run& run) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const Arguments given, read_options(arguments, defaults));
    const Trace::Span span(device->open->trace(), "run", "batch_norm");
    MINUET_ASSIGN(const auto params, read(op->choice.problem, steps, given));
    return with_loaded_engine(
        *device, op->choice.problem.ndim, "minuet_batch_norm_load", stream,
        [&](Engine& engine) { return (engine.batch_norms().*run)(op->choice, steps, params); });
  });
}

minuet_status call_forward(const char* function, NormSteps steps, minuet_batch_norm_op* op,
                           minuet_device* device, const minuet_batch_norm_arguments* arguments,
                           void* stream) {
  return call(function, steps, op, device, arguments,
              minuet_batch_norm_arguments(MINUET_BATCH_NORM_ARGUMENTS_INIT), stream, read_forward,
              &BatchNormOperations::forward);
}
minuet_status call_backward(const char* function, NormSteps steps, minuet_batch_norm_op* op,
                            minuet_device* device, const minuet_batch_norm_gradient_arguments* arguments,
                            void* stream) {
  return call(function, steps, op, device, arguments,
              minuet_batch_norm_gradient_arguments(MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT), stream,
              read_backward, &BatchNormOperations::backward);
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_batch_norm_create(minuet_context* context, const minuet_batch_norm_options* options,
                                       minuet_batch_norm_op** op) {
  return guarded("minuet_batch_norm_create", [&]() -> llvm::Error {
    return create_single_op(context, options, minuet_batch_norm_options(MINUET_BATCH_NORM_OPTIONS_INIT),
                            read_batch_norm, op);
  });
}

void minuet_batch_norm_destroy(minuet_batch_norm_op* op) { delete op; }

minuet_status minuet_batch_norm_load(minuet_batch_norm_op* op, minuet_device* device) {
  return guarded("minuet_batch_norm_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    SourceList kernels;
    add_sources(kernels, op->choice);
    return load_single_op(device, op->choice.problem.ndim, kernels);
  });
}

minuet_status minuet_batch_norm_bytes(minuet_batch_norm_op* op, const char* arch, int64_t most_rows,
                                      int64_t* workspace_bytes) {
  return guarded("minuet_batch_norm_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_amount(most_rows, "most_rows"));
    MINUET_ASSIGN(const std::string own_arch, read_arch(arch));
    if (!own_arch.empty() && !parse_arch(own_arch)) return not_an_arch(own_arch);
    *workspace_bytes = NormWorkspace(op->choice.problem.channels, most_rows, nullptr).bytes;
    return llvm::Error::success();
  });
}

minuet_status minuet_batch_norm_sum(minuet_batch_norm_op* op, minuet_device* device,
                                    const minuet_batch_norm_arguments* arguments, void* stream) {
  return call_forward("minuet_batch_norm_sum", NormSteps::Sum, op, device, arguments, stream);
}
minuet_status minuet_batch_norm_apply(minuet_batch_norm_op* op, minuet_device* device,
                                      const minuet_batch_norm_arguments* arguments, void* stream) {
  return call_forward("minuet_batch_norm_apply", NormSteps::Apply, op, device, arguments, stream);
}
minuet_status minuet_batch_norm_forward(minuet_batch_norm_op* op, minuet_device* device,
                                        const minuet_batch_norm_arguments* arguments, void* stream) {
  return call_forward("minuet_batch_norm_forward", NormSteps::Both, op, device, arguments, stream);
}

minuet_status minuet_batch_norm_sum_gradients(minuet_batch_norm_op* op, minuet_device* device,
                                              const minuet_batch_norm_gradient_arguments* arguments,
                                              void* stream) {
  return call_backward("minuet_batch_norm_sum_gradients", NormSteps::Sum, op, device, arguments, stream);
}
minuet_status minuet_batch_norm_apply_gradients(minuet_batch_norm_op* op, minuet_device* device,
                                                const minuet_batch_norm_gradient_arguments* arguments,
                                                void* stream) {
  return call_backward("minuet_batch_norm_apply_gradients", NormSteps::Apply, op, device, arguments, stream);
}
minuet_status minuet_batch_norm_backward(minuet_batch_norm_op* op, minuet_device* device,
                                         const minuet_batch_norm_gradient_arguments* arguments,
                                         void* stream) {
  return call_backward("minuet_batch_norm_backward", NormSteps::Both, op, device, arguments, stream);
}

}  // extern "C"
