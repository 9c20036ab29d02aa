#include "runtime/network/description_fields.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

namespace {

constexpr const char* kRuleNames[] = {"cells", "reached"};

struct ReductionName {
  Reduction reduction;
  const char* name;
};
constexpr ReductionName kReductionNames[] = {
    {Reduction::Average, "average"}, {Reduction::Max, "max"}, {Reduction::Sum, "sum"}};

llvm::Expected<i32> size_of(const Value& value, llvm::StringRef field, SizeRange range) {
  const auto number = value.getAsInteger();
  if (!number || *number < range.least || *number > range.most) {
    return make_error(StatusCode::InvalidArgument, "\"{0}\" must be a whole number from {1} to {2}", field,
                      range.least, range.most);
  }
  return static_cast<i32>(*number);
}

/// Reads one number for all axes, or an array of `least` to `most` numbers. `count` gets the size of the
/// array, or 0 if there is none.
llvm::Expected<AxisArray> axes_of(const Value& value, llvm::StringRef field, i32 least, i32 most,
                                  SizeRange range, i32 beyond, i32& count) {
  AxisArray axes;
  axes.fill(beyond);
  const Array* const array = value.getAsArray();
  count = array ? static_cast<i32>(std::min<std::size_t>(array->size(), kMaxDim + 1)) : 0;
  if (!array) {
    MINUET_ASSIGN(const i32 size, size_of(value, field, range));
    std::fill(axes.begin(), axes.begin() + most, size);
    return axes;
  }
  if (count < least || count > most) {
    return make_error(StatusCode::InvalidArgument,
                      "\"{0}\" has {1} numbers, but the network has {2} axes: give one number per axis",
                      field, array->size(), most);
  }
  for (i32 a = 0; a < count; ++a) {
    MINUET_ASSIGN(axes[a], at(element("", a), size_of((*array)[a], field, range)));
  }
  return axes;
}

/// Reads a field of a layer that may have one number for each axis of the level of the layer's input. Only a
/// collapse drops an axis.
llvm::Error read_layer_axes(const Value& value, llvm::StringRef field, const NetworkDescription& network,
                            SizeRange range, i32 beyond, AxisArray& axes, i32& count) {
  const auto collapses = llvm::count_if(network.layers, [](const LayerDescription& layer) {
    return layer.op == LayerDescription::Op::Collapse;
  });
  const i32 least = static_cast<i32>(std::max<i64>(network.ndim - collapses, 1));
  MINUET_ASSIGN(axes, at(field, axes_of(value, field, least, network.ndim, range, beyond, count)));
  return llvm::Error::success();
}

/// Returns the key of an unknown field as a step of a place, or nothing if it would not be readable there.
llvm::StringRef step_of(llvm::StringRef key) {
  const auto is_plain = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return llvm::all_of(key, is_plain) ? key : llvm::StringRef();
}

/// Reads a number of channels that is given as an index into the network's channels, or as the number itself.
llvm::Error read_channels(const Object& object, const NetworkDescription& network,
                          llvm::StringRef index_field, llvm::StringRef field, i32& index, i32& channels) {
  if (const Value* const value = object.get(field)) {
    if (object.get(index_field)) {
      return at(field,
                make_error(StatusCode::InvalidArgument,
                           "\"{0}\" and \"{1}\" are both given: leave one of them out", index_field, field));
    }
    MINUET_ASSIGN(channels, read_size(*value, field));
    return llvm::Error::success();
  }
  const auto width = object.getInteger(index_field);
  if (!width || *width < 0 || *width >= static_cast<i64>(network.channels.size())) {
    return at(index_field,
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" must be an index into the {1} channels; \"{2}\" gives the number itself",
                         index_field, network.channels.size(), field));
  }
  index = static_cast<i32>(*width);
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<i32> read_size(const Value& value, llvm::StringRef field, SizeRange range) {
  return at(field, size_of(value, field, range));
}

llvm::Expected<AxisArray> read_axes(const Value& value, llvm::StringRef field, i32 ndim, SizeRange range,
                                    i32 beyond) {
  i32 count = 0;
  return at(field, axes_of(value, field, ndim, ndim, range, beyond, count));
}

llvm::Expected<std::string> read_text(const Object& object, llvm::StringRef field) {
  const auto text = object.getString(field);
  if (!text || text->empty()) {
    return at(field, make_error(StatusCode::InvalidArgument, "\"{0}\" must be a name", field));
  }
  // The C API gives names as strings that a zero character ends.
  if (text->contains('\0')) {
    return at(field,
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" contains the character U+0000, which names cannot: remove it", field));
  }
  return text->str();
}

llvm::Error read_optional_text(const Object& object, llvm::StringRef field, std::string& text) {
  if (!object.get(field)) return llvm::Error::success();
  MINUET_ASSIGN(text, read_text(object, field));
  return llvm::Error::success();
}

llvm::Error check_fields(const Object& object, llvm::StringRef of, llvm::ArrayRef<llvm::StringRef> known,
                         llvm::ArrayRef<llvm::StringRef> more) {
  for (const auto& field : object) {
    const llvm::StringRef key = field.first;
    if (llvm::is_contained(known, key) || llvm::is_contained(more, key)) continue;
    std::vector<llvm::StringRef> fields = known.vec();
    fields.insert(fields.end(), more.begin(), more.end());
    return at(step_of(key), make_error(StatusCode::InvalidArgument,
                                       "\"{0}\" is not a field of {1}: possible fields are {2}", key, of,
                                       llvm::join(fields, ", ")));
  }
  return llvm::Error::success();
}

std::vector<llvm::StringRef> layer_convolution_fields(std::initializer_list<llvm::StringRef> others) {
  std::vector<llvm::StringRef> fields = convolution_field_names(FieldPlace::Layer).vec();
  fields.insert(fields.end(), others);
  return fields;
}

llvm::Error read_width(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  return read_channels(object, network, "width", "out_channels", layer.width, layer.out_channels);
}

llvm::Error read_inner_width(const Object& object, const NetworkDescription& network,
                             LayerDescription& layer) {
  return read_channels(object, network, "inner_width", "inner_channels", layer.inner_width,
                       layer.inner_channels);
}

llvm::Error read_window(const Object& object, const NetworkDescription& network, i32 usual_size,
                        LayerDescription& layer) {
  const auto read = [&](llvm::StringRef field, i32 where_absent, AxisArray& axes, i32& count) {
    const Value* const value = object.get(field);
    return read_layer_axes(value ? *value : Value(where_absent), field, network, {}, 1, axes, count);
  };
  MINUET_TRY(read("kernel_size", usual_size, layer.kernel_size, layer.counts.kernel_size));
  MINUET_TRY(read("stride", 1, layer.stride, layer.counts.stride));
  return read("dilation", 1, layer.dilation, layer.counts.dilation);
}

llvm::Error read_stride(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  if (const Value* const value = object.get("stride")) {
    return read_layer_axes(*value, "stride", network, {}, 1, layer.stride, layer.counts.stride);
  }
  return at("stride", make_error(StatusCode::InvalidArgument,
                                 "\"stride\" is missing: give a number, or one number for each axis"));
}

llvm::Error read_rule(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  if (object.get("rule")) {
    const auto rule = object.getString("rule");
    if (!rule || !llvm::is_contained(kRuleNames, *rule)) {
      return at("rule", make_error(StatusCode::InvalidArgument, "\"rule\" must be \"cells\" or \"reached\""));
    }
    layer.is_reached = *rule == kRuleNames[1];
  }
  const Value* const padding = object.get("padding");
  if (!padding) return llvm::Error::success();
  if (!layer.is_reached) {
    return at("padding", make_error(StatusCode::InvalidArgument,
                                    "\"padding\" belongs to the rule \"reached\", but the rule is \"cells\": "
                                    "leave \"padding\" out, or set \"rule\" to \"reached\""));
  }
  return read_layer_axes(*padding, "padding", network, {0, kLargestSize}, 0, layer.padding,
                         layer.counts.padding);
}

llvm::Error read_output_padding(const Object& object, const NetworkDescription& network,
                                LayerDescription& layer) {
  const Value* const given = object.get("output_padding");
  if (!given) return llvm::Error::success();
  if (!layer.is_reached) {
    return at("output_padding",
              make_error(StatusCode::InvalidArgument,
                         "\"output_padding\" belongs to the rule \"reached\", but the rule is \"cells\", by "
                         "which the outputs have no shape: leave it out, or set \"rule\" to \"reached\""));
  }
  return read_layer_axes(*given, "output_padding", network, {0, kLargestSize}, 0, layer.output_padding,
                         layer.counts.output_padding);
}

llvm::Error read_reduction(const Object& object, LayerDescription& layer) {
  if (!object.get("reduction")) {
    return at("reduction", make_error(StatusCode::InvalidArgument,
                                      "\"reduction\" is missing: use \"average\", \"max\" or \"sum\""));
  }
  MINUET_ASSIGN(const std::string text, read_text(object, "reduction"));
  for (const ReductionName& each : kReductionNames) {
    if (text != each.name) continue;
    layer.reduction = each.reduction;
    return llvm::Error::success();
  }
  return at("reduction", make_error(StatusCode::InvalidArgument,
                                    "\"{0}\" is unknown: use \"average\", \"max\" or \"sum\"", text));
}

const char* reduction_name(Reduction reduction) {
  return llvm::find_if(kReductionNames,
                       [&](const ReductionName& each) { return each.reduction == reduction; })
      ->name;
}

void print_width(const LayerDescription& layer, Object& object) {
  if (layer.out_channels != 0) {
    object["out_channels"] = layer.out_channels;
  } else {
    object["width"] = layer.width;
  }
}

/// Returns the numbers of a field for the `count` axes of its array, or for all `ndim` axes if there is none.
/// The result is one number if all are equal, so that texts with and without an array are printed alike.
static Value axes_value(const AxisArray& axes, i32 ndim, i32 count) {
  const i32 numbers = count != 0 ? count : ndim;
  const bool are_equal =
      std::all_of(axes.begin(), axes.begin() + numbers, [&](i32 n) { return n == axes[0]; });
  return are_equal ? Value(axes[0]) : Value(axes_json(axes, numbers));
}

void print_stride(const LayerDescription& layer, i32 ndim, Object& object) {
  object["stride"] = axes_value(layer.stride, ndim, layer.counts.stride);
}

void print_window(const LayerDescription& layer, i32 ndim, Object& object) {
  object["kernel_size"] = axes_value(layer.kernel_size, ndim, layer.counts.kernel_size);
  print_stride(layer, ndim, object);
  object["dilation"] = axes_value(layer.dilation, ndim, layer.counts.dilation);
}

void print_rule(const LayerDescription& layer, i32 ndim, Object& object) {
  object["rule"] = kRuleNames[layer.is_reached ? 1 : 0];
  if (layer.is_reached) object["padding"] = axes_value(layer.padding, ndim, layer.counts.padding);
}

void print_output_padding(const LayerDescription& layer, i32 ndim, Object& object) {
  if (!layer.is_reached) return;
  object["output_padding"] = axes_value(layer.output_padding, ndim, layer.counts.output_padding);
}

Array axes_json(const AxisArray& axes, i32 ndim) {
  Array numbers;
  for (i32 a = 0; a < ndim; ++a) numbers.push_back(axes[a]);
  return numbers;
}

}  // namespace minuet
