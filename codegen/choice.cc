#include "codegen/choice.h"

#include <algorithm>
#include <numeric>

namespace minuet {
namespace {

constexpr i32 kWidestAccess = 16;  // bytes of one load or store
constexpr i64 kMostOffsets = 1 << 20;
constexpr i32 kMostChannels = 1 << 16;
constexpr i32 kMostCells = 1 << 24;  // of a kernel, a stride, a dilation: products stay inside 64 bits

bool is_all_ones(const AxisArray& values, i32 ndim) {
  return std::all_of(values.begin(), values.begin() + ndim, [](i32 value) { return value == 1; });
}

/// Enough consecutive channels for one widest access, where they divide the row.
i32 default_tile(i32 element_bytes, i32 channels) {
  return std::gcd(channels, kWidestAccess / element_bytes);
}

}  // namespace

i64 kernel_volume(const ConvolutionProblem& problem) {
  i64 volume = 1;
  for (i32 size : problem.kernel_size) volume = std::min(volume * size, kMostOffsets + 1);
  return volume;
}

KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride) {
  KernelGeometry geometry;
  geometry.ndim = ndim;
  for (i32 a = 0; a < ndim; ++a) {
    geometry.kernel_size[a] = kernel_size[a];
    geometry.step[a] = dilation[a] * tensor_stride[a];
    geometry.volume *= kernel_size[a];
  }
  return geometry;
}

i32 center_offset(const KernelGeometry& geometry) {
  i32 k = 0;
  for (i32 a = 0; a < geometry.ndim; ++a) k = k * geometry.kernel_size[a] + (geometry.kernel_size[a] - 1) / 2;
  return k;
}

namespace {

/// What is legal and not built yet, each with its reason and the way around it.
llvm::Error check_built(const ConvolutionProblem& problem) {
  if (problem.reduction != Reduction::Convolve) {
    return make_error(
        StatusCode::Unimplemented,
        "pooling is not built yet: every layer runs as gather, GEMM and scatter, and there is no "
        "kernel that reduces without weights; use a strided convolution");
  }
  if (problem.generative) {
    return make_error(
        StatusCode::Unimplemented,
        "generative transposed convolution is not built yet: coordinate sets are made from points "
        "or by downsampling, not by spreading; use a transposed convolution onto given outputs");
  }
  if (problem.groups != 1) {
    return make_error(
        StatusCode::Unimplemented,
        "grouped convolution ({0} groups) is not built yet: the grouped GEMMs run over whole channel "
        "ranges; use groups = 1",
        problem.groups);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error validate(const ConvolutionProblem& problem) {
  if (problem.ndim < 1 || problem.ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "ndim is {0}; it must be 1 to {1}", problem.ndim, kMaxDim);
  }
  if (problem.in_channels < 1 || problem.out_channels < 1 || problem.in_channels > kMostChannels ||
      problem.out_channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "channels are {0} -> {1}; both must be 1 to {2}",
                      problem.in_channels, problem.out_channels, kMostChannels);
  }
  for (i32 a = 0; a < kMaxDim; ++a) {
    const i32 size = problem.kernel_size[a], stride = problem.stride[a], dilation = problem.dilation[a];
    if (size < 1 || stride < 1 || dilation < 1 || std::max({size, stride, dilation}) > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has kernel size {1}, stride {2}, dilation {3}; each must be 1 to {4}", a,
                        size, stride, dilation, kMostCells);
    }
    if (a >= problem.ndim && (size != 1 || stride != 1)) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has kernel size {1} and stride {2}, but the problem has only {3} axes", a,
                        size, stride, problem.ndim);
    }
  }
  if (kernel_volume(problem) > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has more than the {0} offsets that are supported", kMostOffsets);
  }
  if (problem.kind == ConvolutionKind::Submanifold && !is_all_ones(problem.stride, problem.ndim)) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold convolution keeps the input's coordinates, so its stride must be 1");
  }
  return check_built(problem);
}

i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands) {
  i32 bytes = kWidestAccess;
  auto fits = [&](i32 elements) { return elements * element_bytes % bytes == 0; };
  auto all_fit = [&] {
    return fits(tile) && std::all_of(operands.begin(), operands.end(), [&](const Columns& operand) {
             return fits(operand.ld) && fits(operand.column);
           });
  };
  while (bytes > element_bytes && !all_fit()) bytes /= 2;
  return bytes;
}

MapChoice choose_map(KeyType key, i32 ndim, const std::vector<SearchChoice>& searches) {
  MapChoice choice;
  choice.key = key;
  choice.find_bounds.ndim = ndim;
  choice.pack.key = choice.unpack.key = choice.downsample.key = key;
  choice.pack.ndim = choice.unpack.ndim = choice.downsample.ndim = ndim;
  choice.radix_histogram.key = choice.radix_pass_rows.key = choice.radix_pass_keys.key = key;
  choice.radix_pass_keys.values = false;
  choice.scan_heads.input = key == KeyType::U32 ? ScanInput::Heads32 : ScanInput::Heads64;
  choice.scan_hits.input = ScanInput::Hits;
  choice.scan_values.input = ScanInput::Values;
  choice.unique_rows.key = choice.unique_keys.key = key;
  choice.unique_keys.rows = false;
  for (const SearchChoice& search : searches) {
    choice.find_query_borders.push_back({key, ndim, search.source_block, search.query_block, search.threads});
    choice.search_kernel_map.push_back({key, ndim, search.source_block, search.query_block, search.threads});
  }
  return choice;
}

llvm::Expected<ConvolutionChoice> choose_convolution(const ConvolutionProblem& problem) {
  MINUET_TRY(validate(problem));
  ConvolutionChoice choice;
  choice.problem = problem;
  const i32 element = dtype_bytes(problem.dtype);

  choice.direct_center = problem.kind == ConvolutionKind::Submanifold && problem.dtype != DType::TF32;
  choice.reasons.push_back(
      choice.direct_center ? "the centre offset of a submanifold layer covers every row: its GEMM reads the "
                             "features in place"
      : problem.dtype == DType::TF32 ? "tf32 operands are rounded by the gather, so every offset is gathered"
                                     : "no offset covers every row, so every offset is gathered");

  GatherSpec& gather = choice.gather;
  gather.io = problem.dtype;
  gather.channels = problem.in_channels;
  gather.tile = default_tile(element, problem.in_channels);
  gather.vector_bytes = widest_vector(element, gather.tile, {problem.input, {problem.in_channels, 0}});

  ScatterSpec& scatter = choice.scatter;
  scatter.io = problem.dtype;
  // fp16 and bf16 partial sums stay within the bounds of convolution.md (tests/runtime) at half the traffic.
  scatter.partial = problem.dtype == DType::TF32 ? DType::F32 : problem.dtype;
  scatter.channels = problem.out_channels;
  scatter.tile = default_tile(element, problem.out_channels);
  std::vector<Columns> outputs{problem.output, {problem.out_channels, 0}};
  if (problem.residual) outputs.push_back(problem.residual_input);
  scatter.vector_bytes = widest_vector(element, scatter.tile, outputs);
  scatter.scale_shift = problem.scale_shift;
  scatter.residual = problem.residual;
  scatter.activation = problem.activation;
  choice.reasons.push_back(
      llvm::formatv("gather tile {0} of {1} channels and scatter tile {2} of {3}: one widest "
                    "access a thread",
                    gather.tile, gather.channels, scatter.tile, scatter.channels)
          .str());

  const i64 slice = static_cast<i64>(problem.in_channels) * problem.out_channels * element;
  choice.permute_weights.vector_bytes = static_cast<i32>(std::gcd(slice, static_cast<i64>(kWidestAccess)));
  return choice;
}

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output) {
  PermuteRowsSpec spec;
  spec.io = io;
  spec.channels = channels;
  spec.vector_bytes = widest_vector(dtype_bytes(io), channels, {input, output});
  return spec;
}

PermuteRowsSpec choose_permute_coordinates(i32 ndim) {
  PermuteRowsSpec spec;
  spec.io = DType::F32;
  spec.channels = 1 + ndim;
  spec.vector_bytes = 4;  // coordinates come and go at any int32's address
  return spec;
}

std::vector<KernelSource> sources_of(const MapChoice& choice) {
  std::vector<KernelSource> sources{
      emit(choice.find_bounds),     emit(choice.pack),          emit(choice.unpack),
      emit(choice.radix_histogram), emit(choice.radix_bins),    emit(choice.radix_pass_rows),
      emit(choice.radix_pass_keys), emit(choice.prepare_scans), emit(choice.scan_heads),
      emit(choice.scan_hits),       emit(choice.scan_values),   emit(choice.unique_rows),
      emit(choice.unique_keys),     emit(choice.downsample),    emit(choice.count_pairs),
      emit(choice.compact_pairs),   emit(choice.make_tables)};
  for (const FindQueryBordersSpec& spec : choice.find_query_borders) sources.push_back(emit(spec));
  for (const SearchKernelMapSpec& spec : choice.search_kernel_map) sources.push_back(emit(spec));
  return sources;
}

std::vector<KernelSource> sources_of(const ConvolutionChoice& choice) {
  return {emit(choice.gather), emit(choice.scatter), emit(choice.permute_weights)};
}

}  // namespace minuet
