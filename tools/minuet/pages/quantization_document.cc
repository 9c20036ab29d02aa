// Makes a document of the result of `minuet quantize`: the errors of a network in 8 bits, layer by layer.
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/json_text.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/minuet/base/int8_text.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;

/// Returns a bar for each layer that has the number `number_of(layer)`.
template <class NumberOf>
Array bars(const std::vector<const Object*>& layers, const NumberOf& number_of) {
  Array values;
  for (const Object* layer : layers) {
    const std::optional<double> number = number_of(*layer);
    if (number) values.push_back(Object{{"x", text_or_empty(*layer, "name")}, {"y", *number}});
  }
  return values;
}

Object error_plot(const std::vector<const Object*>& layers) {
  const auto field = [](llvm::StringRef name) {
    return [name](const Object& layer) -> std::optional<double> {
      const auto number = layer.getNumber(name);
      return number ? std::optional<double>(*number) : std::nullopt;
    };
  };
  Array all{series("in the whole network", bars(layers, field("relative_error")))};
  Array own = bars(layers, field("own_error"));
  if (!own.empty()) all.push_back(series("of the outputs, if the layer alone has 8 bits", std::move(own)));
  return plot("Relative error by layer", "bar", axis(""), axis("relative L2 error"), std::move(all));
}

/// Shows how far each cosine is from 1, because all of them are near 1. A layer without an error has no bar,
/// for which a logarithmic axis has no place.
Object cosine_plot(const std::vector<const Object*>& layers) {
  const auto distance = [](const Object& layer) -> std::optional<double> {
    const auto cosine = layer.getNumber("cosine");
    if (!cosine || 1 - *cosine <= 0) return std::nullopt;
    return 1 - *cosine;
  };
  return plot("Cosine by layer", "bar", axis(""), axis("1 − cosine", /*log=*/true),
              Array{series("1 − cosine", bars(layers, distance))});
}

std::string difference_text(const Object& difference) {
  const auto error = difference.getNumber("relative_error"), cosine = difference.getNumber("cosine");
  if (!error || !cosine) return "no relative error and no cosine";
  return "the relative error " + error_text(*error) + " and the cosine " + error_text(*cosine);
}

Array notes_of(const Object& file, const std::vector<const Object*>& layers) {
  const int64_t int8 = llvm::count_if(
      layers, [](const Object* layer) { return text_or_empty(*layer, "precision") == "int8"; });
  Array notes{int8_text(int8, static_cast<int64_t>(layers.size())) + "."};
  for (const Object* output : objects_in(file, "outputs"))
    notes.push_back("The output " + text_or_empty(*output, "name") + " has " + difference_text(*output) +
                    ".");
  notes.push_back(
      "A relative error is the L2 norm of the difference from the floating network, divided by that of the "
      "floating numbers, on the clouds of the calibration. It says nothing about the accuracy in a task.");
  const Array* const more = file.getArray("notes");
  for (size_t i = 0; more != nullptr && i < more->size(); ++i) notes.push_back((*more)[i]);
  return notes;
}

Object clouds_table(const Object& file) {
  Array rows;
  const Array* const clouds = file.getArray("clouds");
  for (size_t i = 0; clouds != nullptr && i < clouds->size(); ++i) rows.push_back(Array{(*clouds)[i]});
  return table("Clouds of the calibration", Array{"cloud"}, std::move(rows));
}

}  // namespace

bool is_quantization(const Object& file) { return file.getString("calibration") && file.getArray("layers"); }

Object quantization_document(const Object& file) {
  const std::vector<const Object*> layers = objects_in(file, "layers");
  Object numbers = table_of("Layers", layers,
                            {{"layer", "name"},
                             {"precision", "precision"},
                             {"range", "range"},
                             {"own error", "own_error"},
                             {"relative error", "relative_error"},
                             {"cosine", "cosine"},
                             {"floating, because", "reason"}});
  Object document{{"title", text_or_empty(file, "network") + " in 8 bits"},
                  {"notes", notes_of(file, layers)},
                  {"plots", Array{error_plot(layers), cosine_plot(layers)}},
                  {"tables", Array{std::move(numbers), clouds_table(file)}}};
  return document;
}

}  // namespace minuet::tool
