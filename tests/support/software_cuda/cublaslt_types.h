// What the cuBLASLt stand-in keeps in the opaque structs of its callers.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace minuet::software {

struct MatrixLayout {
  static constexpr uint32_t kMagic = 0x4c41594f;
  uint32_t magic;
  uint16_t type;  // cudaDataType_t
  uint8_t row_major;
  uint8_t pointers;
  uint64_t rows, columns;
  int64_t ld, stride;  // elements
  int32_t batch;
  int32_t unused;
};

struct Operation {
  static constexpr uint32_t kMagic = 0x4f504552;
  uint32_t magic;
  int32_t compute;  // cublasComputeType_t
};

enum Operand : int { kA, kB, kC, kD, kOperands };
constexpr const char* kOperandNames[] = {"A", "B", "C", "D"};

struct Preference {
  static constexpr uint32_t kMagic = 0x50524546;
  uint32_t magic;
  uint32_t reductions;
  uint64_t workspace;
  uint32_t alignments[kOperands];
};

/// What an algorithm was looked up for. The signature tells it from what no look-up returned.
struct Algorithm {
  static constexpr uint32_t kMagic = 0x414c474f;
  uint32_t magic;
  uint8_t compute, mode, type, out_type;
  uint8_t orders;             // a bit an operand
  uint8_t reduces_in_place;   // sums may be split and added in any order
  uint8_t alignment_log2[4];  // of every member's address, as promised
  uint16_t pitches;           // all leading dimensions, mixed
  uint32_t m, n, k, batch;
  uint32_t workspace;
  uint64_t signature;
};

constexpr int kSingle = 0, kStrided = 1, kPointers = 2;  // the bits of SoftwareCublasltModes

/// False where `opaque` holds no `Mine`: never initialised, or something else.
template <class Mine, class Opaque>
bool load(const Opaque* opaque, Mine& mine) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  if (!opaque) return false;
  std::memcpy(&mine, opaque, sizeof(mine));
  return mine.magic == Mine::kMagic;
}

template <class Mine, class Opaque>
void store(const Mine& mine, Opaque* opaque) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  std::memset(opaque, 0, sizeof(*opaque));
  std::memcpy(opaque, &mine, sizeof(mine));
}

constexpr uint64_t element_bytes(uint32_t type) { return type == CUDA_R_32F ? 4 : 2; }

/// The bytes from a matrix's first element to the end of its last one.
constexpr uint64_t extent_bytes(const MatrixLayout& layout) {
  const uint64_t lines = layout.row_major ? layout.rows : layout.columns;
  const uint64_t line = layout.row_major ? layout.columns : layout.rows;
  return ((lines - 1) * static_cast<uint64_t>(layout.ld) + line) * element_bytes(layout.type);
}

}  // namespace minuet::software
