#include "tools/minuet/pages/documents.h"

#include <string>
#include <utility>
#include <vector>

#include "codegen/base/json_text.h"
#include "codegen/base/number_text.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/page.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

/// Lists the fields of a result file that describe where it was measured, and what was measured.
constexpr const char* kMachine[] = {"device",      "description", "arch",         "cpu_cores",  "driver",
                                    "toolkit",     "nvrtc",       "commit",       "version",    "network",
                                    "dtype",       "weights",     "cloud",        "voxel_size", "dataflow",
                                    "calibration", "percentile",  "error_budget", "run"};
constexpr const char* kStages[] = {"voxelize", "sort", "map", "gather", "gemm", "scatter", "other"};

bool is_scalar(const Value& value) { return value.kind() != Value::Object && value.kind() != Value::Array; }

double real_or(const Object& object, llvm::StringRef name, double otherwise) {
  const auto number = object.getNumber(name);
  return number ? *number : otherwise;
}

/// Returns the numbers joined to a text, for example "3×3×3" or "0.05×0.05×0.1".
std::string joined(const Array& parts) {
  std::string text;
  for (const Value& part : parts) {
    const auto number = part.getAsNumber();
    text += (text.empty() ? "" : "×") + (number ? digits(*number) : print_json(part));
  }
  return text;
}

Object machine_of(const Object& file) {
  Object machine;
  for (const char* name : kMachine) {
    const Value* const value = file.get(name);
    if (!value || value->kind() == Value::Object) continue;
    machine[name] = is_scalar(*value) ? *value : Value(joined(*value->getAsArray()));
  }
  return machine;
}

/// Returns the value at a path such as "a.b", or null.
Value at(const Object& object, llvm::StringRef path) {
  const auto [first, rest] = path.split('.');
  const Value* const value = object.get(first);
  if (!value) return nullptr;
  if (rest.empty()) return *value;
  const Object* const inner = value->getAsObject();
  return inner ? at(*inner, rest) : Value(nullptr);
}

/// Lists the name of each record, and the object with its times.
using NamedTimes = std::vector<std::pair<std::string, const Object*>>;

/// Returns a plot with one stacked bar of stages for each record. A stage that takes no time in any record is
/// left out. The names of the stages' fields in the file end in `suffix`.
Object stages_plot(llvm::StringRef title, const NamedTimes& records, llvm::StringRef suffix) {
  Array all;
  for (const char* stage : kStages) {
    Array values;
    double sum = 0;
    for (const auto& [name, times] : records) {
      const double time = real_or(*times, (llvm::Twine(stage) + suffix).str(), 0);
      sum += time;
      values.push_back(Object{{"x", name}, {"y", time}});
    }
    if (sum > 0) all.push_back(series(stage, std::move(values)));
  }
  return plot(title, "stacked", axis(""), axis("profiled, ms"), std::move(all));
}

Object levels_plot(const std::vector<std::pair<std::string, std::vector<const Object*>>>& levels_of) {
  Array all;
  for (const auto& [name, levels] : levels_of) {
    Array values;
    for (const Object* level : levels) {
      const Array* const stride = level->getArray("tensor_stride");
      const auto voxels = level->getNumber("voxels");
      if (!stride || stride->empty() || !voxels || *voxels <= 0) continue;
      const auto first = stride->front().getAsNumber();
      if (first && *first > 0) values.push_back(Object{{"x", *first}, {"y", *voxels}});
    }
    if (!values.empty()) all.push_back(series(name, std::move(values)));
  }
  return plot("Voxels by level", "line", axis("tensor stride", true), axis("voxels", true), std::move(all));
}

Object bench_document(const Object& file) {
  const std::vector<const Object*> clouds = objects_in(file, "clouds");
  Array wall;
  NamedTimes stages;
  std::vector<std::pair<std::string, std::vector<const Object*>>> levels;
  for (const Object* cloud : clouds) {
    const std::string name = text_or_empty(*cloud, "cloud");
    Object value{{"x", name}, {"y", at(*cloud, "wall_ms.median")}};
    for (const auto& [end, path] : {std::pair("low", "wall_ms.p10"), std::pair("high", "wall_ms.p90")}) {
      if (at(*cloud, path).getAsNumber()) value[end] = at(*cloud, path);
    }
    if (value["y"].getAsNumber()) wall.push_back(std::move(value));
    if (const Object* times = cloud->getObject("stages_ms")) stages.emplace_back(name, times);
    levels.emplace_back(name, objects_in(*cloud, "levels"));
  }
  Array plots;
  plots.push_back(plot("One inference", "bar", axis(""), axis("median, with p10 and p90, ms"),
                       Array{series("median", std::move(wall))}));
  plots.push_back(stages_plot("Stages", stages, ""));
  plots.push_back(levels_plot(levels));
  Array notes;
  if (const auto method = file.getString("method")) notes.push_back("Measured by the " + method->str() + ".");
  Array tables;
  tables.push_back(table_of("Clouds", clouds,
                            {{"cloud", "cloud"},
                             {"voxels", "voxels.unthinned"},
                             {"median, ms", "wall_ms.median"},
                             {"p10", "wall_ms.p10"},
                             {"p90", "wall_ms.p90"},
                             {"least", "wall_ms.min"},
                             {"pairs", "pairs"},
                             {"padded rows", "padded_rows"},
                             {"launches", "counters.launches"},
                             {"host waits", "counters.host_syncs"}}));
  return Object{{"notes", std::move(notes)}, {"plots", std::move(plots)}, {"tables", std::move(tables)}};
}

/// Returns the number of multiplications of each layer, in units of 1e9.
Array work_of(const std::vector<const Object*>& layers) {
  Array values;
  for (const Object* layer : layers) {
    const double pairs = real_or(*layer, "pairs", 0), in = real_or(*layer, "in_channels", 0),
                 out = real_or(*layer, "out_channels", 0);
    values.push_back(Object{{"x", text_or_empty(*layer, "name")}, {"y", pairs * in * out / 1e9}});
  }
  return values;
}

Object run_document(const Object& file) {
  const std::vector<const Object*> layers = objects_in(file, "layers"), levels = objects_in(file, "levels");
  Array plots, tables, notes;
  const double total = real_or(file, "total_ms", 0), first = real_or(file, "first_ms", 0);
  const int64_t repeats = number_or(file, "repeats", 0);
  notes.push_back(
      llvm::formatv("The first inference, including its preparation, took {0:f2} ms; {1} {2:f2} ms.",
                    real(first),
                    repeats > 0 ? llvm::formatv("the median of {0} warm inferences is", repeats).str()
                                : "without the preparation it took",
                    real(total))
          .str());
  if (const Object* kernels = file.getObject("kernels")) {
    notes.push_back(
        llvm::formatv("Kernels: {0} compiled, {1} from bundles, {2} from disk, {3} in memory.",
                      print_json(at(*kernels, "compiled")), print_json(at(*kernels, "bundle_hits")),
                      print_json(at(*kernels, "disk_hits")), print_json(at(*kernels, "memory_hits")))
            .str());
  }
  // A kernel that is not a box has a number of offsets in place of its size.
  std::vector<Object> listed;
  listed.reserve(layers.size());
  for (const Object* layer : layers) {
    listed.push_back(*layer);
    const int64_t offsets = number_or(*layer, "offset_count", 0);
    if (offsets > 0) listed.back()["kernel_size"] = llvm::formatv("{0} offsets", offsets).str();
  }
  std::vector<const Object*> rows;
  rows.reserve(listed.size());
  for (const Object& layer : listed) rows.push_back(&layer);
  NamedTimes layer_times;
  for (const Object* layer : layers) layer_times.emplace_back(text_or_empty(*layer, "name"), layer);
  plots.push_back(stages_plot("Stages", {{"one inference", file.getObject("stages_ms")}}, ""));
  plots.push_back(stages_plot("Time by layer", layer_times, "_ms"));
  plots.push_back(plot("Work by layer", "bar", axis(""), axis("multiplications, 10⁹"),
                       Array{series("multiplications", work_of(layers))}));
  plots.push_back(levels_plot({{"voxels", levels}}));
  tables.push_back(table_of("Layers", rows,
                            {{"layer", "name"},
                             {"kernel", "kernel_size"},
                             {"stride", "stride"},
                             {"in", "in_channels"},
                             {"out", "out_channels"},
                             {"pairs", "pairs"},
                             {"padded rows", "padded_rows"},
                             {"GEMMs", "gemm_groups"},
                             {"gather, ms", "gather_ms"},
                             {"GEMM", "gemm_ms"},
                             {"scatter", "scatter_ms"},
                             {"dataflow", "dataflow"},
                             {"program", "kernel"}}));
  const std::vector<const Object*> kernels = objects_in(file, "kernel_list");
  if (!kernels.empty()) {
    tables.push_back(table_of("Kernels", kernels,
                              {{"kernel", "name"},
                               {"from", "origin"},
                               {"registers", "registers"},
                               {"shared, bytes", "shared_bytes"},
                               {"cubin, bytes", "cubin_bytes"},
                               {"compiled, ms", "compile_ms"}}));
  }
  return Object{{"notes", std::move(notes)}, {"plots", std::move(plots)}, {"tables", std::move(tables)}};
}

/// Returns true if the file is a result of minuet-study, which is already a document.
bool is_study(const Object& file) {
  return file.getString("study") && file.getArray("claims") && file.getArray("notes") &&
         file.getArray("plots") && file.getArray("tables");
}

/// Returns the network and the dtype of a result, for example "minkunet42, fp16".
std::string network_of(const Object& file) {
  return text_or_empty(file, "network") + ", " + text_or_empty(file, "dtype");
}

}  // namespace

std::vector<const Object*> objects_in(const Object& file, llvm::StringRef name) {
  std::vector<const Object*> objects;
  const Array* const array = file.getArray(name);
  for (size_t i = 0; array && i < array->size(); ++i) {
    if (const Object* object = (*array)[i].getAsObject()) objects.push_back(object);
  }
  return objects;
}

Object table_of(llvm::StringRef title, const std::vector<const Object*>& records, const Columns& columns) {
  Array names, rows;
  for (const auto& column : columns) names.push_back(column.first);
  for (const Object* record : records) {
    Array row;
    for (const auto& column : columns) {
      const Value value = at(*record, column.second);
      const Array* const parts = value.getAsArray();
      row.push_back(is_scalar(value) ? value : Value(parts ? joined(*parts) : ""));
    }
    rows.push_back(std::move(row));
  }
  return table(title, std::move(names), std::move(rows));
}

llvm::Expected<Object> document_of(llvm::StringRef file, const Value& value) {
  const Object* const object = value.getAsObject();
  Object document;
  if (object && is_study(*object)) {
    document = *object;
  } else if (object && is_quantization(*object)) {
    document = quantization_document(*object);
  } else if (object && object->getArray("clouds") && object->get("network")) {
    document = bench_document(*object);
    document["title"] = network_of(*object);
  } else if (object && object->getArray("layers") && object->getObject("stages_ms")) {
    document = run_document(*object);
    document["title"] = network_of(*object) + ", " + text_or_empty(*object, "cloud");
  } else {
    return bad_input(
        "it is not a result file: minuet bench --output, minuet run --json, minuet quantize --json and "
        "minuet-study write result files; move it out of the folder");
  }
  document["machine"] = machine_of(*object);
  document["file"] = file.str();
  return document;
}

llvm::Expected<std::string> report_page(llvm::StringRef title, llvm::StringRef version, Array documents) {
  if (page_file("d3.min.js").empty()) {
    return broken(
        "this minuet was built without d3, the library that draws plots: install it (apt-get install "
        "libjs-d3, or tools/setup), then configure and build again");
  }
  return fill_page("report.html", {{"title", html_text(llvm::json::fixUTF8(title))},
                                   {"version", version.str()},
                                   {"licence", html_text(page_file("d3.licence"))},
                                   {"data", script_json(std::move(documents))}});
}

}  // namespace minuet::tool
