// Reads and prints fields of a network's JSON description that several ops have. Errors have the place of the
// field within the object.
#pragma once

#include <string>

#include "llvm/Support/JSON.h"
#include "runtime/network/description_place.h"
#include "runtime/network/network_description.h"

namespace minuet {

/// Limits each width, kernel size, stride and dilation, so that 64-bit products of two of them cannot
/// overflow.
inline constexpr i64 kLargestSize = 1 << 16;

/// Describes the whole numbers that a field may have.
struct SizeRange {
  i64 least = 1, most = kLargestSize;
};
llvm::Expected<i32> read_size(const llvm::json::Value& value, llvm::StringRef field, SizeRange range = {});

/// Reads a field that is one number for all axes, or an array of one number for each of `ndim` axes. Axes
/// from ndim on get `beyond`.
llvm::Expected<AxisArray> read_axes(const llvm::json::Value& value, llvm::StringRef field, i32 ndim,
                                    SizeRange range = {}, i32 beyond = 1);

llvm::Expected<std::string> read_text(const llvm::json::Object& object, llvm::StringRef field);
/// Reads the field into `text` if the object has it.
llvm::Error read_optional_text(const llvm::json::Object& object, llvm::StringRef field, std::string& text);

/// Returns InvalidArgument if the object has a field that is neither in `known` nor in `more`, because
/// ignoring the field would hide a mistake.
llvm::Error check_fields(const llvm::json::Object& object, llvm::StringRef of,
                         llvm::ArrayRef<llvm::StringRef> known, llvm::ArrayRef<llvm::StringRef> more = {});

/// Returns the names of the fields of a layer's convolution, followed by `others`.
std::vector<llvm::StringRef> layer_convolution_fields(std::initializer_list<llvm::StringRef> others);

/// Reads the number of output channels of a layer: the field "width" or "out_channels".
llvm::Error read_width(const llvm::json::Object& object, const NetworkDescription& network,
                       LayerDescription& layer);
/// Reads "inner_width" or "inner_channels" of a bottleneck.
llvm::Error read_inner_width(const llvm::json::Object& object, const NetworkDescription& network,
                             LayerDescription& layer);

/// Reads the kernel size, stride and dilation of a layer. An absent kernel size is `usual_size`.
llvm::Error read_window(const llvm::json::Object& object, const NetworkDescription& network, i32 usual_size,
                        LayerDescription& layer);
/// Reads the field "stride" of a layer that must have it and has no kernel size.
llvm::Error read_stride(const llvm::json::Object& object, const NetworkDescription& network,
                        LayerDescription& layer);
/// Reads "rule" and "padding".
llvm::Error read_rule(const llvm::json::Object& object, const NetworkDescription& network,
                      LayerDescription& layer);
/// Reads "output_padding". Call it after read_rule().
llvm::Error read_output_padding(const llvm::json::Object& object, const NetworkDescription& network,
                                LayerDescription& layer);

/// Reads the field "reduction" of a layer: "average", "max" or "sum".
llvm::Error read_reduction(const llvm::json::Object& object, LayerDescription& layer);
const char* reduction_name(Reduction reduction);

void print_width(const LayerDescription& layer, llvm::json::Object& object);
void print_window(const LayerDescription& layer, i32 ndim, llvm::json::Object& object);
void print_stride(const LayerDescription& layer, i32 ndim, llvm::json::Object& object);
void print_rule(const LayerDescription& layer, i32 ndim, llvm::json::Object& object);
void print_output_padding(const LayerDescription& layer, i32 ndim, llvm::json::Object& object);
llvm::json::Array axes_json(const AxisArray& axes, i32 ndim);

}  // namespace minuet
