// Lists the fields of the Params (run-time parameters) of the kernels that compute layers, and the grids of
// these kernels, for callers that launch them through the driver themselves (minuet/kernels.h).
//
// A Params struct has one list here. The static_assert in params_fields() compares the list with the struct,
// so that a field which is added to the struct and not to the list does not compile.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels_templates/shared/dense_kernels.h"
#include "kernels_templates/shared/depthwise_kernels.h"
#include "kernels_templates/shared/fused_kernels.h"
#include "kernels_templates/shared/global_pool_kernels.h"
#include "kernels_templates/shared/gmas_kernels.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/pointwise_kernels.h"
#include "kernels_templates/shared/pool_kernels.h"
#include "kernels_templates/shared/space_kernels.h"

namespace minuet {

/// Says what the bytes of a field are. A Pointer is a device address.
enum class FieldKind : i32 { Pointer, I32, U32, I64, F32 };

/// Describes a field of a Params struct. A field of a member struct has a name such as "shortcut.output".
struct ParamsField {
  std::string name;
  i32 offset = 0;
  FieldKind kind = FieldKind::Pointer;
  i32 count = 1;  // Counts the elements of an array.
  i32 bytes = 0;  // Gives the size of all elements.
};

/// Calls visitor(name, offset, type) for each member of the struct `Params`, in the order of the declaration.
/// The struct has a specialization below.
template <class Params>
struct FieldsOf;

#define MINUET_BEGIN_FIELDS(Params) \
  template <>                       \
  struct FieldsOf<Params> {         \
    using P = Params;               \
    template <class Visitor>        \
    static constexpr void visit(Visitor&& visitor) {
#define MINUET_FIELD(name) visitor(#name, offsetof(P, name), std::type_identity<decltype(P::name)>());
#define MINUET_END_FIELDS \
  }                       \
  }                       \
  ;

MINUET_BEGIN_FIELDS(FusedShortcut)
MINUET_FIELD(first_block)
MINUET_FIELD(weights)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(SecondOutput)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(slope)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(FusedParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(masks)
MINUET_FIELD(row_stride)
MINUET_FIELD(order)
MINUET_FIELD(ordered_views)
MINUET_FIELD(block_order)
MINUET_FIELD(query_count)
MINUET_FIELD(reads_early)
MINUET_FIELD(padded_rows)
MINUET_FIELD(weights)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(residual_factor)
MINUET_FIELD(residual)
MINUET_FIELD(residual_ld)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(slope)
MINUET_FIELD(output_factor)
MINUET_FIELD(second_factor)
MINUET_FIELD(shortcut)
MINUET_FIELD(second)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(GatherParams)
MINUET_FIELD(features)
MINUET_FIELD(ld)
MINUET_FIELD(rows)
MINUET_FIELD(table)
MINUET_FIELD(volume)
MINUET_FIELD(first_row)
MINUET_FIELD(last_row)
MINUET_FIELD(padding_rows)
MINUET_FIELD(padding_ends)
MINUET_FIELD(padding_start)
MINUET_FIELD(buffer)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(ScatterParams)
MINUET_FIELD(buffer)
MINUET_FIELD(table)
MINUET_FIELD(rows)
MINUET_FIELD(volume)
MINUET_FIELD(first_row)
MINUET_FIELD(last_row)
MINUET_FIELD(sums_in)
MINUET_FIELD(sums_out)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(residual)
MINUET_FIELD(residual_ld)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(slope)
MINUET_FIELD(second)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(MakeTablesParams)
MINUET_FIELD(map)
MINUET_FIELD(positions)
MINUET_FIELD(row_base)
MINUET_FIELD(queries)
MINUET_FIELD(sources)
MINUET_FIELD(volume)
MINUET_FIELD(direct_offset)
MINUET_FIELD(source_table)
MINUET_FIELD(query_table)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(PermuteWeightsParams)
MINUET_FIELD(input)
MINUET_FIELD(output)
MINUET_FIELD(order)
MINUET_FIELD(slice_bytes)
MINUET_FIELD(volume)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(PoolParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(output_count)
MINUET_FIELD(output_rows)
MINUET_FIELD(volume)
MINUET_FIELD(pads_output)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(winners)
MINUET_FIELD(winners_ld)
MINUET_FIELD(input_numbers)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(PoolGradientParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(output_count)
MINUET_FIELD(output_rows)
MINUET_FIELD(volume)
MINUET_FIELD(pads_output)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(counts)
MINUET_FIELD(winners)
MINUET_FIELD(winners_ld)
MINUET_FIELD(output_numbers)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(SpaceParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(output_count)
MINUET_FIELD(output_rows)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(pads_output)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(DepthwiseParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(masks)
MINUET_FIELD(row_stride)
MINUET_FIELD(order)
MINUET_FIELD(ordered_views)
MINUET_FIELD(query_count)
MINUET_FIELD(padded_rows)
MINUET_FIELD(weights)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(residual)
MINUET_FIELD(residual_ld)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(slope)
MINUET_FIELD(second)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(ItemRowsParams)
MINUET_FIELD(coordinates)
MINUET_FIELD(count)
MINUET_FIELD(batch)
MINUET_FIELD(splits)
MINUET_FIELD(places)
MINUET_FIELD(rows)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(StartItemRowsParams)
MINUET_FIELD(words)
MINUET_FIELD(count)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(PoolItemsParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(input_count)
MINUET_FIELD(rows)
MINUET_FIELD(places)
MINUET_FIELD(splits)
MINUET_FIELD(output_count)
MINUET_FIELD(output_rows)
MINUET_FIELD(pads_output)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(partials)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(PointwiseParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(count)
MINUET_FIELD(rows)
MINUET_FIELD(pads_output)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_FIELD(scale)
MINUET_FIELD(shift)
MINUET_FIELD(numbers)
MINUET_FIELD(operands)
MINUET_FIELD(operand_lds)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(CellGrid)
MINUET_FIELD(tensor_stride)
MINUET_FIELD(shape)
MINUET_FIELD(step)
MINUET_FIELD(cells)
MINUET_FIELD(batch)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(ListCellRowsParams)
MINUET_FIELD(coordinates)
MINUET_FIELD(count)
MINUET_FIELD(grid)
MINUET_FIELD(rows)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(ToDenseParams)
MINUET_FIELD(input)
MINUET_FIELD(input_ld)
MINUET_FIELD(rows)
MINUET_FIELD(cells)
MINUET_FIELD(batch)
MINUET_FIELD(output)
MINUET_FIELD(is_aligned)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_END_FIELDS

MINUET_BEGIN_FIELDS(FromDenseParams)
MINUET_FIELD(input)
MINUET_FIELD(is_aligned)
MINUET_FIELD(coordinates)
MINUET_FIELD(output_count)
MINUET_FIELD(output_rows)
MINUET_FIELD(pads_output)
MINUET_FIELD(grid)
MINUET_FIELD(output)
MINUET_FIELD(output_ld)
MINUET_FIELD(overflow)
MINUET_FIELD(overflow_mark)
MINUET_END_FIELDS

#undef MINUET_BEGIN_FIELDS
#undef MINUET_FIELD
#undef MINUET_END_FIELDS

namespace params_fields_detail {

/// Converts to every type, so that counting the initializers which a struct accepts counts its members.
struct AnyValue {
  template <class T>
  constexpr operator T() const;  // NOLINT: The conversion is implicit on purpose.
};

template <class Params, std::size_t... I>
constexpr bool accepts(std::index_sequence<I...>) {
  return requires { Params{(static_cast<void>(I), AnyValue())...}; };
}

/// Returns the number of members of a struct. Each element of a member array counts.
template <class Params, std::size_t N = 1>
constexpr std::size_t count_members() {
  if constexpr (accepts<Params>(std::make_index_sequence<N>())) {
    return count_members<Params, N + 1>();
  } else {
    return N - 1;
  }
}

/// Returns true if the list has every member of the struct, in the order of the declaration.
template <class Params>
constexpr bool lists_all_fields() {
  std::size_t end = 0, count = 0;
  bool in_order = true;
  FieldsOf<Params>::visit([&]<class T>(const char*, std::size_t offset, std::type_identity<T>) {
    in_order = in_order && offset == (end + alignof(T) - 1) / alignof(T) * alignof(T);
    end = offset + sizeof(T);
    count += std::is_array_v<T> ? std::extent_v<T> : 1;
  });
  return in_order && count == count_members<Params>();
}

template <class T>
constexpr FieldKind kind_of() {
  if constexpr (std::is_pointer_v<T>) {
    return FieldKind::Pointer;
  } else if constexpr (std::is_same_v<T, i32>) {
    return FieldKind::I32;
  } else if constexpr (std::is_same_v<T, u32>) {
    return FieldKind::U32;
  } else if constexpr (std::is_same_v<T, i64>) {
    return FieldKind::I64;
  } else {
    static_assert(std::is_same_v<T, float>, "give this type a FieldKind");
    return FieldKind::F32;
  }
}

/// Adds a field to the list.
void add_field(ParamsField field, const char* prefix, const char* name, std::vector<ParamsField>& fields);

template <class Params>
[[gnu::cold]] void add_fields(const char* prefix, std::size_t start, std::vector<ParamsField>& fields) {
  static_assert(
      lists_all_fields<Params>(),
      "a field of the struct is missing in its list in codegen/source/params_fields.h: add it there, "
      "in the order of the declaration, and say in COMPILERS.md what it means");
  FieldsOf<Params>::visit([&]<class T>(const char* name, std::size_t offset, std::type_identity<T>) {
    using Element = std::remove_extent_t<T>;
    if constexpr (std::is_class_v<T>) {
      add_fields<T>(name, start + offset, fields);
    } else {
      add_field({{},
                 static_cast<i32>(start + offset),
                 kind_of<Element>(),
                 static_cast<i32>(std::is_array_v<T> ? std::extent_v<T> : 1),
                 static_cast<i32>(sizeof(T))},
                prefix, name, fields);
    }
  });
}

}  // namespace params_fields_detail

/// Returns the fields of a Params struct, those of member structs included.
template <class Params>
std::vector<ParamsField> params_fields() {
  std::vector<ParamsField> fields;
  params_fields_detail::add_fields<Params>("", 0, fields);
  return fields;
}

/// Says how many blocks a launch has. If `rows` is 0, the kernel is a grid-stride one, which any number of
/// blocks computes. Otherwise, with g = ceil(output rows / rows), there are g * blocks blocks, and behind
/// them the g * shortcut_blocks blocks of a shortcut, rounded up to a multiple of the cluster size.
/// A kernel that runs as one block has the largest number for `rows`.
struct GridRule {
  i32 rows = 0, blocks = 0, shortcut_blocks = 0;
};

/// The kernels of layers that have no overload of their own are grid-stride ones (Launcher::launch_stride).
template <class Spec>
constexpr GridRule grid_rule(const Spec&) {
  return {};
}
/// The kernel runs as one block, whatever the number of rows.
constexpr GridRule grid_rule(const StartItemRowsSpec&) { return {std::numeric_limits<i32>::max(), 1, 0}; }
constexpr GridRule grid_rule(const FusedSpec& spec) {
  const i32 columns = fused_column_blocks(spec);
  return {fused_block_rows(spec), columns * spec.cluster, spec.shortcut ? columns : 0};
}

}  // namespace minuet
