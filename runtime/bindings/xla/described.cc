#include "runtime/bindings/xla/described.h"

#include <limits>

namespace minuet_xla {
namespace {

constexpr std::int64_t kFormat = 1;
// What a pyramid is made of.
enum PyramidKind : std::int64_t { kOfLevels = 0, kOfNetwork = 1, kOfTraining = 2 };
constexpr std::int64_t kMostLevels = 16, kMostMaps = 4096, kMostOffsets = 1 << 20, kMostChannels = 65536;

std::int64_t within(std::int64_t count, std::int64_t most, const char* what) {
  if (count < 0 || count > most) {
    refuse(std::string("an attribute says that there are ") + std::to_string(count) + " " + what + ", and " +
           std::to_string(most) + " is the most");
  }
  return count;
}

void require_format(NumberReader& reader) {
  if (reader.next() != kFormat) {
    refuse("the custom call was made for another version of libminuet_xla: make it again with this version");
  }
}

// Reads the listed offsets of a kernel, and sets how many there are.
std::vector<std::int32_t> read_offsets(NumberReader& reader, std::int32_t ndim, std::int32_t& offset_count) {
  offset_count = static_cast<std::int32_t>(within(reader.next(), kMostOffsets, "offsets"));
  std::vector<std::int32_t> offsets;
  for (std::int64_t i = 0; i < std::int64_t{offset_count} * ndim; ++i) offsets.push_back(reader.next32());
  return offsets;
}

// Tells training plans of one network apart.
std::string training_key(const XlaAttributes& attributes) {
  const std::span<const std::int64_t> numbers = attributes.integers("training");
  const double momentum = attributes.real("momentum");
  std::string key(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  return key.append(reinterpret_cast<const char*>(&momentum), sizeof(momentum));
}

}  // namespace

std::int64_t NumberReader::next() {
  if (place_ == numbers_.size()) {
    refuse(std::string("the attribute ") + name_ + " of the custom call has too few numbers");
  }
  return numbers_[place_++];
}

std::int32_t NumberReader::next32() {
  const std::int64_t number = next();
  if (number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    refuse(std::string("a number of the attribute ") + name_ + " does not fit into 32 bits");
  }
  return static_cast<std::int32_t>(number);
}

std::int32_t NumberReader::next_ndim() {
  const std::int32_t ndim = next32();
  if (ndim < 1 || ndim > MINUET_MAX_DIM) {
    refuse(std::string("the attribute ") + name_ + " has " + std::to_string(ndim) + " axes, and 1 to " +
           std::to_string(MINUET_MAX_DIM) + " are supported");
  }
  return ndim;
}

void NumberReader::next_axes(std::int32_t (&axes)[MINUET_MAX_DIM]) {
  for (std::int32_t& axis : axes) axis = next32();
}

void NumberReader::finish() const {
  if (place_ != numbers_.size()) {
    refuse(std::string("the attribute ") + name_ + " of the custom call has too many numbers");
  }
}

XlaTraining::XlaTraining(const XlaAttributes& attributes) : network_(shared_plan(attributes.bytes("plan"))) {
  NumberReader reader(attributes.integers("training"), "training");
  require_format(reader);
  minuet_training_options options = MINUET_TRAINING_OPTIONS_INIT;
  options.input_gradients = input_gradients_ = static_cast<std::uint32_t>(reader.next());
  options.frozen_batch_norms = reader.next32();
  is_frozen_ = options.frozen_batch_norms != 0;
  options.recompute_blocks = reader.next32();
  reader.finish();
  options.momentum = static_cast<float>(attributes.real("momentum"));
  training_ = std::make_unique<minuet::Training>(shared_context(), network_->plan(), options);
}

std::shared_ptr<XlaTraining> shared_training(const XlaAttributes& attributes) {
  static auto* const trainings = new SharedObjects<XlaTraining>();
  return trainings->get(std::string(attributes.bytes("plan")) + training_key(attributes),
                        [&] { return std::make_shared<XlaTraining>(attributes); });
}

XlaPyramid::XlaPyramid(const XlaAttributes& attributes) {
  NumberReader reader(attributes.integers("pyramid"), "pyramid");
  require_format(reader);
  const std::int64_t kind = reader.next();
  is_of_network_ = kind != kOfLevels;
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.ndim = ndim_ = reader.next_ndim();
  options.batch_size = reader.next();
  options.has_bounds = reader.next32();
  for (std::int32_t& bound : options.least) bound = reader.next32();
  for (std::int32_t& bound : options.greatest) bound = reader.next32();
  options.keep_coordinates = static_cast<std::uint32_t>(reader.next());
  options.level_count =
      static_cast<std::int32_t>(within(reader.next(), is_of_network_ ? kMostMaps : kMostLevels, "levels"));
  std::vector<minuet_pyramid_level> levels;
  for (std::int32_t i = 0; i < options.level_count; ++i) {
    capacities_.push_back(reader.next());
    if (is_of_network_) continue;
    minuet_pyramid_level level = {};
    level.capacity = capacities_.back();
    level.parent = reader.next32();
    level.is_reached = reader.next32();
    reader.next_axes(level.stride);
    reader.next_axes(level.kernel_size);
    reader.next_axes(level.dilation);
    reader.next_axes(level.padding);
    reader.next_axes(level.shape);
    levels.push_back(level);
  }
  options.map_count = static_cast<std::int32_t>(within(reader.next(), kMostMaps, "maps"));
  std::vector<minuet_pyramid_map> maps;
  std::vector<std::vector<std::int32_t>> offsets;
  for (std::int32_t i = 0; i < options.map_count; ++i) {
    minuet_pyramid_map map = {};
    map.fine = reader.next32();
    map.coarse = reader.next32();
    map.purposes = static_cast<std::uint32_t>(reader.next());
    map.dense_offsets = reader.next32();
    map.kernel_shape = reader.next32();
    reader.next_axes(map.kernel_size);
    reader.next_axes(map.dilation);
    reader.next_axes(map.padding);
    offsets.push_back(read_offsets(reader, options.ndim, map.offset_count));
    maps.push_back(map);
  }
  reader.finish();
  for (std::size_t i = 0; i < maps.size(); ++i) {
    maps[i].offsets = offsets[i].empty() ? nullptr : offsets[i].data();
  }
  options.levels = levels.empty() ? nullptr : levels.data();
  options.maps = maps.empty() ? nullptr : maps.data();
  if (is_of_network_) options.level_capacity = capacities_.data();
  if (kind == kOfTraining) {
    training_ = shared_training(attributes);
    pyramid_ = std::make_unique<minuet::Pyramid>(training_->training().create_pyramid(options));
    return;
  }
  if (is_of_network_) {
    network_ = shared_plan(attributes.bytes("plan"));
    options.network = network_->plan().get();
  }
  pyramid_ = std::make_unique<minuet::Pyramid>(shared_context(), options);
}

std::int64_t XlaPyramid::capacity(std::int32_t level) const {
  if (is_of_network_) {
    refuse(
        "the pyramid is of a network, whose equal levels the library merges, so that the size of a level is "
        "unknown: describe the levels whose coordinates are read in the attribute pyramid");
  }
  if (level < 0 || level >= levels()) {
    refuse("level is " + std::to_string(level) + ", and the pyramid has " + std::to_string(levels()) +
           ", numbered from 0");
  }
  return capacities_[static_cast<std::size_t>(level)];
}

std::shared_ptr<XlaPyramid> shared_pyramid(const XlaAttributes& attributes) {
  static auto* const pyramids = new SharedObjects<XlaPyramid>();
  const std::span<const std::int64_t> numbers = attributes.integers("pyramid");
  std::string key(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  if (numbers.size() > 1 && numbers[1] != kOfLevels) key += attributes.bytes("plan");
  if (numbers.size() > 1 && numbers[1] == kOfTraining) key += training_key(attributes);
  return pyramids->get(key, [&] { return std::make_shared<XlaPyramid>(attributes); });
}

DescribedConvolution::DescribedConvolution(std::span<const std::int64_t> numbers) {
  NumberReader reader(numbers, "convolution");
  require_format(reader);
  options.without_values = 1;
  options.ndim = reader.next_ndim();
  options.dtype = reader.next32();
  options.in_channels = static_cast<std::int32_t>(within(reader.next(), kMostChannels, "input channels"));
  options.out_channels = static_cast<std::int32_t>(within(reader.next(), kMostChannels, "output channels"));
  options.groups = reader.next32();
  options.submanifold = reader.next32();
  options.transposed = reader.next32();
  options.dense_offsets = reader.next32();
  options.kernel_shape = reader.next32();
  reader.next_axes(options.kernel_size);
  reader.next_axes(options.stride);
  reader.next_axes(options.dilation);
  reader.next_axes(options.padding);
  volume = within(reader.next(), kMostOffsets, "offsets");
  offsets = read_offsets(reader, options.ndim, options.offset_count);
  reader.finish();
  options.offsets = offsets.empty() ? nullptr : offsets.data();
  options.weight_count =
      volume * options.in_channels / (options.groups > 0 ? options.groups : 1) * options.out_channels;
}

}  // namespace minuet_xla
