// The parts of a plan's page (plan_page.h): each a piece of HTML, or data for its script.
#pragma once

#include <string>

#include "shardwright/frontend/plan_page.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// The three questions that a page answers first: what bounds the step, what is fullest, what would change it.
std::string verdict_cards(const PageContent& content, const Json& document);

std::string stages_table(const PageContent& content, const Json& document);
std::string alternatives_part(const PageContent& content, const Json& document);
std::string operators_part(const PageContent& content);
std::string collectives_part(const Json& document);
/// Losses, and what a step has taken beside what was simulated.
std::string run_part(const PageContent& content, const Json& document);

/// Layers with how they are split, stage by stage, and the devices of each.
Json strip_json(const PageContent& content);
/// The step and its memory over time; null of steps of more events than can be drawn.
Json pictures_json(const PageContent& content);

/// The stages that a group of devices runs: `stage 0`, of an interleaved schedule `stages 0, 4, 8`.
std::string stage_name(const Pipeline& pipeline, std::size_t group);
/// `0-15`, `3`
std::string range_text(int first, int count);
/// Which hosts of `cluster` have these devices: `0-1`.
std::string hosts_text(const Cluster& cluster, int first, int count);

/// What the page is made of.
std::string_view page_style();
std::string_view page_script();

}  // namespace shardwright
