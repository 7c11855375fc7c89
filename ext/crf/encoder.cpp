#include "crf/encoder.h"

#include <algorithm>

namespace vs::crf {

bool Encoder::ids_of(const Items& items, Growth* growth, int32_t* ids) {
    const int64_t n = items.n_attributes();
    bool all = true;
    {
        Reading lock(mutex_);
        for (int64_t at = 0; at < n; at += Dictionary::kBlock) {
            names_.look_up(items, at, std::min(n, at + Dictionary::kBlock), ids + at);
        }
    }
    if (!growth) return true;
    for (int64_t i = 0; i < n && all; ++i) all = ids[i] >= 0;
    if (all) return true;
    Writing lock(mutex_);
    if (growth->from < 0) growth->from = names_.size();
    if (growth->to >= 0 && growth->to != names_.size()) growth->alone = false;
    struct GrowthGuard {
        const Dictionary& names;
        Growth* growth;
        ~GrowthGuard() { growth->to = names.size(); }
    } count{names_, growth};
    for (int64_t i = 0; i < n; ++i) {
        if (ids[i] >= 0) continue;
        const char* s = items.text.data() + items.begin(i);
        int64_t size = items.end[i] - items.begin(i);
        cut_at_nul(s, &size);
        ids[i] = names_.add(s, size);
        if (ids[i] < 0) return false;
    }
    return true;
}

bool Encoder::encode(const Items& items, Growth* growth, Encoding& out) {
    if (out.indptr.size() == 0) out.indptr.push(0);
    const int64_t n = items.n_attributes();
    int32_t* const ids = out.ids.reserve(n);
    double* const values = out.values.reserve(n);
    int64_t* const indptr = out.indptr.reserve(items.n_items());
    out.length.reserve(items.n_sequences());
    if (!ids_of(items, growth, ids)) return false;
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

int64_t Encoder::fill(const Items& names) {
    Writing lock(mutex_);
    if (names_.size() > 0) return kFilled;
    struct Undo {
        Dictionary* names;
        ~Undo() {
            if (names) names->truncate(0);
        }
    } undo{&names_};
    const int64_t repeat = names_.fill(names);
    if (repeat < 0) undo.names = nullptr;
    return repeat;
}

void Encoder::roll_back(const Growth& growth) noexcept {
    if (growth.from < 0 || !growth.alone) return;
    Writing lock(mutex_);
    if (names_.size() == growth.to) names_.truncate(growth.from);
}

}  // namespace vs::crf
