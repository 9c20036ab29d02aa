#include "runtime/network/convolution_fields.h"

#include <cmath>
#include <iterator>
#include <limits>

#include "codegen/base/json_text.h"
#include "codegen/choose/problem.h"
#include "minuet/quantize.h"
#include "runtime/network/description_fields.h"

namespace minuet {
namespace {

using llvm::json::Object;
using llvm::json::Value;

llvm::Error read_norm(const Object& object, ConvolutionFields& fields) {
  const std::string name = text_or_empty(object, "norm");
  if (name == "layer_norm" || name == "instance_norm" || name == "group_norm") {
    return make_error(
        StatusCode::Unimplemented,
        "\"norm\" is \"{0}\", which is not supported: it normalizes by statistics of its input "
        "features, so it cannot be folded into a convolution; use \"batch_norm\" or \"none\"{1}",
        name, name == "layer_norm" ? ", and the op layer_norm behind the layer" : "");
  }
  if (name != "batch_norm" && name != "none") {
    return make_error(StatusCode::InvalidArgument, "\"norm\" must be \"batch_norm\" or \"none\"");
  }
  fields.batch_norm = name == "batch_norm";
  return llvm::Error::success();
}

/// Reads the fields "affine", "epsilon" and "track_running_stats". Returns InvalidArgument if one of them is
/// given without a batch norm.
llvm::Error read_batch_norm(const Object& object, ConvolutionFields& fields) {
  for (const char* field : {"affine", "epsilon", "track_running_stats"}) {
    if (object.get(field) && !fields.batch_norm) {
      return at(
          field,
          make_error(StatusCode::InvalidArgument,
                     "\"{0}\" belongs to a batch norm, but \"norm\" is \"none\": leave \"{0}\" out", field));
    }
  }
  if (const Value* const affine = object.get("affine")) {
    MINUET_ASSIGN(fields.affine, read_flag(*affine, "affine"));
  }
  if (const Value* const epsilon = object.get("epsilon")) {
    MINUET_ASSIGN(fields.epsilon, read_epsilon(*epsilon, "epsilon"));
  }
  if (const Value* const tracked = object.get("track_running_stats")) {
    MINUET_ASSIGN(const bool has_statistics, read_flag(*tracked, "track_running_stats"));
    if (!has_statistics) {
      return at("track_running_stats",
                make_error(StatusCode::Unimplemented,
                           "\"track_running_stats\" is false: a batch norm without running statistics "
                           "normalizes by those of its input features, so it cannot be folded into a "
                           "convolution"));
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Activation> find_activation(llvm::StringRef name) {
  for (i32 i = 0; i < kActivations; ++i) {
    if (name == kActivationNames[i]) return static_cast<Activation>(i);
  }
  return make_error(StatusCode::InvalidArgument,
                    "\"activation\" must be \"relu\", \"leaky_relu\", \"gelu\", \"gelu_tanh\", \"silu\", "
                    "\"sigmoid\", \"tanh\" or \"none\"");
}

llvm::Error read_activation(const Object& object, ConvolutionFields& fields) {
  if (object.get("activation")) {
    const bool was_leaky = fields.activation == Activation::LeakyReLU;
    MINUET_ASSIGN(fields.activation, at("activation", find_activation(text_or_empty(object, "activation"))));
    const bool is_leaky = fields.activation == Activation::LeakyReLU;
    if (!is_leaky || !was_leaky) fields.slope = is_leaky ? kUsualSlope : 0;
  }
  if (const Value* const slope = object.get("slope")) {
    if (fields.activation != Activation::LeakyReLU) {
      return at("slope",
                make_error(StatusCode::InvalidArgument,
                           "\"slope\" belongs to the activation \"leaky_relu\", but the activation is "
                           "\"{0}\": leave \"slope\" out",
                           kActivationNames[static_cast<int>(fields.activation)]));
    }
    MINUET_ASSIGN(fields.slope, read_slope(*slope, "slope"));
  }
  return llvm::Error::success();
}

/// Reads the fields "precision" and "output_range".
llvm::Error read_precision(const Object& object, ConvolutionFields& fields) {
  if (object.get("precision")) {
    const std::string name = text_or_empty(object, "precision");
    if (name != precision_name(true) && name != precision_name(false)) {
      return at("precision",
                make_error(StatusCode::InvalidArgument, "\"precision\" must be \"float\" or \"int8\""));
    }
    fields.is_int8 = name == precision_name(true);
  }
  if (fields.is_int8 && fields.groups > 1) {
    return at("precision", make_error(StatusCode::Unimplemented,
                                      "\"precision\" is \"int8\", but the convolution has {0} groups, which "
                                      "no kernel of 8 bits computes: use \"float\" here",
                                      fields.groups));
  }
  const Value* const range = object.get("output_range");
  if (range == nullptr) return llvm::Error::success();
  const auto number = range->getAsNumber();
  if (!number || !(*number >= MINUET_LEAST_RANGE && *number <= MINUET_GREATEST_RANGE)) {
    return at("output_range",
              make_error(StatusCode::InvalidArgument,
                         "\"output_range\" must be a number from {0:g6} to {1:g6}: the largest magnitude "
                         "that the result has",
                         MINUET_LEAST_RANGE, MINUET_GREATEST_RANGE));
  }
  fields.output_range = *number;
  return llvm::Error::success();
}

}  // namespace

const char* precision_name(bool is_int8) { return is_int8 ? "int8" : "float"; }

llvm::ArrayRef<llvm::StringRef> convolution_field_names(FieldPlace place) {
  static constexpr llvm::StringRef kOfHead[] = {"bias", "activation", "slope", "precision", "output_range"};
  static constexpr llvm::StringRef kAll[] = {
      "bias",       "norm",  "affine", "epsilon",   "track_running_stats",
      "activation", "slope", "groups", "precision", "output_range"};
  if (place == FieldPlace::Head) return kOfHead;
  return kAll;
}

llvm::Error read_convolution_fields(const Object& object, FieldPlace place, ConvolutionFields& fields) {
  if (const Value* const bias = object.get("bias")) {
    MINUET_ASSIGN(fields.bias, read_flag(*bias, "bias"));
  }
  if (place != FieldPlace::Head) {
    if (const Value* const groups = object.get("groups")) {
      MINUET_ASSIGN(fields.groups, read_size(*groups, "groups"));
    }
    if (object.get("norm")) MINUET_TRY(at("norm", read_norm(object, fields)));
    MINUET_TRY(read_batch_norm(object, fields));
  }
  MINUET_TRY(read_precision(object, fields));
  if (place != FieldPlace::PartBeforeAddition) return read_activation(object, fields);
  for (const char* field : {"activation", "slope"}) {
    if (!object.get(field)) continue;
    return at(field, make_error(StatusCode::InvalidArgument,
                                "\"{0}\" is not allowed here, because the block's addition follows: set it "
                                "in the layer, whose activation comes after the addition",
                                field));
  }
  return llvm::Error::success();
}

llvm::Expected<bool> read_flag(const Value& value, llvm::StringRef field) {
  if (const auto flag = value.getAsBoolean()) return *flag;
  return at(field, make_error(StatusCode::InvalidArgument, "\"{0}\" must be true or false", field));
}

llvm::Expected<float> read_slope(const Value& value, llvm::StringRef field) {
  const auto number = value.getAsNumber();
  if (number && std::abs(*number) <= std::numeric_limits<float>::max()) return static_cast<float>(*number);
  return at(field, make_error(StatusCode::InvalidArgument, "\"{0}\" must be a number in the range of float32",
                              field));
}

llvm::Expected<double> read_epsilon(const Value& value, llvm::StringRef field) {
  const auto number = value.getAsNumber();
  if (number && static_cast<float>(*number) > 0 && *number < 1) return *number;
  return at(field,
            make_error(StatusCode::InvalidArgument, "\"{0}\" must be a number above 0 and below 1", field));
}

void print_convolution_fields(const ConvolutionFields& fields, FieldPlace place, Object& object) {
  object["bias"] = fields.bias;
  if (place != FieldPlace::Head) {
    if (fields.groups > 1) object["groups"] = fields.groups;
    object["norm"] = fields.batch_norm ? "batch_norm" : "none";
    if (fields.batch_norm) {
      object["affine"] = fields.affine;
      object["epsilon"] = fields.epsilon;
    }
  }
  // A part of a block prints its precision where it differs from the block's.
  const bool is_layer = place == FieldPlace::Layer || place == FieldPlace::Head;
  if (is_layer && fields.is_int8) object["precision"] = precision_name(true);
  if (fields.output_range > 0) object["output_range"] = fields.output_range;
  if (place == FieldPlace::PartBeforeAddition) return;
  object["activation"] = kActivationNames[static_cast<int>(fields.activation)];
  if (fields.activation == Activation::LeakyReLU) object["slope"] = static_cast<double>(fields.slope);
}

}  // namespace minuet
