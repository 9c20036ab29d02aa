// The devices of the process, and what is shared by all custom calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "minuet/minuet.hpp"
#include "minuet/pyramid.hpp"

namespace minuet_xla {

/// Returns the context of the process. Its options are those of the environment.
const minuet::Context& shared_context();

/// A device of XLA, and the library's device for the same memory.
struct XlaPlace {
  XlaPlace(const minuet::Context& context, const std::string& name)
      : device(context, name), arch(device.info().arch) {}
  minuet::Device device;
  std::string arch;
};

/// Returns the place of a GPU, or of the CPU. It lives as long as the process.
const XlaPlace& place_of(bool is_cpu, std::int32_t ordinal);

/// Does something once for each place.
class OnceByPlace {
 public:
  void operator()(const XlaPlace& place, const std::function<void()>& work) {
    const std::lock_guard lock(mutex_);
    if (done_.count(&place)) return;
    work();
    done_.insert(&place);
  }

 private:
  std::mutex mutex_;
  std::set<const XlaPlace*> done_;
};

/// Objects that custom calls with equal attributes share. An object lives as long as one of them does.
template <class T>
class SharedObjects {
 public:
  std::shared_ptr<T> get(const std::string& key, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<T>& known = objects_[key];
    if (std::shared_ptr<T> found = known.lock()) return found;
    std::shared_ptr<T> made = make();
    for (auto each = objects_.begin(); each != objects_.end();) {
      each = each->second.expired() && each->first != key ? objects_.erase(each) : std::next(each);
    }
    objects_[key] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<T>> objects_;
};

/// A plan that is loaded where it is first needed.
class XlaPlan {
 public:
  explicit XlaPlan(std::string_view bytes)
      : plan_(minuet::Plan::deserialize(shared_context(), bytes.data(), bytes.size())) {}
  const minuet::Plan& plan() const { return plan_; }
  void load(const XlaPlace& place) {
    once_(place, [&] { plan_.load(place.device); });
  }

 private:
  minuet::Plan plan_;
  OnceByPlace once_;
};

/// Returns the plan of these bytes (minuet_plan_serialize).
std::shared_ptr<XlaPlan> shared_plan(std::string_view bytes);

}  // namespace minuet_xla
