#include "crf/encoder.h"

#include <algorithm>
#include <mutex>

namespace vs {

bool Encoder::ids_of(const Items& items, bool grow, int32_t* ids) {
    const int64_t n = items.n_attributes();
    bool all = true;
    {
        std::shared_lock<std::shared_mutex> lock(mutex);
        for (int64_t at = 0; at < n; at += Dictionary::kBlock) {
            names.look_up(items, at, std::min(n, at + Dictionary::kBlock), ids + at);
        }
    }
    if (!grow) return true;
    for (int64_t i = 0; i < n && all; ++i) all = ids[i] >= 0;
    if (all) return true;
    std::unique_lock<std::shared_mutex> lock(mutex);
    for (int64_t i = 0; i < n; ++i) {
        if (ids[i] >= 0) continue;
        const char* s = items.text.data() + items.begin(i);
        int64_t size = items.end[i] - items.begin(i);
        cut_at_nul(s, &size);
        ids[i] = names.add(s, size);
        if (ids[i] < 0) return false;
    }
    return true;
}

bool Encoder::encode(const Items& items, bool grow, Encoding& out) {
    const int64_t n = items.n_attributes();
    int32_t* const ids = out.ids.room(n);
    double* const values = out.values.room(n);
    int64_t* const indptr = out.indptr.room(items.n_items());
    out.length.room(items.n_sequences());
    if (!ids_of(items, grow, ids)) return false;
    const int64_t before = out.ids.size();
    int64_t kept = 0, at = 0;
    for (int64_t item = 0; item < items.n_items(); ++item) {
        for (; at < items.item_end[item]; ++at) {
            if (ids[at] < 0) continue;
            ids[kept] = ids[at];
            values[kept++] = items.value[at];
        }
        indptr[item] = before + kept;
    }
    out.ids.used(kept);
    out.values.used(kept);
    out.indptr.used(items.n_items());
    out.length.append(items.length.data(), items.n_sequences());
    return true;
}

void Encoder::roll_back(int32_t from, int32_t to) {
    std::unique_lock<std::shared_mutex> lock(mutex);
    if (names.size() == to) names.truncate(from);
}

}  // namespace vs
