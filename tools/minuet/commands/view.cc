// `minuet view` writes a cloud as an HTML page.
#include <algorithm>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/Path.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/view_levels.h"
#include "tools/minuet/library/voxelizer.h"
#include "tools/minuet/pages/page.h"

namespace minuet::tool {
namespace {

/// Limits the bytes of a page, because browsers limit strings to 2^29 characters.
constexpr size_t kMostPageBytes = 500 << 20;

llvm::Error check_files(const Arguments& arguments) {
  return check_distinct({{"--output", arguments.output}}, {{"the cloud", arguments.input.cloud},
                                                           {"--labels", arguments.view.labels},
                                                           {"--features", arguments.view.features},
                                                           {"--palette", arguments.palette}});
}

/// Chooses the voxels that a network makes of points itself.
llvm::Error use_own_voxels(InputOptions& input) {
  if (!input.own_voxels) return llvm::Error::success();
  const OwnVoxels own = *input.own_voxels;
  input.own_voxels.reset();
  if (own.has_range) {
    MINUET_ASSIGN(input.grid, make_grid(own.low, own.high, own.voxel_size));
    return llvm::Error::success();
  }
  input.voxel_size =
      digits(own.voxel_size[0]) + "," + digits(own.voxel_size[1]) + "," + digits(own.voxel_size[2]);
  input.low = own.low;
  return llvm::Error::success();
}

/// Loads a cloud as `minuet run` does for a network whose 4 input channels are position and intensity.
llvm::Expected<Input> load_cloud(const InputOptions& options, const Session& session) {
  minuet_plan_info shape = {};
  shape.ndim = 3;
  shape.in_channels = 4;
  MINUET_ASSIGN(Input input, load_input(options, shape, voxelizer_of(session)));
  if (input.voxels.count() > 0) return input;
  return bad_input("the cloud has no {0}, so there is nothing to show: name another cloud",
                   input.voxels.outside > 0   ? "point in the range"
                   : input.voxels.skipped > 0 ? "point with finite numbers"
                   : input.cloud.is_voxels    ? "voxels"
                                              : "points");
}

llvm::Expected<Palette> read_palette(const std::string& path, const std::vector<int32_t>& labels) {
  Palette palette;
  if (path.empty()) return palette;
  MINUET_ASSIGN(palette, Palette::read(path));
  int64_t count = 0;
  for (const int32_t label : labels) count = std::max<int64_t>(count, int64_t{label} + 1);
  MINUET_TRY(palette.check_labels(count));
  return palette;
}

std::string title_of(const InputOptions& options) {
  return options.cloud.empty() ? "generated: " + options.synthetic
                               : llvm::json::fixUTF8(llvm::sys::path::filename(options.cloud));
}

void print_levels(const Input& input, const std::vector<ViewLevel>& levels, const std::string& device) {
  if (!input.cloud.is_voxels) llvm::outs() << llvm::formatv("{0} points; ", input.cloud.count());
  if (input.voxels.outside > 0)
    llvm::outs() << llvm::formatv("{0} outside the range; ", input.voxels.outside);
  llvm::outs() << llvm::formatv("voxels of {0} m, on {1}\n", size_text(input.frame.voxel_size), device);
  llvm::outs() << llvm::formatv("{0,6} {1,10} {2,12} {3,12}\n", "stride", "voxels", "map pairs",
                                "neighbours");
  for (const ViewLevel& level : levels) {
    const auto voxels = static_cast<double>(level.neighbours.size());
    llvm::outs() << llvm::formatv("{0,6} {1,10} {2,12} {3,12:f2}\n", level.stride, level.neighbours.size(),
                                  level.pairs, real(static_cast<double>(level.pairs) / voxels));
  }
}

}  // namespace

llvm::Error view_command(const Arguments& given) {
  MINUET_TRY(check_view(given));
  Arguments arguments = given;
  MINUET_TRY(use_grid(arguments.network, arguments.input));
  MINUET_TRY(use_own_voxels(arguments.input));
  MINUET_TRY(check_files(arguments));
  MINUET_ASSIGN(OutputFile file, OutputFile::open(arguments.output));
  std::optional<Progress> progress("opening the device");
  MINUET_ASSIGN(const Session session, open_session({arguments.cache}, arguments.device));
  progress->say("reading the cloud");
  MINUET_ASSIGN(const Input input, load_cloud(arguments.input, session));
  MINUET_ASSIGN(const ViewColumns columns, read_columns(arguments.view, input));
  MINUET_ASSIGN(const Palette palette, read_palette(arguments.palette, columns.labels));
  const DeviceFacts& facts = session.facts;
  progress->say("making coordinate sets and kernel maps");
  const int kernel_size = arguments.view.kernel_size;
  MINUET_ASSIGN(
      const std::vector<ViewLevel> levels,
      make_levels(session.device.get(), input.voxels, kernel_size, arguments.execution.keep_first_duplicate));
  progress->say("writing the page");
  const std::string title = title_of(arguments.input);
  const std::string device_text = facts.is_cpu() ? facts.description : facts.name + ": " + facts.description;
  const ViewFacts shown{title, device_text, kernel_size};
  const std::string page =
      fill_page("view.html", {{"title", html_text(title)},
                              {"version", version_text()},
                              {"data", script_json(view_json(input, levels, columns, palette, shown))}});
  if (page.size() > kMostPageBytes) {
    return bad_input(
        "the page would have {0} MB, but browsers read no more than {1} MB: use a part of the cloud",
        page.size() >> 20, kMostPageBytes >> 20);
  }
  MINUET_TRY(file.write(page));
  progress.reset();
  print_levels(input, levels, device_text);
  llvm::outs() << llvm::formatv("{0}: {1:f1} MB\n", arguments.output,
                                real(static_cast<double>(page.size()) / 1e6));
  return llvm::Error::success();
}

}  // namespace minuet::tool
