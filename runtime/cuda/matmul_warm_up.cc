#include "runtime/cuda/matmul_warm_up.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i64 kHeight = 16;
constexpr i32 kBatch = 2;

/// Holds the byte offsets of the operands of warm-up GEMMs. All operands are in one block of `bytes` bytes.
struct Operands {
  i64 weight = 0, input = 0, output = 0, pointers = 0, workspace = 0, bytes = 0;
  /// Holds the size in bytes of the output of one GEMM of a batch.
  i64 output_member = 0;

  explicit Operands(llvm::ArrayRef<const MatmulEntry*> entries) {
    i64 weights = 0, inputs = 0;
    for (const MatmulEntry* const entry : entries) {
      const MatmulKey& key = entry->key;
      const i64 element = dtype_bytes(key.shape.io), in = key.shape.in_channels, out = key.shape.out_channels;
      weights = std::max(weights, kBatch * in * out * element);
      inputs = std::max(inputs, kBatch * kHeight * std::max(key.input_ld, in) * element);
      ArenaLayout member;
      member.add(kHeight * out * dtype_bytes(DType::F32));
      output_member = std::max(output_member, member.bytes());
    }
    ArenaLayout parts;
    weight = parts.add(weights), input = parts.add(inputs), output = parts.add(kBatch * output_member);
    pointers = parts.add(3 * kBatch * static_cast<i64>(sizeof(void*)));
    workspace = parts.add(kMatmulWorkspaceBytes);
    bytes = parts.bytes();
  }
};

/// Identifies a cuBLASLt kernel by the algorithm and the other properties that determine it.
using Choice = std::pair<std::array<char, sizeof(cublasLtMatmulAlgo_t)>, std::pair<BatchMode, DType>>;

Choice choice_of(const MatmulEntry& entry) {
  Choice choice;
  std::memcpy(choice.first.data(), &entry.algorithm, choice.first.size());
  choice.second = {entry.key.mode, entry.key.shape.io};
  return choice;
}

llvm::Error run_small(Matmuls& matmuls, const MatmulEntry& entry, const Operands& at, char* memory,
                      CUstream stream) {
  BoundMatmul matmul;
  matmul.problem = representative(entry.key);
  matmul.problem.height = std::min(matmul.problem.height, kHeight);
  matmul.problem.batch = std::min(matmul.problem.batch, kBatch);
  matmul.algorithm = entry.algorithm;
  const bool pointers = entry.key.mode == BatchMode::Pointers;
  const auto operand = [&](i64 offset, i32 number) -> char* {
    return memory + (pointers ? at.pointers + number * kBatch * static_cast<i64>(sizeof(void*)) : offset);
  };
  matmul.weight = operand(at.weight, 0);
  matmul.input = operand(at.input, 1);
  matmul.output = operand(at.output, 2);
  MINUET_TRY(matmuls.lay_out(matmul.problem, matmul.layouts));
  i64 lookups = 0;
  // An algorithm may refuse so small a problem. Its kernel is then loaded at its first use.
  llvm::consumeError(matmuls.run(matmul, memory + at.workspace, stream, lookups));
  return llvm::Error::success();
}

llvm::Error run_all(CudaDevice& device, Matmuls& matmuls, llvm::ArrayRef<const MatmulEntry*> entries) {
  const Operands at(entries);
  MINUET_ASSIGN(void* const block, device.allocate(at.bytes));
  const auto release = llvm::make_scope_exit([&] { device.release(block); });
  char* const memory = static_cast<char*>(block);
  const Driver& driver = device.driver();
  const CaptureScope alone(driver);
  std::vector<char> zeros(static_cast<std::size_t>(at.workspace));
  const i64 starts[] = {at.weight, at.input, at.output};
  for (i32 i = 0; i < 3 * kBatch; ++i) {
    // The GEMMs of a batch may share their inputs, but each needs its own output.
    const i64 member = starts[i / kBatch] == at.output ? i % kBatch * at.output_member : 0;
    const char* const operand = memory + starts[i / kBatch] + member;
    std::memcpy(zeros.data() + at.pointers + i * static_cast<i64>(sizeof(void*)), &operand, sizeof(operand));
  }
  MINUET_TRY(device.upload(memory, zeros.data(), at.workspace));
  CUstream stream = nullptr;
  MINUET_TRY(check(driver, driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  std::set<Choice> seen;
  llvm::Error error = llvm::Error::success();
  for (const MatmulEntry* const entry : entries) {
    if (!error && seen.insert(choice_of(*entry)).second) {
      error = run_small(matmuls, *entry, at, memory, stream);
    }
  }
  error = llvm::joinErrors(std::move(error),
                           check(driver, driver.cuStreamSynchronize(stream), "warming up GEMMs"));
  static_cast<void>(driver.cuStreamDestroy(stream));
  return error;
}

}  // namespace

llvm::Error warm_up_matmuls(CudaDevice& device, Matmuls& matmuls, const std::set<MatmulKey>& keys) {
  const ContextScope scope(device.driver(), device.context());
  std::vector<const MatmulEntry*> entries;
  i64 lookups = 0;
  for (const MatmulKey& key : keys) {
    MINUET_ASSIGN(const MatmulEntry* entry, matmuls.find(key, lookups));
    if (entry->found) entries.push_back(entry);
  }
  // Several threads may load layers of one shape at once. The first thread that marks an entry as warm also
  // runs it.
  llvm::erase_if(entries, [](const MatmulEntry* entry) { return entry->is_warm.exchange(true); });
  if (entries.empty()) return llvm::Error::success();
  llvm::Error error = run_all(device, matmuls, entries);
  if (error) {
    for (const MatmulEntry* const entry : entries) entry->is_warm = false;
  }
  return error;
}

}  // namespace minuet
