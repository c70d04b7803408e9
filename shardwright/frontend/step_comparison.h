// What one step takes more than another, for people: part by part, as a table and in a sentence.
#pragma once

#include <string>
#include <vector>

#include "shardwright/explain/other_values.h"
#include "shardwright/simulate/step_parts.h"

namespace shardwright {

/// Seconds and bytes by what they are for, of the steps called `name_a` and `name_b`, and what the second takes more.
std::string comparison_table(const Estimate& a, const std::string& name_a, const Estimate& b,
                             const std::string& name_b);

/// `1.2 ms more (12.0%): communication 1.5 ms more, bubble 300 us less; 12 MB less memory`
std::string more_text(const Estimate& a, const Estimate& b);

/// One line: that the plan has it; or what the best plan with it is, and takes; or why there is none that fits. `limit`
/// is what allows no more memory: `a device of a100-80g:8 has`.
std::string why_text(const Constraints& asked, const WhyNot& answer, const Plan& plan,
                     const std::string& limit);

/// What each value of `word` takes, the plan's marked; `?` where it has none of them. `values` are not empty.
std::string values_table(const std::string& word, const std::vector<OtherValue>& values);

}  // namespace shardwright
