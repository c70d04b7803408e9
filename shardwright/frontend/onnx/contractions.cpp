// ONNX operators of products: Einsum, Det, and running products.
//
// Einsum takes its operands two by two. Dims that neither the result nor another operand has are summed at once; of the
// others each is of both operands and stays (a batch), of both and goes (summed by a matrix product), or of one.

#include <map>
#include <set>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

// ---- einsum ----

/// A letter a dim; those of `...` are digits from the right.
struct Factor {
  std::string dims;
  ValueId value;
};

struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

/// `...` written out for an operand of `rank` dims.
std::string written_out(const std::string& term, std::size_t rank) {
  const std::size_t at = term.find("...");
  const std::size_t letters = term.size() - (at == term.npos ? 0 : 3);
  if (letters > rank || (at == term.npos && letters < rank))
    throw error("the term '{}' is not one of {} dims", printable(term), rank);
  if (at == term.npos) return term;
  std::string middle;
  for (std::size_t d = rank - letters; d-- > 0;) middle += static_cast<char>('0' + d);
  return term.substr(0, at) + middle + term.substr(at + 3);
}

Equation read_equation(const OnnxNode& n) {
  std::string text = n.text("equation", "");
  std::erase(text, ' ');
  for (char c : text)
    if (!std::isalpha(static_cast<unsigned char>(c)) &&
        std::string_view(".,->").find(c) == std::string_view::npos)
      throw error("the equation '{}' is not understood", printable(text));
  Equation e;
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  for (std::size_t from = 0, to = 0; to != left.npos; from = to + 1) {
    to = left.find(',', from);
    e.terms.push_back(left.substr(from, to == left.npos ? to : to - from));
  }
  if (e.terms.size() != n.input_count())
    throw error("the equation '{}' has {} terms for {} inputs", printable(text), e.terms.size(),
                n.input_count());
  std::map<char, int> count;
  std::string most;
  for (std::size_t i = 0; i < e.terms.size(); ++i) {
    e.terms[i] = written_out(e.terms[i], n.shape(i).size());
    std::string dots;
    for (char c : e.terms[i]) {
      if (!std::isalnum(static_cast<unsigned char>(c)))
        throw error("the equation '{}' is not understood", printable(text));
      ++count[c];
      if (std::isdigit(static_cast<unsigned char>(c))) dots += c;
    }
    if (dots.size() > most.size()) most = dots;
  }
  if (arrow != text.npos) {
    const std::string said = text.substr(arrow + 2);
    e.result = written_out(said, said.size() - (said.find("...") == said.npos ? 0 : 3) +
                                     (said.find("...") == said.npos ? 0 : most.size()));
  } else {
    e.result = most;
    for (const auto& [c, often] : count)
      if (often == 1 && !std::isdigit(static_cast<unsigned char>(c))) e.result += c;
  }
  for (char c : e.result)
    if (!count.contains(c) || std::ranges::count(e.result, c) > 1)
      throw error("the result of '{}' has a dim of no term, or twice", printable(text));
  return e;
}

/// A dim that is named twice is the diagonal of both.
Factor without_repeats(OnnxNode& n, Factor t) {
  for (std::size_t a = 0; a < t.dims.size(); ++a) {
    const std::size_t b = t.dims.find(t.dims[a], a + 1);
    if (b == t.dims.npos) continue;
    const std::int64_t size = n.type_of(t.value).shape[a];
    if (n.type_of(t.value).shape[b] != size) throw error("'{}' is of two sizes", t.dims[a]);
    const std::size_t last = t.dims.size() - 1;
    ValueId v = moved(n, moved(n, t.value, b, last), a, last - 1);
    Shape shape = n.type_of(v).shape;
    shape.pop_back();
    shape.back() = element_count(Shape{size, size});
    check_listed(size);
    List diagonal;
    for (std::int64_t i = 0; i < size; ++i) diagonal.push_back(i * (size + 1));
    t.value = gathered(n, reshaped(n, v, shape), shape.size() - 1, diagonal);
    const char name = t.dims[a];
    std::erase(t.dims, name);
    t.dims += name;
    return without_repeats(n, std::move(t));
  }
  return t;
}

Factor summed_over(OnnxNode& n, Factor t, const std::set<char>& needed) {
  List dims;
  std::string kept;
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    if (needed.contains(t.dims[d]))
      kept += t.dims[d];
    else
      dims.push_back(static_cast<std::int64_t>(d));
  }
  if (dims.empty()) return t;
  return {kept, n.call("reduce_sum", {t.value}, {{"dims", dims}})};
}

/// With its dims in that order.
ValueId in_order(OnnxNode& n, const Factor& t, const std::string& order) {
  List dims;
  for (char c : order) dims.push_back(static_cast<std::int64_t>(t.dims.find(c)));
  return dims.empty() ? t.value : transposed(n, t.value, dims);
}

std::int64_t size_of_dim(const OnnxNode& n, const Factor& t, char c) {
  return n.type_of(t.value).shape[t.dims.find(c)];
}

/// Both with the larger of two sizes of which one is 1.
void stretch_alike(OnnxNode& n, Factor& a, Factor& b) {
  for (char c : a.dims) {
    if (b.dims.find(c) == b.dims.npos) continue;
    const std::int64_t of_a = size_of_dim(n, a, c), of_b = size_of_dim(n, b, c);
    if (of_a == of_b) continue;
    if (of_a != 1 && of_b != 1) throw error("'{}' is {} in one term but {} in another", c, of_a, of_b);
    Factor& small = of_a == 1 ? a : b;
    Shape shape = n.type_of(small.value).shape;
    shape[small.dims.find(c)] = std::max(of_a, of_b);
    small.value = stretched(n, small.value, shape);
  }
}

/// One term of two, with the dims that are `needed`.
Factor product_of(OnnxNode& n, Factor a, Factor b, const std::set<char>& needed) {
  stretch_alike(n, a, b);
  std::string batch, summed, of_a, of_b;
  for (char c : a.dims) {
    if (b.dims.find(c) == b.dims.npos)
      of_a += c;
    else
      (needed.contains(c) ? batch : summed) += c;
  }
  for (char c : b.dims)
    if (a.dims.find(c) == a.dims.npos) of_b += c;
  Shape shape;
  const auto count = [&](const Factor& t, const std::string& dims, bool is_of_result) {
    std::int64_t all = 1;
    for (char c : dims) {
      all *= size_of_dim(n, t, c);
      if (is_of_result) shape.push_back(size_of_dim(n, t, c));
    }
    return all;
  };
  const std::int64_t batches = count(a, batch, true), rows = count(a, of_a, true),
                     columns = count(b, of_b, true);
  const std::int64_t depth = count(a, summed, false);
  const ValueId left = reshaped(n, in_order(n, a, batch + of_a + summed), {batches, rows, depth});
  const ValueId right = reshaped(n, in_order(n, b, batch + summed + of_b), {batches, depth, columns});
  return {batch + of_a + of_b, reshaped(n, n.call("matmul", {left, right}), shape)};
}

void einsum(OnnxNode& n) {
  const Equation e = read_equation(n);
  std::vector<Factor> terms;
  for (std::size_t i = 0; i < e.terms.size(); ++i) terms.push_back(without_repeats(n, {e.terms[i], n.in(i)}));
  // What the result and the terms from `i` on have.
  const auto needed_from = [&](std::size_t i) {
    std::set<char> out(e.result.begin(), e.result.end());
    for (; i < terms.size(); ++i) out.insert(terms[i].dims.begin(), terms[i].dims.end());
    return out;
  };
  Factor y = summed_over(n, terms[0], needed_from(1));
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::set<char> needed = needed_from(i + 1);
    std::set<char> of_both = needed;
    of_both.insert(y.dims.begin(), y.dims.end());
    y = product_of(n, y, summed_over(n, terms[i], of_both), needed);
    y = summed_over(n, y, needed);
  }
  n.give(in_order(n, y, e.result));
}

// ---- determinants ----

/// Of matrices of at most three rows, by their minors.
void determinant(OnnxNode& n) {
  const Shape x = n.shape(0);
  if (x.size() < 2 || x.back() != x[x.size() - 2] || x.back() > 3)
    throw error("of {} is not supported; matrices have at most three rows and as many columns", to_text(x));
  const std::int64_t size = x.back();
  Shape shape(x.begin(), x.end() - 2);
  const auto at = [&](std::int64_t i, std::int64_t j) {
    const ValueId row = part(n, n.in(0), x.size() - 2, i, i + 1);
    return reshaped(n, part(n, row, x.size() - 1, j, j + 1), shape);
  };
  const auto minor_of = [&](std::int64_t i, std::int64_t a, std::int64_t b) {
    return n.call("sub", {n.call("mul", {at(i, a), at(i + 1, b)}), n.call("mul", {at(i, b), at(i + 1, a)})});
  };
  if (size == 1) return n.give(at(0, 0));
  if (size == 2) return n.give(minor_of(0, 0, 1));
  const ValueId first = n.call("mul", {at(0, 0), minor_of(1, 1, 2)}),
                second = n.call("mul", {at(0, 1), minor_of(1, 0, 2)});
  n.give(n.call("add", {n.call("sub", {first, second}), n.call("mul", {at(0, 2), minor_of(1, 0, 1)})}));
}

// ---- all along dims ----

/// By distances of 1, 2, 4, ...: behind step s each element is the product of the 2^s up to it.
void cumulative_product(OnnxNode& n) {
  const auto dim =
      static_cast<std::size_t>(n.dim(static_cast<std::int64_t>(n.number_of(1)), n.shape(0).size()));
  const bool is_reverse = n.integer("reverse", 0) != 0;
  const std::int64_t size = n.shape(0)[dim];
  const auto shifted = [&](ValueId v, std::int64_t by) {
    return is_reverse ? padded(n, part(n, v, dim, by, size), dim, 0, by, 1)
                      : padded(n, part(n, v, dim, 0, size - by), dim, by, 0, 1);
  };
  ValueId y = n.in(0);
  if (n.integer("exclusive", 0) != 0)
    y = size == 1
            ? n.call(
                  "fill", {},
                  {{"shape", n.shape(0)}, {"value", 1.0}, {"dtype", std::string(name_of(n.type(0).dtype))}})
            : shifted(y, 1);
  for (std::int64_t by = 1; by < size; by *= 2) y = n.call("mul", {y, shifted(y, by)});
  n.give(y);
}

}  // namespace

std::vector<Conversion> contractions() {
  return {{"CumProd", cumulative_product}, {"Det", determinant}, {"Einsum", einsum, false}};
}

}  // namespace shardwright::onnx_operators
