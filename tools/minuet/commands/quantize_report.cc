#include "tools/minuet/commands/quantize_report.h"

#include <algorithm>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/int8_text.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/frame.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

/// Returns the word as a shell reads it.
std::string shell_word(llvm::StringRef word) {
  const auto is_plain = [](char c) { return llvm::isAlnum(c) || llvm::StringRef("_-+=:,./@%").contains(c); };
  if (!word.empty() && llvm::all_of(word, is_plain)) return word.str();
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Appends flags to a command line.
class CommandLine {
 public:
  explicit CommandLine(std::string text) : text_(std::move(text)) {}
  /// Adds the flag unless its value is empty.
  void add(const char* flag, llvm::StringRef value) {
    if (!value.empty()) text_ += std::string(" ") + flag + " " + shell_word(value);
  }
  void add_number(const char* flag, const std::optional<int>& value) {
    if (value) add(flag, std::to_string(*value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_weights(const Arguments& arguments, CommandLine& line) {
  if (extension_of(arguments.output) == ".safetensors") return line.add("--weights", arguments.output);
  const NetworkChoice& network = arguments.network;
  line.add("--weights", network.weights);
  if (network.weights.empty()) return;
  line.add("--weights-order", network.weights_order);
  line.add("--weights-prefix", network.weights_prefix);
  line.add("--weights-key", network.weights_key);
  line.add("--weights-map", network.weights_map);
}

std::string range_text(const Grid& grid) {
  std::string text;
  for (const Position& corner : {grid.low, grid.high}) {
    for (const double place : corner) text += (text.empty() ? "" : ",") + digits(place);
  }
  return text;
}

/// Returns the value of --voxel-size for these edges.
std::string edges_text(const VoxelSize& size) {
  const std::string x = digits(size[0]), y = digits(size[1]), z = digits(size[2]);
  return x == y && y == z ? x : x + "," + y + "," + z;
}

llvm::json::Value number_json(double number) {
  return std::isfinite(number) ? llvm::json::Value(number) : llvm::json::Value(nullptr);
}

llvm::json::Object difference_json(const Difference& difference) {
  return llvm::json::Object{{"relative_error", number_json(difference.relative())},
                            {"cosine", number_json(difference.cosine())}};
}

/// Returns the error of a result. Results with different numbers of rows have none.
std::string relative_text(const Difference& difference) {
  return difference.has_same_size ? error_text(difference.relative()) : "none";
}
/// Returns the cosine of a result. Results with different numbers of rows have none.
std::string cosine_text(const Difference& difference) {
  return difference.has_same_size ? error_text(difference.cosine()) : "none";
}

void print_layers(const std::vector<QuantizedLayer>& layers, llvm::raw_ostream& out) {
  const bool has_own = llvm::any_of(layers, [](const QuantizedLayer& l) { return l.own_error >= 0; });
  size_t width = 5;
  for (const QuantizedLayer& layer : layers) width = std::max(width, layer.name.size());
  const auto print = [&](const std::string& name, const std::string& precision, const std::string& range,
                         const std::string& own, const std::string& error, const std::string& cosine) {
    out << name << std::string(width - name.size(), ' ') << llvm::formatv(" {0,9} {1,10} ", precision, range);
    if (has_own) out << llvm::formatv("{0,10} ", own);
    out << llvm::formatv("{0,14} {1,10}\n", error, cosine);
  };
  print("layer", "precision", "range", "own error", "relative error", "cosine");
  for (const QuantizedLayer& layer : layers) {
    print(layer.name, layer.is_int8 ? "int8" : "float", error_text(layer.range),
          layer.own_error < 0 ? "" : error_text(layer.own_error), relative_text(layer.difference),
          cosine_text(layer.difference));
  }
}

}  // namespace

std::string run_command_text(const QuantizedNetwork& network) {
  const Arguments& arguments = network.arguments;
  const auto file = llvm::find_if(
      arguments.clouds, [](const std::string& cloud) { return llvm::sys::fs::is_regular_file(cloud); });
  CommandLine line("minuet run " + (file == arguments.clouds.end() ? "CLOUD" : shell_word(*file)));
  line.add("--network", network.description_path);
  add_weights(arguments, line);
  if (network.grid) {
    line.add("--range", range_text(*network.grid));
    line.add("--voxel-size", edges_text(network.grid->voxel_size));
  } else {
    line.add("--voxel-size", arguments.file_voxel_size);
  }
  line.add_number("--columns", arguments.file_columns.columns);
  line.add_number("--intensity-column", arguments.file_columns.intensity_column);
  line.add("--intensity-field", arguments.file_columns.intensity_field.value_or(""));
  line.add("--dtype", arguments.dtype);
  line.add("--device", arguments.device.name);
  return line.text();
}

llvm::json::Object quantize_json(const QuantizedNetwork& network, const QuantizationReport& report) {
  const Arguments& arguments = network.arguments;
  llvm::json::Array layers, outputs;
  for (const QuantizedLayer& layer : report.layers) {
    llvm::json::Object object = difference_json(layer.difference);
    object["name"] = layer.name;
    object["precision"] = layer.is_int8 ? "int8" : "float";
    object["can_be_int8"] = layer.can_be_int8;
    object["range"] = layer.range;
    if (layer.own_error >= 0) object["own_error"] = number_json(layer.own_error);
    if (!layer.reason.empty()) object["reason"] = llvm::json::fixUTF8(layer.reason);
    layers.push_back(std::move(object));
  }
  for (const QuantizationReport::Output& output : report.outputs) {
    if (!output.has_error) continue;
    llvm::json::Object object = difference_json(output.difference);
    object["name"] = output.name;
    outputs.push_back(std::move(object));
  }
  llvm::json::Object all = difference_json(report.all_outputs);
  all["network"] = llvm::json::fixUTF8(arguments.network.network);
  llvm::json::Array clouds;
  for (const std::string& cloud : arguments.clouds) clouds.push_back(llvm::json::fixUTF8(cloud));
  all["clouds"] = std::move(clouds);
  all["dtype"] = dtype_name(network.dtype);
  all["device"] = network.device.name;
  all["description"] = network.device.description;
  all["version"] = version_text();
  all["calibration"] = arguments.calibration;
  if (arguments.calibration == "percentile")
    all["percentile"] = arguments.percentile.value_or(kUsualPercentile);
  if (arguments.error_budget > 0) all["error_budget"] = arguments.error_budget;
  all["networks_run"] = report.runs;
  all["int8_convolutions"] = llvm::count_if(report.layers, [](const auto& layer) { return layer.is_int8; });
  all["layers"] = std::move(layers);
  all["outputs"] = std::move(outputs);
  if (!report.notes.empty()) all["notes"] = llvm::json::Array(report.notes);
  all["run"] = llvm::json::fixUTF8(run_command_text(network));
  return all;
}

void print_quantization(const QuantizationReport& report, llvm::raw_ostream& out) {
  print_layers(report.layers, out);
  const int64_t int8 = llvm::count_if(report.layers, [](const auto& layer) { return layer.is_int8; });
  out << "\n" << int8_text(int8, static_cast<int64_t>(report.layers.size())) << "\n";
  for (const QuantizedLayer& layer : report.layers) {
    if (!layer.reason.empty()) out << "floating: " << layer.name << ", because " << layer.reason << "\n";
  }
  for (const QuantizationReport::Output& output : report.outputs) {
    if (!output.has_error) continue;
    out << "output " << output.name << ": relative error " << relative_text(output.difference) << ", cosine "
        << cosine_text(output.difference) << "\n";
  }
  for (const std::string& note : report.notes) out << "note: " << note << "\n";
}

}  // namespace minuet::tool
