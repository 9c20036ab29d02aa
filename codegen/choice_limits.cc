// What a choice may be: the asserts of the kernels as errors, for configurations that come from outside.
#include "codegen/choice.h"

namespace minuet {
namespace {

constexpr i32 kWarp = 32;
constexpr i32 kMostThreads = 1024;  // of a thread block
constexpr i32 kWidestTile = 256;    // past a thread's 255 registers it spills, and compiles for seconds
constexpr i32 kMostSharedBytes = 40 << 10;  // of 48 KiB, what a staged source block may take
constexpr i32 kMostBlock = 1 << 20;
constexpr double kMostPadding = 16;  // times the useful rows

llvm::Error check_threads(i32 threads) {
  if (threads >= kWarp && threads <= kMostThreads && threads % kWarp == 0) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "{0} threads are no whole number of warps up to {1}", threads,
                    kMostThreads);
}

llvm::Error check_tile(DType io, i32 channels, i32 tile, i32 vector_bytes) {
  if (channels < 1 || tile < 1 || channels % tile != 0) {
    return make_error(StatusCode::OutOfRange, "tile {0} does not divide {1} channels", tile, channels);
  }
  if (tile > kWidestTile) {
    return make_error(StatusCode::OutOfRange, "tile {0} is wider than {1}, which is what registers hold",
                      tile, kWidestTile);
  }
  const bool is_access = vector_bytes == 2 || vector_bytes == 4 || vector_bytes == 8 || vector_bytes == 16;
  if (!is_access || vector_bytes < dtype_bytes(io) || tile * dtype_bytes(io) % vector_bytes != 0) {
    return make_error(StatusCode::OutOfRange, "accesses of {0} bytes do not divide a tile of {1} elements",
                      vector_bytes, tile);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error validate_spec(const GatherSpec& spec) {
  MINUET_TRY(check_threads(spec.threads));
  return check_tile(spec.io, spec.channels, spec.tile, spec.vector_bytes);
}

llvm::Error validate_spec(const ScatterSpec& spec) {
  MINUET_TRY(check_threads(spec.threads));
  return check_tile(spec.io, spec.channels, spec.tile, spec.vector_bytes);
}

llvm::Error validate(const SearchChoice& search, KeyType key) {
  MINUET_TRY(check_threads(search.threads));
  if (search.source_block < 1 || search.source_block > kMostBlock || search.query_block < 1 ||
      search.query_block > kMostBlock) {
    return make_error(StatusCode::OutOfRange, "source blocks of {0} and query blocks of {1} are not 1 to {2}",
                      search.source_block, search.query_block, kMostBlock);
  }
  i64 bytes = key_bytes(key);  // the kernel fills a block up to a power of two
  while (bytes < i64{search.source_block} * key_bytes(key)) bytes *= 2;
  if (bytes > kMostSharedBytes) {
    return make_error(StatusCode::OutOfRange, "a source block of {0} keys takes {1} bytes of shared memory",
                      search.source_block, bytes);
  }
  return llvm::Error::success();
}

llvm::Error validate(const GroupingChoice& grouping) {
  const bool padding_fits = grouping.padding_threshold >= 0 && grouping.padding_threshold <= kMostPadding;
  if (padding_fits && grouping.height_step >= 1 && grouping.height_step <= kMostBlock) {
    return llvm::Error::success();
  }
  return make_error(StatusCode::OutOfRange,
                    "a padding threshold of {0} and a height step of {1} are outside what groups are made of",
                    grouping.padding_threshold, grouping.height_step);
}

}  // namespace minuet
