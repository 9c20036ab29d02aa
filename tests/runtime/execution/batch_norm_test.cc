// Batch norms in training through the C ABI, on every device and in every type, against float64: all options,
// few and no rows, large means, ranks that share statistics, and the same bits each time.
#include <gmock/gmock.h>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/batch_norm_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

TEST_P(BatchNorm, OfEveryOptionAndWidth) {
  // Vectors of every width, and rows that fill no block.
  const int widths[] = {16, 3, 64, 24, 130, 1, 96, 10};
  // On the software device, which compiles for each, the dtypes share the combinations.
  const int combinations = machine().is_software() ? 4 : 8;
  for (int i = 0; i < combinations; ++i) {
    const int number = machine().is_software() ? (2 * static_cast<int>(dtype()) + i) % 8 : i;
    NormCase of;
    of.channels = widths[number % 8];
    of.has_residual = (number & 1) != 0, of.has_relu = (number & 2) != 0;
    of.is_affine = (number & 4) == 0, of.has_running_mean = number % 3 != 0;
    of.rows = 700, of.capacity = 700 + number % 3 * 400;
    of.gap = number % 2 * 16;
    of.seed = static_cast<uint64_t>(number + 10);
    check_case(of);
  }
}

TEST_P(BatchNorm, OfFewRows) {
  NormCase of;
  of.has_running_mean = true;
  for (const int64_t rows : {0, 1, 2, 3}) {
    for (const int64_t more : {0, 5}) {
      for (const bool is_cumulative : {false, true}) {
        of.rows = rows, of.capacity = rows + more, of.is_cumulative = is_cumulative;
        const NormData data(of, dtype());
        const BatchNormOp op = make_op(of);
        const Room room(machine(), op.get(), of, data, dtype());
        run(op.get(), room);
        const oracle::NormBatch batch = batch_of(of, data);
        expect_forward(room, batch);
        const double share = rows == 0 ? 0 : is_cumulative ? 1.0 / 3 : static_cast<double>(of.momentum);
        expect_running(room, data, batch, share);
        EXPECT_EQ(room.new_batches.read<int64_t>().front(), rows > 0 ? 3 : 2);
        if (rows == 0) {
          EXPECT_EQ(room.new_running_mean.read<float>(), data.running_mean);
          EXPECT_EQ(room.new_running_variance.read<float>(), data.running_variance);
          EXPECT_EQ(room.weight_gradient.read<float>(), std::vector<float>(16));
          EXPECT_EQ(room.bias_gradient.read<float>(), std::vector<float>(16));
          room.input_gradient.read();  // expects zeros
        } else if (rows > 1) {
          expect_backward(room, batch, room.output.read());
        }
        if (rows != 1) continue;
        const std::vector<float> saved = room.saved.read<float>();
        EXPECT_EQ(room.output.read(), round_to(storage_type(dtype()), data.bias)) << "the bias";
        EXPECT_EQ(room.input_gradient.read(), std::vector<float>(16)) << "the gradient of one row is 0";
        EXPECT_EQ(std::vector<float>(saved.begin(), saved.begin() + 16), data.input) << "the mean";
      }
    }
  }
}

TEST_P(BatchNorm, TreatsACountOutOfBoundsAsNone) {
  NormCase of;
  of.rows = 0, of.capacity = 9, of.has_running_mean = true;
  const NormData data(of, dtype());
  const BatchNormOp op = make_op(of);
  for (const int32_t said : {-1, 10}) {
    const Room room(machine(), op.get(), of, data, dtype());
    check(minuet_device_copy(machine().device(), room.count.data(), &said, 4, 0));
    run(op.get(), room);
    EXPECT_EQ(room.saved.read<float>().back(), 0);
    EXPECT_EQ(room.new_running_mean.read<float>(), data.running_mean);
    room.output.read(), room.input_gradient.read();  // expect zeros
  }
}

/// The variance is that of small differences between large numbers, where sums of squares would cancel.
TEST_P(BatchNorm, KeepsTheVarianceBesideALargeMean) {
  const DType stored = storage_type(dtype());
  NormCase of;
  of.rows = machine().is_software() ? 1100 : 5000, of.capacity = of.rows;
  of.mean = stored == DType::F32 ? 30000 : stored == DType::F16 ? 1000 : 200;
  of.deviation = stored == DType::F32 ? 0.5 : stored == DType::F16 ? 1 : 2;
  check_case(of);
  // The first row, from which differences are taken, lies far out, and a channel is constant.
  NormData data(of, dtype());
  for (size_t c = 0; c < 16; ++c) data.input[c] = 0;
  for (size_t i = 5; i < data.input.size(); i += 16) data.input[i] = 7;
  const BatchNormOp op = make_op(of);
  const Room room(machine(), op.get(), of, data, dtype());
  run(op.get(), room);
  const oracle::NormBatch batch = batch_of(of, data);
  expect_forward(room, batch);
  expect_backward(room, batch, room.output.read());
}

/// Results that the dtype rounds to 0 pass on no gradient, whether the mask is read or computed again.
TEST_P(BatchNorm, MasksWhatIsStoredAsZero) {
  const DType stored = storage_type(dtype());
  NormCase of;
  // Half of the smallest number of the dtype is about the weight, so that many positive results are rounded
  // to 0. A small deviation makes gradients of the input that are far from 0.
  of.has_relu = true, of.mean = 0;
  of.weight = stored == DType::F16 ? 3e-8 : stored == DType::BF16 ? 5e-41 : 1e-45;
  of.deviation = stored == DType::F16 ? 1e-3 : 1e-12, of.eps = stored == DType::F16 ? 1e-12f : 1e-30f;
  for (const bool has_residual : {false, true}) {
    if (has_residual && machine().is_software()) continue;
    of.has_residual = has_residual;
    NormData data(of, dtype());
    std::fill(data.residual.begin(), data.residual.end(), 0.0f);
    const BatchNormOp op = make_op(of);
    const Room room(machine(), op.get(), of, data, dtype());
    run(op.get(), room);
    const std::vector<float> output = room.output.read();
    const oracle::NormBatch batch = batch_of(of, data);
    const std::vector<double> exact = oracle::normalize(batch).output;
    int64_t rounded = 0, positive = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      rounded += exact[i] > 0 && output[i] == 0 ? 1 : 0;
      positive += output[i] > 0 ? 1 : 0;
    }
    EXPECT_GT(rounded, 500);
    EXPECT_GT(positive, 500);
    expect_backward(room, batch, output);
    const std::vector<float> gradient = room.input_gradient.read();
    EXPECT_GT(static_cast<double>(*std::max_element(gradient.begin(), gradient.end())), 100 * smallest())
        << "a wrong mask would not show";
  }
}

TEST_P(BatchNorm, KeepsNaN) {
  NormCase of;
  of.has_relu = true;
  NormData data(of, dtype());
  data.input[3] = std::numeric_limits<float>::quiet_NaN();
  const BatchNormOp op = make_op(of);
  const Room room(machine(), op.get(), of, data, dtype());
  run(op.get(), room);
  const std::vector<float> output = room.output.read(), gradient = room.input_gradient.read();
  for (size_t i = 0; i < output.size(); ++i) {
    EXPECT_EQ(std::isnan(output[i]), i % 16 == 3) << i;
    EXPECT_EQ(std::isnan(gradient[i]), i % 16 == 3) << i;
  }
}

/// As in a ReLU of minuet/pointwise.h, the gradient of a result that is NaN passes.
TEST_P(BatchNorm, PassesTheGradientOfNaN) {
  NormCase of;
  of.has_residual = of.has_relu = true;
  NormData data(of, dtype());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t i : {3, 100, 11199}) data.residual[i] = nan;
  const BatchNormOp op = make_op(of);
  const Room room(machine(), op.get(), of, data, dtype());
  run(op.get(), room);
  const std::vector<float> output = room.output.read(), gradient = room.residual_gradient.read();
  for (const size_t i : {3, 100, 11199}) {
    EXPECT_TRUE(std::isnan(output[i])) << i;
    EXPECT_EQ(gradient[i], data.out_gradient[i]) << i;
  }
  oracle::NormBatch batch = batch_of(of, data);
  std::vector<float> passing = output;  // The oracle's mask takes positive numbers.
  for (float& value : passing) value = std::isnan(value) ? 1 : value;
  for (double& value : batch.residual) value = std::isnan(value) ? 0 : value;
  expect_backward(room, batch, passing);
}

/// Running statistics of which nothing is kept may be uninitialized.
TEST_P(BatchNorm, ReplacesRunningStatistics) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool is_cumulative : {false, true}) {
    for (const int64_t rows : {1, 70}) {
      NormCase of;
      of.rows = of.capacity = rows, of.has_running_mean = true, of.is_cumulative = is_cumulative;
      of.momentum = 1;
      const NormData data(of, dtype());
      NormData unset = data;
      unset.running_mean.assign(16, nan), unset.running_variance.assign(16, nan);
      const BatchNormOp op = make_op(of);
      const Room room(machine(), op.get(), of, unset, dtype());
      const int64_t none = 0;
      if (is_cumulative) check(minuet_device_copy(machine().device(), room.batches.data(), &none, 8, 0));
      run(op.get(), room);
      expect_running(room, data, batch_of(of, data), 1);
    }
  }
}

/// The same rows give the same bits with any capacity, in place, and each time.
TEST_P(BatchNorm, RepeatsBitByBit) {
  NormCase of;
  of.channels = 24, of.rows = 1300, of.capacity = 1300;
  of.has_residual = of.has_relu = of.has_running_mean = true;
  const NormData data(of, dtype());
  const BatchNormOp op = make_op(of);
  const Room room(machine(), op.get(), of, data, dtype());
  run(op.get(), room);
  const std::vector<std::vector<float>> first = room.results();
  NormCase wider = of;
  // The capacity has so many rows that pieces would be longer if they depended on it. The software device
  // would take minutes.
  wider.capacity = (machine().is_software() ? 2 : 110) * of.capacity, wider.gap = 8;
  Room other(machine(), op.get(), wider, data, dtype());
  other.forward.new_running_mean = Room::floats(other.running_mean);
  other.forward.new_running_variance = Room::floats(other.running_variance);
  other.forward.new_batch_count = static_cast<int64_t*>(other.batches.data());
  run(op.get(), other);
  EXPECT_EQ(other.running_mean.read<float>(), room.new_running_mean.read<float>());
  EXPECT_EQ(other.running_variance.read<float>(), room.new_running_variance.read<float>());
  EXPECT_EQ(other.batches.read<int64_t>().front(), 3);
  std::vector<std::vector<float>> again = other.results();
  again[6] = first[6], again[7] = first[7];  // These are in place.
  EXPECT_EQ(again, first);
  run(op.get(), room);
  EXPECT_EQ(room.results(), first);
  if (!machine().is_cpu()) return;
  for (const int64_t threads : {1, 3}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.cpu_threads = threads;
    minuet_context* made = nullptr;
    check(minuet_context_create(&options, &made));
    const Handle<minuet_context> context(made, {minuet_context_destroy});
    minuet_device* opened = nullptr;
    check(minuet_device_open(made, "cpu", nullptr, &opened));
    const Handle<minuet_device> device(opened, {minuet_device_destroy});
    check(minuet_batch_norm_load(op.get(), opened));
    const Room own(machine(), op.get(), of, data, dtype());
    check(minuet_batch_norm_forward(op.get(), opened, &own.forward, nullptr));
    check(minuet_batch_norm_backward(op.get(), opened, &own.backward, nullptr));
    EXPECT_EQ(own.results(), first) << threads << " threads";
  }
}

TEST_P(BatchNorm, AddsToGradients) {
  NormCase of;
  const NormData data(of, dtype());
  const BatchNormOp op = make_op(of);
  Room room(machine(), op.get(), of, data, dtype());
  run(op.get(), room);
  const std::vector<float> weight = room.weight_gradient.read<float>(),
                           bias = room.bias_gradient.read<float>();
  const std::vector<float> before(16, 0.5f);
  for (const Buffer* gradient : {&room.weight_gradient, &room.bias_gradient})
    check(minuet_device_copy(machine().device(), gradient->data(), before.data(), 64, 0));
  room.backward.accumulate = 1;
  run(op.get(), room);
  const std::vector<float> more_weight = room.weight_gradient.read<float>();
  const std::vector<float> more_bias = room.bias_gradient.read<float>();
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_EQ(more_weight[c], 0.5f + weight[c]);
    EXPECT_EQ(more_bias[c], 0.5f + bias[c]);
  }
  // A call without the memory of a gradient does not compute it.
  const std::vector<float> input_gradient = room.input_gradient.read();
  room.backward.weight_gradient = room.backward.bias_gradient = nullptr;
  run(op.get(), room);
  EXPECT_EQ(room.input_gradient.read(), input_gradient);
  EXPECT_EQ(room.weight_gradient.read<float>(), more_weight);
}

/// Three ranks, one of which has no rows, share statistics: each has its part of what one rank would have.
TEST_P(BatchNorm, OfSeveralRanks) {
  for (const bool has_residual : {false, true}) {
    // The rank without rows has room for some only in one of the cases.
    const int64_t room_of_none = has_residual ? 0 : 3;
    NormCase all;
    all.rows = all.capacity = 1500, all.mean = 100;
    all.has_residual = has_residual, all.has_relu = all.has_running_mean = true;
    const NormData data(all, dtype());
    const BatchNormOp op = make_op(all);
    const std::vector<int64_t> firsts{0, 600, 600, 1500};
    std::vector<std::unique_ptr<Room>> ranks;
    ranks.reserve(3);
    for (size_t r = 0; r < 3; ++r) {
      NormCase of = all;
      of.rows = firsts[r + 1] - firsts[r], of.capacity = of.rows == 0 ? room_of_none : of.rows + 3;
      NormData part = data;
      for (std::vector<float>* values : {&part.input, &part.residual, &part.out_gradient}) {
        if (values->empty()) continue;
        *values = {values->begin() + firsts[r] * 16, values->begin() + firsts[r + 1] * 16};
      }
      ranks.push_back(std::make_unique<Room>(machine(), op.get(), of, part, dtype()));
      check(minuet_batch_norm_sum(op.get(), machine().device(), &ranks.back()->forward, nullptr));
    }
    std::vector<float> gathered;
    for (const auto& rank : ranks) {
      const std::vector<float> moments = rank->moments.read<float>();
      gathered.insert(gathered.end(), moments.begin(), moments.end());
    }
    const Buffer all_moments(machine(), gathered);
    const oracle::NormBatch batch = batch_of(all, data);
    std::vector<float> outputs, sums(32);
    for (size_t r = 0; r < 3; ++r) {
      Room& rank = *ranks[r];
      rank.forward.all_moments = Room::floats(all_moments), rank.forward.ranks = 3;
      check(minuet_batch_norm_apply(op.get(), machine().device(), &rank.forward, nullptr));
      expect_forward(rank, batch, static_cast<size_t>(firsts[r]));
      expect_running(rank, data, batch, static_cast<double>(all.momentum));
      EXPECT_EQ(rank.saved.read<float>(), ranks[0]->saved.read<float>());
      const std::vector<float> output = rank.output.read();
      outputs.insert(outputs.end(), output.begin(), output.end());
      check(minuet_batch_norm_sum_gradients(op.get(), machine().device(), &rank.backward, nullptr));
      const std::vector<float> own = rank.sums.read<float>();
      for (size_t i = 0; i < 32; ++i) sums[i] += own[i];
      EXPECT_EQ(rank.weight_gradient.read<float>(), std::vector<float>(own.begin() + 16, own.end()));
      EXPECT_EQ(rank.bias_gradient.read<float>(), std::vector<float>(own.begin(), own.begin() + 16));
    }
    for (size_t r = 0; r < 3; ++r) {
      Room& rank = *ranks[r];
      check(minuet_device_copy(machine().device(), rank.sums.data(), sums.data(), 128, 0));
      check(minuet_batch_norm_apply_gradients(op.get(), machine().device(), &rank.backward, nullptr));
      expect_backward(rank, batch, outputs, static_cast<size_t>(firsts[r]), /*sums_all=*/false);
    }
  }
}

/// The calls for several ranks give one rank the bits of the calls in one.
TEST_P(BatchNorm, InFourCallsIsTheSame) {
  NormCase of;
  of.rows = 1100, of.capacity = 1200, of.has_residual = of.has_relu = of.has_running_mean = true;
  const NormData data(of, dtype());
  const BatchNormOp op = make_op(of);
  const Room in_one(machine(), op.get(), of, data, dtype()), in_four(machine(), op.get(), of, data, dtype());
  run(op.get(), in_one);
  minuet_device* const device = machine().device();
  check(minuet_batch_norm_sum(op.get(), device, &in_four.forward, nullptr));
  check(minuet_batch_norm_apply(op.get(), device, &in_four.forward, nullptr));
  check(minuet_batch_norm_sum_gradients(op.get(), device, &in_four.backward, nullptr));
  check(minuet_batch_norm_apply_gradients(op.get(), device, &in_four.backward, nullptr));
  EXPECT_EQ(in_four.results(), in_one.results());
}

TEST_P(BatchNorm, OfManyRows) {
  if (machine().is_software()) return;  // It would take minutes there.
  NormCase of;
  of.rows = of.capacity = kSanitized ? 10000 : 60000;
  of.has_relu = true, of.mean = 50;
  check_case(of);
}

TEST_P(BatchNorm, IsReadAnewByEveryReplay) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  NormCase of;
  of.rows = 600, of.capacity = 800, of.has_running_mean = true;
  const BatchNormOp op = make_op(of);
  const NormData data(of, dtype());
  const Room room(machine(), op.get(), of, data, dtype());
  Stream stream(machine());
  check(minuet_device_synchronize(machine().device(), nullptr));
  const CapturedGraph graph(stream.get(), [&] { run(op.get(), room, stream.get()); });
  ASSERT_TRUE(graph.whole());
  for (const uint64_t seed : {5, 6}) {
    NormCase next = of;
    next.seed = seed, next.rows = 600 - 50 * static_cast<int64_t>(seed);
    const NormData values(next, dtype());
    Room fresh(machine(), op.get(), next, values, dtype());
    const auto copy = [&](const Buffer& target, const Buffer& source) {
      const std::vector<char> bytes = source.read<char>();
      check(minuet_device_copy(machine().device(), target.data(), bytes.data(), target.bytes(), 0));
    };
    copy(room.input.buffer(), fresh.input.buffer());
    copy(room.out_gradient.buffer(), fresh.out_gradient.buffer());
    copy(room.count, fresh.count);
    copy(room.weight, fresh.weight), copy(room.bias, fresh.bias);
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    run(op.get(), fresh);
    EXPECT_EQ(room.output.buffer().read<char>(), fresh.output.buffer().read<char>());
    EXPECT_EQ(room.input_gradient.buffer().read<char>(), fresh.input_gradient.buffer().read<char>());
    EXPECT_EQ(room.weight_gradient.read<float>(), fresh.weight_gradient.read<float>());
  }
}

TEST_P(BatchNorm, NeedsTheKernelsToBeLoaded) {
  NormCase of;
  of.rows = of.capacity = 4;
  minuet_device_options device = MINUET_DEVICE_OPTIONS_INIT;
  const std::unique_ptr<Machine> own = Machine::open_own(machine().is_cpu() ? "cpu" : "cuda:0", device);
  const minuet_batch_norm_options options = options_of(of, dtype());
  minuet_batch_norm_op* made = nullptr;
  check(minuet_batch_norm_create(own->context(), &options, &made));
  const BatchNormOp op(made, {minuet_batch_norm_destroy});
  const NormData data(of, dtype());
  const Room room(*own, made, of, data, dtype());
  EXPECT_EQ(minuet_batch_norm_forward(made, own->device(), &room.forward, nullptr),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("call minuet_batch_norm_load first"));
}

/// Central differences of the loss sum(out_gradient * output) in float64 are the gradients of the oracle.
TEST(BatchNormOracle, GradientsAreThoseOfDifferences) {
  for (const bool has_relu : {false, true}) {
    NormCase of;
    of.channels = 3, of.rows = 9, of.has_residual = true, of.has_relu = has_relu;
    const oracle::NormBatch batch = batch_of(of, NormData(of, DType::F32));
    std::vector<bool> passes;
    for (const double output : oracle::normalize(batch).output) passes.push_back(!has_relu || output > 0);
    const oracle::NormGradients expected = oracle::gradients_of(batch, passes);
    const auto expect_differences = [&](std::vector<double> oracle::NormBatch::*member,
                                        const std::vector<double>& gradients) {
      for (size_t i = 0; i < gradients.size(); ++i) {
        const auto loss = [&](double step) {
          oracle::NormBatch moved = batch;
          (moved.*member)[i] += step;
          const std::vector<double> output = oracle::normalize(moved).output;
          double sum = 0;
          for (size_t k = 0; k < output.size(); ++k)
            sum += batch.out_gradient[k] * (has_relu ? std::max(output[k], 0.0) : output[k]);
          return sum;
        };
        constexpr double kStep = 1e-5;
        ASSERT_NEAR((loss(kStep) - loss(-kStep)) / (2 * kStep), gradients[i], 1e-7) << i;
      }
    };
    expect_differences(&oracle::NormBatch::input, expected.input);
    expect_differences(&oracle::NormBatch::residual, expected.residual);
    expect_differences(&oracle::NormBatch::weight, expected.weight);
    expect_differences(&oracle::NormBatch::bias, expected.bias);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(BatchNorm);

}  // namespace
}  // namespace minuet::abi
