#include "runtime/bindings/xla/place.h"

namespace minuet_xla {

// The objects of this file are never destroyed: XLA's executables may outlive static objects of this library.
const minuet::Context& shared_context() {
  static const auto* const context = new minuet::Context();
  return *context;
}

const XlaPlace& place_of(bool is_cpu, std::int32_t ordinal) {
  if (is_cpu) {
    static const auto* const cpu = new XlaPlace(shared_context(), "cpu");
    return *cpu;
  }
  static auto* const mutex = new std::mutex();
  static auto* const places = new std::map<std::int32_t, std::unique_ptr<XlaPlace>>();
  const std::lock_guard lock(*mutex);
  std::unique_ptr<XlaPlace>& place = (*places)[ordinal];
  if (!place) place = std::make_unique<XlaPlace>(shared_context(), "cuda:" + std::to_string(ordinal));
  return *place;
}

std::shared_ptr<XlaPlan> shared_plan(std::string_view bytes) {
  static auto* const plans = new SharedObjects<XlaPlan>();
  return plans->get(std::string(bytes), [&] { return std::make_shared<XlaPlan>(bytes); });
}

}  // namespace minuet_xla
