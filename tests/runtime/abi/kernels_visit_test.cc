// Tests what minuet_plan_visit_kernels tells of plans that no GPU is there for (kernels.h).
#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "include/minuet/kernels.h"
#include "tests/runtime/abi/serialize_fixture.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class KernelsVisit : public Planted {
 protected:
  /// A context with kernels for the plan on `arch`, and the plan, compiled.
  void plant_for(const std::function<Handle<minuet_plan>(minuet_context*)>& make, const char* arch) {
    plan_.reset();
    const std::string list = path("plan.jsonl"), bundle = path(std::string(arch) + ".bundle");
    {
      const auto recording = context(nullptr, [&](minuet_context_options& options) {
        strictly(options);
        options.record_path = list.c_str();
      });
      const auto plan = make(recording.get());
      ASSERT_EQ(minuet_plan_compile(plan.get(), arch, nullptr, nullptr), MINUET_FAILED_PRECONDITION);
    }
    FakeCompiler fake;
    fake.id_ = "nvrtc 13.0 a b";
    std::vector<Entry> entries;
    for (const RecordedRequest& line : llvm::cantFail(read_requests(contents(list)))) {
      Entry entry;
      entry.request_key = line.recorded_key;
      entry.build_key = build_key(entry.request_key, fake.id_);
      entry.name_expression = line.request.source.name_expression;
      entry.binary = llvm::cantFail(fake.compile(line.request, {}));
      entries.push_back(std::move(entry));
    }
    std::filesystem::remove(list);
    llvm::cantFail(write_bundle(bundle, arch, entries));
    context_ = context(nullptr, [](minuet_context_options& options) { strictly(options); });
    check(minuet_context_add_bundle(context_.get(), bundle.c_str(), nullptr));
    plan_ = make(context_.get());
    check(minuet_plan_compile(plan_.get(), arch, nullptr, nullptr));
  }
  void plant_for(PlanKind kind, const char* arch) {
    plant_for([kind](minuet_context* context) { return own_plan(context, kind); }, arch);
  }
  template <class Visit>
  static int visit(minuet_plan* plan, const char* arch, const Visit& visitor) {
    struct Call {
      const Visit& visitor;
      int count = 0;
    } call{visitor};
    check(minuet_plan_visit_kernels(
        plan, arch,
        [](const minuet_kernel_code* kernel, void* user) {
          ++static_cast<Call*>(user)->count;
          static_cast<Call*>(user)->visitor(*kernel);
        },
        &call));
    return call.count;
  }

  Handle<minuet_context> context_{nullptr, {minuet_context_destroy}};
  Handle<minuet_plan> plan_{nullptr, {minuet_plan_destroy}};
};

/// Fields are in order, apart and inside, and cover all of the struct but its padding.
void expect_whole(const minuet_kernel_code& kernel) {
  int32_t end = 0;
  std::set<std::string> names;
  for (int32_t i = 0; i < kernel.field_count; ++i) {
    const minuet_kernel_field& field = kernel.fields[i];
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    const bool is_wide = field.kind == MINUET_FIELD_POINTER || field.kind == MINUET_FIELD_I64;
    EXPECT_EQ(field.bytes, field.count * (is_wide ? 8 : 4)) << field.name;
    EXPECT_GE(field.offset, end) << field.name;
    EXPECT_LT(field.offset - end, 8) << field.name;
    end = field.offset + field.bytes;
    EXPECT_EQ(field.data != nullptr, field.data_bytes > 0) << field.name;
  }
  EXPECT_LE(end, kernel.arguments_bytes);
  EXPECT_LT(kernel.arguments_bytes - end, 8);
}

TEST_F(KernelsVisit, EveryKernelOfEveryLayer) {
  for (const char* const arch : {"sm_80", "sm_90a", "sm_120"}) {
    for (const PlanKind kind : {PlanKind::Convolution, PlanKind::Pooling, PlanKind::Network}) {
      SCOPED_TRACE(std::string(arch) + ", plan " + std::to_string(static_cast<int>(kind)));
      plant_for(kind, arch);
      std::set<std::string> compiled, visited;
      check(minuet_plan_compile(
          plan_.get(), arch,
          [](const minuet_kernel_info* kernel, void* user) {
            static_cast<std::set<std::string>*>(user)->insert(kernel->name);
          },
          &compiled));
      int32_t last_layer = 0, last_candidate = -1;
      int64_t expected_rows = 0;
      const int count = visit(plan_.get(), arch, [&](const minuet_kernel_code& kernel) {
        visited.insert(kernel.name);
        EXPECT_TRUE(compiled.count(kernel.name)) << kernel.name;
        EXPECT_EQ(kernel.struct_size, sizeof(kernel));
        EXPECT_STREQ(kernel.arch, arch);
        EXPECT_GT(std::string(kernel.symbol).size(), 3u);
        EXPECT_EQ(std::string(static_cast<const char*>(kernel.image), 4),
                  "\x7f"
                  "ELF");
        EXPECT_GT(kernel.image_bytes, 64);
        EXPECT_TRUE(kernel.threads >= 32 && kernel.threads <= 1024) << kernel.threads;
        EXPECT_EQ(kernel.grid_rows > 0, std::string(kernel.family) == "fused");
        EXPECT_GE(kernel.cluster, 1);
        expect_whole(kernel);
        if (kernel.layer == last_layer) {
          EXPECT_GE(kernel.candidate, last_candidate);
          EXPECT_LE(kernel.candidate, last_candidate + 1);
        } else {
          EXPECT_GT(kernel.layer, last_layer);
          EXPECT_EQ(kernel.candidate, 0);
        }
        if (kernel.candidate == 0) {
          EXPECT_EQ(kernel.least_rows, 0);
        }
        expected_rows = std::max(expected_rows, kernel.most_rows);
        last_layer = kernel.layer, last_candidate = kernel.candidate;
      });
      EXPECT_GT(count, 0);
      EXPECT_EQ(expected_rows, std::numeric_limits<int64_t>::max());
      // What remains are the kernels that build sets and maps, permute rows and convert parameters.
      for (const std::string& name : compiled) {
        for (const char* const of_layers :
             {"fused_convolution-", "gather-", "scatter-", "pool-", "pointwise-"}) {
          if (name.rfind(of_layers, 0) == 0) {
            EXPECT_TRUE(visited.count(name)) << name;
          }
        }
      }
    }
  }
}

/// A kernel that has no list of fields makes the call fail, so that every kind of op is here.
TEST_F(KernelsVisit, EveryKindOfOp) {
  constexpr const char* kEveryKind =
      R"({"name": "every", "ndim": 3, "in_channels": 8, "channels": [8, 24], "shape": [8, 8, 8], "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "activation": "none", "save": "stem"},
  {"op": "batch_norm", "name": "before"}, {"op": "relu"}, {"op": "concat", "with": "stem"},
  {"op": "residual", "name": "r", "width": 1},
  {"op": "gelu"}, {"op": "layer_norm", "name": "norm"},
  {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "save": "level"},
  {"op": "to_dense"}, {"op": "from_dense", "onto": "level"},
  {"op": "global_pool", "name": "all", "reduction": "average"}]})";
  std::set<std::string> families;
  for (const minuet_dataflow dataflow : {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED}) {
    const auto make = [&](minuet_context* context) {
      minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
      options.description = kEveryKind;
      options.dataflow = dataflow;
      minuet_plan* made = nullptr;
      check(minuet_plan_create_network(context, &options, &made));
      return Handle<minuet_plan>{made, {minuet_plan_destroy}};
    };
    plant_for(make, "sm_90a");
    int32_t covers = 0, shortcut_blocks = 0, second_outputs = 0;
    const auto note = [&](const minuet_kernel_code& kernel) {
      families.insert(kernel.family);
      expect_whole(kernel);
      covers = std::max(covers, kernel.covers);
      shortcut_blocks = std::max(shortcut_blocks, kernel.grid_shortcut_blocks);
      for (int32_t i = 0; i < kernel.field_count; ++i) {
        if (std::string(kernel.fields[i].name) == "second.scale" && kernel.fields[i].data_bytes == 8 * 4)
          ++second_outputs;
        if (kernel.grid_shortcut_blocks > 0 && std::string(kernel.fields[i].name) == "shortcut.weights") {
          EXPECT_GE(kernel.fields[i].data_bytes, 8 * 16 * 2);
        }
      }
    };
    EXPECT_GT(visit(plan_.get(), "sm_90a", note), 5);
    EXPECT_GT(covers, 0);
    EXPECT_GT(second_outputs, 0);
    EXPECT_EQ(shortcut_blocks > 0, dataflow == MINUET_DATAFLOW_FUSED);
  }
  EXPECT_EQ(families, (std::set<std::string>{"fused", "gather-gemm-scatter", "pooling", "pointwise",
                                             "global_pooling", "to_dense", "from_dense"}));
}

/// A kernel of a convolution with groups computes a part of the output channels at each launch.
TEST_F(KernelsVisit, LaunchesOfGroups) {
  for (const int groups : {1, 2, 64}) {
    const std::vector<float> weight(static_cast<std::size_t>(64 / groups * 64), 1.0f);
    const auto make = [&](minuet_context* context) {
      minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
      options.dtype = MINUET_F16;
      options.in_channels = options.out_channels = 64;
      options.groups = groups;
      options.submanifold = 1;
      options.weight = weight.data();
      options.weight_count = static_cast<int64_t>(weight.size());
      minuet_plan* made = nullptr;
      check(minuet_plan_create_convolution(context, &options, &made));
      return Handle<minuet_plan>(made, {minuet_plan_destroy});
    };
    plant_for(make, "sm_90a");
    const int count = visit(plan_.get(), "sm_90a", [&](const minuet_kernel_code& kernel) {
      if (std::string(kernel.family) == "fused") {
        EXPECT_EQ(kernel.launches, groups == 2 ? 2 : 1);
      }
      if (groups == 64) {
        EXPECT_STREQ(kernel.family, "depthwise");
      }
    });
    EXPECT_GT(count, 0);
  }
}

TEST_F(KernelsVisit, ParametersInTheLayoutOfEachKernel) {
  plant_for(PlanKind::Convolution, "sm_90a");
  int fused = 0;
  std::vector<std::pair<std::string, int64_t>> sizes;
  visit(plan_.get(), "sm_90a", [&](const minuet_kernel_code& kernel) {
    for (int32_t i = 0; i < kernel.field_count; ++i) {
      const minuet_kernel_field& field = kernel.fields[i];
      const std::string name = field.name;
      if (field.data_bytes > 0) sizes.emplace_back(std::string(kernel.name) + name, field.data_bytes);
      if (name == "scale" || name == "shift") {
        ASSERT_EQ(field.data_bytes, 8 * 4) << kernel.name;
        const auto* const numbers = static_cast<const float*>(field.data);
        for (int channel = 0; channel < 8; ++channel) {
          EXPECT_EQ(numbers[channel], name == "scale" ? 0.7f : 0.1f * static_cast<float>(channel) - 0.4f);
        }
      }
      if (name != "weights") continue;
      ++fused;
      EXPECT_STREQ(kernel.family, "fused");
      EXPECT_GE(field.data_bytes, 27 * 4 * 8 * 2);
    }
  });
  EXPECT_GT(fused, 0);
  // Without values the sizes are the same, and there are no bytes.
  Handle<minuet_plan> bare{nullptr, {minuet_plan_destroy}};
  ASSERT_EQ(deserialize(context_.get(), serialize(plan_.get(), {}, MINUET_SERIALIZE_WITHOUT_VALUES), bare),
            MINUET_OK);
  check(minuet_plan_compile(bare.get(), "sm_90a", nullptr, nullptr));
  std::vector<std::pair<std::string, int64_t>> bare_sizes;
  visit(bare.get(), "sm_90a", [&](const minuet_kernel_code& kernel) {
    for (int32_t i = 0; i < kernel.field_count; ++i) {
      EXPECT_EQ(kernel.fields[i].data, nullptr);
      if (kernel.fields[i].data_bytes > 0)
        bare_sizes.emplace_back(std::string(kernel.name) + kernel.fields[i].name,
                                kernel.fields[i].data_bytes);
    }
  });
  EXPECT_EQ(bare_sizes, sizes);
}

TEST_F(KernelsVisit, NeedsThePlanCompiledForJustThisArch) {
  plant_for(PlanKind::Pooling, "sm_80");
  const auto never = [](const minuet_kernel_code*, void*) { ADD_FAILURE() << "there is nothing to visit"; };
  EXPECT_EQ(minuet_plan_visit_kernels(plan_.get(), "sm_86", never, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("minuet_plan_visit_kernels: "), HasSubstr("sm_86"),
                                  HasSubstr("minuet_plan_compile")));
  EXPECT_EQ(minuet_plan_visit_kernels(plan_.get(), "cpu", never, nullptr), MINUET_FAILED_PRECONDITION);
  check(minuet_plan_compile(plan_.get(), "cpu", nullptr, nullptr));
  check(minuet_plan_visit_kernels(plan_.get(), "cpu", never, nullptr));
}

}  // namespace
}  // namespace minuet::abi
