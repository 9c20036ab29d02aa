#include "runtime/convolution_execution.h"

#include <algorithm>

#include "runtime/alignment.h"

namespace minuet {

ConvolutionExecution::ConvolutionExecution(std::shared_ptr<const ConvolutionPlan> plan,
                                           std::shared_ptr<const LoadedPlan> loaded, void* workspace,
                                           i64 workspace_bytes)
    : plan_(std::move(plan)),
      loaded_(std::move(loaded)),
      arena_(loaded_->device, workspace, workspace_bytes),
      groups_(static_cast<i32>(kernel_volume(plan_->problem))) {}

llvm::Expected<std::unique_ptr<ConvolutionExecution>> ConvolutionExecution::create(
    std::shared_ptr<const ConvolutionPlan> plan, std::shared_ptr<const LoadedPlan> loaded, void* workspace,
    i64 workspace_bytes) {
  std::unique_ptr<ConvolutionExecution> execution(
      new ConvolutionExecution(std::move(plan), std::move(loaded), workspace, workspace_bytes));
  MINUET_ASSIGN(execution->engine_, execution->loaded_->device->create_engine(execution->plan_->engine));
  MINUET_TRY(execution->add_layer());
  return execution;
}

llvm::Error ConvolutionExecution::add_layer() {
  MINUET_ASSIGN(convolution_, engine_->add_convolution(plan_->layers[0].choice, loaded_->weights[0]));
  MINUET_ASSIGN(permute_input_, engine_->add_permute_rows(plan_->permute_input));
  MINUET_ASSIGN(permute_output_, engine_->add_permute_rows(plan_->permute_output));
  const i64 words = kGroupTables * static_cast<i64>(groups_.order.size());
  MINUET_ASSIGN(void* tables, engine_->allocate_pinned(words * static_cast<i64>(sizeof(i32))));
  host_tables_ = static_cast<i32*>(tables);
  return llvm::Error::success();
}

llvm::Error ConvolutionExecution::check_map(const KernelMap& map) const {
  const ConvolutionProblem& problem = plan_->problem;
  if (map.input().service()->device() != loaded_->device) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel map lives on another device than the execution");
  }
  const CoordinateSet& fine = map.transposed() ? map.output() : map.input();
  const CoordinateSet& coarse = map.transposed() ? map.input() : map.output();
  const KernelGeometry wanted =
      make_geometry(problem.ndim, problem.kernel_size, problem.dilation, fine.tensor_stride());
  const KernelGeometry& got = map.view().geometry;
  if (got.ndim != wanted.ndim ||
      !std::equal(got.kernel_size, got.kernel_size + kMaxDim, wanted.kernel_size) ||
      !std::equal(got.step, got.step + kMaxDim, wanted.step)) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel map was made for another kernel size or dilation than the convolution");
  }
  const bool transposed = problem.kind == ConvolutionKind::Transposed;
  if (map.transposed() != transposed) {
    return make_error(StatusCode::InvalidArgument, "the convolution is {0}, the kernel map is {1}",
                      transposed ? "transposed" : "forward", map.transposed() ? "transposed" : "forward");
  }
  if (problem.kind == ConvolutionKind::Submanifold && !map.submanifold()) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold convolution needs a map whose output set is its input set");
  }
  for (i32 a = 0; a < problem.ndim && problem.kind != ConvolutionKind::GivenOutputs; ++a) {
    if (static_cast<i64>(fine.tensor_stride()[a]) * problem.stride[a] != coarse.tensor_stride()[a]) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: tensor strides {1} and {2} do not differ by the convolution's stride {3}",
                        a, fine.tensor_stride()[a], coarse.tensor_stride()[a], problem.stride[a]);
    }
  }
  return llvm::Error::success();
}

i64 ConvolutionExecution::place(char* base, const KernelMap& map) {
  const ConvolutionProblem& problem = plan_->problem;
  const ConvolutionChoice& choice = plan_->layers[0].choice;
  const i64 element = dtype_bytes(problem.dtype);
  const i64 volume = view_.geometry.volume;
  Placement parts(base);
  engine_workspace_ = parts.take<char>(engine_->workspace_bytes());
  tables_ = parts.take<i32>(kGroupTables * volume);
  view_.source_table = parts.take<i32>(volume * view_.sources);
  view_.query_table = parts.take<i32>(volume * view_.queries);
  view_.tables = tables_at(tables_, view_.geometry.volume);
  // Sets that the caller gave need rows in engine order; derived ones are.
  input_ = map.input().source_row() ? parts.take<char>(map.input().rows() * problem.in_channels * element)
                                    : nullptr;
  const i64 output_bytes = map.output().row_of() ? map.output().rows() * problem.out_channels * element : 0;
  output_ = output_bytes ? parts.take<char>(output_bytes) : nullptr;
  residual_ = output_bytes && problem.residual ? parts.take<char>(output_bytes) : nullptr;
  gather_buffer_ = parts.take<char>(engine_->gather_buffer_bytes(choice, groups_));
  gemm_buffer_ = parts.take<char>(engine_->gemm_buffer_bytes(choice, groups_));
  return parts.bytes();
}

llvm::Error ConvolutionExecution::prepare_map(std::shared_ptr<const KernelMap> map, void* stream) {
  MINUET_TRY(check_map(*map));
  map_ = nullptr;
  view_ = map->view();
  MINUET_TRY(engine_->begin(stream));
  if (tables_sent_) MINUET_TRY(engine_->wait());  // the pinned tables are written again below
  tables_sent_ = false;
  const ConvolutionProblem& problem = plan_->problem;
  const i32 direct =
      direct_offset(problem.kind == ConvolutionKind::Submanifold, problem.dtype, view_.geometry);
  MINUET_TRY(group_gemms(map->counts().data(), view_.geometry.volume, direct, plan_->grouping, groups_));
  const i64 bytes = place(nullptr, *map);
  if (bytes > arena_.bytes()) MINUET_TRY(engine_->wait());  // an earlier run may still use the memory
  MINUET_TRY(arena_.reserve(bytes));
  place(arena_.data(), *map);
  MINUET_TRY(engine_->set_workspace(engine_workspace_));
  MINUET_TRY(send_tables());
  MINUET_TRY(engine_->make_tables(view_, direct));
  map_ = std::move(map);
  if (llvm::Error error = engine_->prepare_convolution(request())) {
    map_ = nullptr;
    return error;
  }
  return engine_->end();
}

llvm::Error ConvolutionExecution::send_tables() {
  copy_tables(groups_, host_tables_);
  tables_sent_ = true;
  return engine_->send(tables_, host_tables_,
                       kGroupTables * view_.geometry.volume * static_cast<i64>(sizeof(i32)));
}

ConvolveRequest ConvolutionExecution::request() const {
  ConvolveRequest request;
  request.convolution = convolution_;
  request.map = &view_;
  request.groups = &groups_;
  request.transposed = plan_->problem.kind == ConvolutionKind::Transposed;
  request.input = input_;
  request.input_rows = map_->input().rows();
  request.output = output_;
  request.output_rows = map_->output().rows();
  request.residual = residual_;
  request.gather_buffer = gather_buffer_;
  request.gemm_buffer = gemm_buffer_;
  return request;
}

llvm::Error ConvolutionExecution::run(const void* input, const void* residual, void* output, void* stream) {
  if (!map_) {
    return make_error(StatusCode::FailedPrecondition, "no kernel map is prepared: call prepare_map first");
  }
  const ConvolutionProblem& problem = plan_->problem;
  if (problem.residual != (residual != nullptr)) {
    return make_error(StatusCode::InvalidArgument, "the convolution takes {0} residual, but {1} was given",
                      problem.residual ? "a" : "no", residual ? "one" : "none");
  }
  MINUET_TRY(check_alignment(input, kVectorAlignment, "the input"));
  MINUET_TRY(check_alignment(output, kVectorAlignment, "the output"));
  MINUET_TRY(check_alignment(residual, kVectorAlignment, "the residual"));
  MINUET_TRY(engine_->begin(stream));
  const CoordinateSet &in = map_->input(), &out = map_->output();
  const i32 c_in = problem.in_channels, c_out = problem.out_channels;
  ConvolveRequest request = this->request();
  if (in.source_row()) {
    MINUET_TRY(engine_->permute_rows(permute_input_, input, c_in, in.source_row(), in.rows(), input_, c_in));
  } else {
    request.input = input;
  }
  if (residual && out.source_row()) {
    if (out.rows() > 0) {
      MINUET_TRY(engine_->permute_rows(permute_output_, residual, c_out, out.source_row(), out.rows(),
                                       residual_, c_out));
    }
  } else {
    request.residual = residual;
  }
  if (!out.row_of()) request.output = output;
  MINUET_TRY(engine_->convolve(request));
  if (out.row_of()) {
    MINUET_TRY(engine_->permute_rows(permute_output_, output_, c_out, out.row_of(), out.caller_rows(), output,
                                     c_out));
  }
  return engine_->end();
}

}  // namespace minuet
