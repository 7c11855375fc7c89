// A call with islands: long sequences on the whole pool, then the others side by side.
#pragma once

#include <vector>

#include "chain/run.h"
#include "core/session.h"
#include "chain/table.h"

namespace vs {

// Asks sequences `order`, which it sorts, in one arithmetic; fills their status.
void island_pass(const PoolApi& pool, const Request& r, std::vector<int64_t>& order, int arithmetic,
                 const Packing& packing, Session& session, std::vector<int32_t>& status,
                 Counts& counts, Control* control);

}  // namespace vs
