// The detection networks in fp64 by plain loops, written out from their authors' modules in the authors' own
// terms: the axes are in their order, an output of a strided layer is wherever spconv makes one, and
// parameters have their names and spconv 2.x's layout. Nothing is shared with the library, neither its
// descriptions nor its weights maps, and nothing is rounded between layers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/safetensors_writer.h"

namespace minuet::oracle {

using Triple = std::array<int32_t, 3>;

/// Parameters of a checkpoint by their authors' names. Those that are asked for and not there are drawn, so
/// that after one evaluation `all` is just what the network needs.
class Checkpoint {
 public:
  explicit Checkpoint(uint64_t seed) : seed_(seed) {}
  /// [out, kernel in the authors' order of axes, in], multiples of a power of two with 7 bits, exact in every
  /// dtype. `neighbours` is how many inputs an output usually has, for the variance.
  const std::vector<float>& weight(const std::string& name, int64_t out, const Triple& kernel, int64_t in,
                                   double neighbours);
  /// [channels], mean +- spread.
  const std::vector<float>& vector(const std::string& name, int64_t channels, double mean, double spread);
  const std::map<std::string, FileTensor>& all() const { return tensors_; }
  /// Leaves the first axis of a weight's kernel out, as the layers of a network with two axes store it.
  void flatten(const std::string& name);
  /// The same in the layout of spconv 1.x, [kernel, in, out].
  std::map<std::string, FileTensor> in_spconv1() const;

 private:
  uint64_t seed_;
  std::map<std::string, FileTensor> tensors_;
};

struct DetectionLevel {
  Triple shape{}, tensor_stride{1, 1, 1};  // in the order x, y, z
  std::vector<int32_t> coordinates;  // [rows, 4] of batch, x, y, z in cells of the input; as given where no
                                     // layer is coarser, else ascending
  int64_t channels = 0;
  std::vector<double> features;  // [rows, channels]
};

struct DetectionOutput {
  std::map<std::string, DetectionLevel> levels;  // by the names in the shipped descriptions
  std::array<int64_t, 4> bev_shape{};
  std::vector<double> bev;
  double largest = 0;  // |value| that any layer writes
};

struct DetectionInput {
  Triple shape{};  // cells along x, y and z
  int64_t batch_size = 1;
  std::vector<int32_t> coordinates;  // [n, 4] of batch, x, y, z, unique
  int64_t channels = 4;
  std::vector<float> features;  // [n, channels]
};

/// VoxelBackBone8x of OpenPCDet and its HeightCompression; widths of conv1 to conv4 and conv_out.
DetectionOutput voxel_backbone_8x(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                  const DetectionInput& input);
/// VoxelResBackBone8x of OpenPCDet, or SpMiddleResNetFHD of CenterPoint, which differ in the parameters'
/// names.
DetectionOutput voxel_res_backbone_8x(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                      const DetectionInput& input, bool is_centerpoint = false);
/// SparseEncoder of mmdet3d with BEVFusion's configuration.
DetectionOutput bevfusion_encoder(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                  const DetectionInput& input);

/// VoxelResBackBone8xVoxelNeXt of OpenPCDet; widths of conv1 to conv4, of conv5 and conv6, and of conv_out.
/// It has no bird's-eye tensor: "encoded" is the last level, whose z is 0.
DetectionOutput voxelnext(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                          const DetectionInput& input);

/// Unique voxels inside the shape, `count` in each batch item but `empty_item`, in random order: walls and a
/// floor, with some at every border.
std::vector<int32_t> draw_voxels(const Triple& shape, int64_t batch_size, int64_t empty_item, int64_t count,
                                 uint64_t seed);

}  // namespace minuet::oracle
