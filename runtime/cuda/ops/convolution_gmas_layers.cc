// Sets up GmasStep: adds its layers, lays out their memory, and decides how their GEMMs read the weights.
#include "runtime/cuda/matmul_warm_up.h"
#include "runtime/cuda/ops/convolution_gmas.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i32 kPointerArrays = 3;  // There is one array each for weights, inputs and outputs.

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
  layer.slice_bytes =
      static_cast<i64>(layer.shape.in_channels) * layer.shape.out_channels * dtype_bytes(layer.shape.io);
  layer.matmuls.reserve(static_cast<std::size_t>(layer.volume));
  MINUET_TRY(place_weights(layer));
  if (layer.uses_pointers) {
    layer.pointer_offset = pointer_count_;
    pointer_count_ += i64{kPointerArrays} * layer.volume;
  }
  layers_.push_back(std::move(layer));
  return static_cast<i32>(layers_.size()) - 1;
}

llvm::Error GmasStep::place_weights(Layer& layer) {
  // A layer with a single kernel offset reads its weights in place.
  if (layer.volume == 1) return llvm::Error::success();
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
  result.pointers = arena.add(pointer_count_ * static_cast<i64>(sizeof(void*)), base);
  for (const Layer& layer : layers_) {
    const bool permuted = !layer.uses_pointers && layer.volume > 1;
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
  MINUET_ASSIGN(void* pinned, launcher_.allocate_pinned(pointer_count_ * static_cast<i64>(sizeof(void*))));
  host_pointers_ = static_cast<void**>(pinned);
  pinned_count_ = pointer_count_;
  return llvm::Error::success();
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
