// Chooses the Specs (compile-time parameters) of the kernels that do not belong to an op. These are the
// kernels of the Map step, which builds coordinate sets and kernel maps, and the kernels that permute rows
// and coordinates between the caller's order and the library's order. All functions are pure and use no GPU.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"

namespace minuet {

class TuningSnapshot;

/// Holds the parameters of the double-traversed binary search (Minuet paper, section 5.1.3).
struct SearchChoice {
  i32 source_block = 256;  // Counts the sources of a block, B in the paper.
  i32 query_block = 512;   // Counts the queries of a block, C in the paper.
  i32 threads = 128;
  bool operator==(const SearchChoice&) const = default;
};

/// A sort of at least this many keys uses larger tiles.
inline constexpr i64 kLargeSort = 1 << 19;

/// Holds one value for small sorts and one for large sorts. If the values are kernels, both are compiled,
/// because the number of keys is known only when a point cloud arrives.
template <class T>
struct BySortSize {
  T small, large;
  const T& of(i64 capacity) const { return capacity < kLargeSort ? small : large; }
};
using RadixPassChoice = BySortSize<RadixPassSpec>;

/// Describes the kernels that build coordinate sets and kernel maps, for one key width and one number of
/// dimensions.
struct MapChoice {
  KeyType key = KeyType::U32;
#define MINUET_MAP_KERNEL(Spec, member) Spec member;
#define MINUET_MAP_SORT_KERNEL(Spec, member) BySortSize<Spec> member;
#include "codegen/choose/map_kernels.inc"
};

/// Calls visitor(choice.member, kernels.member) for each kernel in MapChoice. `kernels` is `choice` itself or
/// a struct of loaded kernels with the same members.
template <class Kernels, class Visitor>
void visit_map_kernels(const MapChoice& choice, Kernels& kernels, const Visitor& visitor) {
#define MINUET_MAP_KERNEL(Spec, member) visitor(choice.member, kernels.member);
#define MINUET_MAP_SORT_KERNEL(Spec, member)          \
  visitor(choice.member.small, kernels.member.small); \
  visitor(choice.member.large, kernels.member.large);
#include "codegen/choose/map_kernels.inc"
}

MapChoice choose_map(KeyType key, i32 ndim, const SearchChoice& search = {});

/// The GEMMs of a layer run on at most this many streams, the caller's stream included. More streams were
/// slower in measurements, because the few GEMMs of a layer do not fill the GPU better, and each further
/// stream costs four driver calls per layer.
inline constexpr i32 kMostGemmStreams = 2;

/// Controls how GEMMs of one kernel map are grouped (Minuet paper, section 5.2.2) and run concurrently.
struct GroupingChoice {
  double padding_threshold = 0.25;  // A group has at most this many padding rows per useful row.
  i32 height_step = 64;             // GEMM heights are rounded up to a multiple of this number.
  /// A layer's GEMMs run on this many streams, or on the caller's stream alone if it belongs to a green
  /// context.
  i32 streams = kMostGemmStreams;
  bool operator==(const GroupingChoice&) const = default;
};

/// Returns the grouping of GEMMs for the maps of a problem. If `tuning` has a measured one, returns it and
/// adds its reason to `reasons`; otherwise returns the default. `tuning` may be null.
GroupingChoice choose_grouping(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                               std::vector<std::string>& reasons);

/// The following functions return an error if a choice violates an assert of its kernel, or needs more
/// registers or shared memory than a GPU has. Every choice that functions of codegen/choose make is valid.
llvm::Error validate_spec(const GatherSpec& spec);
llvm::Error validate_spec(const ScatterSpec& spec);
llvm::Error validate_spec(const FusedSpec& spec);
/// Returns true if GPUs of `arch` can run the kernel of this Spec.
bool runs_on(const FusedSpec& spec, llvm::StringRef arch);
llvm::Error validate(const SearchChoice& search, KeyType key);
llvm::Error validate(const GroupingChoice& grouping);

/// Names the order in which kernels of the fused dataflow process the output rows of a network's kernel maps.
enum class RowOrder : i32 {
  AsTheyCome,  // Rows are neither sorted nor copied.
  ByMask,      // Rows that have neighbours at similar sets of offsets are near each other.
  ByBlock,     // Rows are ordered as with ByMask, and blocks with the most work start first.
};
struct OrderChoice {
  RowOrder order = RowOrder::ByBlock;
};

/// Returns the order of rows for the maps of a problem. If `tuning` has a measured one, returns it and adds
/// its reason to `reasons`; otherwise returns the default. `tuning` may be null.
OrderChoice choose_order(const WindowProblem& problem, const TuningSnapshot* tuning, i64 rows,
                         std::vector<std::string>& reasons);

PermuteRowsSpec choose_permute_rows(DType io, i32 channels, Columns input, Columns output);
/// Returns the Spec of the kernel that permutes rows of 1 + ndim coordinates. It moves them as 32-bit words.
PermuteRowsSpec choose_permute_coordinates(i32 ndim);

inline constexpr i32 kWidestAccess = 16;  // A load or a store moves at most this many bytes.
/// Returns the width in bytes of the widest access that divides a tile and the start of every operand row. It
/// is a power of two up to kWidestAccess.
i32 widest_vector(i32 element_bytes, i32 tile, const std::vector<Columns>& operands);

/// Adds the source of every kernel in `choice` to `list`.
void add_sources(SourceList& list, const MapChoice& choice);

/// Describes the kernels with which an engine (runtime/engine) builds coordinate sets and kernel maps. They
/// cover both key widths, because the point cloud decides which one is used.
struct EngineChoice {
  i32 ndim = 3;
  MapChoice map32, map64;
};

/// Chooses the kernels that build coordinate sets and kernel maps, for a program whose largest convolution
/// kernel has `volume` offsets. All maps of the program use the same SearchChoice, which is the measured one
/// if `tuning` has one. `tuning` may be null.
EngineChoice choose_engine(i32 ndim, i64 volume = 0, const TuningSnapshot* tuning = nullptr);

}  // namespace minuet
