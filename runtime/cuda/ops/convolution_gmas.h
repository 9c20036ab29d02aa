// The gather-GEMM-scatter dataflow on the GPU (paper, section 5.2): gather, grouped GEMMs on several streams,
// scatter.
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

  llvm::Expected<i32> add(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) override;
  i64 workspace_bytes() const override { return layout(nullptr).total; }
  llvm::Error set_workspace(void* workspace) override;
  /// kMatmulWorkspaceBytes per stream.
  i64 scratch_bytes() const override { return layers_.empty() ? 0 : kStreams * kMatmulWorkspaceBytes; }

  /// `request` must be a GmasRequest, also for run().
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
    ConvolutionWeights weights;
    bool uses_pointers = false;  // otherwise batches read a permuted copy of the weights in group order
    i32 volume = 1;
    i64 slice_bytes = 0;                     // weights of one offset
    i64 pointer_offset = 0;                  // of its pointer arrays [3][volume], counted in pointers
    char* permuted = nullptr;                // [volume] slices in group order
    std::vector<BoundMatmul> matmuls;        // the direct one first, then slice by slice
    std::vector<std::size_t> slice_matmuls;  // end of each slice's matmuls
    bool prepared = false;
  };
  struct Layout {
    i64 pointers = 0;           // of all pointer arrays
    std::vector<i64> permuted;  // offset of each layer's permuted weights, or -1
    i64 total = 0;
  };

  /// Lays out the parts at `base`; with a null base only the sizes are computed.
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
  /// Runs the matmuls [first, last).
  llvm::Error multiply(Layer& layer, const GmasRequest& request, std::size_t first, std::size_t last);
  llvm::Error scatter(const Layer& layer, const GmasRequest& request, std::size_t slice);

  Launcher& launcher_;
  CudaEngineOptions options_;
  Matmuls* matmuls_ = nullptr;  // the device's
  Kernel<MakeTablesParams> make_tables_;
  std::vector<Layer> layers_;

  // Pointer arrays of all layers. prepare() writes them, and send_prepared() sends them together.
  void** host_pointers_ = nullptr;  // pinned
  void** device_pointers_ = nullptr;
  i64 pointer_count_ = 0;
  i64 pinned_count_ = 0;  // capacity of host_pointers_
  bool pending_ = false;  // true if written since the last send
};

/// Looks up and loads the GEMMs of a GmasChoice in advance. Thread-safe; repeated calls cost nothing.
llvm::Error warm_up_gmas(CudaDevice& device, const OpChoice& choice);
bool is_same_warm_up(const OpChoice& a, const OpChoice& b);

}  // namespace minuet
