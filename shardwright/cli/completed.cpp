#include "shardwright/cli/completed.h"

#include <utility>

#include "shardwright/cli/asked.h"
#include "shardwright/cli/config.h"
#include "shardwright/cli/device_counts.h"
#include "shardwright/cli/outputs.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/set_flags.h"
#include "shardwright/cli/strategies.h"

namespace shardwright {

Arguments completed(Arguments said) {
  Arguments out = std::move(said);
  if (out.has("--plan")) {
    saved_plan(out);  // one for all who copy the arguments
    out.heed_none();
  }
  if (out.has("--set")) out = with_set(std::move(out));
  out = with_counts(std::move(out));
  if (out.has("--config")) out = with_config(std::move(out));
  check_outputs(out);
  read_strategies(out);
  return out;
}

}  // namespace shardwright
