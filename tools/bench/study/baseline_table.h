// Implements the hash table with which the studies compare the library's searches. It has open addressing
// with linear probing, and is at most half full. For GPUs, CMake puts this file in front of
// baseline_kernels.inc. The loops for the CPU are in baseline.cc.
#pragma once

#include "kernels_templates/shared/macros.h"

namespace minuet::study {

constexpr u64 kEmptyKey = ~u64{0};

/// Describes a table with `mask` + 1 slots, a power of two. No key is inserted twice, so a slot belongs to
/// the thread that increments its claim first.
struct HashTable {
  u64* keys;  // A free slot has kEmptyKey.
  i32* rows;
  u32* claims;  // A free slot has 0.
  u32 mask;
};

/// Returns the slot at which a search for the key starts. The hash function is the finalizer of SplitMix64.
MINUET_HD u32 first_slot(u64 key, u32 mask) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  return static_cast<u32>(key ^ (key >> 31)) & mask;
}

/// Inserts a key with its row. `claim` atomically increments the number at an address and returns the old
/// value.
template <class Claim>
MINUET_HD void insert_key(const HashTable& table, u64 key, i32 row, const Claim& claim) {
  u32 slot = first_slot(key, table.mask);
  while (claim(table.claims + slot) != 0) slot = (slot + 1) & table.mask;
  table.keys[slot] = key;
  table.rows[slot] = row;
}

/// Returns the row of a key, or -1 if the table does not have the key.
MINUET_HD i32 find_in_table(const HashTable& table, u64 key) {
  for (u32 slot = first_slot(key, table.mask);; slot = (slot + 1) & table.mask) {
    const u64 found = table.keys[slot];
    if (found == key) return table.rows[slot];
    if (found == kEmptyKey) return -1;
  }
}

/// Returns the index of a key among ascending keys, or -1 if the key is missing, by plain binary search.
MINUET_HD i32 find_sorted(const u64* keys, i32 count, u64 key) {
  i32 first = 0;
  for (i32 left = count; left > 0;) {
    const i32 half = left / 2;
    const bool is_less = keys[first + half] < key;
    first = is_less ? first + half + 1 : first;
    left = is_less ? left - half - 1 : half;
  }
  return first < count && keys[first] == key ? first : -1;
}

struct InsertParams {
  HashTable table;
  const u64* keys;
  i32 count;
};

struct QueryParams {
  HashTable table;     // Only query_keys<true> reads the table.
  const u64* sources;  // Only query_keys<false> reads these ascending keys.
  i32 source_count;
  const u64* queries;
  i32 query_count;
  const u64* deltas;  // This array [volume] has the number that each offset adds to a key.
  i32 volume;
  i32* map;     // This array [volume][query_count] receives source rows, or -1 where there is no pair.
  u32* counts;  // The number of pairs of each offset is added to this array [volume].
};

}  // namespace minuet::study
