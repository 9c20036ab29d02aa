// Parameters that a caller sets: converted from any array, folded, and in the images that kernels read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <set>
#include <string>

#include "runtime/weights/given_weight.h"
#include "runtime/weights/rounding.h"
#include "runtime/weights/weight_image.h"
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include "kernels_templates/parameters/copy_parameters.h"
#include "kernels_templates/parameters/fold_batch_norms.h"
#include "kernels_templates/parameters/make_weight_images.h"

namespace minuet {
namespace {

constexpr DType kDTypesOfParameters[] = {DType::F32, DType::TF32, DType::F16, DType::BF16};

template <class Params, class ItemsOf>
void number_items(Params& params, const ItemsOf& items_of) {
  for (i32 j = 0; j < params.count; ++j) params.starts[j + 1] = params.starts[j] + items_of(params.jobs[j]);
}

struct Source {
  ArrayElement element;
  std::vector<i64> strides;
  std::vector<char> bytes;
  std::vector<float> values;  // as fp32, by the place in elements
};

i64 bytes_of(ArrayElement element) {
  return element == ArrayElement::F64 ? 8 : element == ArrayElement::F32 ? 4 : 2;
}

Source make_source(ArrayElement element, std::vector<i64> strides, i64 reach, Random& random) {
  Source source{element,
                std::move(strides),
                std::vector<char>(static_cast<std::size_t>(reach * bytes_of(element))),
                {}};
  for (i64 i = 0; i < reach; ++i) {
    const auto value = static_cast<float>(random.normal() * (i % 7 == 0 ? 1e6 : 1));
    char* const place = source.bytes.data() + i * bytes_of(element);
    if (element == ArrayElement::F64) {
      const double wide = static_cast<double>(value) * (1 + 1e-12);
      std::memcpy(place, &wide, 8);
      source.values.push_back(static_cast<float>(wide));
    } else if (element == ArrayElement::F32) {
      std::memcpy(place, &value, 4);
      source.values.push_back(value);
    } else {
      const bool half = element == ArrayElement::F16;
      const u16 bits = half ? Element<DType::F16>::store(value) : Element<DType::BF16>::store(value);
      std::memcpy(place, &bits, 2);
      source.values.push_back(half ? Element<DType::F16>::load(bits) : Element<DType::BF16>::load(bits));
    }
  }
  return source;
}

/// Plain arithmetic, in place of the kernel's conversions.
float rounded(DType dtype, float value) {
  switch (dtype) {
    case DType::F16:
      return Element<DType::F16>::load(Element<DType::F16>::store(value));
    case DType::BF16:
      return Element<DType::BF16>::load(Element<DType::BF16>::store(value));
    case DType::TF32:
      return Element<DType::TF32>::operand(value);
    case DType::F32:
    case DType::U8:
    case DType::S8:
      break;
  }
  return value;
}

/// Copies jobs of many shapes in one launch, with and without a master copy, to their own storage and to
/// fp32.
void expect_copied(DType dtype, bool widened, int variant) {
  constexpr CopyParametersSpec kSpec{.threads = 64};
  Random random(800 + static_cast<u64>(variant));
  struct Shape {
    std::vector<i32> shape;
    std::vector<i64> strides;
  };
  const std::vector<Shape> shapes = {{{1}, {1}},
                                     {{7}, {1}},
                                     {{8}, {1}},
                                     {{4096}, {1}},
                                     {{4001}, {3}},
                                     {{27, 16, 24}, {16 * 24, 24, 1}},
                                     {{27, 16, 24}, {1, 27 * 24, 27}},
                                     {{3, 3, 3, 5, 7}, {35, 105, 315, 7, 1}},
                                     {{2, 3, 2, 2, 3, 8}, {1000, 300, 100, 40, 9, 1}},
                                     {{6, 40}, {0, 1}},
                                     {{6, 40}, {41, 1}}};
  std::vector<Source> sources;
  std::vector<std::vector<char>> targets;
  std::vector<std::vector<float>> masters;
  CopyParametersParams params = {};
  const DType storage = widened ? DType::F32 : storage_type(dtype);
  const ArrayElement elements[] = {ArrayElement::F32, ArrayElement::F16, ArrayElement::BF16,
                                   ArrayElement::F64};
  sources.reserve(shapes.size()), targets.reserve(shapes.size()), masters.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& [shape, strides] = shapes[i];
    i64 reach = 1;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) reach += (shape[axis] - 1) * strides[axis];
    sources.push_back(
        make_source(elements[(i + static_cast<std::size_t>(variant)) % 4], strides, reach, random));
    ParameterCopy& job = params.jobs[params.count++];
    job.source = sources.back().bytes.data();
    job.element = sources.back().element;
    job.rank = static_cast<i32>(shape.size());
    std::copy(shape.begin(), shape.end(), job.shape);
    std::copy(strides.begin(), strides.end(), job.strides);
    job.elements = 1;
    for (const i32 size : shape) job.elements *= size;
    const i64 count = job.elements;
    targets.emplace_back(static_cast<std::size_t>((count + 1) * dtype_bytes(storage)),
                         static_cast<char>(kPoison));
    masters.emplace_back(static_cast<std::size_t>(count) + 1, -77.0F);
    job.target = targets.back().data();
    job.master = i % 2 == 0 ? masters.back().data() : nullptr;
    job.dtype = dtype;
    job.storage = storage;
  }
  number_items(params, copy_pieces);
  shim::launch(&copy_parameters<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ParameterCopy& job = params.jobs[i];
    const i64 count = job.elements;
    for (i64 e = 0; e < count; ++e) {
      i64 place = 0, rest = e;
      for (i32 axis = job.rank - 1; axis >= 0; --axis) {
        place += rest % job.shape[axis] * job.strides[axis];
        rest /= job.shape[axis];
      }
      const float value = sources[i].values[static_cast<std::size_t>(place)];
      float stored = 0;
      if (dtype_bytes(storage) == 4) {
        std::memcpy(&stored, targets[i].data() + e * 4, 4);
      } else {
        u16 bits = 0;
        std::memcpy(&bits, targets[i].data() + e * 2, 2);
        stored = storage == DType::F16 ? Element<DType::F16>::load(bits) : Element<DType::BF16>::load(bits);
      }
      ASSERT_EQ(bits_of(stored), bits_of(rounded(dtype, value))) << "job " << i << ", element " << e;
      ASSERT_EQ(masters[i][static_cast<std::size_t>(e)], job.master ? value : -77.0F);
    }
    EXPECT_EQ(static_cast<unsigned char>(targets[i].back()), kPoison);
    EXPECT_EQ(masters[i].back(), -77.0F);
  }
}

TEST(ParameterJobs, FindTheJobOfEveryItem) {
  FoldBatchNormsParams params = {};
  params.count = kMostParameterJobs;
  for (i32 j = 0; j < params.count; ++j) params.jobs[j].channels = j % 3 == 0 ? 1 + j % 5 : 1;
  number_items(params, [](const BatchNormFold& job) { return job.channels; });
  for (i32 from = 0; from < params.count; from += 17) {
    i32 expected = from;
    for (i64 item = params.starts[from]; item < params.starts[params.count]; ++item) {
      while (item >= params.starts[expected + 1]) ++expected;
      ASSERT_EQ(job_of_item(params, item, from), expected);
    }
  }
}

TEST(CopyParameters, ConvertsEveryKindOfArray) {
  int variant = 0;
  for (const DType dtype : kDTypesOfParameters) {
    for (const bool widened : {false, true}) {
      for (int i = 0; i < 4; ++i) expect_copied(dtype, widened, variant++);
    }
  }
}

TEST(FoldBatchNorms, AsInFloat64) {
  constexpr FoldBatchNormsSpec kSpec{.threads = 64};
  Random random(900);
  std::vector<std::vector<float>> memory;
  memory.reserve(200);
  const auto vector = [&](i64 channels, double mean, double deviation) {
    std::vector<float>& values = memory.emplace_back();
    for (i64 c = 0; c < channels; ++c)
      values.push_back(static_cast<float>(mean + deviation * random.normal()));
    return values.data();
  };
  for (int variant = 0; variant < 4; ++variant) {
    FoldBatchNormsParams params = {};
    for (const i64 channels : {1, 3, 64, 300}) {
      for (int lacks = 0; lacks < 8; ++lacks) {
        BatchNormFold& job = params.jobs[params.count++];
        if ((lacks & 1) == 0) job.weight = vector(channels, 1, 0.3), job.bias = vector(channels, 0, 1);
        if ((lacks & 2) == 0) job.convolution_bias = vector(channels, 0, 1);
        if ((lacks & 4) == 0) job.mean = vector(channels, 0, 1), job.variance = vector(channels, 4, 0.5);
        if ((lacks & 4) != 0) job.weight = job.bias = nullptr;
        job.scale = vector(channels + 1, 0, 0), job.shift = vector(channels + 1, 0, 0);
        job.scale[channels] = job.shift[channels] = -77;
        job.epsilon = 1e-3;
        job.channels = channels;
      }
    }
    number_items(params, [](const BatchNormFold& job) { return job.channels; });
    shim::launch(&fold_batch_norms<kSpec>, params, shim::small_grid(variant, kSpec.threads));
    for (i32 j = 0; j < params.count; ++j) {
      const BatchNormFold& job = params.jobs[j];
      for (i64 c = 0; c < job.channels; ++c) {
        double scale = 1, shift = job.convolution_bias ? job.convolution_bias[c] : 0;
        if (job.variance) {
          scale = (job.weight ? job.weight[c] : 1) / std::sqrt(static_cast<double>(job.variance[c]) + 1e-3);
          shift = (shift - job.mean[c]) * scale + (job.bias ? job.bias[c] : 0);
        }
        ASSERT_FLOAT_EQ(job.scale[c], static_cast<float>(scale));
        ASSERT_NEAR(job.shift[c], shift, 1e-6 * (1 + std::abs(shift)));
      }
      EXPECT_EQ(job.scale[job.channels], -77);
      EXPECT_EQ(job.shift[job.channels], -77);
    }
  }
}

/// Calls visit() with layouts of images of many channels, steps and columns, with and without groups.
template <class Visit>
void for_each_layout(DType dtype, const Visit& visit) {
  const i32 granule = fused_granule(dtype);
  const auto add = [&](i32 in, i32 out, i32 volume, i32 granules, i32 columns, MmaUnit unit, i32 groups = 1,
                       i32 launches = 1) {
    visit(FusedImage{dtype, in, out, volume, granules * granule, columns, unit, groups, launches});
  };
  for (const auto& [in, out] : {std::pair{4, 32}, {3, 7}, {64, 64}, {96, 20}, {33, 130}, {44, 112}}) {
    for (const i32 volume : {1, 8, 27}) {
      if (volume == 27 && in * out > 2000) continue;  // Small images show the same in less time.
      add(in, out, volume, 1, 16, MmaUnit::Warp);
      add(in, out, volume, 3, 112, MmaUnit::Warp);
      add(in, out, volume, 4, 64, MmaUnit::Warp);
      if (dtype == DType::F32) continue;
      add(in, out, volume, 2, 64, MmaUnit::Warpgroup);
      add(in, out, volume, 6, 48, MmaUnit::Warpgroup);
    }
  }
  for (const auto& [groups, launches] : {std::pair{4, 1}, {1, 3}, {2, 5}}) {
    add(8, 24, 8, 2, 16, MmaUnit::Warp, groups, launches);
    add(32, 40, 3, 2, 32, MmaUnit::Warp, groups, launches);
  }
}

/// Returns the image that the host writes. It is the reference; the fused kernels are tested with such
/// images. `values` is the weight in the order [volume][in_channels / groups][launches * out_channels].
std::vector<char> image_on_host(const FusedImage& layout, const std::vector<float>& values) {
  const WeightImage image{layout.io, static_cast<i64>(values.size()), layout};
  std::vector<char> bytes(static_cast<std::size_t>(image.bytes()));
  image.write(values, bytes.data());
  return bytes;
}

/// Collects jobs of one launch, with the images that they should write.
template <i32 ElementBytes>
class ImageJobs {
 public:
  /// Takes a job without its image.
  void add(WeightImageJob job, std::vector<char> expected) {
    ASSERT_LT(params_.count, kMostImageJobs);
    expected_.push_back(std::move(expected));
    // The vector behind an image must stay as it is.
    images_.push_back(poisoned<Vector<16>>(expected_.back().size() / 16 + 1));
    job.image = images_.back().data();
    params_.jobs[params_.count++] = job;
  }
  void expect_written(int variant) {
    constexpr MakeWeightImagesSpec kSpec{.element_bytes = ElementBytes, .threads = 64};
    number_items(params_, image_items);
    shim::launch(&make_weight_images<kSpec>, params_, shim::small_grid(variant, kSpec.threads));
    for (i32 j = 0; j < params_.count; ++j) {
      const char* const image = static_cast<const char*>(params_.jobs[j].image);
      const std::vector<char>& expected = expected_[static_cast<std::size_t>(j)];
      EXPECT_EQ(std::memcmp(image, expected.data(), expected.size()), 0) << "image " << j;
      EXPECT_EQ(static_cast<unsigned char>(image[expected.size()]), kPoison);
    }
  }

 private:
  MakeWeightImagesParams params_ = {};
  std::deque<std::vector<char>> expected_;
  std::deque<std::vector<Vector<16>>> images_;
};

template <i32 ElementBytes>
void expect_images_of_stored(DType dtype, int variant) {
  Random random(950 + static_cast<u64>(variant));
  ImageJobs<ElementBytes> jobs;
  std::deque<std::vector<char>> weights;
  std::set<ImageRead> reads;
  for_each_layout(dtype, [&](const FusedImage& layout) {
    std::vector<float> values(static_cast<std::size_t>(i64{layout.volume} * fused_group_inputs(layout) *
                                                       layout.out_channels * layout.launches));
    for (float& value : values) value = rounded(dtype, static_cast<float>(random.uniform(-2, 2)));
    std::vector<char>& stored = weights.emplace_back(values.size() * ElementBytes);
    store_values(dtype, values.data(), values.size(), stored.data());
    const WeightImageJob job = stored_image_job(layout, stored.data(), nullptr);
    reads.insert(job.shares.read);
    jobs.add(job, image_on_host(layout, values));
  });
  EXPECT_EQ(reads, (std::set{ImageRead::Elements, ImageRead::Outputs}));
  jobs.expect_written(variant);
}

TEST(MakeWeightImages, AsTheHostWritesThem) {
  for (int variant = 0; variant < 4; ++variant) {
    expect_images_of_stored<2>(variant % 2 == 0 ? DType::F16 : DType::BF16, variant);
    expect_images_of_stored<4>(variant % 2 == 0 ? DType::F32 : DType::TF32, variant);
  }
}

/// Returns where a kernel of size 3 or 2 on each axis, or of one offset, is in an array whose axes are in the
/// order `slowest_first`, which is a permutation of "zyxio". The rows of the last axis are `gap` elements
/// apart.
GivenWeight given_in(const std::string& slowest_first, const FusedImage& layout, i64 gap) {
  const i64 size = layout.volume == 27 ? 3 : layout.volume == 8 ? 2 : 1;
  GivenWeight given{{size, size, size, layout.in_channels, layout.out_channels}, {0, 0, 0, 0, 0}};
  i64 stride = 1;
  for (std::size_t i = slowest_first.size(); i-- > 0;) {
    const std::size_t axis = std::string("zyxio").find(slowest_first[i]);
    given.strides[axis] = stride;
    stride = stride * given.shape[axis] + (i + 1 == slowest_first.size() ? gap : 0);
  }
  return given;
}

/// A layout with a weight in the order [volume][in_channels][out_channels], and its image.
struct GivenLayout {
  FusedImage layout;
  std::vector<float> values;
  std::vector<char> image;
};
/// Returns those that a caller's array can have. All orders of arrays share them, because the host takes long
/// to write images.
std::vector<GivenLayout> given_layouts(DType dtype) {
  Random random(970 + static_cast<u64>(dtype));
  std::vector<GivenLayout> layouts;
  for_each_layout(dtype, [&](const FusedImage& layout) {
    if (layout.groups > 1 || layout.launches > 1) return;
    std::vector<float> values(
        static_cast<std::size_t>(i64{layout.volume} * layout.in_channels * layout.out_channels));
    std::vector<float> stored;
    for (float& value : values) {
      value = static_cast<float>(random.uniform(-2, 2));
      stored.push_back(rounded(dtype, value));
    }
    layouts.push_back({layout, std::move(values), image_on_host(layout, stored)});
  });
  return layouts;
}

template <i32 ElementBytes>
void expect_images_of_given(const std::vector<GivenLayout>& layouts, const std::string& order, i64 gap,
                            std::size_t skipped, int variant, std::set<ImageRead>& reads) {
  ImageJobs<ElementBytes> jobs;
  std::deque<std::vector<Vector<16>>> arrays;
  for (const auto& [layout, values, image] : layouts) {
    const GivenWeight given = given_in(order, layout, gap);
    i64 last = 0;
    for (std::size_t axis = 0; axis < 5; ++axis) last += (given.shape[axis] - 1) * given.strides[axis];
    // The array begins at a multiple of 16 bytes, apart from `skipped` elements. What is between the rows is
    // NaN.
    arrays.push_back(poisoned<Vector<16>>((static_cast<std::size_t>(last) + skipped) / 4 + 1));
    char* const array = reinterpret_cast<char*>(arrays.back().data()) + skipped * sizeof(float);
    // The loops have pointers, because an access to a vector takes long without optimization.
    const float* value = values.data();
    for (i64 z = 0; z < given.shape[0]; ++z) {
      for (i64 y = 0; y < given.shape[1]; ++y) {
        for (i64 x = 0; x < given.shape[2]; ++x) {
          for (i64 i = 0; i < given.shape[3]; ++i) {
            float* const row = reinterpret_cast<float*>(array) + z * given.strides[0] + y * given.strides[1] +
                               x * given.strides[2] + i * given.strides[3];
            for (i64 o = 0; o < given.shape[4]; ++o) row[o * given.strides[4]] = *value++;
          }
        }
      }
    }
    const WeightImageJob job = image_from(given, 3, array, layout, nullptr);
    reads.insert(job.shares.read);
    jobs.add(job, image);
  }
  jobs.expect_written(variant);
}

/// Images are made from arrays of fp32 numbers in the orders of several engines, of their transposed weights,
/// and of views.
TEST(MakeWeightImages, FromTheArraysOfACaller) {
  using Reads = std::set<ImageRead>;
  const Reads single{ImageRead::Elements}, outputs{ImageRead::Elements, ImageRead::Outputs},
      inputs{ImageRead::Elements, ImageRead::Inputs};
  struct Case {
    std::string order;
    i64 gap;
    std::size_t skipped;
    Reads reads;
  };
  const Case cases[] = {{"zyxio", 0, 0, outputs}, {"xyzio", 0, 0, outputs}, {"zyxoi", 0, 0, inputs},
                        {"ozyxi", 0, 0, inputs},  {"izyxo", 0, 0, outputs}, {"oizyx", 0, 0, inputs},
                        {"zyxio", 2, 2, outputs}, {"zyxoi", 8, 4, inputs},  {"zyxio", 1, 0, single},
                        {"zyxio", 0, 1, single},  {"zyxoi", 0, 1, single}};
  const std::vector<GivenLayout> narrow[] = {given_layouts(DType::F16), given_layouts(DType::BF16)},
                                 wide[] = {given_layouts(DType::TF32), given_layouts(DType::F32)};
  int variant = 0;
  for (const auto& [order, gap, skipped, expected] : cases) {
    SCOPED_TRACE(order + ", gap " + std::to_string(gap) + ", skipped " + std::to_string(skipped));
    Reads reads;
    expect_images_of_given<2>(narrow[variant % 2], order, gap, skipped, variant, reads);
    expect_images_of_given<4>(wide[variant % 2], order, gap, skipped, variant, reads);
    EXPECT_EQ(reads, expected);
    ++variant;
  }
}

/// A pair of channels has the columns that fused_column() gives to these channels.
TEST(MakeWeightImages, PairsHaveTheirColumns) {
  for (const DType dtype : {DType::F16, DType::F32, DType::S8}) {
    for (const MmaUnit unit : {MmaUnit::Warp, MmaUnit::Warpgroup}) {
      for (i32 columns = 16; columns <= 256; columns += 16) {
        const FusedImage layout{dtype, 64, columns, 27, 32, columns, unit};
        for (i32 i = 0; i < columns / 2; ++i) {
          const FusedPair pair = dtype == DType::F16   ? fused_pair<2>(layout, i)
                                 : dtype == DType::F32 ? fused_pair<4>(layout, i)
                                                       : fused_pair<1>(layout, i);
          const bool of_warp = unit == MmaUnit::Warp;
          const i32 first = of_warp ? pair.part : 2 * pair.part, second = of_warp ? first + 8 : first + 1;
          ASSERT_EQ(fused_column(layout, pair.tile, first), 2 * i);
          ASSERT_EQ(fused_column(layout, pair.tile, second), 2 * i + 1);
        }
      }
    }
  }
}

/// In an image, each launch has the weights of its own channels, and an output has those of its own group.
TEST(MakeWeightImages, LaunchesAndGroupsHaveTheirOwnWeights) {
  constexpr i32 kIn = 8, kOut = 16, kVolume = 3, kGroups = 2, kLaunches = 3;
  FusedImage layout{DType::F16, kIn, kOut, kVolume, 32, 16, MmaUnit::Warp, kGroups, kLaunches};
  FusedImage alone = layout;
  alone.groups = alone.launches = 1;
  const i64 part = fused_image_bytes(alone) / 2;
  ASSERT_EQ(fused_image_bytes(layout), kLaunches * 2 * part);
  for (i64 i = 0; i < kLaunches * part; ++i) {
    const i64 launch = i / part, dense = fused_weight_of(alone, i % part);
    i64 expected = -1;
    if (dense >= 0) {
      const i64 out = dense % kOut, in = dense / kOut % kIn, offset = dense / kOut / kIn;
      const i64 group = out / (kOut / kGroups), of_group = kIn / kGroups;
      if (in / of_group == group) {
        expected = (offset * of_group + in % of_group) * kOut * kLaunches + launch * kOut + out;
      }
    }
    ASSERT_EQ(fused_weight_of(layout, i), expected) << i;
  }
}

/// An image holds every weight once, and zeros elsewhere.
TEST(MakeWeightImages, HoldEveryWeightOnce) {
  const FusedImage layouts[] = {{DType::F16, 33, 20, 27, 32, 32, MmaUnit::Warp},
                                {DType::F16, 64, 64, 8, 64, 64, MmaUnit::Warpgroup},
                                {DType::F32, 3, 7, 27, 8, 16, MmaUnit::Warp},
                                {DType::F16, 32, 48, 8, 32, 32, MmaUnit::Warp, 1, 3},
                                {DType::F16, 32, 48, 8, 32, 32, MmaUnit::Warp, 4, 2},
                                {DType::F16, 64, 64, 8, 64, 64, MmaUnit::Warpgroup, 2, 2},
                                {DType::F32, 4, 8, 27, 8, 16, MmaUnit::Warp, 4, 1}};
  for (const FusedImage& layout : layouts) {
    const i64 inputs = layout.in_channels / layout.groups;
    const i64 numbers = layout.volume * inputs * layout.out_channels * layout.launches;
    std::vector<int> seen(static_cast<std::size_t>(numbers));
    const i64 elements = fused_image_bytes(layout) / dtype_bytes(layout.io);
    for (i64 i = 0; i < elements; ++i) {
      const i64 source = fused_weight_of(layout, i);
      ASSERT_LT(source, numbers);
      if (source >= 0) ++seen[static_cast<std::size_t>(source)];
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), numbers);
  }
}

}  // namespace
}  // namespace minuet
