#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

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
tables. Result files are those of `minuet bench --output`, `minuet run --json` and `minuet-study`; another JSON
file in the folder is an error.

Examples:
  minuet bench --output results && minuet report results --output results.html
  minuet run sweep.bin --json results/sweep.json && minuet report results --output results.html)";

void add_page(CLI::App& app, Arguments& arguments) {
  add_value(app, "--output", arguments.output, "FILE", "the page: an .html file")->required();
}

}  // namespace

CLI::Option* add_palette(CLI::App& app, Arguments& arguments) {
  return add_value(app, "--palette", arguments.palette, "FILE",
                   "colours of the labels: JSON, [[red, green, blue], ...], 0 to 255");
}

void add_view(CLI::App& view, Arguments& arguments) {
  view.footer(kViewFooter);
  add_cloud(view, arguments.input);
  add_keep_first_duplicate(view, arguments.execution);
  add_value(view, "--labels", arguments.view.labels, "L.npy",
            "labels of the points or voxels: NPY, integer [N], 0 and up, -1 for none");
  add_palette(view, arguments)->needs("--labels");
  add_value(view, "--features", arguments.view.features, "F.npy",
            "features of the points or voxels: NPY, [N, C]");
  add_list(view, "--feature-columns", arguments.view.feature_columns, "N",
           "which of them the page has, by commas; default: the first 8")
      ->needs("--features")
      ->transform(kDecimal)
      ->check(CLI::Range(0, 1000000));
  add_count(view, "--kernel-size", arguments.view.kernel_size, 1, 9,
            "of the kernel maps whose neighbours are counted, on every axis")
      ->capture_default_str()
      ->type_name("K");
  add_page(view, arguments);
  add_device(view, arguments.device);
  add_cache(view, arguments);
}

llvm::Error check_view(const Arguments& arguments) {
  MINUET_TRY(check_cloud(arguments.input));
  return check_page(arguments);
}

void add_report(CLI::App& report, Arguments& arguments) {
  report.footer(kReportFooter);
  add_value(report, "DIR", arguments.results, "DIR", "folder of result files: every .json in it and below")
      ->required();
  add_value(report, "--title", arguments.title, "TEXT", "of the page; default: the folder's name");
  add_page(report, arguments);
}

llvm::Error check_page(const Arguments& arguments) {
  const std::string kind = extension_of(arguments.output);
  if (kind == ".html" || kind == ".htm") return llvm::Error::success();
  return bad_input("--output '{0}' does not end in .html", arguments.output);
}

}  // namespace minuet::tool
