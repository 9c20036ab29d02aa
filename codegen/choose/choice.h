// Chooses the Specs of kernels that do not belong to an op: those of the Map step, and those that permute
// rows and coordinates on the way in and out. All functions are pure and use no GPU.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"

namespace minuet {

class TuningSnapshot;

/// Parameters of the double-traversed binary search (paper, section 5.1.3).
struct SearchChoice {
  i32 source_block = 256;  // B in the paper
  i32 query_block = 512;   // C in the paper
  i32 threads = 128;
  bool operator==(const SearchChoice&) const = default;
};

/// The number of keys from which a sort uses larger tiles.
inline constexpr i64 kLargeSort = 1 << 19;

/// Holds one value for small sorts and one for large ones. Both are compiled, because the number of keys is
/// known only when a point cloud arrives.
template <class T>
struct BySortSize {
  T small, large;
  const T& of(i64 capacity) const { return capacity < kLargeSort ? small : large; }
};
using RadixPassChoice = BySortSize<RadixPassSpec>;

/// The kernels that build coordinate sets and kernel maps, for one key width and one number of dimensions.
struct MapChoice {
  KeyType key = KeyType::U32;
#define MINUET_MAP_KERNEL(Spec, member) Spec member;
#define MINUET_MAP_SORT_KERNEL(Spec, member) BySortSize<Spec> member;
#include "codegen/choose/map_kernels.inc"
};

/// Calls visitor(spec, kernels.<same member>) for each kernel of the Map step. `kernels` is `choice` itself
/// or a struct of loaded kernels with the same members.
template <class Kernels, class Visitor>
void visit_map_kernels(const MapChoice& choice, Kernels& kernels, const Visitor& visitor) {
#define MINUET_MAP_KERNEL(Spec, member) visitor(choice.member, kernels.member);
#define MINUET_MAP_SORT_KERNEL(Spec, member)          \
  visitor(choice.member.small, kernels.member.small); \
  visitor(choice.member.large, kernels.member.large);
#include "codegen/choose/map_kernels.inc"
}

MapChoice choose_map(KeyType key, i32 ndim, const SearchChoice& search = {});

/// The most streams that run GEMMs, the caller's stream included. More streams measured slower: a layer's few
/// GEMMs do not fill the GPU better, and each stream costs four calls per layer.
inline constexpr i32 kMostGemmStreams = 2;

/// Controls how GEMMs of one kernel map are grouped (paper, section 5.2.2) and run concurrently.
struct GroupingChoice {
  double padding_threshold = 0.25;  // largest number of padding rows per useful row in a group
  i32 height_step = 64;             // GEMM heights are rounded up to a multiple of this
  i32 streams = kMostGemmStreams;   // streams for a layer's GEMMs, if the caller's stream allows several
  bool operator==(const GroupingChoice&) const = default;
};

/// Returns the grouping for the maps of a problem: the measured one if `tuning` has one, with its reason
/// added to `reasons`.
GroupingChoice choose_grouping(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                               std::vector<std::string>& reasons);

/// Return an error if a choice violates an assert of its kernel or needs more registers or shared memory than
/// there are. Every choice made by this room is valid.
llvm::Error validate_spec(const GatherSpec& spec);
llvm::Error validate_spec(const ScatterSpec& spec);
llvm::Error validate_spec(const FusedSpec& spec);
/// Returns true if GPUs of `arch` can run the kernel.
bool runs_on(const FusedSpec& spec, llvm::StringRef arch);
llvm::Error validate(const SearchChoice& search, KeyType key);
llvm::Error validate(const GroupingChoice& grouping);

/// The order in which kernels of the fused dataflow process the rows of a network's maps.
enum class RowOrder : i32 {
  AsTheyCome,  // rows are neither sorted nor copied
  ByMask,      // rows with similar masks of offsets are near each other
  ByBlock,     // as ByMask, and blocks with the most work start first
};
struct OrderChoice {
  RowOrder order = RowOrder::ByBlock;
};

/// Returns the order of rows in the same way as choose_grouping().
OrderChoice choose_order(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                         std::vector<std::string>& reasons);

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output);
/// Returns the Spec for rows of 1 + ndim coordinates, which are moved as 32-bit words.
PermuteRowsSpec choose_permute_coordinates(i32 ndim);

inline constexpr i32 kWidestAccess = 16;  // bytes of one load or store
/// Returns the widest access in bytes, a power of two up to kWidestAccess, that divides a tile and the start
/// of every row.
i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands);

/// Adds every kernel of the Map step.
void add_sources(SourceList& list, const MapChoice& choice);

/// The kernels of the Map step that an engine loads. It holds both key widths, because the point cloud
/// decides which one is used.
struct EngineChoice {
  i32 ndim = 3;
  MapChoice map32, map64;
};

/// Chooses one search for all maps of a program whose largest kernel has `volume` offsets. Uses the measured
/// one if `tuning`, which may be null, has one.
EngineChoice choose_engine(i32 ndim, i64 volume = 0, const TuningSnapshot* tuning = nullptr);

}  // namespace minuet
