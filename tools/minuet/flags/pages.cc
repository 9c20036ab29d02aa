#include <CLI/CLI.hpp>

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"

namespace minuet::tool {
namespace {

constexpr const char* kViewFooter = R"(
Writes one HTML file that works offline. Any browser with WebGL 2 shows the points and the voxels of tensor
strides 1, 2, 4, 8 and 16. Colours show the height, a number of the file such as the intensity, the label, a
feature, the number of neighbours or the level. Mouse, fingers and keys turn, move and zoom the view (the key
H lists the controls). The library makes coordinate sets and kernel maps on --device. A coarse voxel has the
mean of its points' numbers and their most frequent label. CLOUD is read as by `minuet run`.

--labels and --features are files with a row for each point or for each voxel, in the order of `minuet run`.

Examples:
  minuet view sweep.bin --output sweep.html
  minuet view kitti.bin --network voxel_backbone_8x --output kitti.html
  minuet run sweep.bin --weights W.safetensors --labels --output labels.npy
  minuet view sweep.bin --labels labels.npy --output labelled.html)";

constexpr const char* kReportFooter = R"(
Writes one HTML file that works offline, with a chapter for every result file: the machine, plots and tables.
`minuet bench --output`, `minuet run --json`, `minuet quantize --json` and `minuet-study` write result files. Any
other JSON file in the folder is an error.

Examples:
  minuet bench --output results && minuet report results --output results.html
  minuet run sweep.bin --json results/sweep.json && minuet report results --output results.html)";

void add_page(CLI::App& app, Arguments& arguments) {
  add_value(app, "--output", arguments.output, "FILE", "HTML file to write")->required();
}

}  // namespace

CLI::Option* add_palette(CLI::App& app, Arguments& arguments) {
  return add_value(app, "--palette", arguments.palette, "FILE",
                   "colours of the labels: JSON, [[red, green, blue], ...], 0 to 255");
}

void add_view(CLI::App& view, Arguments& arguments) {
  view.footer(kViewFooter);
  add_cloud(view, arguments.input);
  add_grid(view, arguments.input);
  add_network_name(view, arguments.network)
      ->description(
          "show the voxels that this network takes: name of a shipped network (minuet run "
          "--list-networks), or a JSON file; networks whose input has no shape take the same voxels");
  add_keep_first_duplicate(view, arguments.execution);
  add_value(view, "--labels", arguments.view.labels, "L.npy",
            "labels of the points or voxels: NPY, integer [N], 0 and up, -1 for none");
  add_palette(view, arguments)->needs("--labels");
  add_value(view, "--features", arguments.view.features, "F.npy",
            "features of the points or voxels: NPY, [N, C]");
  add_list(view, "--feature-columns", arguments.view.feature_columns, "N",
           "columns of the features to show, counted from 0 and separated by commas; default: the first 8")
      ->needs("--features")
      ->transform(kDecimal)
      ->check(CLI::Range(0, 1000000));
  add_count(view, "--kernel-size", arguments.view.kernel_size, 1, 9,
            "size, on every axis, of the kernel in which each voxel's neighbours are counted")
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
  add_value(report, "DIR", arguments.results, "DIR",
            "folder of result files; every .json file in it and its subfolders is read")
      ->required();
  add_value(report, "--title", arguments.title, "TEXT", "title of the page; default: the folder's name");
  add_page(report, arguments);
}

llvm::Error check_html(llvm::StringRef flag, const std::string& path) {
  const std::string kind = extension_of(path);
  if (kind == ".html" || kind == ".htm") return llvm::Error::success();
  return bad_input("{0} '{1}' must end in .html", flag, path);
}

llvm::Error check_page(const Arguments& arguments) { return check_html("--output", arguments.output); }

}  // namespace minuet::tool
