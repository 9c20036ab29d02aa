// One product on the CPU, by Eigen.
#pragma once

#include "tests/support/software_cuda/cublaslt_types.h"

namespace minuet::software {

struct Product {
  const MatrixLayout* layouts;  // of kOperands
  const void* a;
  const void* b;
  const void* c;  // read where beta is not 0
  void* d;
  float alpha, beta;
  bool tf32;
  int rotation;  // -1: sums in one order; else 0, 1 or 2: where a sum that is split in three begins
};

/// D = alpha A B + beta C. Sums are fp32; elements of D outside the matrix are not touched.
void multiply(const Product& product);

}  // namespace minuet::software
