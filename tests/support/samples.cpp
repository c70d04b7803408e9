#include "tests/support/samples.h"

#include "shardwright/base/random.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

double draw_element(const SampleOperand& operand, Values values, const RandomStream& random,
                    std::uint64_t index) {
  if (operand.domain == Domain::below) return static_cast<double>(random.below(index, operand.bound));
  const double sign = random.bits(index + (1ULL << 32)) & 1 ? 1 : -1;
  if (values == Values::integers || !is_floating(operand.type.dtype)) {
    const auto magnitude = static_cast<double>(1 + random.below(index, 3));
    if (operand.domain == Domain::positive) return magnitude;
    return operand.domain == Domain::nonzero ? sign * magnitude : sign * (magnitude - 1);
  }
  const double u = random.uniform(index);
  if (operand.domain == Domain::any) return 4 * u - 2;
  return (operand.domain == Domain::positive ? 1 : sign) * (0.5 + 1.5 * u);
}

}  // namespace

Sample parse_sample(std::string_view text) {
  Scanner in(text, "sample");
  Sample sample;
  if (in.peek_name()) {
    do {
      SampleOperand operand{parse_type(in)};
      if (in.accept(">")) {
        in.expect("0");
        operand.domain = Domain::positive;
      } else if (in.accept("!=")) {
        in.expect("0");
        operand.domain = Domain::nonzero;
      } else if (in.accept("<")) {
        operand.domain = Domain::below;
        operand.bound = in.integer("a bound");
      }
      sample.operands.push_back(std::move(operand));
    } while (in.accept(","));
  }
  sample.attributes = parse_attributes(in);
  if (!in.at_end()) in.fail("the end of the sample");
  return sample;
}

Sample with_floating(Sample sample, DType dtype) {
  for (SampleOperand& o : sample.operands)
    if (is_floating(o.type.dtype) && o.domain != Domain::below) o.type.dtype = dtype;
  return sample;
}

std::vector<Tensor> draw(const Sample& sample, Values values, std::uint64_t seed) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    const SampleOperand& operand = sample.operands[i];
    const RandomStream random(seed, fmt::format("operand {}", i));
    std::vector<double> elements(static_cast<std::size_t>(element_count(operand.type.shape)));
    for (std::size_t e = 0; e < elements.size(); ++e) elements[e] = draw_element(operand, values, random, e);
    out.push_back(make_tensor(operand.type, elements));
  }
  return out;
}

std::vector<Type> types_of(const Sample& sample) {
  std::vector<Type> out;
  for (const SampleOperand& o : sample.operands) out.push_back(o.type);
  return out;
}

std::vector<Type> types_of(const std::vector<Tensor>& tensors) {
  std::vector<Type> out;
  for (const Tensor& t : tensors) out.push_back(t.type());
  return out;
}

}  // namespace shardwright
