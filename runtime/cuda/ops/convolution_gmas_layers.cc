// Sets up GmasStep: adds its layers, lays out their memory, and decides how their GEMMs read the weights.
#include <algorithm>

#include "runtime/cuda/matmul_warm_up.h"
#include "runtime/cuda/ops/convolution_gmas.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i32 kPointerArrays = 3;  // There is one array each for weights, inputs and outputs.
constexpr i64 kScratchBytes = kStreams * kMatmulWorkspaceBytes;

/// Returns the number of pointers in the pointer arrays of a layer with `volume` kernel offsets.
constexpr i64 pointers_of(i64 volume) { return kPointerArrays * volume; }
constexpr i64 pointer_bytes(i64 pointers) { return pointers * static_cast<i64>(sizeof(void*)); }

/// Returns the size in bytes of the weights of one kernel offset.
i64 slice_bytes_of(const MatmulShape& shape) {
  return i64{shape.in_channels} * shape.out_channels * dtype_bytes(shape.io);
}

/// Returns true if batches of GEMMs read the weights of a layer with `volume` kernel offsets through pointers
/// or from a copy. Otherwise the layer reads its weights in place.
constexpr bool reads_in_batches(i64 volume) { return volume > 1; }

}  // namespace

llvm::Expected<i32> GmasStep::add(const OpChoice& chosen) {
  const GmasChoice& choice = chosen.get<GmasChoice>();
  if (!matmuls_) {
    MINUET_ASSIGN(matmuls_, launcher_.device().matmuls());
    MINUET_ASSIGN(make_tables_, launcher_.device().kernel(MakeTablesSpec{}));
  }
  CudaDevice& device = launcher_.device();
  Layer layer;
  layer.problem = choice.problem;
  layer.shape = shape_of(choice);
  layer.gather_spec = choice.gather;
  layer.scatter_spec = choice.scatter;
  MINUET_ASSIGN(layer.gather, device.kernel(choice.gather));
  MINUET_ASSIGN(layer.scatter, device.kernel(choice.scatter));
  MINUET_ASSIGN(layer.permute_weights, device.kernel(choice.permute_weights));
  layer.permute_vector_bytes = choice.permute_weights.vector_bytes;
  layer.volume = static_cast<i32>(kernel_volume(choice.problem));
  layer.slice_bytes = slice_bytes_of(layer.shape);
  layer.matmuls.reserve(static_cast<std::size_t>(layer.volume));
  MINUET_TRY(place_weights(layer));
  if (layer.uses_pointers) {
    layer.pointer_offset = pointer_count_;
    pointer_count_ += pointers_of(layer.volume);
  }
  layers_.push_back(std::move(layer));
  return static_cast<i32>(layers_.size()) - 1;
}

llvm::Error GmasStep::place_weights(Layer& layer) {
  if (!reads_in_batches(layer.volume)) return llvm::Error::success();
  if (options_.weights == WeightPath::Automatic) {
    MINUET_ASSIGN(layer.uses_pointers,
                  matmuls_->takes_pointers(layer.shape, launcher_.counters().gemm_lookups));
  } else {
    layer.uses_pointers = options_.weights == WeightPath::PointerArray;
  }
  return llvm::Error::success();
}

GmasStep::Layout GmasStep::layout(char* base) const {
  Layout result;
  ArenaLayout arena;
  result.pointers = arena.add(pointer_bytes(pointer_count_), base);
  for (const Layer& layer : layers_) {
    const bool permuted = !layer.uses_pointers && reads_in_batches(layer.volume);
    result.permuted.push_back(permuted ? arena.add(layer.volume * layer.slice_bytes, base) : -1);
  }
  result.total = arena.bytes();
  return result;
}

llvm::Error GmasStep::set_workspace(void* workspace) {
  char* base = static_cast<char*>(workspace);
  const Layout parts = layout(base);
  device_pointers_ = reinterpret_cast<void**>(base + parts.pointers);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].permuted = parts.permuted[i] < 0 ? nullptr : base + parts.permuted[i];
    // The GEMMs of the layer are bound to addresses in the old workspace, so prepare() must bind them again.
    layers_[i].prepared = false;
  }
  pending_ = false;
  if (pointer_count_ <= pinned_count_) return llvm::Error::success();
  MINUET_ASSIGN(void* pinned, launcher_.allocate_pinned(pointer_bytes(pointer_count_)));
  host_pointers_ = static_cast<void**>(pinned);
  pinned_count_ = pointer_count_;
  return llvm::Error::success();
}

i64 GmasStep::scratch_bytes() const { return layers_.empty() ? 0 : kScratchBytes; }

OpMemory gmas_memory_bound(llvm::ArrayRef<OpChoice> choices) {
  if (choices.empty()) return {};
  // The bound has a part of its own for the pointers of each layer, which together are not smaller than the
  // one part that GmasStep::layout() has for the pointers of all layers.
  ArenaLayout arena;
  arena.add(0);
  for (const OpChoice& chosen : choices) {
    const GmasChoice& choice = chosen.get<GmasChoice>();
    const i64 volume = kernel_volume(choice.problem);
    if (!reads_in_batches(volume)) continue;
    arena.add(std::max(pointer_bytes(pointers_of(volume)), volume * slice_bytes_of(shape_of(choice))));
  }
  return {arena.bytes(), kScratchBytes};
}

llvm::Error warm_up_gmas(CudaDevice& device, const OpChoice& chosen) {
  const GmasChoice& choice = chosen.get<GmasChoice>();
  const ConvolutionProblem& problem = choice.problem;
  MINUET_ASSIGN(Matmuls * matmuls, device.matmuls());
  const MatmulShape shape = shape_of(choice);
  const i32 volume = static_cast<i32>(kernel_volume(problem));
  BatchMode batches = BatchMode::Strided;
  if (volume > 1) {
    const ContextScope scope(device.driver(), device.context());
    i64 lookups = 0;
    MINUET_ASSIGN(const bool pointers, matmuls->takes_pointers(shape, lookups));
    if (pointers) batches = BatchMode::Pointers;
  }
  std::set<MatmulKey> keys;
  add_group_keys(shape, volume, batches, keys);
  if (problem.kind == ConvolutionKind::Submanifold) {
    add_direct_keys(shape, problem.input.ld, problem.input.column, keys);
  }
  return warm_up_matmuls(device, *matmuls, keys);
}

bool is_same_warm_up(const OpChoice& a, const OpChoice& b) {
  return a.get<GmasChoice>().gemm.algorithm == b.get<GmasChoice>().gemm.algorithm;
}

}  // namespace minuet
