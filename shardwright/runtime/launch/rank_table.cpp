// Rank tables as MindSpore's launchers read them: hosts under `server_list`, each with its devices and their ranks.
// Numbers may stand as such, or as text.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/launch/hosts.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

const Json& member(const Json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) throw error("{}: has no {}", where, key);
  return object.at(key);
}

const Json& list(const Json& object, const char* key, const std::string& where) {
  const Json& out = member(object, key, where);
  if (!out.is_array() || out.empty()) throw error("{}: {} should be a list of one or more", where, key);
  return out;
}

std::int64_t number(const Json& object, const char* key, const std::string& where) {
  const Json& value = member(object, key, where);
  const auto out = value.is_string()           ? to_integer(value.get<std::string>())
                   : value.is_number_integer() ? std::optional(value.get<std::int64_t>())
                                               : std::nullopt;
  if (!out || *out < 0) throw error("{}: {} {} should be a number from 0 on", where, key, value.dump());
  return *out;
}

std::string host_of(const Json& server, const std::string& where) {
  const Json& id = member(server, "server_id", where);
  // It goes through the same check as a line of a host file.
  if (!id.is_string()) throw error("{}: server_id {} should be a host's name or address", where, id.dump());
  const std::string name = id.get<std::string>();
  if (name.find_first_of(" \t\n#") != name.npos || name.empty())
    throw error("{}: server_id '{}' should be a host's name or address", where, name);
  return parse_hosts(name, where).front().name;
}

Json parsed(std::string_view text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw error("{}: is no JSON, at byte {}", path, e.byte);
  }
}

}  // namespace

std::vector<std::string> parse_rank_table(std::string_view text, const std::string& path) {
  const Json table = parsed(text, path);
  if (table.is_object() && table.contains("group_list"))
    throw error("{}: is a rank table of version 0.1 (group_list); version 1.0 (server_list) is read", path);
  const Json& servers = list(table, "server_list", path);
  if (table.contains("server_count") &&
      number(table, "server_count", path) != static_cast<std::int64_t>(servers.size()))
    throw error("{}: server_count {} but server_list has {}", path, number(table, "server_count", path),
                servers.size());
  std::map<std::int64_t, std::string> hosts;  // by rank
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const std::string where = fmt::format("{}: server_list[{}]", path, i);
    const std::string host = host_of(servers[i], where);
    for (const Json& device : list(servers[i], "device", where)) {
      const std::int64_t rank = number(device, "rank_id", where + ": device");
      const auto [other, is_new] = hosts.emplace(rank, host);
      if (!is_new) throw error("{}: rank {} is on {} and on {}", path, rank, other->second, host);
    }
  }
  std::vector<std::string> out;
  for (const auto& [rank, host] : hosts) {
    if (rank != static_cast<std::int64_t>(out.size()))
      throw error("{}: rank {} is missing; the largest is {}", path, out.size(), hosts.rbegin()->first);
    out.push_back(host);
  }
  return out;
}

}  // namespace shardwright
