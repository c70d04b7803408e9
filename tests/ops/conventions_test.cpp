// Norms, attention and rotary embedding against figures of PyTorch 1.13 in f64: what is a convention and no theorem
// (biased variance, where epsilon stands, the order of grouped heads, ALiBi's slopes, which elements make a pair).

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/graph/builder.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"
#include "tests/support/instruction_sets.h"

namespace shardwright {
namespace {

using Doubles = std::vector<double>;

/// scale sin(1.7 i + seed) for element i
Tensor wave(Shape shape, double scale, double seed) {
  Doubles values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = scale * std::sin(static_cast<double>(i) * 1.7 + seed);
  return make_tensor({DType::f64, std::move(shape)}, values);
}

std::vector<Tensor> run(const char* op, const std::vector<Tensor>& in, const Attributes& attributes = {}) {
  return evaluate(find_op(op), in, attributes);
}

Tensor moved(const Tensor& x, const Tensor& along, double step) {
  Doubles values = to_doubles(x);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * along.as<double>()[i];
  return make_tensor(x.type(), values);
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.as<double>().size(); ++i) sum += a.as<double>()[i] * b.as<double>()[i];
  return sum;
}

void expect_values(const Tensor& got, const Doubles& want) {
  EXPECT_TRUE(is_close(got, make_tensor(got.type(), want), 1e-13));
}

class Conventions : public AtEachLevel {};

TEST_P(Conventions, layer_norm_is_that_of_pytorch) {
  const Tensor x = wave({2, 6}, 2, 1), gamma = wave({6}, 1, 2), beta = wave({6}, 1, 3);
  expect_values(run("layer_norm", {x, gamma, beta})[0],
                {1.05184846798571, -1.20017731907376, 1.42930995019966, 0.576237056110498, 0.357720854107714,
                 -0.542175564416368, -0.996844290748511, -1.27170663164751, -0.871841194796549,
                 0.472141781784208, -0.918254970860193, -1.83048348812988});
  const auto d = run("layer_norm_grad", {wave({2, 6}, 1, 4), x, gamma});
  expect_values(d[0], {-0.313444394131741, 0.404305314153836, -0.405404826975206, 0.330117106283294,
                       -0.219669365316615, 0.204096165986433, 0.232948573734883, -0.271255883260818,
                       0.172999614286694, -0.152525510519685, -0.0423332413352416, 0.060166447094168});
  expect_values(d[1], {-2.00700036889044, -0.306036514346573, -2.74031420479293, -0.469589489504237,
                       -2.00377144803374, -0.681583197200586});
  expect_values(d[2], {0.241224157408434, -0.741544123971827, -0.0501364021064971, 0.754463722722242,
                       -0.144280591530435, -0.717284203017448});
}

TEST_P(Conventions, rms_norm_is_that_of_llama) {
  expect_values(run("rms_norm", {wave({2, 6}, 2, 1), wave({6}, 1, 2)}, {{"epsilon", 1e-6}})[0],
                {1.11367682482104, -0.329586736834261, 1.07032731879388, -0.193277877046561, 0.85011050627041,
                 0.0962236958123483, -1.1993044020681, -0.233711952890935, -0.931388315165918,
                 -0.547956272237345, -0.591682722123148, -0.890565459616701});
}

TEST_P(Conventions, group_norm_is_that_of_pytorch) {
  const Tensor x = wave({2, 4, 3}, 2, 1), gamma = wave({4}, 1, 2), beta = wave({4}, 1, 3);
  const Attributes two{{"groups", std::int64_t{2}}};
  expect_values(
      run("group_norm", {x, gamma, beta}, two)[0],
      {1.05184846798571,   0.484793247355879,  -1.40358085100657,  -0.713804856170049, -1.65592607145347,
       -0.799192503732459, 1.08364574805257,   -0.279846064524073, -0.871841194796549, 0.472141781784208,
       0.282224085662247,  1.76128644082542,   0.972154714791587,  -0.859867910952515, -0.142760279709935,
       -1.79433103652899,  -1.12914610022447,  -0.340735691849776, 0.133961844284747,  -0.792050913917294,
       0.870654782803149,  -0.210831480758957, 1.47858975692536,   1.51259819792236});
  expect_values(
      run("group_norm_grad", {wave({2, 4, 3}, 1, 4), x, gamma}, two)[0],
      {-0.325718284536537,  -0.305527515813494, 0.284132248305736,   -0.233802717649201,  0.629696525617478,
       -0.0487802559239817, -0.489425886941133, -0.0024434224787417, 0.335152130939951,   0.202605307757111,
       0.419797864720988,   -0.465685993998175, -0.487610267435794,  0.435359206419098,   0.211259840653863,
       0.285292692837033,   0.006943684641079,  -0.451245157115279,  -0.0124378231860153, 0.656084776095574,
       -0.296455239682459,  0.344955190437337,  -0.279349854109119,  -0.412797049555318});
}

TEST_P(Conventions, batch_norm_is_that_of_pytorch) {
  const Tensor x = wave({4, 2, 3}, 2, 1), gamma = wave({2}, 1, 2), beta = wave({2}, 1, 3);
  const Tensor dy = wave({4, 2, 3}, 1, 4), moments = run("batch_moments", {x})[0];
  expect_values(
      run("batch_norm", {x, gamma, beta, moments})[0],
      {1.16096083082385,   0.62727550432812,   -1.14997212617828,  -0.81821796800634, -1.70488461716885,
       -0.898579579777555, -1.18551194439502,  0.498516235265978,  1.22968049485693,  -0.535938583794672,
       -0.391051516223492, -1.51941928694928,  0.79473743386797,   -1.07726421119178, -0.344507613916804,
       -1.69047686069905,  -1.01078592311461,  -0.205182277538049, 0.312361982403898, 1.30254675395209,
       -0.475383243098547, -0.323462174623784, -1.43930902361642,  -1.4617712792571});
  const auto weights = run("batch_norm_weights_grad", {dy, x, moments});
  expect_values(weights[0], {-8.38168494962231, -8.3816758349703});
  expect_values(weights[1], {-0.670685056014405, -0.660005280888012});
  expect_values(run("batch_norm_grad", {dy, x, gamma, moments, weights[0], weights[1]})[0],
                {0.0531474930990404,   -0.0782027670827617,  -0.0239393768443713, -0.0505248600431712,
                 -0.00127718841123325, 0.0544151375179702,   0.0224699253923547,  0.0899361861680347,
                 -0.0365893659436409,  0.0455445814234266,   -0.0334148406620948, -0.0333727848444123,
                 -0.0714938352817461,  -0.0365212405855004,  0.0899610811304048,  -0.00912901496466695,
                 0.0544193196026066,   -0.00133308437867372, 0.0934139059945707,  -0.0240118010887054,
                 -0.0781702049576797,  -0.0270955124856375,  -0.0389168756499889, 0.0406851228958749});
  const Tensor zeros = make_tensor({DType::f64, {2}}, Doubles{0, 0});
  const Tensor ones = make_tensor({DType::f64, {2}}, Doubles{1, 1});
  const auto running = run("running_moments", {zeros, ones, moments}, {{"count", 12.0}});
  expect_values(running[0], {0.0100335171857261, 0.0119600937007581});
  expect_values(running[1], {1.11720987877316, 1.11721620003152});
}

TEST_P(Conventions, attention_shares_heads_and_hides_keys_as_pytorch) {
  const Tensor q = wave({1, 4, 3, 2}, 2, 1), k = wave({1, 2, 3, 2}, 2, 2), v = wave({1, 2, 3, 2}, 1, 3);
  const Attributes causal{{"causal", true}};
  const Tensor y = run("attention", {q, k, v}, causal)[0];
  expect_values(
      y, {0.141120008059867,  -0.999923257564101, 0.11704695328181,   0.929985890878281, -0.0111577202841766,
          -0.95354427486802,  0.141120008059867,  -0.999923257564101, 0.141072380391942, -0.996105002137212,
          0.115715959420742,  0.9627329173193,    0.592073514707223,  0.722881349511976, 0.588301168180475,
          0.719453736976705,  -0.766981675374545, -0.514843215087476, 0.592073514707223, 0.722881349511976,
          -0.756572770040769, -0.502519572294247, 0.79600050063333,   0.398103853199336});
  const auto d = run("attention_grad", {wave({1, 4, 3, 2}, 1, 4), q, k, v, y}, causal);
  expect_values(
      d[0], {0, 0, -0.0286336947921882,  0.0214286067881237,   -0.0444515160531589,  -0.0530002143188424,
             0, 0, -0.00405398381189692, 0.00303388108524012,  0.00872550724162836,  -0.00774171524742184,
             0, 0, 0.000987412454782766, -0.00417818313490829, -0.00202868294717808, 0.0138165048052584,
             0, 0, -0.015850945825557,   0.0670724317886566,   0.0276182185210105,   -0.0665782269389937});
  expect_values(d[1], {-0.132327084570694, 0.0179201392287429, -0.0114940011987182, -0.00851732932039467,
                       0.143821085769412, -0.00940280990834834, -0.050385043867667, -0.0738113260194979,
                       0.0350434155929005, 0.0603904421257098, 0.0153416282747664, 0.0134208838937879});
  expect_values(d[2], {-1.36832748774143, -0.347947010633804, 1.70766787849162, -0.335349364549636,
                       -0.292533226978685, -0.0210682290835916, -0.402269680916347, -1.30136084092924,
                       0.0720809116345705, 1.86890802500403, -0.372916253005705, -0.537575058194197});
}

TEST_P(Conventions, attention_has_the_slopes_of_alibi_for_six_heads) {
  const Tensor q = wave({1, 6, 2, 2}, 2, 1), k = wave({1, 6, 2, 2}, 2, 2), v = wave({1, 6, 2, 2}, 1, 3);
  expect_values(
      run("attention", {q, k, v}, {{"alibi", true}})[0],
      {0.138738150790914,  -0.808972496390775, 0.11693859657965,   0.938672723219323,   -0.320794627162299,
       -0.799275793885112, 0.580328792791193,  0.703297675220215,  -0.696045699894242,  -0.482921314780357,
       0.885226880461772,  0.273788174309132,  -0.812524943728956, -0.0495404546888603, 0.930112381596486,
       -0.217468939119801, -0.546801289733894, 0.211207562977117,  0.76139468752356,    -0.639461589709284,
       -0.473287332386235, 0.556560444985255,  0.386694433386171,  -0.885020237660185});
}

/// Several blocks of queries and keys, none of them full, against plain loops.
TEST_P(Conventions, attention_goes_over_blocks) {
  for (const bool is_causal : {false, true}) {
    constexpr std::int64_t queries = 37, keys = 150, depth = 70, width = 37;
    const Tensor q = wave({1, 1, queries, depth}, 1, 1), k = wave({1, 1, keys, depth}, 1, 2);
    const Tensor v = wave({1, 1, keys, width}, 1, 3), mask = wave({queries, keys}, 2, 5);
    Doubles want;
    for (std::int64_t i = 0; i < queries; ++i) {
      Doubles weights;
      double sum = 0;
      for (std::int64_t j = 0; j < (is_causal ? i + keys - queries + 1 : keys); ++j) {
        double score = 0;
        for (std::int64_t f = 0; f < depth; ++f)
          score += q.as<double>()[static_cast<std::size_t>(i * depth + f)] *
                   k.as<double>()[static_cast<std::size_t>(j * depth + f)];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(depth)) +
                                   mask.as<double>()[static_cast<std::size_t>(i * keys + j)]));
        sum += weights.back();
      }
      for (std::int64_t f = 0; f < width; ++f) {
        double y = 0;
        for (std::size_t j = 0; j < weights.size(); ++j)
          y += weights[j] / sum * v.as<double>()[j * width + static_cast<std::size_t>(f)];
        want.push_back(y);
      }
    }
    const Attributes causal{{"causal", is_causal}};
    const auto got = run("attention", {q, k, v, mask}, causal);
    EXPECT_TRUE(is_close(got[0], make_tensor(got[0].type(), want), 1e-13));

    // The slope along one direction of all operands at once.
    const Tensor dy = wave(got[0].shape(), 1, 7);
    const auto d = run("attention_grad", {dy, q, k, v, got[0], mask}, causal);
    const std::vector<Tensor> along{wave(q.shape(), 1, 8), wave(k.shape(), 1, 9), wave(v.shape(), 1, 10)};
    constexpr double step = 1e-5;
    const auto ahead =
        run("attention", {moved(q, along[0], step), moved(k, along[1], step), moved(v, along[2], step), mask},
            causal);
    const auto back =
        run("attention",
            {moved(q, along[0], -step), moved(k, along[1], -step), moved(v, along[2], -step), mask}, causal);
    const double slope = (dot(ahead[0], dy) - dot(back[0], dy)) / (2 * step);
    EXPECT_NEAR(dot(d[0], along[0]) + dot(d[1], along[1]) + dot(d[2], along[2]), slope, 1e-6);
  }
}

TEST_P(Conventions, rotary_turns_halves_as_llama) {
  expect_values(run("rotary", {wave({1, 1, 3, 4}, 2, 1)})[0],
                {1.68294196961579, 0.85475976046766, -1.90320414777903, -0.364325008544192, 2.72692984013221,
                 -0.156844105499351, 0.62238653458111, 0.653413133745379, 0.621012510823616,
                 -1.14594226156403, 2.25230455480995, 1.48052560861716});
}

INSTANTIATE_TEST_SUITE_P(Levels, Conventions, each_level(), name_of_level);

}  // namespace
}  // namespace shardwright
