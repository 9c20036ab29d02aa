/* Minuet: custom calls for XLA. Part of the library libminuet_xla, which links libminuet and knows its public
 * headers only. Python programs use the package minuet.jax, which makes these calls;
 * runtime/bindings/xla/README.md in the source describes the custom calls themselves. */
#ifndef MINUET_XLA_H_
#define MINUET_XLA_H_

#include <stdint.h>

#define MINUET_XLA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* These are the types of xla/ffi/api/c_api.h, which a caller of minuet_xla_register includes. */
typedef struct XLA_FFI_Api XLA_FFI_Api;
typedef struct XLA_FFI_Error XLA_FFI_Error;

/* Registers all custom calls with the XLA whose table of functions is `api`, for a program that has XLA and
 * no Python. Returns null, or the error of the first registration that failed, which the caller destroys. */
MINUET_XLA_API XLA_FFI_Error* minuet_xla_register(const XLA_FFI_Api* api);

/* One custom call on one platform. Strings and functions live as long as the library is loaded. */
typedef struct minuet_xla_handler {
  const char* name;     /* the target of the custom call */
  const char* platform; /* "Host" or "CUDA" */
  /* Pointers to functions of the type XLA_FFI_Handler, one for each stage. Each of them answers XLA's query
   * for metadata, too. */
  void* instantiate;
  void* prepare;
  void* initialize;
  void* execute;
} minuet_xla_handler;

/* Returns custom call `index`, counted from 0, or null past the last one. */
MINUET_XLA_API const minuet_xla_handler* minuet_xla_handler_at(int32_t index);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MINUET_XLA_H_ */
