#include "junction/part.h"

#include <algorithm>

namespace vs::junction {

template <class F>
void SegmentTree::each_factor(const TableSlices& from, const std::vector<int64_t>& held,
                              F each) const {
    TableSlice s;
    for (int64_t v : variables) {
        for (const int64_t* f = from.begin(v); f != from.end(v); ++f) {
            from.cut(*f, held, &s);
            if (s.var.size() > 1 && *std::min_element(s.var.begin(), s.var.end()) == v) {
                each(*f, s);
            }
        }
    }
}

int SegmentTree::solve(const TableSlices& from, std::vector<int64_t> list,
                       const std::vector<int64_t>& held, int threads, double bytes_left,
                       Control* control) {
    variables = std::move(list);
    ptr.assign(1, 0);
    for (int64_t v : variables) ptr.push_back(ptr.back() + from.card(v));
    local.resize(static_cast<size_t>(ptr.back()));
    marginals.resize(local.size());
    for (size_t i = 0; i < variables.size(); ++i) {
        from.local(variables[i], held, local.data() + ptr[i]);
    }
    if (variables.size() == 1) return solve_one();
    take_factors(from, held);
    soft_.resize(variables.size());
    for (size_t i = 0; i < variables.size(); ++i) soft_[i] = local.data() + ptr[i];
    other_ = soft_;
    return compile(threads, bytes_left, control);
}

int SegmentTree::solve_again(const TableSlices& from, const std::vector<int64_t>& held, int threads,
                             double bytes_left, Control* control) {
    for (size_t i = 0; i < variables.size(); ++i) {
        from.local(variables[i], held, local.data() + ptr[i]);
    }
    if (variables.size() == 1) return solve_one();
    std::vector<double> now;
    bool forbids = false;
    each_factor(from, held, [&](int64_t f, const TableSlice& s) {
        if (s.whole) return;
        from.copy(s, &now);
        forbids = forbids || from.forbids(f);
    });
    if (now != copies_) {
        std::copy(now.begin(), now.end(), copies_.begin());
        // States that a table leaves may be others now: they are what a tree is made for.
        if (forbids) return compile(threads, bytes_left, control);
        solver->release();
    }
    return infer(threads, bytes_left, control);
}

size_t SegmentTree::number(int64_t v) const {
    return static_cast<size_t>(std::lower_bound(variables.begin(), variables.end(), v) -
                               variables.begin());
}

Status SegmentTree::change(const std::vector<size_t>& which, const std::vector<double>& scores,
                           bool whole, int threads, Control* control, double* log_mass) {
    const double* from = scores.data();
    std::vector<int32_t> changed;
    bool more = false, none = false;
    for (size_t i : which) {
        const int64_t n = ptr[i + 1] - ptr[i];
        for (int64_t s = 0; s < n; ++s) {
            more = more || (from[s] > -INFINITY && local[ptr[i] + s] == -INFINITY);
        }
        none = none || *std::max_element(from, from + n) == -INFINITY;
        other_[i] = from;
        changed.push_back(static_cast<int32_t>(i));
        from += n;
    }
    Status status = kOk;
    *log_mass = -INFINITY;
    if (none) {
    } else if (whole) {
        sound = false;
        status =
            solver->infer(other_.data(), threads, control, ptr.data(), false, nullptr, log_mass);
        *log_mass -= log_z;
    } else if (!sound || more) {
        status = kWiden;
    } else {
        status = solver->log_ratio(other_.data(), changed, control, log_mass);
    }
    for (size_t i : which) other_[i] = soft_[i];
    if (status == kInfeasible) {
        *log_mass = -INFINITY;
        status = kOk;
    }
    return status;
}

int SegmentTree::solve_one() {
    log_z = log_sum(local.data(), ptr[1]);
    return distribution(local.data(), ptr[1], marginals.data()) ? kOk : kInfeasible;
}

int SegmentTree::compile(int threads, double bytes_left, Control* control) {
    solver.reset(new Solver(graph_, {}));
    const std::vector<int64_t> nobody(variables.size(), -1);
    Search search;
    search.effort = 1.0;
    search.seed = 0;
    search.fits = bytes_left / 8.0;
    search.most = INFINITY;
    const int64_t empty = solver->compile(nobody.data(), identity_, search, control);
    if (empty == kStopped) return kCancelled;
    if (empty >= 0) return kInfeasible;
    bytes = solver->layout().bytes;
    cliques = static_cast<int64_t>(solver->tree().clique.size());
    return infer(threads, bytes_left, control);
}

int SegmentTree::infer(int threads, double bytes_left, Control* control) {
    if (bytes > bytes_left) return kTooMuch;
    const Status status =
        solver->infer(soft_.data(), threads, control, ptr.data(), false, marginals.data(), &log_z);
    sound = status == kOk;
    faithful = sound && solver->faithful();
    return status;
}

void SegmentTree::take_factors(const TableSlices& from, const std::vector<int64_t>& held) {
    scope_ptr_.assign(1, 0);
    std::vector<int64_t> starts;  // of copied tables; -1: whole ones
    each_factor(from, held, [&](int64_t f, const TableSlice& s) {
        for (int64_t u : s.var) scope_.push_back(static_cast<int64_t>(number(u)));
        scope_ptr_.push_back(static_cast<int64_t>(scope_.size()));
        forbids_.push_back(from.forbids(f));
        tables_.push_back(s.first);
        starts.push_back(s.whole ? -1 : static_cast<int64_t>(copies_.size()));
        if (!s.whole) from.copy(s, &copies_);
    });
    for (size_t i = 0; i < variables.size(); ++i) {
        cards_.push_back(from.card(variables[i]));
        identity_.push_back(static_cast<int64_t>(i));
    }
    for (size_t f = 0; f < starts.size(); ++f) {
        if (starts[f] >= 0) tables_[f] = copies_.data() + starts[f];
    }
    graph_.n = static_cast<int64_t>(variables.size());
    graph_.card = cards_.data();
    graph_.n_factors = static_cast<int64_t>(tables_.size());
    graph_.scope_ptr = scope_ptr_.data();
    graph_.scope = scope_.data();
    graph_.table = tables_.data();
    graph_.forbids = forbids_.data();
    graph_.identity = identity_.data();
}

}  // namespace vs::junction
