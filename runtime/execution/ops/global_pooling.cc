#include "runtime/execution/ops/global_pooling.h"

#include <algorithm>

#include "codegen/choose/ops/global_pooling.h"
#include "runtime/engine/ops/global_pooling.h"

namespace minuet {
namespace {

class GlobalPoolWork final : public OpWork {
 public:
  explicit GlobalPoolWork(const OpWorkContext& context)
      : program_(context.program), batch_size_(context.batch_size), lists_(context.program.levels.size()) {}

  void begin(i64) override {
    for (List& list : lists_) list = {};
    most_channels_ = 0;
  }
  llvm::Error add(const OpUse& use) override {
    List& list = list_of(use.layer, use.input_rows);
    list.coordinates = use.coordinates;
    return llvm::Error::success();
  }
  void bound(i32 layer, i64 rows, double) override { list_of(layer, rows); }

  void place_tables(Placement& parts, i32*) override {
    for (List& list : lists_) {
      if (list.maker < 0 || batch_size_ <= 1) continue;
      list.item_rows = parts.take<i32>(list.rows);
      list.places = parts.take<u32>(i64{batch_size_} * item_splits(batch_size_, list.rows));
    }
  }

  /// The layers run one after the other, so they share the memory of the partial results.
  void place_buffers(Placement& parts) override {
    partials_ = parts.take<float>(2 * kMostPieces * most_channels_);
  }

  llvm::Error with_request(const Candidate&, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override {
    const List& list = lists_[program_.layers[layer].coordinates_level];
    GlobalPoolRequest request{common};
    request.coordinates = list.coordinates;
    request.batch_size = batch_size_;
    request.item_rows = list.item_rows;
    request.places = list.places;
    request.makes_list = list.maker == layer;
    request.partials = partials_;
    return enqueue(request);
  }

 private:
  /// Describes the list of the rows of one level by batch item, which all layers that read the level share.
  struct List {
    i32 maker = -1;  // Holds the first layer that reads the level, or -1.
    i64 rows = 0;
    const i32* coordinates = nullptr;
    i32* item_rows = nullptr;
    u32* places = nullptr;
  };

  /// Returns the list of the level that a layer reads, after adding the layer to it.
  List& list_of(i32 layer, i64 rows) {
    List& list = lists_[program_.layers[layer].coordinates_level];
    if (list.maker < 0) list.maker = layer;
    list.rows = std::max(list.rows, rows);
    const i64 channels = program_.layers[layer].problem.get<GlobalPoolingProblem>().channels;
    most_channels_ = std::max(most_channels_, channels);
    return list;
  }

  const Program& program_;
  const i32 batch_size_;
  std::vector<List> lists_;  // Has an element for each level.
  i64 most_channels_ = 0;    // Is the largest number of channels that a layer pools.
  float* partials_ = nullptr;
};

}  // namespace

std::unique_ptr<OpWork> make_global_pool_work(const OpWorkContext& context) {
  return std::make_unique<GlobalPoolWork>(context);
}

}  // namespace minuet
