// Maintains a small file with the number of bytes and entries of a store, so that code that opens the store
// need not look at every entry. The file has two kinds of lines:
//
//   total <bytes> <entries>   is the result of a prune, which looks at every entry.
//   add <bytes>               means that an entry was published.
//
// The size of the store is the sum of all lines. A prune starts a new file before it looks at the entries, so
// that entries published meanwhile are counted at least once. The sum may be too large, which costs one
// unnecessary prune. A line that cannot be written, for example on a full disk, makes the sum too small until
// the next prune, so that the store may exceed a limit until then. The size is unknown if the file has no
// total or an invalid line.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/cache/store.h"

namespace minuet {

struct StoreSize {
  std::uint64_t bytes = 0, entries = 0;
};

/// Reads the size of the store. Returns std::nullopt if it is unknown.
std::optional<StoreSize> read_size(const StoreRoot& root);
/// Returns the sum of the lines of the size file, or std::nullopt if `text` is not valid.
std::optional<StoreSize> sum_of_record(llvm::StringRef text);

/// Adds an entry of `bytes` bytes, which was published, to the size file. Does nothing if the file is
/// missing.
void add_to_size(const StoreRoot& root, std::uint64_t bytes);

/// Starts a new, empty size file in the open folder `version` of the store. Returns false on failure.
bool begin_size(const StoreRoot& root, int version);
/// Appends the total to the size file that begin_size() has started.
void end_size(const StoreRoot& root, int version, const StoreSize& total);

}  // namespace minuet
