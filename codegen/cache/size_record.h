// A small file with the number of bytes and entries of a store, so that opening the store need not look at
// every entry.
//
//   total <bytes> <entries>   the result of a prune, which looks at every entry
//   add <bytes>               an entry was published
//
// The size is the sum of all lines. A prune starts a new file before it looks at the entries, so that entries
// published meanwhile are counted at least once. The sum may be too large, which costs one unnecessary prune.
// A line that cannot be written, for example on a full disk, makes the sum too small until the next prune, so
// that a limit may be exceeded until then. The size is unknown if the file has no total or an invalid line.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/cache/store.h"

namespace minuet {

struct StoreSize {
  std::uint64_t bytes = 0, entries = 0;
};

/// Reads the size of the store. Returns nothing if it is unknown.
std::optional<StoreSize> read_size(const StoreRoot& root);
/// Returns the sum of the lines of a record, or nothing if the record is not valid.
std::optional<StoreSize> sum_of_record(llvm::StringRef text);

/// Adds a published entry of `bytes` bytes to the record. Does nothing if there is no record.
void add_to_size(const StoreRoot& root, std::uint64_t bytes);

/// Starts a new record without a total in the open folder `version`. Returns false on failure.
bool begin_size(const StoreRoot& root, int version);
/// Writes the total of the record that begin_size() has started.
void end_size(const StoreRoot& root, int version, const StoreSize& total);

}  // namespace minuet
