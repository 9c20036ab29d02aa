#include "runtime/cpu/permute_rows.h"

#include <algorithm>
#include <cstring>

namespace minuet {

void permute_rows_cpu(ThreadPool& pool, const PermuteRowsSpec& spec, const PermuteRequest& request) {
  constexpr i64 kRows = 1024;
  const i64 element = dtype_bytes(spec.io), bytes = spec.channels * element;
  const i64 count = request.count ? *request.count : request.rows;
  const char* const input = static_cast<const char*>(request.input);
  pool.run((request.rows + kRows - 1) / kRows, [&](i64 task, i32) {
    for (i64 r = task * kRows; r < std::min(request.rows, (task + 1) * kRows); ++r) {
      char* row = static_cast<char*>(request.output) + r * request.output_ld * element;
      const i64 source = r >= count ? -1 : request.index ? request.index[r] : r;
      if (source < 0) {
        std::memset(row, static_cast<int>(request.padding & 0xff), bytes);
        continue;
      }
      std::memcpy(row, input + source * request.input_ld * element, bytes);
    }
  });
}

}  // namespace minuet
