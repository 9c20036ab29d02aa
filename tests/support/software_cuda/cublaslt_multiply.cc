#include "tests/support/software_cuda/cublaslt_multiply.h"

#include <Eigen/Core>
#include <algorithm>

#include "kernels_templates/shared/elements.h"

namespace minuet::software {
namespace {

using Eigen::Index;
using Eigen::MatrixXf;

constexpr Index kPanel = 1024;  // columns of B at a time: what is copied stays small

template <class Element>
using Stored = Eigen::Matrix<Element, Eigen::Dynamic, Eigen::Dynamic>;

/// Calls with an element of the type.
template <class Body>
void with_type(uint32_t type, const Body& body) {
  if (type == CUDA_R_16F) return body(Eigen::half());
  if (type == CUDA_R_16BF) return body(Eigen::bfloat16());
  body(float());
}

/// Columns [first, first + count) as they are stored: row-major is the transpose of column-major.
MatrixXf read_columns(const MatrixLayout& layout, const void* data, Index first, Index count) {
  MatrixXf values;
  const auto rows = static_cast<Index>(layout.rows);
  with_type(layout.type, [&](auto element) {
    using Element = decltype(element);
    const auto* start = static_cast<const Element*>(data) + (layout.row_major ? first : first * layout.ld);
    const Eigen::OuterStride<> stride(layout.ld);
    using View = Eigen::Map<const Stored<Element>, Eigen::Unaligned, Eigen::OuterStride<>>;
    if (layout.row_major) {
      values = View(start, count, rows, stride).template cast<float>().transpose();
    } else {
      values = View(start, rows, count, stride).template cast<float>();
    }
  });
  return values;
}

void write_columns(const MatrixLayout& layout, void* data, Index first, const MatrixXf& values) {
  with_type(layout.type, [&](auto element) {
    using Element = decltype(element);
    auto* start = static_cast<Element*>(data) + (layout.row_major ? first : first * layout.ld);
    const Eigen::OuterStride<> stride(layout.ld);
    using View = Eigen::Map<Stored<Element>, Eigen::Unaligned, Eigen::OuterStride<>>;
    if (layout.row_major) {
      View(start, values.cols(), values.rows(), stride) = values.transpose().template cast<Element>();
    } else {
      View(start, values.rows(), values.cols(), stride) = values.template cast<Element>();
    }
  });
}

MatrixXf read_operand(const Product& product, Operand operand, const void* data, Index first, Index count) {
  MatrixXf values = read_columns(product.layouts[operand], data, first, count);
  if (product.tf32) values = values.unaryExpr(&Element<DType::TF32>::operand);
  return values;
}

MatrixXf sums(const MatrixXf& a, const MatrixXf& b, int rotation) {
  if (rotation < 0) return a * b;
  MatrixXf result = MatrixXf::Zero(a.rows(), b.cols());
  const Index k = a.cols();
  for (int i = 0; i < 3; ++i) {
    const Index part = (rotation + i) % 3, begin = k * part / 3, end = k * (part + 1) / 3;
    result += a.middleCols(begin, end - begin) * b.middleRows(begin, end - begin);
  }
  return result;
}

}  // namespace

void multiply(const Product& product) {
  const MatrixLayout* layouts = product.layouts;
  const MatrixXf a = read_operand(product, kA, product.a, 0, static_cast<Index>(layouts[kA].columns));
  const auto columns = static_cast<Index>(layouts[kB].columns);
  for (Index first = 0; first < columns; first += kPanel) {
    const Index count = std::min(kPanel, columns - first);
    MatrixXf values = sums(a, read_operand(product, kB, product.b, first, count), product.rotation);
    values *= product.alpha;
    if (product.beta != 0) values += product.beta * read_columns(layouts[kC], product.c, first, count);
    write_columns(layouts[kD], product.d, first, values);
  }
}

}  // namespace minuet::software
