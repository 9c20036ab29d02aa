// Makes pyramids and options of convolutions from the numbers of an attribute. README.md has their layout.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "minuet/pyramid.hpp"
#include "minuet/training.hpp"
#include "runtime/bindings/xla/call_frame.h"
#include "runtime/bindings/xla/place.h"

namespace minuet_xla {

/// Reads the numbers of an attribute one after the other.
class NumberReader {
 public:
  NumberReader(std::span<const std::int64_t> numbers, const char* name) : numbers_(numbers), name_(name) {}
  /// Returns the next number. Throws past the last one.
  std::int64_t next();
  std::int32_t next32();
  /// Returns the number of axes of a pyramid or a convolution.
  std::int32_t next_ndim();
  void next_axes(std::int32_t (&axes)[MINUET_MAX_DIM]);
  /// Throws unless all numbers were read.
  void finish() const;

 private:
  std::span<const std::int64_t> numbers_;
  const char* name_;
  std::size_t place_ = 0;
};

/// The training plan of a network that custom calls with equal attributes share.
class XlaTraining {
 public:
  explicit XlaTraining(const XlaAttributes& attributes);
  const minuet::Plan& network() const { return network_->plan(); }
  const minuet::Training& training() const { return *training_; }
  std::uint32_t input_gradients() const { return input_gradients_; }
  bool is_frozen() const { return is_frozen_; }
  void load(const XlaPlace& place) {
    once_(place, [&] { training_->load(place.device); });
  }

 private:
  std::shared_ptr<XlaPlan> network_;
  std::unique_ptr<minuet::Training> training_;
  std::uint32_t input_gradients_ = 0;
  bool is_frozen_ = false;
  OnceByPlace once_;
};

/// Returns the training plan of the network in `plan`, with the options in `training`.
std::shared_ptr<XlaTraining> shared_training(const XlaAttributes& attributes);

/// A pyramid that custom calls with equal attributes share.
class XlaPyramid {
 public:
  explicit XlaPyramid(const XlaAttributes& attributes);
  const minuet::Pyramid& pyramid() const { return *pyramid_; }
  std::int32_t ndim() const { return ndim_; }
  std::int64_t levels() const { return static_cast<std::int64_t>(capacities_.size()); }
  /// Returns the most rows of a level. Throws where there is no such level, and for pyramids of networks.
  std::int64_t capacity(std::int32_t level) const;
  void load(const XlaPlace& place) {
    once_(place, [&] { pyramid_->load(place.device); });
  }

 private:
  // Calls on the pyramid that are made later find these, and do not make them again.
  std::shared_ptr<XlaPlan> network_;
  std::shared_ptr<XlaTraining> training_;
  std::unique_ptr<minuet::Pyramid> pyramid_;
  std::int32_t ndim_ = 0;
  bool is_of_network_ = false;
  std::vector<std::int64_t> capacities_;
  OnceByPlace once_;
};

/// Returns the pyramid of the attribute `pyramid`, or, where that says so, of the network in `plan` or of its
/// training plan.
std::shared_ptr<XlaPyramid> shared_pyramid(const XlaAttributes& attributes);

/// The options of a convolution without values, and the offsets that they point to.
struct DescribedConvolution {
  explicit DescribedConvolution(std::span<const std::int64_t> numbers);
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  std::int64_t volume = 0;  // the number of offsets
  std::vector<std::int32_t> offsets;
};

}  // namespace minuet_xla
