// The custom calls that build a pyramid, and that read coordinates and pairs from one.
#include "runtime/bindings/xla/described.h"
#include "runtime/bindings/xla/operation.h"

namespace minuet_xla {
namespace {

class BuildOperation final : public XlaOperation {
 public:
  explicit BuildOperation(const XlaAttributes& attributes) : pyramid_(shared_pyramid(attributes)) {}
  void load(const XlaPlace& place) override { pyramid_->load(place); }
  void run(const XlaPlace& place, const XlaCall& call) override {
    call.require(2, 3, true);
    const XlaWorkspace workspace(call, [&] { return pyramid_->pyramid().bytes(place.arch).workspace; });
    const XlaArray coordinates = call.operand(0), buffer = call.result(0);
    minuet_pyramid_arguments arguments = MINUET_PYRAMID_ARGUMENTS_INIT;
    arguments.buffer = buffer.of<void>(XLA_FFI_DataType_U8, 1);
    arguments.buffer_bytes = buffer.elements();
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = workspace.bytes();
    arguments.coordinates = coordinates.of<std::int32_t>(XLA_FFI_DataType_S32, 2);
    arguments.most = coordinates.shape()[0];
    if (coordinates.shape()[1] != 1 + pyramid_->ndim()) {
      refuse("coordinates have " + std::to_string(coordinates.shape()[1]) + " columns, and " +
             std::to_string(1 + pyramid_->ndim()) + " are needed: the batch index, then one for each axis");
    }
    // The number may be repeated, for callers that want a large array (minuet.jax, staged()).
    const XlaArray count = call.operand(1);
    arguments.count = count.of<std::int32_t>(XLA_FFI_DataType_S32, 1);
    if (count.elements() < 1) refuse("operand 1, the number of coordinates, is empty");
    arguments.counts = call.result(1).of<std::int32_t>(XLA_FFI_DataType_S32, -1, 1 + pyramid_->levels());
    arguments.status = call.result(2).of<std::uint32_t>(XLA_FFI_DataType_U32, -1, 1);
    pyramid_->pyramid().build(place.device, arguments, call.stream());
  }

 private:
  std::shared_ptr<XlaPyramid> pyramid_;
};

class CoordinatesOperation final : public XlaOperation {
 public:
  explicit CoordinatesOperation(const XlaAttributes& attributes)
      : pyramid_(shared_pyramid(attributes)),
        level_(attributes.integer32("level")),
        elements_(pyramid_->capacity(level_) * (1 + pyramid_->ndim())) {}
  void load(const XlaPlace& place) override { pyramid_->load(place); }
  void run(const XlaPlace& place, const XlaCall& call) override {
    call.require(1, 1, false);
    const XlaArray buffer = call.operand(0);
    pyramid_->pyramid().coordinates(
        place.device, buffer.of<void>(XLA_FFI_DataType_U8, 1), buffer.elements(), level_,
        call.result(0).of<std::int32_t>(XLA_FFI_DataType_S32, 2, elements_), call.stream());
  }

 private:
  std::shared_ptr<XlaPyramid> pyramid_;
  std::int32_t level_;
  std::int64_t elements_;  // which the library writes
};

class PairsOperation final : public XlaOperation {
 public:
  explicit PairsOperation(const XlaAttributes& attributes)
      : pyramid_(shared_pyramid(attributes)), map_(attributes.integer32("map")) {}
  void load(const XlaPlace& place) override { pyramid_->load(place); }
  void run(const XlaPlace& place, const XlaCall& call) override {
    call.require(1, 2, false);
    const XlaArray buffer = call.operand(0), pairs = call.result(0);
    auto* const data = pairs.of<std::int32_t>(XLA_FFI_DataType_S32, 2);
    if (pairs.shape()[1] != 3) refuse("pairs have 3 columns: the offset, the finer row and the coarser row");
    pyramid_->pyramid().export_pairs(
        place.device, buffer.of<void>(XLA_FFI_DataType_U8, 1), buffer.elements(), map_, data,
        pairs.shape()[0], call.result(1).of<std::int32_t>(XLA_FFI_DataType_S32, -1, 1), call.stream());
  }

 private:
  std::shared_ptr<XlaPyramid> pyramid_;
  std::int32_t map_;
};

}  // namespace

std::unique_ptr<XlaOperation> make_pyramid(const XlaAttributes& attributes) {
  return std::make_unique<BuildOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_coordinates(const XlaAttributes& attributes) {
  return std::make_unique<CoordinatesOperation>(attributes);
}
std::unique_ptr<XlaOperation> make_pairs(const XlaAttributes& attributes) {
  return std::make_unique<PairsOperation>(attributes);
}

}  // namespace minuet_xla
