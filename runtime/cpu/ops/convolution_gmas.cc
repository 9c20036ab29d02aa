#include "runtime/cpu/ops/convolution_gmas.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/radix_sort.h"

namespace minuet {
namespace {

constexpr i64 kTaskWords = 96 * 1024;  // The input and output rows of a GEMM task take about 384 KiB.

/// The next two functions return the tables that the gather and the scatter read. A transposed convolution
/// swaps the two tables.
const i32* gather_table(const GmasRequest& request) {
  return request.transposed ? request.tables->query_table : request.tables->source_table;
}
const i32* scatter_table(const GmasRequest& request) {
  return request.transposed ? request.tables->source_table : request.tables->query_table;
}

void clear_padding(const CpuConvolution& call, const GmasRequest& request, const GemmSlice& slice) {
  const GroupPlan& plan = *request.groups;
  const i64 channels = call.problem.in_channels;
  call.pool.run(static_cast<i64>(plan.padding_ends.size()), [&](i64 k, i32) {
    const i64 rows = plan.padding_ends[k] - (k > 0 ? plan.padding_ends[k - 1] : 0);
    // A slice (GemmSlice) contains whole offsets with their padding, so the padding of an offset is never
    // split.
    const i64 first = plan.padding_start[k];
    if (first < slice.first_row || first + rows > slice.last_row) return;
    float* start = static_cast<float*>(request.gather_buffer) + (first - slice.first_row) * channels;
    std::fill(start, start + rows * channels, 0.0f);
  });
}

}  // namespace

i64 gemm_task_rows(i64 in_channels, i64 out_channels) {
  return std::clamp<i64>(kTaskWords / (in_channels + out_channels) / 64 * 64, 128, 2048);
}

i64 convolve_scratch_words(const ConvolutionProblem& problem) {
  const i64 widened = gemm_task_rows(problem.in_channels, problem.out_channels) * problem.in_channels;
  const i64 gathered = kRowsPerTask * problem.in_channels;
  const i64 summed = (kRowsPerTask + 1) * problem.out_channels;
  return (std::max({widened, gathered, summed}) + 63) / 64 * 64;
}

void make_tables_cpu(ThreadPool& pool, const GmasRequest& request) {
  const MapView& map = *request.map;
  const GmasTables& tables = *request.tables;
  const i64 chunks = cpu_chunks(map.queries);
  pool.run(map.geometry.volume,
           [&](i64 k, i32) { std::fill_n(tables.source_table + k * map.sources, map.sources, -1); });
  pool.run(map.geometry.volume * chunks, [&](i64 task, i32) {
    const i64 k = task / chunks, first = task % chunks * kCpuChunk;
    const i64 start = k * map.queries;
    for (i64 q = first; q < std::min(map.queries, first + kCpuChunk); ++q) {
      const i32 source = map.rows[start + q];
      const i32 row = tables.groups.row_base[k] + (map.positions[start + q] - map.positions[start]);
      const bool is_buffered = source >= 0 && k != request.groups->direct_offset;
      tables.query_table[start + q] = is_buffered ? row : -1;
      if (is_buffered) tables.source_table[k * map.sources + source] = row;
    }
  });
}

void gather_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t number) {
  const GemmSlice& slice = request.slices->slices[number];
  if (slice.first_row == slice.last_row) return;
  const i64 channels = call.problem.in_channels, rows = request.input_rows;
  const i32* table = gather_table(request);
  const i32 volume = request.map->geometry.volume;
  float* buffer = static_cast<float*>(request.gather_buffer);
  clear_padding(call, request, slice);
  call.pool.run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](i64 task, i32 slot) {
    const i64 first = task * kRowsPerTask, end = std::min(rows, first + kRowsPerTask);
    float* widened = call.scratch + slot * call.scratch_words;
    for (i64 r = first; r < end; ++r) {
      call.kernels.widen(call.problem.dtype, row_at(request.input, r, request.input_ld, call.problem.dtype),
                         widened + (r - first) * channels, channels);
    }
    for (i32 k = 0; k < volume; ++k) {
      for (i64 r = first; r < end; ++r) {
        const i64 target = table[k * rows + r];
        if (target < slice.first_row || target >= slice.last_row) continue;
        std::memcpy(buffer + (target - slice.first_row) * channels, widened + (r - first) * channels,
                    channels * sizeof(float));
      }
    }
  });
}

void gemm_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t number,
              std::vector<GemmTask>& tasks) {
  const GroupPlan& plan = *request.groups;
  const i64 in = call.problem.in_channels, out = call.problem.out_channels;
  const i64 step = gemm_task_rows(in, out);
  const float* weight = static_cast<const float*>(call.weights.weight);
  const float* gathered = static_cast<const float*>(request.gather_buffer);
  tasks.clear();
  if (number == 0 && plan.direct_offset >= 0) {
    for (i64 row = 0; row < plan.direct_rows; row += step) {
      tasks.push_back({nullptr, row_at(request.input, row, request.input_ld, call.problem.dtype),
                       weight + plan.direct_offset * in * out, request.sums + row * out,
                       std::min(step, plan.direct_rows - row)});
    }
  }
  const GemmSlice& slice = request.slices->slices[number];
  for (i32 i = slice.first_group; i < slice.last_group; ++i) {
    const GemmGroup& group = request.slices->groups[i];
    for (i32 member = 0; member < group.count; ++member) {
      const i64 base = group.first_row + member * group.height;
      const float* of_offset = weight + plan.order[group.first_slot + member] * in * out;
      for (i64 row = 0; row < group.height; row += step) {
        tasks.push_back({gathered + (base + row) * in, nullptr, of_offset,
                         request.gemm_buffer + (base + row) * out, std::min(step, group.height - row)});
      }
    }
  }
  call.pool.run(static_cast<i64>(tasks.size()), [&](i64 i, i32 slot) {
    GemmTask task = tasks[i];
    if (task.a == nullptr) {
      float* widened = call.scratch + slot * call.scratch_words;
      for (i64 r = 0; r < task.rows; ++r) {
        call.kernels.widen(call.problem.dtype, row_at(task.direct, r, request.input_ld, call.problem.dtype),
                           widened + r * in, in);
      }
      task.a = widened;
    }
    call.kernels.gemm(task.a, in, task.weight, task.c, task.rows, in, out);
  });
}

void scatter_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t number) {
  const GemmSlice& slice = request.slices->slices[number];
  const bool has_sums = number > 0 || request.groups->direct_rows > 0;
  const bool is_last = number + 1 == request.slices->slices.size();
  const ConvolutionProblem& problem = call.problem;
  const i64 channels = problem.out_channels, rows = request.output_rows;
  const i32* table = scatter_table(request);
  const i32 volume = request.map->geometry.volume;
  call.pool.run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](i64 task, i32 slot) {
    const i64 first = task * kRowsPerTask, end = std::min(rows, first + kRowsPerTask);
    float* sums = call.scratch + slot * call.scratch_words;
    float* residual = sums + kRowsPerTask * channels;
    if (has_sums) {
      std::copy_n(request.sums + first * channels, (end - first) * channels, sums);
    } else {
      std::fill_n(sums, (end - first) * channels, 0.0f);
    }
    // Offsets are added in ascending order, as on the GPU.
    for (i32 k = 0; k < volume; ++k) {
      for (i64 r = first; r < end; ++r) {
        const i64 source = table[k * rows + r];
        if (source < slice.first_row || source >= slice.last_row) continue;
        call.kernels.add(request.gemm_buffer + (source - slice.first_row) * channels,
                         sums + (r - first) * channels, channels);
      }
    }
    if (!is_last) {
      std::copy_n(sums, (end - first) * channels, request.sums + first * channels);
      return;
    }
    for (i64 r = first; r < end; ++r) {
      finish_row(call, r, sums + (r - first) * channels, residual);
    }
  });
}

}  // namespace minuet
