#include "runtime/cuda/ops/convolution_gmas.h"

#include "runtime/cuda/pointer_table.h"

namespace minuet {
namespace {

char* bytes_at(void* base, i64 offset) { return static_cast<char*>(base) + offset; }
const char* bytes_at(const void* base, i64 offset) { return static_cast<const char*>(base) + offset; }
i64 row_bytes(i32 channels, DType type) { return i64{channels} * dtype_bytes(type); }

}  // namespace

// ---- The functions below run once per cloud. ---------------------------------------------------

llvm::Error GmasStep::prepare(i32 op, const OpRequest& given) {
  const auto& request = static_cast<const GmasRequest&>(given);
  Layer& layer = layers_[op];
  layer.prepared = false;
  if (request.fills_tables) MINUET_TRY(fill_tables(request));
  MINUET_TRY(launcher_.mark(Stage::Other));
  layer.weights = ConvolutionWeights(layer.problem, request.parameters);
  layer.matmuls.clear();
  layer.slice_matmuls.clear();
  if (llvm::Error error = bind_slices(layer, request)) {
    // The pointer arrays are incomplete and are not sent. The preparation for the next cloud writes them
    // anew.
    pending_ = false;
    return error;
  }
  layer.prepared = true;
  return llvm::Error::success();
}

llvm::Error GmasStep::fill_tables(const GmasRequest& request) {
  const MapView& map = *request.map;
  const GmasTables& tables = *request.tables;
  const i32 volume = map.geometry.volume;
  MINUET_TRY(launcher_.mark(Stage::Map));
  MINUET_TRY(launcher_.fill(tables.source_table, ~0u, volume * map.sources));
  if (map.queries <= 0) return llvm::Error::success();
  MakeTablesParams params = {};
  params.map = map.rows;
  params.positions = map.positions;
  params.row_base = tables.groups.row_base;
  params.queries = map.queries;
  params.sources = map.sources;
  params.volume = volume;
  params.direct_offset = request.groups->direct_offset;
  params.source_table = tables.source_table;
  params.query_table = tables.query_table;
  return launcher_.launch_stride(make_tables_, volume * map.queries, params);
}

llvm::Error GmasStep::bind_slices(Layer& layer, const GmasRequest& request) {
  if (request.groups->direct_rows > 0) MINUET_TRY(bind_direct(layer, request, layer.matmuls.emplace_back()));
  bool batched = false;
  for (const GemmSlice& slice : request.slices->slices) {
    for (i32 i = slice.first_group; i < slice.last_group; ++i) {
      MINUET_TRY(bind_group(layer, request, request.slices->groups[i]));
      batched = batched || request.slices->groups[i].count > 1;
    }
    layer.slice_matmuls.push_back(layer.matmuls.size());
  }
  pending_ = pending_ || layer.uses_pointers;
  layer.reads_permuted = batched && !layer.uses_pointers;
  const bool permutes = layer.reads_permuted && !request.parameters_change;
  return permutes ? permute_weights(layer, request) : llvm::Error::success();
}

MatmulProblem GmasStep::problem_of(const Layer& layer, BatchMode mode, i64 first_row, i64 height,
                                   i32 batch) const {
  MatmulProblem problem;
  problem.shape = layer.shape;
  problem.mode = mode;
  problem.height = height;
  problem.batch = batch;
  problem.input_ld = layer.shape.in_channels;
  const i64 input_pitch = row_bytes(layer.shape.in_channels, layer.shape.io);
  const i64 output_pitch = row_bytes(layer.shape.out_channels, DType::F32);
  // The buffers are aligned to 256 bytes, and each GEMM of a batch starts at a whole row, so the number of
  // this row determines the alignment.
  const i64 member = batch > 1 ? height : 0;
  problem.weight_alignment = alignment_of(layer.slice_bytes);
  problem.input_alignment =
      std::min(alignment_of(first_row * input_pitch), alignment_of(member * input_pitch));
  problem.output_alignment =
      std::min(alignment_of(first_row * output_pitch), alignment_of(member * output_pitch));
  return problem;
}

/// Binds a problem to an algorithm and to addresses. Returns false if cuBLASLt has no algorithm for it.
llvm::Expected<bool> GmasStep::bind(const MatmulProblem& problem, const void* weight, const void* input,
                                    void* output, BoundMatmul& bound) {
  MINUET_ASSIGN(const MatmulAlgorithm* algorithm,
                matmuls_->find(key_of(problem), launcher_.counters().gemm_lookups));
  MatmulAlgorithm exact;
  if (!algorithm->found) {
    // If a batch has no algorithm, the caller binds its GEMMs one by one.
    if (problem.mode != BatchMode::Single) return false;
    // No algorithm was found for the height that stands for all similar heights (matmul_key.h), but the exact
    // height may have one.
    ++launcher_.counters().gemm_lookups;
    MINUET_TRY(matmuls_->look_up(problem, exact));
    if (!exact.found) return false;
    algorithm = &exact;
  }
  bound.problem = problem;
  bound.algorithm = algorithm->algorithm;
  bound.weight = weight;
  bound.input = input;
  bound.output = output;
  MINUET_TRY(matmuls_->lay_out(problem, bound.layouts));
  return true;
}

/// Adds a single GEMM, or the GEMMs of a group as one batch, to a layer. Returns false if cuBLASLt has no
/// algorithm for it.
llvm::Expected<bool> GmasStep::add(Layer& layer, const MatmulProblem& problem, const void* weight,
                                   const void* input, void* output) {
  BoundMatmul bound;
  MINUET_ASSIGN(const bool found, bind(problem, weight, input, output, bound));
  if (found) layer.matmuls.push_back(bound);
  return found;
}

llvm::Error GmasStep::bind_direct(Layer& layer, const GmasRequest& request, BoundMatmul& bound) {
  const GroupPlan& groups = *request.groups;
  MatmulProblem problem = problem_of(layer, BatchMode::Single, 0, groups.direct_rows, 1);
  const i64 element = dtype_bytes(layer.shape.io);
  problem.input_ld = request.input_ld;
  // The tensor is aligned to 16 bytes. The row pitch and the first column determine the alignment of the
  // operand.
  problem.input_alignment =
      std::min(alignment_of(problem.input_ld * element), alignment_of(layer.problem.input.column * element));
  MINUET_ASSIGN(const bool found,
                bind(problem, bytes_at(layer.weights.weight, groups.direct_offset * layer.slice_bytes),
                     request.input, request.sums, bound));
  if (found) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented,
                    "cuBLASLt has no algorithm for [{0}, {1}] x [{1}, {2}] with rows {3} elements apart",
                    problem.height, layer.shape.in_channels, layer.shape.out_channels, problem.input_ld);
}

llvm::Error GmasStep::bind_group(Layer& layer, const GmasRequest& request, const GemmGroup& group) {
  if (group.count == 1) return bind_members(layer, request, group);
  const bool pointers = layer.uses_pointers;
  const BatchMode mode = pointers ? BatchMode::Pointers : BatchMode::Strided;
  const MatmulProblem problem = problem_of(layer, mode, group.first_row, group.height, group.count);
  const i64 in_row = row_bytes(layer.shape.in_channels, layer.shape.io);
  const i64 out_row = row_bytes(layer.shape.out_channels, DType::F32);
  bool bound = false;
  if (pointers) {
    const MemberAddresses members{
        layer.weights.weight, layer.slice_bytes, request.gather_buffer, in_row, request.gemm_buffer, out_row};
    write_pointers(members, request.groups->order.data(), group, layer.volume,
                   host_pointers_ + layer.pointer_offset);
    void** table = device_pointers_ + layer.pointer_offset + group.first_slot;
    MINUET_ASSIGN(bound, add(layer, problem, table, table + layer.volume, table + 2 * layer.volume));
  } else {
    MINUET_ASSIGN(bound, add(layer, problem, layer.permuted + group.first_slot * layer.slice_bytes,
                             bytes_at(request.gather_buffer, group.first_row * in_row),
                             bytes_at(request.gemm_buffer, group.first_row * out_row)));
  }
  return bound ? llvm::Error::success() : bind_members(layer, request, group);
}

llvm::Error GmasStep::bind_members(Layer& layer, const GmasRequest& request, const GemmGroup& group) {
  const i64 in_row = row_bytes(layer.shape.in_channels, layer.shape.io);
  const i64 out_row = row_bytes(layer.shape.out_channels, DType::F32);
  for (i32 i = 0; i < group.count; ++i) {
    const i64 first_row = group.first_row + i * group.height;
    const MatmulProblem problem = problem_of(layer, BatchMode::Single, first_row, group.height, 1);
    const i64 offset = request.groups->order[group.first_slot + i];
    MINUET_ASSIGN(const bool bound,
                  add(layer, problem, bytes_at(layer.weights.weight, offset * layer.slice_bytes),
                      bytes_at(request.gather_buffer, first_row * in_row),
                      bytes_at(request.gemm_buffer, first_row * out_row)));
    if (bound) continue;
    return make_error(StatusCode::Unimplemented, "cuBLASLt has no algorithm for [{0}, {1}] x [{1}, {2}]",
                      group.height, layer.shape.in_channels, layer.shape.out_channels);
  }
  return llvm::Error::success();
}

llvm::Error GmasStep::permute_weights(const Layer& layer, const GmasRequest& request) {
  const i64 vectors = layer.volume * (layer.slice_bytes / layer.permute_vector_bytes);
  return launcher_.launch_stride(
      layer.permute_weights, vectors,
      PermuteWeightsParams{layer.weights.weight, layer.permuted, request.tables->groups.order,
                           layer.slice_bytes, layer.volume});
}

llvm::Error GmasStep::send_prepared() {
  if (!pending_) return llvm::Error::success();
  pending_ = false;
  MINUET_TRY(
      launcher_.send(device_pointers_, host_pointers_, pointer_count_ * static_cast<i64>(sizeof(void*))));
  return launcher_.record_copy();
}

// ---- The functions below are called in every run. --------------------------------------------------

llvm::Error GmasStep::run(i32 op, const OpRequest& given) {
  const auto& request = static_cast<const GmasRequest&>(given);
  Layer& layer = layers_[op];
  if (!layer.prepared) {
    return make_error(StatusCode::FailedPrecondition, "convolution {0} is not prepared for this cloud", op);
  }
  if (layer.reads_permuted && request.parameters_change) {
    MINUET_TRY(launcher_.mark(Stage::Other));
    MINUET_TRY(permute_weights(layer, request));
  }
  std::size_t matmuls = 0;
  for (std::size_t i = 0; i < request.slices->slices.size(); ++i) {
    MINUET_TRY(gather(layer, request, request.slices->slices[i]));
    MINUET_TRY(multiply(layer, request, matmuls, layer.slice_matmuls[i]));
    MINUET_TRY(scatter(layer, request, i));
    matmuls = layer.slice_matmuls[i];
  }
  return llvm::Error::success();
}

llvm::Error GmasStep::gather(const Layer& layer, const GmasRequest& request, const GemmSlice& slice) {
  const GroupPlan& groups = *request.groups;
  if (slice.first_row == slice.last_row) return llvm::Error::success();
  MINUET_TRY(launcher_.mark(Stage::Gather));
  GatherParams params = {};
  params.features = request.input;
  params.ld = request.input_ld;
  params.rows = request.input_rows;
  // The columns of the table must be the rows of the input side, which is the query side if the convolution
  // is transposed.
  params.table = request.transposed ? request.tables->query_table : request.tables->source_table;
  params.volume = layer.volume;
  params.first_row = static_cast<i32>(slice.first_row);
  params.last_row = static_cast<i32>(slice.last_row);
  params.padding_rows = groups.padding_rows;
  params.padding_ends = request.tables->groups.padding_ends;
  params.padding_start = request.tables->groups.padding_start;
  params.buffer = request.gather_buffer;
  const i64 tiles =
      tile_count(params.rows + params.padding_rows, layer.gather_spec.channels, layer.gather_spec.tile);
  return launcher_.launch_stride(layer.gather, tiles, params);
}

llvm::Error GmasStep::multiply(Layer& layer, const GmasRequest& request, std::size_t first,
                               std::size_t last) {
  const i32 used =
      std::min({static_cast<i32>(last - first), request.groups->streams, launcher_.usable_streams()});
  if (used == 0) return llvm::Error::success();
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  if (request.groups->direct_rows > 0 && first == 0) {
    // The first GEMM reads this call's features in place. Their address and row pitch may differ from call to
    // call.
    BoundMatmul& direct = layer.matmuls.front();
    if (direct.problem.input_ld != request.input_ld) MINUET_TRY(bind_direct(layer, request, direct));
    direct.input = request.input;
  }
  llvm::Error error = launcher_.fork(used);
  EngineCounters& counters = launcher_.counters();
  i32 stream = 0;
  for (std::size_t i = first; i < last && !error; ++i) {
    ++counters.matmuls;
    error = matmuls_->run(layer.matmuls[i], bytes_at(request.scratch, stream * kMatmulWorkspaceBytes),
                          launcher_.stream(stream), counters.gemm_lookups);
    if (++stream == used) stream = 0;
  }
  // The streams are joined after a failure too, because the caller waits only for its own stream before it
  // reuses the buffers.
  return llvm::joinErrors(std::move(error), launcher_.join(used));
}

llvm::Error GmasStep::scatter(const Layer& layer, const GmasRequest& request, std::size_t number) {
  if (request.output_rows <= 0) return llvm::Error::success();
  MINUET_TRY(launcher_.mark(Stage::Scatter));
  const GemmSlice& slice = request.slices->slices[number];
  ScatterParams params = {};
  params.buffer = request.gemm_buffer;
  params.table = request.transposed ? request.tables->source_table : request.tables->query_table;
  params.rows = request.output_rows;
  params.volume = layer.volume;
  params.first_row = static_cast<i32>(slice.first_row);
  params.last_row = static_cast<i32>(slice.last_row);
  if (number > 0 || request.groups->direct_rows > 0) params.sums_in = request.sums;
  if (number + 1 < request.slices->slices.size()) params.sums_out = request.sums;
  params.scale = layer.weights.scale;
  params.shift = layer.weights.shift;
  params.residual = request.residual;
  params.residual_ld = request.residual_ld;
  params.output = request.output;
  params.output_ld = request.output_ld;
  params.overflow = request.overflow;
  params.overflow_mark = request.overflow_mark;
  params.slope = layer.problem.slope;
  params.second = second_output_of(layer.problem, layer.weights, request);
  return launcher_.launch_stride(
      layer.scatter, tile_count(params.rows, layer.scatter_spec.channels, layer.scatter_spec.tile), params);
}

}  // namespace minuet
