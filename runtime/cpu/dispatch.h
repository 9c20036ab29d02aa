// Calls templates with arguments that are known only at run time.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Calls body.template operator()<Ndim>() with the number of axes.
template <class Body>
void with_axes(i32 ndim, const Body& body) {
  if (ndim == 1) return body.template operator()<1>();
  if (ndim == 2) return body.template operator()<2>();
  if (ndim == 3) return body.template operator()<3>();
  body.template operator()<4>();
}

/// Calls body.template operator()<T>() with the type in which numbers of the dtype are stored.
template <class Body>
void with_storage(DType dtype, const Body& body) {
  if (storage_type(dtype) == DType::F32) return body.template operator()<DType::F32>();
  if (dtype == DType::F16) return body.template operator()<DType::F16>();
  body.template operator()<DType::BF16>();
}

}  // namespace minuet
