// The Specs of the kernels of the Map step that kernels_compile_test.cc compiles beside the default ones.
#pragma once

#include <vector>

#include "codegen/choose/choice.h"

namespace minuet {

constexpr KeyType kKeys[] = {KeyType::U32, KeyType::U64};
constexpr i32 kDims[] = {1, 3, 4};

/// The Specs to compile beside the default one, by row of kernels.inc.
template <class Spec>
std::vector<Spec> by_key_and_ndim() {
  std::vector<Spec> specs;
  for (KeyType key : kKeys) {
    for (i32 ndim : kDims) {
      Spec spec;
      spec.key = key;
      spec.ndim = ndim;
      specs.push_back(spec);
    }
  }
  return specs;
}

template <class Spec>
std::vector<Spec> by_key() {
  std::vector<Spec> specs(2);
  specs[1].key = KeyType::U64;
  return specs;
}

template <class Spec>
std::vector<Spec> by_ndim() {
  return {{.ndim = 1}, {.ndim = 2}, {.ndim = 4}};
}

inline std::vector<FindBoundsSpec> variants(const FindBoundsSpec&) { return by_ndim<FindBoundsSpec>(); }
inline std::vector<BeginCloudSpec> variants(const BeginCloudSpec&) { return {}; }
inline std::vector<ClearIndexSpec> variants(const ClearIndexSpec&) { return {}; }
inline std::vector<NumberRowsSpec> variants(const NumberRowsSpec&) { return {}; }
inline std::vector<NumberPointsSpec> variants(const NumberPointsSpec&) { return {}; }
inline std::vector<MarkBlocksSpec> variants(const MarkBlocksSpec&) { return by_ndim<MarkBlocksSpec>(); }
inline std::vector<NumberBlocksSpec> variants(const NumberBlocksSpec&) { return by_ndim<NumberBlocksSpec>(); }
inline std::vector<MarkVoxelsSpec> variants(const MarkVoxelsSpec&) { return by_ndim<MarkVoxelsSpec>(); }
inline std::vector<ReachBlocksSpec> variants(const ReachBlocksSpec&) { return by_ndim<ReachBlocksSpec>(); }
inline std::vector<ReachVoxelsSpec> variants(const ReachVoxelsSpec&) { return by_ndim<ReachVoxelsSpec>(); }
inline std::vector<ListVoxelsSpec> variants(const ListVoxelsSpec&) { return by_ndim<ListVoxelsSpec>(); }
inline std::vector<SearchVoxelsSpec> variants(const SearchVoxelsSpec&) {
  std::vector<SearchVoxelsSpec> specs = by_ndim<SearchVoxelsSpec>();
  for (i32 ndim = 1; ndim <= kMaxDim; ++ndim) specs.push_back({.ndim = ndim, .rows = true});
  return specs;
}
inline std::vector<SearchListedKeysSpec> variants(const SearchListedKeysSpec&) {
  return by_key_and_ndim<SearchListedKeysSpec>();
}
inline std::vector<SearchListedVoxelsSpec> variants(const SearchListedVoxelsSpec&) {
  return by_ndim<SearchListedVoxelsSpec>();
}
inline std::vector<VoidFailedSpec> variants(const VoidFailedSpec&) { return {}; }
inline std::vector<JoinWordsSpec> variants(const JoinWordsSpec&) { return {}; }
inline std::vector<MakeLayoutSpec> variants(const MakeLayoutSpec&) { return by_ndim<MakeLayoutSpec>(); }
inline std::vector<PackSpec> variants(const PackSpec&) { return by_key_and_ndim<PackSpec>(); }
inline std::vector<UnpackSpec> variants(const UnpackSpec&) { return by_key_and_ndim<UnpackSpec>(); }
inline std::vector<DownsampleSpec> variants(const DownsampleSpec&) {
  return by_key_and_ndim<DownsampleSpec>();
}
inline std::vector<ReachKeysSpec> variants(const ReachKeysSpec&) { return by_key_and_ndim<ReachKeysSpec>(); }
inline std::vector<RadixHistogramSpec> variants(const RadixHistogramSpec&) {
  return by_key<RadixHistogramSpec>();
}
inline std::vector<RadixPassSpec> variants(const RadixPassSpec&) {
  const MapChoice u32 = choose_map(KeyType::U32, 3), u64 = choose_map(KeyType::U64, 3);
  return {u32.radix_pass_rows.small, u32.radix_pass_keys.small, u32.radix_pass_keys.large,
          u64.radix_pass_rows.small, u64.radix_pass_keys.small};
}
inline std::vector<PrepareScansSpec> variants(const PrepareScansSpec&) { return {}; }
inline std::vector<ScanSpec> variants(const ScanSpec&) {
  return {{.input = ScanInput::Heads32}, {.input = ScanInput::Heads64}, {.input = ScanInput::Hits}};
}
inline std::vector<UniqueSpec> variants(const UniqueSpec&) {
  return {{.key = KeyType::U64}, {.rows = false}, {.key = KeyType::U64, .rows = false}};
}

/// Every key and dimension, and the extremes of B, C and the block size.
template <class Spec>
std::vector<Spec> searches() {
  std::vector<Spec> specs = by_key_and_ndim<Spec>();
  for (KeyType key : kKeys) {
    specs.push_back({.key = key, .source_block = 64, .query_block = 64, .threads = 64});
    specs.push_back({.key = key, .source_block = 1024, .query_block = 1024, .threads = 256});
  }
  return specs;
}
inline std::vector<FindQueryBordersSpec> variants(const FindQueryBordersSpec&) {
  return searches<FindQueryBordersSpec>();
}
inline std::vector<SearchKernelMapSpec> variants(const SearchKernelMapSpec&) {
  return searches<SearchKernelMapSpec>();
}
inline std::vector<CountPairsSpec> variants(const CountPairsSpec&) { return {}; }
inline std::vector<CompactPairsSpec> variants(const CompactPairsSpec&) { return {}; }
inline std::vector<MakeTablesSpec> variants(const MakeTablesSpec&) { return {}; }
inline std::vector<MakeMasksSpec> variants(const MakeMasksSpec&) { return {}; }
inline std::vector<RankMasksSpec> variants(const RankMasksSpec&) { return by_ndim<RankMasksSpec>(); }
inline std::vector<OrderVoxelsSpec> variants(const OrderVoxelsSpec&) { return by_ndim<OrderVoxelsSpec>(); }
inline std::vector<OrderRowsSpec> variants(const OrderRowsSpec&) { return {}; }
inline std::vector<OrderBlocksSpec> variants(const OrderBlocksSpec&) { return {}; }
inline std::vector<TransposeRowsSpec> variants(const TransposeRowsSpec&) { return {}; }
inline std::vector<PresetRowsSpec> variants(const PresetRowsSpec&) { return {}; }

}  // namespace minuet
