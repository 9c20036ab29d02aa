// Parameters that the caller sets: the same bits as a plan with these values, whatever array they come from;
// new values for the next run; and what is refused.
#include <thread>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/parameters_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

TEST_P(ParametersTest, GiveTheBitsOfAPlanWithTheseValues) {
  const Cloud cloud = scene(300);
  const NetworkRun expected = fresh(cloud), other = run_plan(other_plan(), cloud);
  ASSERT_NE(expected, other);
  DeviceArrays arrays(machine(), bare(), values());
  const Parameters parameters = parameters_of(bare());
  const Execution early = execution_with(bare(), parameters);
  check(set(parameters, arrays));
  EXPECT_EQ(run(early, cloud), expected);
  arrays.put(machine(), other_values());
  EXPECT_EQ(run(early, cloud), expected) << "an array is read by the call alone";
  check(set(parameters, arrays));
  check(minuet_device_synchronize(machine().device(), nullptr));
  arrays.poison();
  EXPECT_EQ(run(early, cloud), other);
  EXPECT_EQ(run(execution_with(bare(), parameters), cloud), other) << "of an execution that is made later";
}

/// A plan with values of its own takes others too, and keeps its own.
TEST_P(ParametersTest, OfAPlanWithValues) {
  const Cloud cloud = scene(200);
  const NetworkRun expected = fresh(cloud), other = run_plan(other_plan(), cloud);
  DeviceArrays arrays(machine(), network_.get(), other_values());
  const Parameters parameters = parameters_of(network_.get());
  check(set(parameters, arrays));
  const Execution with = execution_with(network_.get(), parameters);
  EXPECT_EQ(run(with, cloud), other);
  EXPECT_EQ(fresh(cloud), expected);
}

/// The fused dataflow reads images, gather-GEMM-scatter reads weights as they are or a copy that a prepare
/// makes.
TEST_P(ParametersTest, BetweenPrepareAndRun) {
  for (const minuet_dataflow dataflow : {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED}) {
    NetworkSpec wanted = spec();
    wanted.dataflow = dataflow;
    const Plan plan = make_network(machine(), wanted);
    const Cloud cloud = scene(150);
    const Parameters parameters = parameters_of(plan.get());
    DeviceArrays arrays(machine(), plan.get(), other_values());
    check(set(parameters, arrays));
    const Execution execution = execution_with(plan.get(), parameters);
    run(execution, cloud);
    arrays.put(machine(), values());
    check(set(parameters, arrays));
    const Buffer features(machine(), cloud.bytes);
    Buffer output(machine(), cloud.count() * kWidths.back() * dtype_bytes(dtype()));
    output.poison();
    check(ExecutionTest::enqueue(execution.get(), cloud, features.data(), output.data()));
    EXPECT_EQ(output.read<char>(), run_plan(plan.get(), cloud).bytes) << "dataflow " << dataflow;
  }
}

TEST_P(ParametersTest, FromEveryKindOfArray) {
  const Cloud cloud = scene(120);
  const NetworkRun expected = fresh(cloud);
  // The weights of the test are exact in every type.
  for (const minuet_element element :
       {MINUET_ELEMENT_F32, MINUET_ELEMENT_F16, MINUET_ELEMENT_BF16, MINUET_ELEMENT_F64}) {
    DeviceArrays arrays(machine(), bare(), values(), element);
    const Parameters parameters = parameters_of(bare());
    // One by one from the last to the first, and every other one from the host.
    std::deque<std::vector<char>> host;
    for (int32_t i = arrays.count() - 1; i >= 0; --i) {
      minuet_array array = arrays.arrays()[static_cast<size_t>(i)];
      if (i % 2 == 0) {
        const std::vector<float>& numbers = values().at(arrays.name(static_cast<size_t>(i))).values;
        host.push_back(encode_element(array.element, numbers));
        array.data = host.back().data();
        array.on_host = 1;
      }
      check(minuet_parameters_set(parameters.get(), &i, &array, 1, MINUET_WEIGHTS_MINUET, nullptr));
    }
    EXPECT_EQ(run(execution_with(bare(), parameters), cloud), expected) << "element " << element;
  }
}

TEST_P(ParametersTest, InCapacityMode) {
  const Cloud cloud = scene(300), small = scene(20);
  const Capacities capacities = suggested(cloud);
  Room room(machine(), capacities[0], dtype());
  const auto outputs_of = [&](const Execution& execution) {
    std::vector<std::vector<char>> outputs;
    for (const Cloud* const one : {&cloud, &small}) {
      room.fill(*one, static_cast<int32_t>(one->count()));
      CapacityTest::enqueue(execution.get(), room, nullptr);
      outputs.push_back(room.output.read<char>());
    }
    return outputs;
  };
  const minuet_execution_options options = options_of(capacities);
  const auto expected = outputs_of(make_execution(machine(), network_.get(), &options));
  const auto other = outputs_of(make_execution(machine(), other_plan(), &options));
  const Parameters parameters = parameters_of(bare());
  const Execution before = execution_with(bare(), parameters, options);
  DeviceArrays arrays(machine(), bare(), values());
  check(set(parameters, arrays));
  EXPECT_EQ(outputs_of(before), expected);
  const Execution after = execution_with(bare(), parameters, options);
  EXPECT_EQ(outputs_of(after), expected);
  arrays.put(machine(), other_values());
  check(set(parameters, arrays));
  EXPECT_EQ(outputs_of(before), other);
  EXPECT_EQ(outputs_of(after), other);
}

/// Parameters as operands: each run has values of its own.
TEST_P(ParametersTest, AsInputsOfARun) {
  const Cloud cloud = scene(200);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), bare(), &options);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer features(machine(), cloud.bytes);
  Buffer output(machine(), cloud.count() * kWidths.back() * dtype_bytes(dtype()));
  std::vector<minuet_tensor> inputs{features_of(features.data(), cloud.count())};
  const auto run_with = [&](const Values& given) {
    DeviceArrays arrays(machine(), bare(), given);
    inputs.resize(1);
    for (const minuet_array& array : arrays.arrays()) inputs.push_back(matrix_of(array));
    output.poison();
    check(run_tensors(execution.get(), inputs,
                      tensor(output.data(), cloud.count(), kWidths.back(), abi_dtype(dtype()))));
    return output.read<char>();
  };
  EXPECT_EQ(run_with(values()), fresh(cloud).bytes);
  EXPECT_EQ(run_with(other_values()), run_plan(other_plan(), cloud).bytes);
  const auto refused = [&] {
    EXPECT_EQ(run_tensors(execution.get(), inputs,
                          tensor(output.data(), cloud.count(), kWidths.back(), abi_dtype(dtype()))),
              MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  inputs.back().channels += 1;
  EXPECT_THAT(refused(), HasSubstr("the input for parameter"));
  inputs.pop_back();
  EXPECT_THAT(refused(), HasSubstr(std::to_string(inputs.size()) + " parameters"));
}

/// A run that is refused sets nothing.
TEST_P(ParametersTest, ARefusedRunSetsNothing) {
  minuet_queue* made = nullptr;
  const Stream stream(machine()), other(machine());
  check(minuet_queue_create(machine().device(), stream.get(), &made));
  const Handle<minuet_queue> queue{made, {minuet_queue_destroy}};
  const Cloud cloud = scene(60);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  options.queue = made;
  const Execution execution = make_execution(machine(), bare(), &options);
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), stream.get()));
  Buffer output(machine(), cloud.count() * kWidths.back() * dtype_bytes(dtype()));
  DeviceArrays arrays(machine(), bare(), values()), others(machine(), bare(), other_values());
  const auto run_on = [&](DeviceArrays& given, void* on, const auto& change) {
    std::vector<minuet_tensor> inputs{features_of(features.data(), cloud.count())};
    for (const minuet_array& array : given.arrays()) inputs.push_back(matrix_of(array));
    change(inputs);
    return run_tensors(execution.get(), inputs,
                       tensor(output.data(), cloud.count(), kWidths.back(), abi_dtype(dtype())), on);
  };
  const auto nothing = [](auto&) {};
  check(run_on(arrays, stream.get(), nothing));
  check(minuet_device_synchronize(machine().device(), stream.get()));
  const std::vector<char> expected = output.read<char>();
  if (!machine().is_cpu()) {
    EXPECT_EQ(run_on(others, other.get(), nothing), MINUET_INVALID_ARGUMENT);
  }
  for (const int64_t stride : {INT64_MAX, int64_t{1} << 62, int64_t{-1}, int64_t{1}}) {
    EXPECT_EQ(run_on(others, stream.get(), [&](auto& inputs) { inputs[1].row_stride = stride; }),
              MINUET_INVALID_ARGUMENT)
        << stride;
    EXPECT_THAT(last_error(), HasSubstr("the input for parameter"));
  }
  output.poison();
  check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), stream.get()));
  check(run_on(arrays, stream.get(), nothing));
  check(minuet_device_synchronize(machine().device(), stream.get()));
  EXPECT_EQ(output.read<char>(), expected);
}

TEST_P(ParametersTest, GivesValuesBack) {
  for (const bool master : {false, true}) {
    const Parameters parameters = parameters_of(bare(), master);
    Values given = values();
    // No number is exact in 16 bits.
    for (auto& [name, tensor] : given) {
      for (float& value : tensor.values) value *= 1.0009766F;
    }
    DeviceArrays arrays(machine(), bare(), given);
    check(set(parameters, arrays));
    for (size_t i = 0; i < arrays.arrays().size(); ++i) {
      const minuet_array& array = arrays.arrays()[i];
      const std::vector<float>& numbers = given.at(arrays.name(i)).values;
      const std::vector<float> expected = array.rank == 1 || master ? numbers : round_to(dtype(), numbers);
      Buffer target(machine(), static_cast<int64_t>((numbers.size() + 1) * sizeof(float)));
      target.poison();
      minuet_array value =
          array_of(target.data(), {array.shape, array.shape + array.rank}, MINUET_ELEMENT_F32);
      check(minuet_parameters_get(parameters.get(), static_cast<int32_t>(i), &value, nullptr));
      std::vector<float> read = target.read<float>();
      EXPECT_NE(read.back(), read.back()) << "the poison behind it";
      read.pop_back();
      EXPECT_EQ(read, expected) << arrays.name(i);
      std::vector<float> on_host(numbers.size());
      value.data = on_host.data();
      value.on_host = 1;
      check(minuet_parameters_get(parameters.get(), static_cast<int32_t>(i), &value, nullptr));
      EXPECT_EQ(on_host, expected) << arrays.name(i);
    }
    std::vector<char> bytes(numbers_of(arrays.arrays()[0]) * 2);
    minuet_array stored = arrays.arrays()[0];
    stored.data = bytes.data();
    stored.on_host = 1;
    stored.element = MINUET_ELEMENT_BF16;
    check(minuet_parameters_get(parameters.get(), 0, &stored, nullptr));
    const std::vector<float>& numbers = given.at(arrays.name(0)).values;
    EXPECT_EQ(bytes,
              encode(DType::BF16, round_to(DType::BF16, master ? numbers : round_to(dtype(), numbers))));
  }
}

TEST_P(ParametersTest, AreTakenAsTheyAre) {
  const Cloud cloud = scene(60);
  Values given = values();
  for (auto& [name, tensor] : given) {
    if (name.ends_with("running_var")) tensor.values[0] = -1;
  }
  DeviceArrays arrays(machine(), bare(), given);
  const Parameters parameters = parameters_of(bare());
  check(set(parameters, arrays));
  const std::vector<float> output = decode(dtype(), run(execution_with(bare(), parameters), cloud).bytes);
  EXPECT_TRUE(std::any_of(output.begin(), output.end(), [](float value) { return value != value; }));
}

TEST_P(ParametersTest, WithoutAValueNoRun) {
  const Cloud cloud = scene(60);
  const Parameters parameters = parameters_of(bare());
  const Execution execution = execution_with(bare(), parameters);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer features(machine(), cloud.bytes);
  const Buffer output(machine(), cloud.count() * kWidths.back() * dtype_bytes(dtype()));
  const auto refused = [&] {
    EXPECT_EQ(ExecutionTest::enqueue(execution.get(), cloud, features.data(), output.data()),
              MINUET_FAILED_PRECONDITION);
    return last_error();
  };
  DeviceArrays arrays(machine(), bare(), values());
  EXPECT_THAT(refused(), HasSubstr("\"" + arrays.name(0) + "\""));
  EXPECT_THAT(refused(), HasSubstr(std::to_string(arrays.count() - 8) + " more"));
  check(minuet_parameters_set(parameters.get(), nullptr, arrays.arrays().data(), arrays.count() - 1,
                              MINUET_WEIGHTS_MINUET, nullptr));
  const std::string message = refused();
  EXPECT_THAT(message, HasSubstr("\"" + arrays.name(static_cast<size_t>(arrays.count()) - 1) + "\""));
  EXPECT_THAT(message, testing::Not(HasSubstr("\"" + arrays.name(0) + "\"")));
  minuet_array value = arrays.arrays().back();
  EXPECT_EQ(minuet_parameters_get(parameters.get(), arrays.count() - 1, &value, nullptr),
            MINUET_FAILED_PRECONDITION);
  check(set(parameters, arrays));
  check(ExecutionTest::enqueue(execution.get(), cloud, features.data(), output.data()));
  minuet_execution* made = nullptr;
  EXPECT_EQ(minuet_execution_create(bare(), machine().device(), nullptr, &made), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("parameter_inputs"));
}

TEST_P(ParametersTest, RefusesWhatDoesNotFit) {
  const Parameters parameters = parameters_of(bare());
  DeviceArrays arrays(machine(), bare(), values());
  const minuet_array good = arrays.arrays()[0];
  const auto refused = [&](const minuet_array& array, int32_t index = 0,
                           minuet_status status = MINUET_INVALID_ARGUMENT) {
    EXPECT_EQ(minuet_parameters_set(parameters.get(), &index, &array, 1, MINUET_WEIGHTS_MINUET, nullptr),
              status);
    return last_error();
  };
  const auto changed = [&](const auto& change) {
    minuet_array array = good;
    change(array);
    return array;
  };
  EXPECT_THAT(refused(good, -1, MINUET_OUT_OF_RANGE), HasSubstr("-1"));
  EXPECT_THAT(refused(good, arrays.count(), MINUET_OUT_OF_RANGE), HasSubstr("numbered from 0"));
  EXPECT_THAT(refused(good, 1), HasSubstr(arrays.name(1)));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.shape[0] += 1; })), HasSubstr(arrays.name(0)));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.rank = 0; })), HasSubstr("rank"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.rank = 7; })), HasSubstr("rank"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.shape[1] = -1; })), HasSubstr("shape[1]"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.stride[1] = 1; })), HasSubstr("has_strides"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.has_strides = 1, a.stride[1] = -1; })),
              HasSubstr("stride[1]"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.has_strides = 1, a.stride[0] = INT64_MAX / 2; })),
              HasSubstr("memory"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.element = MINUET_ELEMENT_I32; })),
              HasSubstr("element"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.element = 1; })), HasSubstr("element"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.on_host = 2; })), HasSubstr("on_host"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.has_strides = 2; })), HasSubstr("has_strides"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.data = nullptr; })), HasSubstr("data"));
  EXPECT_THAT(refused(changed([](minuet_array& a) { a.data = static_cast<char*>(a.data) + 2; })),
              HasSubstr("multiple"));
  const std::vector<int32_t> twice{0, 0};
  const std::vector<minuet_array> two{good, good};
  EXPECT_EQ(minuet_parameters_set(parameters.get(), twice.data(), two.data(), 2, 0, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("twice"));
  for (const minuet_weights_order order : {-1, 10}) {
    EXPECT_EQ(minuet_parameters_set(parameters.get(), nullptr, two.data(), 1, order, nullptr),
              MINUET_INVALID_ARGUMENT);
  }
  EXPECT_EQ(minuet_parameters_set(parameters.get(), nullptr, two.data(), 0, 0, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_parameters_set(parameters.get(), nullptr, nullptr, 1, 0, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_parameters_set(nullptr, nullptr, two.data(), 1, 0, nullptr), MINUET_INVALID_ARGUMENT);
  minuet_array value = good;
  EXPECT_EQ(minuet_parameters_get(parameters.get(), 0, &value, nullptr), MINUET_FAILED_PRECONDITION)
      << "nothing was set by calls that were refused";
  check(minuet_parameters_set(parameters.get(), nullptr, &good, 1, 0, nullptr));
  value.element = MINUET_ELEMENT_F64;
  EXPECT_EQ(minuet_parameters_get(parameters.get(), 0, &value, nullptr), MINUET_INVALID_ARGUMENT);
  value = good;
  std::swap(value.shape[0], value.shape[1]);
  EXPECT_EQ(minuet_parameters_get(parameters.get(), 0, &value, nullptr), MINUET_INVALID_ARGUMENT);
  value = good;
  value.has_strides = 1;
  EXPECT_EQ(minuet_parameters_get(parameters.get(), 0, &value, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("contiguous"));
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameters = parameters.get();
  minuet_execution* made = nullptr;
  EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &made),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("another plan"));
  options.parameter_inputs = 1;
  EXPECT_EQ(minuet_execution_create(bare(), machine().device(), &options, &made), MINUET_INVALID_ARGUMENT);
}

MINUET_INSTANTIATE_EXECUTION_TEST(ParametersTest);

class ParametersOnGpu : public ParametersTest {};

/// One graph sets, prepares and runs, for values and clouds that the host does not know.
TEST_P(ParametersOnGpu, CapturedWithARun) {
  const Cloud cloud = scene(200), small = scene(20);
  const Capacities capacities = suggested(cloud);
  const minuet_execution_options options = options_of(capacities);
  const Parameters parameters = parameters_of(bare());
  const Execution execution = execution_with(bare(), parameters, options);
  DeviceArrays arrays(machine(), bare(), values());
  Room room(machine(), capacities[0], dtype());
  const Stream stream(machine());
  room.fill(cloud, static_cast<int32_t>(cloud.count()));
  const CapturedGraph graph(stream.get(), [&] {
    check(set(parameters, arrays, stream.get()));
    CapacityTest::enqueue(execution.get(), room, stream.get());
    minuet_array host = arrays.arrays()[0];
    std::vector<float> numbers(numbers_of(host));
    host.data = numbers.data();
    host.on_host = 1;
    const int32_t first = 0;
    EXPECT_EQ(minuet_parameters_set(parameters.get(), &first, &host, 1, 0, stream.get()),
              MINUET_FAILED_PRECONDITION)
        << last_error();
    EXPECT_EQ(minuet_parameters_get(parameters.get(), 0, &host, stream.get()), MINUET_FAILED_PRECONDITION)
        << last_error();
  });
  ASSERT_TRUE(graph.whole());
  for (const bool is_other : {false, true, false}) {
    arrays.put(machine(), is_other ? other_values() : values());
    const Execution plain = make_execution(machine(), is_other ? other_plan() : network_.get(), &options);
    for (const Cloud* const one : {&cloud, &small}) {
      room.fill(*one, static_cast<int32_t>(one->count()));
      CapacityTest::enqueue(plain.get(), room, stream.get());
      check(minuet_device_synchronize(machine().device(), stream.get()));
      const std::vector<char> expected = room.output.read<char>();
      room.output.poison();
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      check(minuet_device_synchronize(machine().device(), stream.get()));
      EXPECT_EQ(room.output.read<char>(), expected);
    }
  }
}

/// A graph sets the images that there were when it was captured, so more of them are refused afterwards.
TEST_P(ParametersOnGpu, NoNewImagesAfterACapture) {
  const Cloud cloud = scene(100);
  const Parameters parameters = parameters_of(bare());
  DeviceArrays arrays(machine(), bare(), values());
  check(set(parameters, arrays));
  const Execution before = execution_with(bare(), parameters);
  const Stream stream(machine());
  const CapturedGraph graph(stream.get(), [&] { check(set(parameters, arrays, stream.get())); });
  ASSERT_TRUE(graph.whole());
  EXPECT_EQ(prepare(machine(), before.get(), cloud.coordinates), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_parameters_release_captures"));
  check(minuet_parameters_release_captures(parameters.get()));
  EXPECT_EQ(run(before, cloud), fresh(cloud));
  // A graph that sets no weight leaves new images alone.
  const Parameters others = parameters_of(bare());
  check(set(others, arrays));
  const CapturedGraph of_a_vector(stream.get(), [&] {
    const int32_t last = arrays.count() - 1;
    check(minuet_parameters_set(others.get(), &last, &arrays.arrays().back(), 1, MINUET_WEIGHTS_MINUET,
                                stream.get()));
  });
  ASSERT_TRUE(of_a_vector.whole());
  EXPECT_EQ(run(execution_with(bare(), others), cloud), fresh(cloud));
}

INSTANTIATE_TEST_SUITE_P(Devices, ParametersOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

/// Executions of many threads select images of the same parameters at the same time.
TEST_P(ParametersTest, OneSetOfValuesForManyThreads) {
  const Cloud cloud = scene(80);
  const NetworkRun expected = fresh(cloud);
  const Parameters parameters = parameters_of(bare());
  DeviceArrays arrays(machine(), bare(), values());
  check(set(parameters, arrays));
  check(minuet_device_synchronize(machine().device(), nullptr));
  std::vector<NetworkRun> runs(4);
  std::vector<std::thread> threads;
  for (NetworkRun& run : runs) {
    threads.emplace_back([&] { run = this->run(execution_with(bare(), parameters), cloud); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const NetworkRun& run : runs) EXPECT_EQ(run, expected);
}

/// Sets on many streams are ordered, although the caller does not order them.
TEST_P(ParametersOnGpu, SetsOnManyStreamsAreOrdered) {
  const Cloud cloud = scene(80);
  const Parameters parameters = parameters_of(bare());
  DeviceArrays arrays(machine(), bare(), values()), others(machine(), bare(), other_values());
  const Stream first(machine()), second(machine());
  const Execution execution = execution_with(bare(), parameters);
  for (int i = 0; i < 3; ++i) {
    check(set(parameters, others, first.get()));
    check(set(parameters, arrays, second.get()));
  }
  check(minuet_device_synchronize(machine().device(), second.get()));
  EXPECT_EQ(run(execution, cloud), fresh(cloud));
}

}  // namespace
}  // namespace minuet::abi
