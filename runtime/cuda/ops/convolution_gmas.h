// Implements the gather-GEMM-scatter dataflow on the GPU (Minuet paper, section 5.2). It runs a gather,
// grouped GEMMs on several streams, and a scatter.
//
// A layer is added once. For each cloud, prepare() binds its GEMMs to algorithms and addresses, so that run()
// only enqueues, without look-ups, locks or allocations.
#pragma once

#include <vector>

#include "runtime/cuda/matmul.h"
#include "runtime/cuda/ops.h"
#include "runtime/engine/ops/convolution.h"

namespace minuet {

class GmasStep final : public CudaOps {
 public:
  GmasStep(Launcher& launcher, const CudaEngineOptions& options) : launcher_(launcher), options_(options) {}

  llvm::Expected<i32> add(const OpChoice& choice) override;
  i64 workspace_bytes() const override { return layout(nullptr).total; }
  llvm::Error set_workspace(void* workspace) override;
  /// Returns kMatmulWorkspaceBytes for each stream, or 0 if there is no layer.
  i64 scratch_bytes() const override;

  /// `request` must be a GmasRequest, and so must that of run().
  llvm::Error prepare(i32 op, const OpRequest& request) override;
  llvm::Error send_prepared() override;
  llvm::Error run(i32 op, const OpRequest& request) override;

 private:
  struct Layer {
    ConvolutionProblem problem;
    MatmulShape shape;
    GatherSpec gather_spec;
    ScatterSpec scatter_spec;
    Kernel<GatherParams> gather;
    Kernel<ScatterParams> scatter;
    Kernel<PermuteWeightsParams> permute_weights;
    i32 permute_vector_bytes = 1;
    ConvolutionWeights weights;  // Holds the parameters of the last prepare().
    /// If this is true, batches read their weights through arrays of pointers. Otherwise they read a copy of
    /// the weights that is in the order of the GEMM groups.
    bool uses_pointers = false;
    i32 volume = 1;
    /// Holds the size in bytes of the weights of one kernel offset.
    i64 slice_bytes = 0;
    /// Holds the index in host_pointers_ at which the layer's pointer arrays [3][volume] begin.
    i64 pointer_offset = 0;
    /// Holds the weights of the [volume] kernel offsets in the order of the GEMM groups.
    char* permuted = nullptr;
    /// This is true if the GEMMs of the prepared cloud read `permuted`.
    bool reads_permuted = false;
    /// The GEMM that reads the features in place comes first, if there is one. The others follow slice
    /// (GemmSlice) by slice.
    std::vector<BoundMatmul> matmuls;
    std::vector<std::size_t> slice_matmuls;  // Holds the end of each GemmSlice in `matmuls`.
    bool prepared = false;
  };
  struct Layout {
    /// Holds the byte offset of the pointer arrays of all layers.
    i64 pointers = 0;
    /// Holds the byte offset of each layer's copy of the weights, or -1 if the layer has none.
    std::vector<i64> permuted;
    i64 total = 0;
  };

  /// Computes where the parts of the workspace at `base` are. If `base` is null, only the sizes are needed.
  Layout layout(char* base) const;
  llvm::Error place_weights(Layer& layer);
  MatmulProblem problem_of(const Layer& layer, BatchMode mode, i64 first_row, i64 height, i32 batch) const;
  llvm::Expected<bool> bind(const MatmulProblem& problem, const void* weight, const void* input, void* output,
                            BoundMatmul& bound);
  llvm::Expected<bool> add(Layer& layer, const MatmulProblem& problem, const void* weight, const void* input,
                           void* output);
  llvm::Error fill_tables(const GmasRequest& request);
  llvm::Error bind_slices(Layer& layer, const GmasRequest& request);
  llvm::Error bind_direct(Layer& layer, const GmasRequest& request, BoundMatmul& bound);
  llvm::Error bind_group(Layer& layer, const GmasRequest& request, const GemmGroup& group);
  llvm::Error bind_members(Layer& layer, const GmasRequest& request, const GemmGroup& group);
  llvm::Error permute_weights(const Layer& layer, const GmasRequest& request);

  llvm::Error gather(const Layer& layer, const GmasRequest& request, const GemmSlice& slice);
  /// Runs the GEMMs layer.matmuls[first, last).
  llvm::Error multiply(Layer& layer, const GmasRequest& request, std::size_t first, std::size_t last);
  llvm::Error scatter(const Layer& layer, const GmasRequest& request, std::size_t slice);

  Launcher& launcher_;
  CudaEngineOptions options_;
  Matmuls* matmuls_ = nullptr;  // The device owns this object.
  Kernel<MakeTablesParams> make_tables_;
  std::vector<Layer> layers_;

  // These are the pointer arrays of all layers. prepare() writes them on the host, and send_prepared() sends
  // them to the device together.
  void** host_pointers_ = nullptr;  // Points to pinned memory.
  void** device_pointers_ = nullptr;
  i64 pointer_count_ = 0;
  i64 pinned_count_ = 0;  // Holds the capacity of host_pointers_ as a number of pointers.
  bool pending_ = false;  // It is true if prepare() wrote pointers that were not sent yet.
};

/// Looks up and loads the GEMMs of a GmasChoice in advance. The function is thread-safe. A repeated call
/// looks up and loads nothing.
llvm::Error warm_up_gmas(CudaDevice& device, const OpChoice& choice);
bool is_same_warm_up(const OpChoice& a, const OpChoice& b);
/// Returns the most memory that a GmasStep with these GmasChoices may need. It assumes that each layer reads
/// its weights in the way that needs more memory, because only cuBLASLt knows whether it takes pointers.
OpMemory gmas_memory_bound(llvm::ArrayRef<OpChoice> choices);

}  // namespace minuet
