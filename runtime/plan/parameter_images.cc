// Makes the images of weights that the kernels of selected candidates read, and finds their addresses.
#include "runtime/plan/parameter_set.h"

namespace minuet {

WeightImageJob ParameterSet::job_of(const Image& image) const {
  return stored_image_job(image.layout, layout_.weight_at(image.layer, memory_.data()), image.memory.data());
}

/// Returns the images that executions or captured graphs use. The caller must release them with the mutex
/// unlocked, because the last owner of an image frees its memory.
ParameterSet::Images ParameterSet::live_images() const {
  Images live;
  for (const std::weak_ptr<Image>& known : images_) {
    if (std::shared_ptr<Image> image = known.lock()) live.push_back(std::move(image));
  }
  return live;
}

/// Returns FailedPrecondition if a captured graph sets the weight of a missing image.
llvm::Error ParameterSet::check_new(llvm::ArrayRef<Wanted> missing) const {
  if (options_.is_set_by_each_run) return llvm::Error::success();
  for (const Wanted& image : missing) {
    if (!captured_layers_[image.layer]) continue;
    return make_error(
        StatusCode::FailedPrecondition,
        "a captured graph sets the weight of layer {0}, but it would not set it for the kernel that "
        "is selected now for the first time: capture the graph after this prepare, or call "
        "minuet_parameters_release_captures when the graph is no longer replayed",
        loaded_->plan->program.layers[image.layer].name);
  }
  return llvm::Error::success();
}

/// Allocates an image. Its last owner frees the memory, once no call of set() writes it any more.
llvm::Expected<std::shared_ptr<ParameterSet::Image>> ParameterSet::new_image(const Wanted& wanted) {
  auto image = std::make_unique<Image>(Image{wanted.layer, wanted.layout, {}});
  MINUET_ASSIGN(image->memory, DeviceMemory::create(loaded_->device, fused_image_bytes(wanted.layout)));
  const std::weak_ptr<ParameterSet> weak = weak_from_this();
  return std::shared_ptr<Image>(image.release(), [weak](Image* released) {
    const std::unique_ptr<Image> owner(released);
    const std::shared_ptr<ParameterSet> set = weak.lock();
    // The set's destructor waits for all work. A device whose memory is not the caller's waits by itself.
    if (!set || set->loaded_->device->release_waits()) return;
    const std::lock_guard<std::mutex> lock(set->mutex_);
    llvm::consumeError(set->engine_->wait_for_calls());
  });
}

/// Fills new images from the stored weights, and waits for them.
llvm::Error ParameterSet::fill(const Images& images) {
  if (images.empty()) return llvm::Error::success();
  std::vector<WeightImageJob> jobs;
  for (const std::shared_ptr<Image>& image : images) jobs.push_back(job_of(*image));
  // Earlier calls of set() may have enqueued their work on any stream.
  MINUET_TRY(engine_->wait_for_calls());
  return call(loaded_->device->own_stream(), [&]() -> llvm::Error {
    MINUET_TRY(engine_->parameters().make_images(jobs));
    return engine_->wait();
  });
}

std::shared_ptr<ParameterSet::Image> ParameterSet::find(const Images& images, const Wanted& wanted) {
  const auto found = llvm::find_if(images, [&](const std::shared_ptr<Image>& image) {
    return image->layer == wanted.layer && image->layout == wanted.layout;
  });
  return found == images.end() ? nullptr : *found;
}

/// Returns pointers to what the selected candidates read. All images that they need are in `images`.
std::vector<std::vector<const void*>> ParameterSet::pointers_of(llvm::ArrayRef<Selection> selections,
                                                                const Images& images) const {
  return layout_.pointers_of(selections, memory_.data(), [&](const Wanted& wanted) -> const void* {
    return find(images, wanted)->memory.data();
  });
}

llvm::Expected<ParameterSet::Selected> ParameterSet::select(llvm::ArrayRef<Selection> selections,
                                                            bool is_captured) {
  const std::vector<Wanted> wanted = layout_.images_of(selections);
  // Images are allocated before the mutex is locked, and are released after it is unlocked.
  Images before, allocated, live, made;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    before = live_images();
    std::vector<Wanted> missing;
    llvm::copy_if(wanted, std::back_inserter(missing), [&](const Wanted& one) { return !find(before, one); });
    if (is_captured && !missing.empty()) {
      return make_error(
          StatusCode::FailedPrecondition,
          "the stream is being captured, but the first run with these parameters allocates memory: "
          "call minuet_plan_run_load before the capture");
    }
    MINUET_TRY(check_new(missing));
  }
  for (const Wanted& one : wanted) {
    if (find(before, one)) continue;
    MINUET_ASSIGN(std::shared_ptr<Image> image, new_image(one));
    allocated.push_back(std::move(image));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // Another thread may have made some of the images meanwhile.
  live = live_images();
  for (const std::shared_ptr<Image>& image : allocated) {
    if (!find(live, {image->layer, image->layout})) made.push_back(image);
  }
  MINUET_TRY(fill(made));
  std::erase_if(images_, [](const std::weak_ptr<Image>& image) { return image.expired(); });
  images_.insert(images_.end(), made.begin(), made.end());
  live.insert(live.end(), made.begin(), made.end());
  Selected selected{pointers_of(selections, live), {}};
  for (const Wanted& one : wanted) selected.images.push_back(find(live, one));
  return selected;
}

llvm::Expected<ParameterSet::Selected> ParameterSet::select_for_run(llvm::ArrayRef<Selection> selections,
                                                                    const void* pyramid, bool is_captured) {
  MINUET_ASSIGN(Selected selected, select(selections, is_captured));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto keep = [&](SharedImages& kept) {
    for (const std::shared_ptr<const void>& image : selected.images) {
      if (!llvm::is_contained(kept, image)) kept.push_back(image);
    }
  };
  keep(run_images_[pyramid]);
  if (is_captured) keep(captured_run_images_);
  selected.images.clear();
  return selected;
}

void ParameterSet::release_run_images(const void* pyramid) {
  SharedImages released;  // It is destroyed after the mutex is unlocked.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = run_images_.find(pyramid);
  if (found == run_images_.end()) return;
  released = std::move(found->second);
  run_images_.erase(found);
}

}  // namespace minuet
