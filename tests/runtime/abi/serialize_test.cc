// Plans as bytes, through the C ABI. Kernels are those of planted_fixture.h, so that neither NVRTC nor a GPU
// is needed.
#include <sys/wait.h>

#include <cstring>
#include <random>
#include <thread>

#include "codegen/bundle/bundle_format.h"
#include "runtime/plan/plan_format.h"
#include "tests/runtime/abi/serialize_fixture.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<const char*> kThreeArchs = {"sm_80", "sm_90a", "sm_120"};

class Serialize : public Planted {
 protected:
  Serialize() {
    planted_ = Handle<minuet_context>(nullptr, {minuet_context_destroy});
    plan_ = Handle<minuet_plan>(nullptr, {minuet_plan_destroy});
  }
  Handle<minuet_context> strict(const std::string& record = "") {
    return context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      options.record_path = record.c_str();
    });
  }
  /// A context that has kernels for the plan on each architecture.
  void plant_for(PlanKind kind, const std::vector<const char*>& archs) {
    planted_ = strict();
    for (const char* const arch : archs) {
      const std::string list = path("plan.jsonl"), bundle = path(std::string(arch) + ".bundle");
      {
        const auto recording = strict(list);
        const auto plan = own_plan(recording.get(), kind);
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
      check(minuet_context_add_bundle(planted_.get(), bundle.c_str(), nullptr));
    }
    plan_ = own_plan(planted_.get(), kind);
  }
  static std::vector<std::string> kernels_of(minuet_plan* plan, const char* arch) {
    std::vector<std::string> kernels;
    const auto note = [](const minuet_kernel_info* kernel, void* user) {
      static_cast<std::vector<std::string>*>(user)->push_back(std::string(kernel->name) + " " + kernel->arch +
                                                              " " + std::to_string(kernel->cubin_bytes));
    };
    check(minuet_plan_compile(plan, arch, note, &kernels));
    return kernels;
  }
  void expect_refusal(minuet_context* context, const std::string& bytes, minuet_status status,
                      const std::string& reason) {
    Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
    EXPECT_EQ(deserialize(context, bytes, plan), status) << reason;
    EXPECT_THAT(last_error(), AllOf(HasSubstr("minuet_plan_deserialize: "), HasSubstr(reason)));
  }

  Handle<minuet_context> planted_{nullptr, {minuet_context_destroy}};
  Handle<minuet_plan> plan_{nullptr, {minuet_plan_destroy}};
};

TEST_F(Serialize, BringsItsKernelsForEveryArch) {
  for (const PlanKind kind : kPlanKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    // The many kernels of the largest network take long to pack.
    const std::vector<const char*> archs = kind == PlanKind::MinkUNet ? std::vector{"sm_90a"} : kThreeArchs;
    plant_for(kind, archs);
    const std::string bytes = serialize(plan_.get(), archs);
    const auto fresh = strict();
    Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
    ASSERT_EQ(deserialize(fresh.get(), bytes, plan), MINUET_OK) << last_error();
    for (const char* const arch : archs) {
      const std::vector<std::string> kernels = kernels_of(plan.get(), arch);
      EXPECT_GT(kernels.size(), 5u);
      EXPECT_EQ(kernels, kernels_of(plan_.get(), arch));
    }
    EXPECT_EQ(counters(fresh.get()).compiled, 0);
    EXPECT_GT(counters(fresh.get()).bundle_hits, 15);
    // A plan made of its bytes has the same bytes.
    EXPECT_EQ(serialize(plan.get(), archs), bytes);
  }
}

/// Where there is neither a GPU nor a driver, an embedder reserves the workspace of a plan that was made and
/// compiled elsewhere.
TEST_F(Serialize, TheWorkspaceOfAGpuThatIsNotThere) {
  const auto bytes_of = [](minuet_plan* plan, const minuet_execution_options* options, int64_t points,
                           double neighbours) {
    int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(plan, "sm_90a", options, points, neighbours, &bytes));
    EXPECT_GT(bytes, 0);
    return bytes;
  };
  for (const PlanKind kind : kPlanKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    plant_for(kind, {"sm_90a"});
    const auto fresh = strict();
    Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
    ASSERT_EQ(deserialize(fresh.get(), serialize(plan_.get(), {"sm_90a"}), plan), MINUET_OK) << last_error();
    int64_t none = -7;
    EXPECT_EQ(minuet_plan_workspace_bytes(plan.get(), "sm_90a", nullptr, 1000, 5, &none),
              MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("sm_90a"), HasSubstr("minuet_plan_compile")));
    EXPECT_EQ(none, -7);
    check(minuet_plan_compile(plan.get(), "sm_90a", nullptr, nullptr));
    check(minuet_plan_compile(plan_.get(), "sm_90a", nullptr, nullptr));
    const int64_t bytes = bytes_of(plan.get(), nullptr, 1000, 5);
    EXPECT_EQ(bytes_of(plan_.get(), nullptr, 1000, 5), bytes);
    EXPECT_GT(bytes_of(plan.get(), nullptr, 100000, 5), bytes);
    if (info_of(plan.get()).maps > 0) continue;
    const std::vector<int64_t> capacities(static_cast<size_t>(info_of(plan.get()).levels), 1000);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    EXPECT_EQ(bytes_of(plan_.get(), &options, 0, 0), bytes_of(plan.get(), &options, 0, 0));
  }
}

TEST_F(Serialize, TheSameBytesInEveryContextAndForEveryOrderOfArchs) {
  plant_for(PlanKind::Pooling, kThreeArchs);
  const std::string bytes = serialize(plan_.get(), kThreeArchs);
  EXPECT_EQ(serialize(plan_.get(), {"sm_120", "cpu", "sm_80", "sm_90a", "sm_80"}), bytes);
  plant_for(PlanKind::Pooling, {"sm_120", "sm_80", "sm_90a"});
  EXPECT_EQ(serialize(plan_.get(), kThreeArchs), bytes);
  EXPECT_EQ(bytes.find(folder_), std::string::npos) << "a path of this machine";
  EXPECT_NE(serialize(plan_.get(), {"sm_80"}), bytes);
  EXPECT_EQ(serialize(plan_.get(), {"cpu"}), serialize(plan_.get()));
}

TEST_F(Serialize, ThePlanIsTheSame) {
  const auto owner = strict(), fresh = strict();
  for (const PlanKind kind : kPlanKinds) {
    const auto plan = own_plan(owner.get(), kind);
    Handle<minuet_plan> again{nullptr, {minuet_plan_destroy}};
    ASSERT_EQ(deserialize(fresh.get(), serialize(plan.get()), again), MINUET_OK) << last_error();
    const minuet_plan_info one = info_of(plan.get()), two = info_of(again.get());
    EXPECT_STREQ(one.name, two.name);
    EXPECT_EQ(one.parameters, two.parameters);
    EXPECT_EQ(one.missing_head, two.missing_head);
    EXPECT_EQ(one.maps, two.maps);
    ASSERT_EQ(one.parameter_tensors, two.parameter_tensors);
    for (int32_t i = 0; i < one.parameter_tensors; ++i) {
      minuet_parameter_info first{}, second{};
      first.struct_size = second.struct_size = sizeof(first);
      check(minuet_plan_query_parameter(plan.get(), i, &first));
      check(minuet_plan_query_parameter(again.get(), i, &second));
      EXPECT_STREQ(first.name, second.name);
      EXPECT_TRUE(std::equal(first.shape, first.shape + 4, second.shape));
    }
  }
}

TEST_F(Serialize, TheSizeIsToldFirst) {
  const auto owner = strict();
  const auto plan = own_plan(owner.get(), PlanKind::Convolution);
  const std::string bytes = serialize(plan.get());
  size_t needed = 0;
  std::string buffer(bytes.size() + 8, '\x5a');
  const std::string untouched = buffer;
  EXPECT_EQ(minuet_plan_serialize(plan.get(), nullptr, 0, 0, buffer.data(), bytes.size() - 1, &needed),
            MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("takes " + std::to_string(bytes.size()) + " bytes"));
  EXPECT_EQ(needed, bytes.size());
  EXPECT_EQ(buffer, untouched);
  EXPECT_EQ(minuet_plan_serialize(plan.get(), nullptr, 0, 0, buffer.data(), 0, &needed), MINUET_OUT_OF_RANGE);
  check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, buffer.data(), buffer.size(), &needed));
  EXPECT_EQ(buffer, bytes + untouched.substr(bytes.size()));
}

/// Bytes that a query made for other architectures are not given.
TEST_F(Serialize, AQueryIsForItsArchsAlone) {
  plant_for(PlanKind::Pooling, {"sm_80"});
  const std::string with = serialize(plan_.get(), {"sm_80"}), without = serialize(plan_.get());
  ASSERT_GT(with.size(), without.size());
  const char* const archs[] = {"sm_80"};
  size_t needed = 0;
  check(minuet_plan_serialize(plan_.get(), archs, 1, 0, nullptr, 0, &needed));
  std::string buffer(needed, '\0');
  check(minuet_plan_serialize(plan_.get(), nullptr, 0, 0, buffer.data(), buffer.size(), &needed));
  EXPECT_EQ(buffer.substr(0, needed), without);
}

/// Without values, the bytes are fewer, and the plan of them runs with given values only.
TEST_F(Serialize, WithoutValues) {
  const auto owner = strict();
  for (const PlanKind kind : {PlanKind::Convolution, PlanKind::Network}) {
    const auto plan = own_plan(owner.get(), kind);
    const std::string whole = serialize(plan.get());
    const std::string bare = serialize(plan.get(), {}, MINUET_SERIALIZE_WITHOUT_VALUES);
    EXPECT_LT(bare.size(), whole.size());
    size_t needed = 0;
    check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, nullptr, 0, &needed));
    std::string buffer(needed, '\0');
    check(minuet_plan_serialize(plan.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, buffer.data(),
                                buffer.size(), &needed));
    EXPECT_EQ(buffer.substr(0, needed), bare) << "the query was for other flags";
    Handle<minuet_plan> again{nullptr, {minuet_plan_destroy}};
    ASSERT_EQ(deserialize(owner.get(), bare, again), MINUET_OK) << last_error();
    EXPECT_EQ(serialize(again.get()), bare) << "it has no values to serialize";
    EXPECT_EQ(info_of(again.get()).parameters, info_of(plan.get()).parameters);
    EXPECT_EQ(info_of(again.get()).parameter_tensors, info_of(plan.get()).parameter_tensors);
    minuet_device* opened = nullptr;
    check(minuet_device_open(owner.get(), "cpu", nullptr, &opened));
    const Handle<minuet_device> device{opened, {minuet_device_destroy}};
    check(minuet_plan_compile(again.get(), "cpu", nullptr, nullptr));
    check(minuet_plan_load(again.get(), opened));
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(again.get(), opened, nullptr, &made), MINUET_FAILED_PRECONDITION);
  }
}

TEST_F(Serialize, WrongArgumentsAreNamed) {
  const auto owner = strict();
  const auto plan = own_plan(owner.get(), PlanKind::Convolution);
  size_t needed = 77;
  size_t words[4] = {};
  const char* const none[] = {nullptr};
  const char* const empty[] = {""};
  const char* const odd[] = {"sm_ninety"};
  const char* const gpu[] = {"sm_90a"};
  const auto refused = [&](minuet_status status, minuet_status expected, const std::string& reason) {
    EXPECT_EQ(status, expected) << reason;
    EXPECT_THAT(last_error(), AllOf(HasSubstr("minuet_plan_serialize: "), HasSubstr(reason)));
    EXPECT_EQ(needed, 77u);
  };
  minuet_plan* const good = plan.get();
  const minuet_status invalid = MINUET_INVALID_ARGUMENT;
  refused(minuet_plan_serialize(nullptr, nullptr, 0, 0, nullptr, 0, &needed), invalid, "plan is null");
  refused(minuet_plan_serialize(good, nullptr, 0, 0, nullptr, 0, nullptr), invalid, "needed is null");
  refused(minuet_plan_serialize(good, nullptr, 1, 0, nullptr, 0, &needed), invalid, "archs is null");
  refused(minuet_plan_serialize(good, gpu, 0, 0, nullptr, 0, &needed), invalid, "arch_count is 0");
  refused(minuet_plan_serialize(good, gpu, -1, 0, nullptr, 0, &needed), invalid, "arch_count is -1");
  refused(minuet_plan_serialize(good, none, 1, 0, nullptr, 0, &needed), invalid, "archs[0] is null");
  refused(minuet_plan_serialize(good, empty, 1, 0, nullptr, 0, &needed), invalid, "archs[0] is an empty");
  refused(minuet_plan_serialize(good, odd, 1, 0, nullptr, 0, &needed), invalid, "sm_ninety");
  refused(minuet_plan_serialize(good, nullptr, 0, 4, nullptr, 0, &needed), invalid, "flags is 4");
  refused(minuet_plan_serialize(good, nullptr, 0, 0, nullptr, 9, &needed), invalid, "buffer is null");
  refused(minuet_plan_serialize(good, nullptr, 0, 0, words, sizeof(words), &words[1]), invalid, "buffer");
  refused(minuet_plan_serialize(good, gpu, 1, 0, nullptr, 0, &needed), MINUET_FAILED_PRECONDITION, "sm_90a");

  minuet_plan* made = nullptr;
  const std::string bytes = serialize(good);
  EXPECT_EQ(minuet_plan_deserialize(nullptr, bytes.data(), bytes.size(), &made), invalid);
  EXPECT_EQ(minuet_plan_deserialize(owner.get(), nullptr, 0, &made), invalid);
  EXPECT_THAT(last_error(), HasSubstr("bytes is null"));
  EXPECT_EQ(minuet_plan_deserialize(owner.get(), bytes.data(), bytes.size(), nullptr), invalid);
  EXPECT_EQ(minuet_plan_deserialize(owner.get(), bytes.data(), 0, &made), invalid);
  EXPECT_EQ(made, nullptr);
}

/// The digest is renewed after each change, so that the reason is the change itself.
TEST_F(Serialize, WhatIsSomethingElseIsSaid) {
  plant_for(PlanKind::Pooling, {"sm_80"});
  const std::string bytes = serialize(plan_.get(), {"sm_80"});
  const auto changed = [&](const std::function<void(PlanHead&)>& change, const std::string& behind = "") {
    PlanHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    change(head);
    std::string other = bytes.substr(0, bytes.size() - kDigestBytes) + behind;
    std::memcpy(other.data(), &head, sizeof head);
    return other + digest_of(other);
  };
  const auto fresh = strict();
  const auto refused = [&](const std::string& given, minuet_status status, const std::string& reason) {
    expect_refusal(fresh.get(), given, status, reason);
  };
  refused("", MINUET_INVALID_ARGUMENT, "not a serialized plan");
  refused(std::string(500, '\xfe'), MINUET_INVALID_ARGUMENT, "not a serialized plan");
  refused(R"({"layers": []})", MINUET_INVALID_ARGUMENT, "JSON");
  refused(contents(path("sm_80.bundle")), MINUET_INVALID_ARGUMENT, "minuet_context_add_bundle_memory");
  refused(bytes + "x", MINUET_INVALID_ARGUMENT, "bytes, but");
  refused(changed([](PlanHead& head) { head.format = kPlanFormat + 1; }), MINUET_FAILED_PRECONDITION,
          "has format " + std::to_string(kPlanFormat + 1));
  refused(changed([](PlanHead& head) { head.format = kOldestPlanFormat - 1; }), MINUET_FAILED_PRECONDITION,
          "has format " + std::to_string(kOldestPlanFormat - 1));
  refused(changed([](PlanHead& head) { head.library += 100; }), MINUET_FAILED_PRECONDITION, "is of version");
  refused(changed([](PlanHead& head) { head.library += 10000; }), MINUET_FAILED_PRECONDITION,
          "is of version");
  refused(changed([](PlanHead& head) { head.file_bytes += 3; }, "abc"), MINUET_INVALID_ARGUMENT,
          "bytes follow its last bundle");
  refused(changed([](PlanHead& head) { head.document_bytes = ~0ull; }), MINUET_INVALID_ARGUMENT, "document");
  EXPECT_EQ(counters(fresh.get()).bundle_hits, 0);
  const auto plan = own_plan(fresh.get(), PlanKind::Pooling);
  EXPECT_EQ(minuet_plan_compile(plan.get(), "sm_80", nullptr, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("no bundle is open"));
  Handle<minuet_plan> patched{nullptr, {minuet_plan_destroy}};
  EXPECT_EQ(deserialize(fresh.get(), changed([](PlanHead& head) { ++head.library; }), patched), MINUET_OK)
      << "a patch release of the same minor version";
}

TEST_F(Serialize, EveryTruncationIsRefused) {
  const auto owner = strict();
  const std::string bytes = serialize(own_plan(owner.get(), PlanKind::Convolution).get());
  Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(deserialize(owner.get(), bytes.substr(0, size), plan), MINUET_INVALID_ARGUMENT) << size;
    EXPECT_NE(last_error(), "");
  }
}

TEST_F(Serialize, EveryFlippedByteIsRefused) {
  const auto owner = strict();
  Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
  const auto expect_refused = [&](std::string& bytes, size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const minuet_status status = deserialize(owner.get(), bytes, plan);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_THAT(status, testing::AnyOf(MINUET_INVALID_ARGUMENT, MINUET_FAILED_PRECONDITION)) << at;
    EXPECT_NE(last_error(), "");
  };
  std::string bytes = serialize(own_plan(owner.get(), PlanKind::Convolution).get());
  for (size_t at = 0; at < bytes.size(); ++at) expect_refused(bytes, at);
  bytes = serialize(own_plan(owner.get(), PlanKind::Network).get());
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) expect_refused(bytes, random() % bytes.size());
}

TEST_F(Serialize, ThreadsDoBothAtOnce) {
  plant_for(PlanKind::Pooling, {"sm_80"});
  const std::string bytes = serialize(plan_.get(), {"sm_80"});
  const auto fresh = strict();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      EXPECT_EQ(serialize(plan_.get(), {"sm_80"}), bytes);
      Handle<minuet_plan> plan{nullptr, {minuet_plan_destroy}};
      EXPECT_EQ(deserialize(fresh.get(), bytes, plan), MINUET_OK) << last_error();
      EXPECT_EQ(minuet_plan_compile(plan.get(), "sm_80", nullptr, nullptr), MINUET_OK) << last_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// In a child, say of a launcher of ranks, the bytes are the same.
TEST_F(Serialize, AnotherProcessGivesTheSameBytes) {
  const std::string bytes = serialize(own_plan(strict().get(), PlanKind::Network).get());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto owner = strict();
    const auto plan = own_plan(owner.get(), PlanKind::Network);
    ::_exit(serialize(plan.get()) == bytes ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace minuet::abi
