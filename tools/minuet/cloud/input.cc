#include "tools/minuet/cloud/input.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "codegen/base/number_text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "tests/support/clouds.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {
namespace {

llvm::Expected<Cloud> read_coordinates(const InputOptions& options, int ndim) {
  MINUET_ASSIGN(const auto file, read_file(options.coordinates));
  return in_file(options.coordinates, read_npy_coordinates(file->getBuffer(), ndim));
}

/// Returns the error for a feature that is not a finite float32 number. The error distinguishes numbers that
/// are NaN or infinite in the file from finite numbers that are too large for float32.
llvm::Error refuse_feature(const std::string& path, llvm::StringRef bytes, int64_t row, int64_t column) {
  MINUET_ASSIGN(const NpyArray array, parse_npy(bytes));
  const double value = decode_scalar(array.type, array.at(row, column), array.big_endian);
  if (!std::isfinite(value))
    return bad_input("'{0}' holds {1} in row {2}: every feature must be finite", path, digits(value), row);
  return bad_input(
      "'{0}' holds {1} in row {2}, but the largest float32 number is {3}: scale the features down", path,
      digits(value), row, digits(kLargestFloat));
}

llvm::Expected<VoxelCloud> pair_with_features(const Cloud& cloud, const std::string& path) {
  int64_t rows = 0, columns = 0;
  MINUET_ASSIGN(std::vector<float> features, read_features(path, rows, columns));
  if (rows != cloud.count()) {
    return bad_input("'{0}' has {1} rows of features, but there are {2} voxels: give one row for each voxel",
                     path, rows, cloud.count());
  }
  return with_features(cloud, std::move(features), static_cast<int>(columns));
}

void warn_of_skipped(int64_t skipped) {
  if (skipped == 0) return;
  std::fprintf(stderr, "minuet: %s with NaN or infinite numbers %s dropped\n",
               counted(skipped, "point").c_str(), skipped == 1 ? "was" : "were");
}

/// Makes the voxels and features of input.cloud in a grid.
llvm::Error voxelize_input(const InputOptions& options, const Grid& grid, const Voxelizer& voxelizer,
                           Input& input) {
  const Cloud& cloud = input.cloud;
  input.grid = grid;
  input.frame.origin = grid.low;
  if (cloud.is_voxels) {
    // The position of a voxel's centre is that in the cloud's own frame, as in voxelize_in().
    input.voxels = features_from_centres(cloud, grid.voxel_size, {-grid.low[0], -grid.low[1], -grid.low[2]});
    return llvm::Error::success();
  }
  const Clock::time_point start = Clock::now();
  MINUET_ASSIGN(input.voxels,
                voxelize_in(cloud.points, grid, options.limits, options.skip_invalid, voxelizer));
  warn_of_skipped(input.voxels.skipped);
  input.voxelize_ms = milliseconds_since(start) - input.voxels.load_ms;
  return llvm::Error::success();
}

/// Chooses the frame of the points in input.cloud, whose voxels are counted from origin + low.
llvm::Error place_points(const std::optional<Position>& origin, const Position& low, Input& input) {
  input.low = low;
  MINUET_ASSIGN(input.frame,
                choose_frame(input.cloud.points, input.cloud.position_types, origin, input.frame.voxel_size));
  return llvm::Error::success();
}

/// Makes the rows of input.cloud for a network that makes voxels of them itself.
llvm::Error take_points(const InputOptions& options, int columns, Input& input) {
  const Cloud& cloud = input.cloud;
  if (cloud.is_voxels) {
    return bad_input(
        "the network takes points, of which it makes voxels itself, but this cloud holds voxels: name a "
        "cloud of points");
  }
  // A range is at its place in the cloud's own frame.
  const std::optional<Position> origin = options.own_voxels->has_range ? Position{} : options.origin;
  MINUET_TRY(place_points(origin, options.own_voxels->low, input));
  MINUET_ASSIGN(input.voxels, point_input(cloud.points, columns, options.skip_invalid, input.frame.origin));
  warn_of_skipped(input.voxels.skipped);
  return llvm::Error::success();
}

/// Makes the voxels and features of input.cloud with the voxel size in input.frame. The caller adds the name
/// of the cloud's file to errors.
llvm::Error voxelize_input(const InputOptions& options, const Voxelizer& voxelizer, Input& input) {
  const Cloud& cloud = input.cloud;
  const VoxelSize voxel_size = input.frame.voxel_size;
  if (options.grid) return voxelize_input(options, *options.grid, voxelizer, input);
  if (cloud.is_voxels) {
    MINUET_ASSIGN(input.frame, choose_frame(centres_of(cloud, voxel_size), cloud.position_types,
                                            options.origin, voxel_size));
    input.voxels = features_from_centres(cloud, voxel_size, input.frame.origin);
    return llvm::Error::success();
  }
  const Clock::time_point start = Clock::now();
  MINUET_TRY(place_points(options.origin, options.low, input));
  MINUET_ASSIGN(input.voxels,
                voxelize(cloud.points, voxel_size, options.skip_invalid, voxelizer, input.corner()));
  warn_of_skipped(input.voxels.skipped);
  input.voxelize_ms = milliseconds_since(start) - input.voxels.load_ms;
  return llvm::Error::success();
}

llvm::Error check_fit(const VoxelCloud& voxels, const minuet_plan_info& network, bool own_features) {
  if (voxels.holds_points && (voxels.ndim != network.ndim || voxels.channels != network.in_channels)) {
    return bad_input(
        "the network takes points of {0} columns in {1} dimensions, but a cloud gives 3 or 4 columns (x, y, "
        "z, intensity) in 3: give --in-channels 4, or use another network",
        network.in_channels, network.ndim);
  }
  if (voxels.ndim != network.ndim) {
    return bad_input(
        "the network has {0} dimensions, but the cloud has {1}: give --coordinates and --features",
        network.ndim, voxels.ndim);
  }
  if (voxels.channels == network.in_channels) return llvm::Error::success();
  if (own_features) {
    return bad_input(
        "the features have {0} columns, but the network takes {1} input channels: give one column for each "
        "channel",
        voxels.channels, network.in_channels);
  }
  return bad_input(
      "the network takes {0} input channels, but a cloud gives 4 (x, y, z, intensity): give --coordinates "
      "and --features, or --in-channels 4 if the weights are for 4 channels or random",
      network.in_channels);
}

/// Returns a list such as 0,05 or 0,05,0,05,0,1 with points in place of its decimal commas. `words` are the
/// parts between the commas. Returns an empty string if they cannot be such a list.
std::string with_decimal_points(llvm::ArrayRef<llvm::StringRef> words) {
  const auto is_digits = [](llvm::StringRef word) {
    return !word.empty() && word.find_first_not_of("0123456789") == llvm::StringRef::npos;
  };
  if (words.size() % 2 != 0 || !llvm::all_of(words, is_digits)) return "";
  std::string text;
  for (size_t i = 0; i < words.size(); i += 2) {
    text += (text.empty() ? "" : ",") + words[i].str() + "." + words[i + 1].str();
  }
  return text;
}

}  // namespace

llvm::Expected<std::vector<float>> read_features(const std::string& path, int64_t& rows, int64_t& columns) {
  MINUET_ASSIGN(const auto file, read_file(path));
  MINUET_ASSIGN(std::vector<float> features,
                in_file(path, read_npy_matrix(file->getBuffer(), rows, columns)));
  for (size_t i = 0; i < features.size(); ++i) {
    if (std::isfinite(features[i])) continue;
    return refuse_feature(path, file->getBuffer(), static_cast<int64_t>(i) / columns,
                          static_cast<int64_t>(i) % columns);
  }
  return features;
}

llvm::Expected<VoxelSize> parse_voxel_size(const std::string& text) {
  if (text.empty()) return cubic(0.1);
  llvm::SmallVector<llvm::StringRef, 4> words;
  llvm::StringRef(text).split(words, ',');
  if (words.size() != 1 && words.size() != 3) {
    const std::string with_point = with_decimal_points(words);
    return bad_input("--voxel-size '{0}' has {1} numbers: give one, or one each for x, y and z{2}", text,
                     words.size(),
                     with_point.empty() ? "" : "; if this is a decimal comma, write " + with_point);
  }
  VoxelSize size;
  for (size_t axis = 0; axis < 3; ++axis) {
    const llvm::StringRef word = words[words.size() == 1 ? 0 : axis].trim();
    const std::optional<double> edge = parse_double(word);
    if (!edge) return bad_input("--voxel-size '{0}': {1} is not a number", text, quoted(word));
    size[axis] = *edge;
  }
  MINUET_TRY(check_voxel_size(size));
  return size;
}

void print_warnings(const Cloud& cloud) {
  const auto print = [](const std::string& text) { std::fprintf(stderr, "minuet: %s\n", text.c_str()); };
  for (const std::string& warning : cloud.warnings) print(warning);
  if (!cloud.no_intensity.empty()) print(cloud.no_intensity);
}

llvm::Expected<std::vector<Point>> synthetic_points(const InputOptions& options) {
  CloudOptions wanted;
  const int kind = llvm::StringSwitch<int>(options.synthetic)
                       .Case("lidar", static_cast<int>(CloudKind::Lidar))
                       .Case("room", static_cast<int>(CloudKind::Room))
                       .Case("object", static_cast<int>(CloudKind::Object))
                       .Case("random", static_cast<int>(CloudKind::Random))
                       .Default(-1);
  if (kind < 0)
    return bad_input("the cloud '{0}' is not one of lidar, room, object, random", options.synthetic);
  wanted.kind = static_cast<CloudKind>(kind);
  wanted.points = options.points;
  wanted.extent = options.extent;
  wanted.seed = options.seed;
  const std::vector<float> values = make_cloud(wanted);
  if (values.empty()) {
    const Extents extents = extents_of(wanted.kind);
    return bad_input(
        "a {0} cloud is {1:g6} to {2:g6} metres across, but --extent is {3:g6}: choose a number in that "
        "range",
        options.synthetic, real(extents.least), real(extents.greatest), real(options.extent));
  }
  std::vector<Point> points(values.size() / 4);
  for (size_t i = 0; i < values.size(); ++i) points[i / 4][i % 4] = static_cast<double>(values[i]);
  return points;
}

Position Input::corner() const {
  if (cloud.is_voxels && !grid) return {};
  return {frame.origin[0] + low[0], frame.origin[1] + low[1], frame.origin[2] + low[2]};
}

std::optional<std::array<int64_t, 3>> Input::shift() const {
  return cloud.is_voxels || grid ? std::array<int64_t, 3>{} : frame.whole_voxels();
}

llvm::Expected<Input> load_input(const InputOptions& options, const minuet_plan_info& network,
                                 const Voxelizer& voxelizer) {
  Input input;
  MINUET_ASSIGN(input.frame.voxel_size, parse_voxel_size(options.voxel_size));
  if (options.grid) input.frame.voxel_size = options.grid->voxel_size;
  if (options.own_voxels) input.frame.voxel_size = options.own_voxels->voxel_size;
  const bool own_features = !options.features.empty();
  Cloud& cloud = input.cloud;
  if (!options.coordinates.empty()) {
    MINUET_ASSIGN(cloud, read_coordinates(options, network.ndim));
  } else if (!options.synthetic.empty()) {
    MINUET_ASSIGN(cloud.points, synthetic_points(options));
    cloud.position_types.fill(Scalar::F32);
  } else {
    MINUET_ASSIGN(cloud, read_cloud(options.cloud, options.columns));
    print_warnings(cloud);
  }
  const auto make_rows = [&]() -> llvm::Error {
    return options.own_voxels ? take_points(options, network.in_channels, input)
                              : voxelize_input(options, voxelizer, input);
  };
  if (own_features && !options.own_voxels) {
    MINUET_ASSIGN(input.voxels, pair_with_features(cloud, options.features));
  } else if (llvm::Error error = make_rows()) {
    const std::string& path = options.coordinates.empty() ? options.cloud : options.coordinates;
    return path.empty() ? std::move(error) : in_file(path, std::move(error));
  }
  // Detection networks of 5 input channels take the time since the scan as the fifth, which is 0 in one scan.
  if (options.grid && !own_features && network.in_channels == 5) add_zero_channels(input.voxels, 5);
  MINUET_TRY(check_fit(input.voxels, network, own_features));
  return input;
}

llvm::Expected<std::vector<char>> encode_features(const VoxelCloud& voxels, minuet_dtype dtype) {
  const float largest = dtype_largest(dtype);
  for (size_t i = 0; i < voxels.features.size(); ++i) {
    if (std::abs(voxels.features[i]) <= largest) continue;
    return bad_input(
        "the feature {0} of voxel {1} is beyond the largest {2} number ({3}): use another --dtype, or an "
        "--origin nearer to the cloud",
        digits(static_cast<double>(voxels.features[i])), static_cast<int64_t>(i) / voxels.channels,
        dtype_name(dtype), digits(static_cast<double>(largest)));
  }
  return encode(voxels.features, dtype);
}

}  // namespace minuet::tool
