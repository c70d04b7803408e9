// Recommenders: networks that tell from numbers and from columns of ids whether somebody will click. Tables hold most of
// their parameters, and a batch reads few of their rows.
//
//   dlrm       sigmoid(top([bottom(dense), dots of all pairs of bottom(dense) and the columns' rows]))   Naumov et al. 2019
//   wide_deep  sigmoid(wide(dense, ids) + deep([dense, the columns' rows]))                             Cheng et al. 2016

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/modules/tables.h"

namespace shardwright::models {
namespace {

/// What a recommender reads.
struct Columns {
  std::int64_t batch, dense, tables, rows, hot, width;
  Tables::Pooling pooling;
  bool is_hashed;

  explicit Columns(const ModelArguments& arguments)
      : batch(arguments.integer("batch", 128)),
        dense(arguments.integer("dense", 13)),
        tables(arguments.integer("tables", 26, 1 << 16)),
        rows(arguments.integer("rows", 10000, std::numeric_limits<std::int32_t>::max())),
        hot(arguments.integer("hot", 1, 1 << 16)),
        width(arguments.integer("width", 16, 1 << 16)),
        pooling(pooling_called(arguments.text("pooling", "sum"))),
        is_hashed(arguments.text("hash", "0") == "1") {
    if (const std::string hash = arguments.text("hash", "0"); hash != "0" && hash != "1")
      throw error("hash={}: should be 1, so that any ids are taken, or 0", hash);
  }
};

const std::map<std::string, std::string> keys_of_columns{
    {"batch", "128"},   {"dense", "13"},   {"hash", "0"},    {"hot", "1"},
    {"pooling", "sum"}, {"rows", "10000"}, {"tables", "26"}, {"width", "16"}};

struct Read {
  Traced dense;
  Traced rows;  // of the tables, which the ids name
  Traced label;
};

/// Inputs `dense` [batch, dense], `ids` [batch, tables, hot], and `label` [batch, 1], 0 or 1. Ids are rows; where they are hashed, they are
/// any of 64 bits.
Read read(Trace& trace, const Columns& c) {
  const Traced dense = trace.input("dense", {trace.precision(), {c.batch, c.dense}});
  const Traced ids = trace.input("ids", {c.is_hashed ? DType::i64 : DType::i32, {c.batch, c.tables, c.hot}});
  const Traced label = trace.input("label", {trace.kept_precision(), {c.batch, 1}});
  return {dense, c.is_hashed ? trace.call("hash", {ids}, {{"rows", c.rows}}, "rows") : ids, label};
}

/// Dense layers `NAME.1`, `NAME.2`, ... from `in` to each of `widths`, relu behind each but, if `ends_in_numbers`, the last.
Traced layers(const std::string& name, Traced x, const std::vector<std::int64_t>& widths,
              bool ends_in_numbers) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string layer = fmt::format("{}.{}", name, i + 1);
    x = Dense(layer, x.type().shape.back(), widths[i])(x);
    if (!ends_in_numbers || i + 1 < widths.size()) x = relu(layer + ".relu")(x);
  }
  return x;
}

/// `512-256`, which the key `name` says, and behind them `last`.
std::vector<std::int64_t> widths_of(const ModelArguments& arguments, const std::string& name,
                                    const std::string& otherwise, std::int64_t last) {
  ModelArguments of_name;
  of_name.keys["widths"] = fmt::format("{}-{}", arguments.text(name, otherwise), last);
  try {
    return of_name.widths("");
  } catch (const Error& e) {
    throw with_context(e, name);
  }
}

Model finished(Trace& trace, const ModelArguments& arguments, Traced logit, const Read& read,
               const Columns& c) {
  const std::string loss = arguments.loss.empty() ? "binary_cross_entropy" : arguments.loss;
  if (loss == "cross_entropy")
    throw error("loss {}: a recommender scores one thing; take binary_cross_entropy, or an error of numbers",
                loss);
  const Labels labels = labels_of(loss, read.label.type());
  Model model = finish_model(trace, loss_called(loss, logit, read.label), logit);
  model.labels = labels;
  model.classes["ids"] = c.is_hashed ? 4 * c.rows : c.rows;  // that are drawn
  return model;
}

Model build_dlrm(const ModelArguments& arguments) {
  const Columns c(arguments);
  Trace trace(arguments.precision);
  const Read in = read(trace, c);
  const Traced bottom = layers("bottom", in.dense, widths_of(arguments, "bottom", "512-256", c.width), false);
  const Traced rows = Tables("tables", {c.tables, c.rows, c.width}, c.pooling)(in.rows);
  const Traced first =
      trace.call("expand_dims", {bottom}, {{"dims", std::vector<std::int64_t>{1}}}, "bottom.row");
  const Traced all = trace.call("concat", {first, rows}, {{"dim", std::int64_t{1}}}, "features");
  const Traced dots = trace.call("pair_dots", {all}, {}, "interactions");
  const Traced joined = trace.call("concat", {bottom, dots}, {{"dim", std::int64_t{1}}}, "joined");
  const Traced logit = layers("top", joined, widths_of(arguments, "top", "512-256", 1), true);
  return finished(trace, arguments, logit, in, c);
}

Model build_wide_deep(const ModelArguments& arguments) {
  const Columns c(arguments);
  Trace trace(arguments.precision);
  const Read in = read(trace, c);
  const Traced weights = Tables("wide.tables", {c.tables, c.rows, 1}, c.pooling)(in.rows);
  const Traced of_ids =
      trace.call("reduce_sum", {weights}, {{"dims", std::vector<std::int64_t>{1}}}, "wide.sum");
  const Traced wide = add("wide.add")(of_ids, Dense("wide.dense", c.dense, 1)(in.dense));
  const Traced rows = Tables("tables", {c.tables, c.rows, c.width}, c.pooling)(in.rows);
  const Traced joined =
      trace.call("concat", {in.dense, flatten("deep.rows")(rows)}, {{"dim", std::int64_t{1}}}, "joined");
  const Traced deep = layers("deep", joined, widths_of(arguments, "deep", "1024-512-256", 1), true);
  return finished(trace, arguments, add("logit")(wide, deep), in, c);
}

std::map<std::string, std::string> with(std::map<std::string, std::string> own) {
  own.insert(keys_of_columns.begin(), keys_of_columns.end());
  return own;
}

}  // namespace

std::vector<ModelDef> recommenders() {
  return {{.name = "dlrm",
           .doc = "a recommender: tables of rows for columns of ids, dense layers for numbers, dot products "
                  "of all pairs",
           .keys = with({{"bottom", "512-256"}, {"top", "512-256"}}),
           .build = build_dlrm},
          {.name = "wide_deep",
           .doc = "a recommender: a linear model of numbers and ids beside dense layers of numbers and the "
                  "ids' rows",
           .keys = with({{"deep", "1024-512-256"}}),
           .build = build_wide_deep}};
}

}  // namespace shardwright::models
