// Wraps training.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_TRAINING_HPP_
#define MINUET_TRAINING_HPP_

#include "minuet/pyramid.hpp"
#include "minuet/training.h"

namespace minuet {

/// Owns a minuet_training: the forward and the backward pass of a network. It may be used from many threads
/// at once.
class Training {
 public:
  Training(const Context& context, const Plan& network,
           const minuet_training_options& options = MINUET_TRAINING_OPTIONS_INIT) {
    minuet_training* training = nullptr;
    check(minuet_training_create(context.get(), network.get(), &options, &training));
    owner_.reset(training);
  }
  minuet_training* get() const noexcept { return owner_.get(); }

  /// Describes a tensor that the forward call keeps. Throws past the last one.
  minuet_kept_info kept(std::int32_t tensor) const {
    minuet_kept_info info = MINUET_KEPT_INFO_INIT;
    check(minuet_training_query_kept(get(), tensor, &info));
    return info;
  }
  /// Creates a pyramid with the levels and maps of the network (minuet_training_create_pyramid).
  Pyramid create_pyramid(const minuet_pyramid_options& options) const {
    minuet_pyramid* pyramid = nullptr;
    check(minuet_training_create_pyramid(get(), &options, &pyramid));
    return Pyramid::take(pyramid);
  }
  Pyramid create_pyramid(const std::vector<std::int64_t>& level_capacity) const {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.level_capacity = level_capacity.data();
    options.level_count = static_cast<std::int32_t>(level_capacity.size());
    return create_pyramid(options);
  }
  /// Returns the sizes of the memory of one step for `arch`.
  minuet_training_sizes bytes(const std::string& arch, const Pyramid& pyramid) const {
    minuet_training_sizes sizes = MINUET_TRAINING_SIZES_INIT;
    check(minuet_training_bytes(get(), arch.c_str(), pyramid.get(), &sizes));
    return sizes;
  }
  /// Compiles and loads the kernels.
  void load(const Device& device) const { check(minuet_training_load(get(), device.get())); }
  /// Enqueues a forward pass.
  void forward(const Device& device, const minuet_training_forward_arguments& arguments,
               void* stream = nullptr) const {
    check(minuet_training_forward(get(), device.get(), &arguments, stream));
  }
  /// Enqueues a backward pass.
  void backward(const Device& device, const minuet_training_backward_arguments& arguments,
                void* stream = nullptr) const {
    check(minuet_training_backward(get(), device.get(), &arguments, stream));
  }

 private:
  detail::Owner<minuet_training, minuet_training_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_TRAINING_HPP_
