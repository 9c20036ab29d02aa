// What we compile beside the candidates of ops, and why: a Spec for every kernel of the Map step, and for
// what brings rows in and out. Pure; no GPU is asked.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"

namespace minuet {

class TuningSnapshot;

/// B, C and thread count of the double-traversed binary search (paper 5.1.3).
struct SearchChoice {
  i32 source_block = 256;  // B
  i32 query_block = 512;   // C
  i32 threads = 128;
  bool operator==(const SearchChoice&) const = default;
};

/// Keys from which a sort takes larger tiles.
inline constexpr i64 kLargeSort = 1 << 19;

/// One for small sorts and one for large ones: both are compiled, and the cloud decides.
template <class T>
struct BySortSize {
  T small, large;
  const T& of(i64 capacity) const { return capacity < kLargeSort ? small : large; }
};
using RadixPassChoice = BySortSize<RadixPassSpec>;

/// Kernels that build coordinate sets and kernel maps, for one key width and dimension.
struct MapChoice {
  KeyType key = KeyType::U32;
#define MINUET_MAP_KERNEL(Spec, member) Spec member;
#define MINUET_MAP_SORT_KERNEL(Spec, member) BySortSize<Spec> member;
#include "codegen/choose/map_kernels.inc"
};

/// Each kernel of the Map step: visitor(spec, what `kernels` has under the same name). That is `choice`
/// itself, or what is loaded of it.
template <class Kernels, class Visitor>
void visit_map_kernels(const MapChoice& choice, Kernels& kernels, const Visitor& visitor) {
#define MINUET_MAP_KERNEL(Spec, member) visitor(choice.member, kernels.member);
#define MINUET_MAP_SORT_KERNEL(Spec, member)          \
  visitor(choice.member.small, kernels.member.small); \
  visitor(choice.member.large, kernels.member.large);
#include "codegen/choose/map_kernels.inc"
}

MapChoice choose_map(KeyType key, i32 ndim, const SearchChoice& search = {});

/// The caller's included. More fill the GPU no better with a layer's eight GEMMs or so, and each costs four
/// calls a layer: measured slower.
inline constexpr i32 kMostGemmStreams = 2;

/// How GEMMs of one kernel map are grouped (paper 5.2.2), and run beside each other.
struct GroupingChoice {
  double padding_threshold = 0.25;  // padding rows per useful row that a group may reach
  i32 height_step = 64;             // GEMM heights are rounded up to a multiple of this
  i32 streams = kMostGemmStreams;   // that a layer's GEMMs are spread over, where the caller's allows
  bool operator==(const GroupingChoice&) const = default;
};

/// For the maps of a problem; what was measured, and why, goes to `reasons`.
GroupingChoice choose_grouping(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                               std::vector<std::string>& reasons);

/// What the kernels assert, and what their registers and shared memory hold. Every choice passes.
llvm::Error validate_spec(const GatherSpec& spec);
llvm::Error validate_spec(const ScatterSpec& spec);
llvm::Error validate_spec(const FusedSpec& spec);
/// Whether GPUs of `arch` run it.
bool runs_on(const FusedSpec& spec, llvm::StringRef arch);
llvm::Error validate(const SearchChoice& search, KeyType key);
llvm::Error validate(const GroupingChoice& grouping);

/// In which order the fused dataflow's kernels take the rows of a network's maps.
enum class RowOrder : i32 {
  AsTheyCome,  // nothing is sorted, and no rows are copied
  ByMask,      // those of like offsets near each other
  ByBlock,     // and blocks that have most to do first
};
struct OrderChoice {
  RowOrder order = RowOrder::ByBlock;
};

/// As choose_grouping() does.
OrderChoice choose_order(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                         std::vector<std::string>& reasons);

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output);
/// Rows of 1 + ndim coordinates, moved as 32-bit words.
PermuteRowsSpec choose_permute_coordinates(i32 ndim);

inline constexpr i32 kWidestAccess = 16;  // bytes of one load or store
/// Widest access (bytes, a power of two up to that) that divides a tile and every row's start.
i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands);

/// Every kernel of the Map step.
void add_sources(SourceList& list, const MapChoice& choice);

/// The kernels of the Map step that an engine loads. Both key widths are there, because the cloud decides
/// which is used.
struct EngineChoice {
  i32 ndim = 3;
  MapChoice map32, map64;
};

/// Chooses one search for all maps of a program whose largest kernel has `volume` offsets: a measured one
/// where `tuning`, which may be null, has one.
EngineChoice choose_engine(i32 ndim, i64 volume = 0, const TuningSnapshot* tuning = nullptr);

}  // namespace minuet
