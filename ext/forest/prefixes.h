// The best scores of prefixes that lists of the n best begin with (nbest.cpp), in doubles.
#pragma once

#include <cstring>
#include <type_traits>

#include "forest/best_abreast.h"
#include "forest/path_best.h"

namespace VS_NS {

template <class In>
class PrefixScores {
  public:
    PrefixScores(const vs::Chains& c, const vs::Scores* table, vs::Scratch& scratch,
                 vs::ScanBackoff* backoff, vs::Control* control, bool caller)
        : c_(c),
          in_(c),
          table_(table),
          scratch_(scratch),
          backoff_(backoff),
          ticker_(control, caller, c.n_labels) {}

    // As Level::prefix_scores. False: no memory.
    bool run(const int64_t* sequences, int m, double* const* rows) {
        for (int first = 0, n; first < m; first += n) {
            n = m - first < Abreast::N ? m - first : Abreast::N;
            const vs::Scratch::Mark mark = scratch_.mark();
            bool done = false;
            if (!side_by_side(sequences + first, n, rows + first, &done)) return false;
            for (int r = 0; r < n && !done; ++r) {
                if (!one(sequences[first + r], rows[first + r])) return false;
            }
            scratch_.rewind(mark);
        }
        return true;
    }

  private:
    using Abreast = BestAbreast<double, false>;

    // `done`: whether the table and lanes are such that it pays.
    bool side_by_side(const int64_t* sequences, int m, double* const* rows, bool* done) {
        BestLane<double> lanes[Abreast::N];
        for (int r = 0; r < m; ++r) lanes[r] = best_lane<double>(c_, sequences[r]);
        vs::Chains c = c_;
        *done = pays(c, lanes, m);
        if (!*done) return true;
        if constexpr (!std::is_same<In, double>::value) {
            Wide wide = {};
            if (!make_room(lanes, m, &wide, &c)) return false;
            widen(wide, lanes, m);
        }
        // The transition of `c` is still In's: rows alone take that of the table.
        const Input<double> in(c);
        Abreast abreast(in, table_);
        if (!abreast.open(lanes, m, false, scratch_)) return false;
        if (abreast.forward(ticker_)) abreast.rows(rows);
        return true;
    }

    bool pays(const vs::Chains& c, const BestLane<double>* lanes, int m) const {
        const Input<double> unread(c);
        const Abreast abreast(unread, table_);
        return abreast.serves() && abreast.pays(lanes, m);
    }

    // The chains of some lanes in doubles, one after the other; null where there is none.
    struct Wide {
        double *unary, *start, *end;
        uint8_t* allowed;
    };
    bool make_room(const BestLane<double>* lanes, int m, Wide* wide, vs::Chains* c) {
        const int64_t size = lane_sizes(lanes, m).positions * c_.n_labels;
        c->dtype = vs::kFloat64;
        c->unary = wide->unary = scratch_.array<double>(size);
        if (c_.start) c->start = wide->start = scratch_.array<double>(c_.n_labels);
        if (c_.end) c->end = wide->end = scratch_.array<double>(c_.n_labels);
        if (c_.allowed) c->allowed = wide->allowed = scratch_.array<uint8_t>(size);
        return !scratch_.failed;
    }
    // Writes them, and turns lanes to them.
    void widen(const Wide& wide, BestLane<double>* lanes, int m) const {
        const int64_t K = c_.n_labels;
        if (wide.start) copy(in_.start, K, wide.start);
        if (wide.end) copy(in_.end, K, wide.end);
        for (int64_t r = 0, at = 0; r < m; at += lanes[r++].n) {
            const int64_t first = lanes[r].begin * K, size = lanes[r].n * K;
            copy(in_.unary + first, size, wide.unary + at * K);
            if (wide.allowed) {
                std::memcpy(wide.allowed + at * K, c_.allowed + first, static_cast<size_t>(size));
            }
            lanes[r].begin = at;
        }
    }
    static void copy(const In* from, int64_t n, double* to) {
        for (int64_t k = 0; k < n; ++k) to[k] = static_cast<double>(from[k]);
    }

    bool one(int64_t sequence, double* rows) {
        Prefixes<false, In, double> v(in_, table_);
        if (!v.open(1, scratch_, backoff_)) return false;
        const BestLane<double> s = best_lane<double>(c_, sequence);
        for (int64_t i = 0; i < s.n && ticker_.go_on(); ++i) {
            double* to = rows + i * v.stride();
            const double* const x = i == 0 ? nullptr : to - v.stride();
            const typename Prefixes<false, In, double>::Row row = {s.begin + i,  s.edge + i, i == 0,
                                                                   i == s.n - 1, x,          to};
            v.rows(&row, 1);
        }
        return true;
    }

    const vs::Chains& c_;
    const Input<In> in_;
    const vs::Scores* table_;
    vs::Scratch& scratch_;
    vs::ScanBackoff* backoff_;
    Ticker ticker_;
};

// As Level::prefix_scores.
static void prefix_scores(const vs::Chains* c, const vs::Scores* table, const int64_t* sequences,
                          int m, double* const* rows, vs::Scratch* scratch,
                          vs::ScanBackoff* backoff, vs::Control* control, int caller) {
    const auto in = [&](auto type) {
        PrefixScores<decltype(type)> p(*c, table, *scratch, backoff, control, caller != 0);
        return p.run(sequences, m, rows);
    };
    if (!(c->dtype == vs::kFloat32 ? in(float()) : in(double()))) control->stop.store(2);
}

}  // namespace VS_NS
