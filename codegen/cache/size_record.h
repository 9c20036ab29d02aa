// How many bytes and entries a store has, kept in a small file so that opening the store looks at no entry.
//
//   total <bytes> <entries>   a prune looked at every entry, and this is what stayed
//   add <bytes>               one entry was published
//
// The lines are summed up. A prune begins a new file before it looks, so that what is published meanwhile is
// counted at least once: the sum may be too large, which costs one look at the entries. A line that cannot be
// written (a full disk, a limit for files) makes the sum too small until the next prune, so that a limit may
// be missed until then. A file without a total, or with a line that is none of these, says nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/cache/store.h"

namespace minuet {

struct StoreSize {
  std::uint64_t bytes = 0, entries = 0;
};

/// Nothing where there is no record, or where it does not say.
std::optional<StoreSize> read_size(const StoreRoot& root);
/// What `text` of a record sums up to.
std::optional<StoreSize> sum_of_record(llvm::StringRef text);

/// One entry of that many bytes was published. Where there is no record none is begun.
void add_to_size(const StoreRoot& root, std::uint64_t bytes);

/// A new record without a total, in the open folder of the version; false where it cannot be made.
bool begin_size(const StoreRoot& root, int version);
/// The total of the record that was begun.
void end_size(const StoreRoot& root, int version, const StoreSize& total);

}  // namespace minuet
