#include "tools/minuet/options_pages.h"

#include "tools/minuet/error.h"
#include "tools/minuet/options_caches.h"
#include "tools/minuet/options_input.h"
#include "tools/minuet/options_rules.h"
#include "tools/minuet/output_file.h"

namespace minuet::tool {
namespace {

constexpr const char* kViewFooter = R"(
Writes one HTML file, which needs no network: any browser with WebGL 2 shows the points, and the voxels of
tensor strides 1, 2, 4, 8 and 16, to turn, move and zoom by mouse, fingers and keys (H lists them), coloured
by height, intensity and the file's other numbers, label, feature, neighbours or level. Coordinate sets and
kernel maps are made by the library, on --device. A coarse voxel has the mean of its points' numbers and the
label of most of them. CLOUD is read as by `minuet run`.

--labels and --features have a row for every point, or for every voxel, in the order of `minuet run`.

Examples:
  minuet view sweep.bin --output sweep.html
  minuet run sweep.bin --weights W.safetensors --labels --output labels.npy
  minuet view sweep.bin --labels labels.npy --output labelled.html)";

constexpr const char* kReportFooter = R"(
Writes one HTML file, which needs no network, with a chapter for every result file: the machine, plots and
tables. Results of `minuet bench --output`, `minuet run --json` and `minuet study` have plots; of any other
JSON there are tables, and a file may bring plots and tables of its own:

  {"title": "...", "machine": {"device": "..."}, "notes": ["..."],
   "tables": [{"title": "...", "columns": ["..."], "rows": [["text", 1.5, null]]}],
   "plots": [{"title": "...", "kind": "bar" or "stacked" or "line",
              "x": {"label": "...", "log": false}, "y": {"label": "...", "log": true},
              "series": [{"name": "...", "values": [{"x": 1, "y": 2, "low": 1.5, "high": 2.5}]}]}]}

Bars lie: their "x" are names, and "y" is how long they are.

Examples:
  minuet bench --output results && minuet report results --output results.html
  minuet run sweep.bin --json results/sweep.json && minuet report results --output results.html)";

}  // namespace

void add_view(CLI::App& view, Arguments& arguments) {
  view.footer(kViewFooter);
  add_cloud(view, arguments.input);
  add_keep_first_duplicate(view, arguments.execution);
  view.add_option("--labels", arguments.view.labels,
                  "labels of the points or voxels: NPY, integer [N], 0 and up, -1 for none")
      ->type_name("L.npy");
  view.add_option("--palette", arguments.palette,
                  "colours of the labels: JSON, [[red, green, blue], ...], 0 to 255")
      ->needs("--labels")
      ->type_name("FILE");
  CLI::Option* const features =
      view.add_option("--features", arguments.view.features, "features of the points or voxels: NPY, [N, C]")
          ->type_name("F.npy");
  view.add_option("--feature-columns", arguments.view.feature_columns,
                  "which of them the page has, by commas; default: the first 8")
      ->needs(features)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(kDecimal)
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  view.add_option("--kernel-size", arguments.view.kernel_size,
                  "of the kernel maps whose neighbours are counted, on every axis")
      ->transform(kDecimal)
      ->check(CLI::Range(1, 9))
      ->capture_default_str()
      ->type_name("K");
  view.add_option("--output", arguments.output, "the page: an .html file")->required()->type_name("FILE");
  add_device(view, arguments.device);
  add_cache(view, arguments);
}

llvm::Error check_view(const Arguments& arguments) {
  MINUET_TRY(check_cloud(arguments.input));
  return check_page(arguments);
}

void add_report(CLI::App& report, Arguments& arguments) {
  report.footer(kReportFooter);
  report.add_option("DIR", arguments.results, "folder of result files: every .json in it and below")
      ->required()
      ->type_name("DIR");
  report.add_option("--title", arguments.title, "of the page; default: the folder's name")->type_name("TEXT");
  report.add_option("--output", arguments.output, "the page: an .html file")->required()->type_name("FILE");
}

llvm::Error check_page(const Arguments& arguments) {
  const std::string kind = extension_of(arguments.output);
  if (kind == ".html" || kind == ".htm") return llvm::Error::success();
  return bad_input("--output '{0}' does not end in .html", arguments.output);
}

}  // namespace minuet::tool
