// m' of an island: its marginal given the other islands.
#include <algorithm>
#include <cmath>

#include "junction/segments.h"

namespace vs::junction {

int Segments::reconsider(int64_t v, bool whole, int threads, Control* control) {
    const int64_t value = held_[v];
    std::vector<Near> around;
    bool narrow = true;
    for (const int64_t* f = from_.begin(v); f != from_.end(v); ++f) {
        const Factor x = from_.factor(*f);
        int64_t free = 0;
        for (int64_t i = 0; i < x.arity; ++i) {
            const int64_t u = x.scope[i];
            if (u == v || held_[u] >= 0) continue;
            ++free;
            around.push_back({part_[u], u});
        }
        narrow = narrow && free <= 1;
    }
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    if (!narrow) return solve_freed(v, around, threads, control);
    std::vector<double> score(static_cast<size_t>(from_.card(v))), mass(score.size());
    held_[v] = -1;
    from_.local(v, held_, score.data());
    held_[v] = value;
    for (size_t a = 0; a < around.size();) {
        size_t b = a;
        while (b < around.size() && around[b].part == around[a].part) ++b;
        if (b - a > 1 || !near_mean(v, around[a], &mass)) {
            if (static_cast<int64_t>(score.size()) > kPasses) {
                return solve_freed(v, around, threads, control);
            }
            const int status = masses(v, around.data() + a, b - a, whole, threads, control, &mass);
            if (status != kOk) return status;
        }
        for (size_t x = 0; x < score.size(); ++x) score[x] += mass[x];
        a = b;
    }
    const int64_t n = from_.card(v);
    return distribution(score.data(), n, marginals_.data() + from_.at(v)) ? kOk : kInfeasible;
}

bool Segments::near_mean(int64_t v, const Near& one, std::vector<double>* mass) {
    const SegmentTree& part = *parts_[one.part];
    const int64_t n = from_.card(one.variable), now = held_[v];
    const size_t i = part.number(one.variable);
    const double* const local = part.local.data() + part.ptr[i];
    scores_.resize(static_cast<size_t>(n));
    if (!part.solver) {
        for (size_t x = 0; x < mass->size(); ++x) {
            held_[v] = static_cast<int64_t>(x);
            from_.local(one.variable, held_, scores_.data());
            (*mass)[x] = log_sum(scores_.data(), n) - part.log_z;
        }
        held_[v] = now;
        return true;
    }
    const double* const p = part.marginals.data() + part.ptr[i];
    double low = 0.0, high = 0.0;
    bool fine = true;
    for (size_t x = 0; x < mass->size(); ++x) {
        held_[v] = static_cast<int64_t>(x);
        from_.local(one.variable, held_, scores_.data());
        double sum = 0.0;
        for (int64_t s = 0; s < n; ++s) {
            if (scores_[s] == -INFINITY) continue;
            fine = fine && local[s] > -INFINITY;
            if (!fine) break;
            const double gain = scores_[s] - local[s];
            low = std::min(low, gain);
            high = std::max(high, gain);
            sum += p[s] * std::exp(gain);
        }
        (*mass)[x] = std::log(sum);
    }
    held_[v] = now;
    return fine && high - low <= (part.faithful ? kFaithfulSpan : kSpan);
}

int Segments::masses(int64_t v, const Near* list, size_t n, bool whole, int threads,
                     Control* control, std::vector<double>* mass) {
    SegmentTree& part = *parts_[list->part];
    const int64_t now = held_[v];
    std::vector<size_t> which;
    size_t size = 0;
    for (size_t i = 0; i < n; ++i) {
        which.push_back(part.number(list[i].variable));
        size += static_cast<size_t>(from_.card(list[i].variable));
    }
    int status = kOk;
    for (size_t x = 0; status == kOk && x < mass->size(); ++x) {
        (*mass)[x] = 0.0;
        if (static_cast<int64_t>(x) == now) continue;
        held_[v] = static_cast<int64_t>(x);
        scores_.resize(size);
        double* to = scores_.data();
        for (size_t i = 0; i < n; ++i) {
            from_.local(list[i].variable, held_, to);
            to += from_.card(list[i].variable);
        }
        held_[v] = now;
        status = part.change(which, scores_, false, threads, control, &(*mass)[x]);
        solved_ += static_cast<int64_t>(n);
        if (status == kWiden && whole) {
            status = part.change(which, scores_, true, threads, control, &(*mass)[x]);
            solved_ += part.cliques;
        }
    }
    return status;
}

int Segments::solve_freed(int64_t v, const std::vector<Near>& around, int threads,
                          Control* control) {
    std::vector<int64_t> list{v};
    double instead = 0.0;  // the limit is for one tree, beside those of other parts
    for (size_t i = 0; i < around.size(); ++i) {
        if (i > 0 && around[i].part == around[i - 1].part) continue;
        const SegmentTree& part = *parts_[around[i].part];
        list.insert(list.end(), part.variables.begin(), part.variables.end());
        instead += part.bytes;
    }
    std::sort(list.begin(), list.end());
    const int64_t value = held_[v];
    held_[v] = -1;
    std::unique_ptr<SegmentTree> part;
    const int status =
        kept_.solve(from_, list, held_, threads, bytes_left() + instead, control, &part);
    held_[v] = value;
    if (status == SegmentTree::kTooMuch) {
        bytes_ -= instead;
        refused_ = std::move(part);
    }
    if (status != kOk) return status;
    solved_ += part->cliques;
    const size_t i = part->number(v);
    std::copy(part->marginals.begin() + part->ptr[i], part->marginals.begin() + part->ptr[i + 1],
              marginals_.begin() + from_.at(v));
    kept_.keep(std::move(part), bytes_left());
    return kOk;
}

}  // namespace vs::junction
