// Whether there is a GPU for tests that run the tool.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "minuet/minuet.h"

namespace minuet::tool {

/// Why cuda:0 cannot be used, or "".
inline std::string why_no_gpu() {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.disable_disk_cache = 1;
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  if (minuet_context_create(&options, &context) != MINUET_OK) return "";
  const minuet_status status = minuet_device_open(context, "cuda:0", nullptr, &device);
  char text[1024] = "no GPU";
  if (status != MINUET_OK) minuet_last_error(text, sizeof(text));
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return status == MINUET_UNAVAILABLE ? text : "";
}

}  // namespace minuet::tool
