#include "messages/pairs.h"

#include <algorithm>
#include <utility>

#include "messages/scopes.h"

namespace vs::messages {

Status Pairs::make(int64_t n, int64_t n_factors, const int64_t* ptr, const int64_t* scope,
                   const double* const* table, const factors::Structured* const* structured,
                   const Control* control, std::unique_ptr<Pairs>* made) {
    if (n >= (int64_t{1} << 30) || ptr[n_factors] >= (int64_t{1} << 30)) return kOk;
    std::unique_ptr<Pairs> p(new Pairs);
    for (int64_t f = 0; f < n_factors; ++f) {
        if (structured && structured[f]) {
            p->groups_.push_back({structured[f], f, ptr[f], 0, 1.0});
            continue;
        }
        if (ptr[f + 1] - ptr[f] != 2) return kOk;
        for (int64_t i = 0; i < 4; ++i) {
            if (!(table[f][i] > -INFINITY)) return kOk;
        }
        p->factor_.push_back(f);
    }
    if (p->factor_.empty()) return kOk;
    p->n_ = n;
    p->n_pairs_ = static_cast<int64_t>(p->factor_.size());
    p->ptr_ = ptr;
    const Status status = p->lay_out(scope, table, control);
    if (status == kOk) *made = std::move(p);
    return status;
}

Status Pairs::lay_out(const int64_t* scope, const double* const* table, const Control* control) {
    const int64_t chunks = (n_pairs_ + kChunk - 1) / kChunk;
    padded_ = (n_pairs_ + kPairLanes - 1) / kPairLanes * kPairLanes;
    const auto later = [&](int64_t f) { return std::max(scope[ptr_[f]], scope[ptr_[f] + 1]); };
    const std::vector<int64_t> given(factor_);
    std::vector<int64_t> fill(at(n_ + 1), 0);
    for (int64_t f : given) ++fill[at(later(f) + 1)];
    for (int64_t v = 0; v < n_; ++v) fill[at(v + 1)] += fill[at(v)];
    for (int64_t f : given) factor_[at(fill[at(later(f))]++)] = f;
    int64_t slots = 2 * padded_;
    for (StructuredGroup& g : groups_) {
        g.slot = slots;
        slots += g.factor->size();
    }
    var_.assign(at(slots), 0);
    coupling_.assign(at(padded_), 0.0);
    tilt_.assign(at(2 * padded_), 0.0);
    sum_tilt_.assign(at(n_), 0.0);
    var_ptr_.assign(at(n_ + 1), 0);
    std::vector<int32_t> first(at(n_), -1), last(at(n_), -1);
    constant_ = 0.0;
    for (int64_t i = 0; i < n_pairs_; ++i) {
        if (cancelled(control, i)) return kCancelled;
        const int64_t f = factor_[at(i)];
        const double* t = table[f];
        const double a = 0.25 * (t[3] - t[0]), b = 0.25 * (t[2] - t[1]);
        coupling_[at(i)] = 0.25 * ((t[0] - t[1]) + (t[3] - t[2]));
        constant_ += 0.25 * ((t[0] + t[1]) + (t[2] + t[3]));
        for (int64_t side = 0; side < 2; ++side) {
            const int64_t v = scope[ptr_[f] + side];
            const double tilt = side ? a - b : a + b;
            tilt_[at(side * padded_ + i)] = tilt;
            sum_tilt_[at(v)] += 2.0 * tilt;
            var_[at(side * padded_ + i)] = static_cast<int32_t>(v);
            ++var_ptr_[at(v + 1)];
            if (first[at(v)] < 0) first[at(v)] = static_cast<int32_t>(i / kChunk);
            last[at(v)] = static_cast<int32_t>(i / kChunk);
        }
    }
    for (const StructuredGroup& g : groups_) {
        for (int64_t i = 0; i < g.factor->size(); ++i) {
            const int64_t v = scope[g.edge + i];
            var_[at(g.slot + i)] = static_cast<int32_t>(v);
            ++var_ptr_[at(v + 1)];
            first[at(v)] = 0;
            last[at(v)] = -1;  // in no chunk of its own
        }
    }
    for (int64_t v = 0; v < n_; ++v) var_ptr_[at(v + 1)] += var_ptr_[at(v)];
    std::vector<int32_t> at_slot(var_ptr_.begin(), var_ptr_.end() - 1);
    slot_.resize(at(2 * n_pairs_ + slots - 2 * padded_));
    const auto list = [&](int64_t s) {
        slot_[at(at_slot[at(var_[at(s)])]++)] = static_cast<int32_t>(s);
    };
    for (int64_t i = 0; i < n_pairs_; ++i) {
        if (cancelled(control, i)) return kCancelled;
        list(i);
        list(padded_ + i);
    }
    for (int64_t s = 2 * padded_; s < slots; ++s) list(s);
    inner_ptr_.assign(at(chunks + 1), 0);
    for (int64_t v = 0; v < n_; ++v) {
        if (first[at(v)] < 0) continue;
        if (first[at(v)] == last[at(v)]) {
            ++inner_ptr_[at(first[at(v)] + 1)];
        } else {
            outer_.push_back(static_cast<int32_t>(v));
        }
    }
    for (int64_t c = 0; c < chunks; ++c) inner_ptr_[at(c + 1)] += inner_ptr_[at(c)];
    inner_.resize(at(inner_ptr_.back()));
    std::vector<int64_t> place(inner_ptr_.begin(), inner_ptr_.end());
    for (int64_t v = 0; v < n_; ++v) {
        if (first[at(v)] >= 0 && first[at(v)] == last[at(v)]) {
            inner_[at(place[at(first[at(v)])]++)] = static_cast<int32_t>(v);
        }
    }
    weigh(nullptr);
    return kOk;
}

}  // namespace vs::messages
