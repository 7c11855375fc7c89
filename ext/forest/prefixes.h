// The best scores of prefixes that lists of the n best begin with (nbest.cpp), in doubles.
#pragma once

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
        if constexpr (std::is_same<In, double>::value) {
            BestAbreast<double, false> abreast(in_, table_);
            BestLane<double> lanes[abreast.N];
            const int together = m < abreast.N ? m : abreast.N;
            for (int r = 0; r < together; ++r) lanes[r] = best_lane<double>(c_, sequences[r]);
            if (abreast.serves() && abreast.pays(lanes, together)) {
                if (!abreast.open(lanes, together, false, scratch_)) return false;
                if (!abreast.forward(ticker_)) return true;
                abreast.rows(rows);
                return together == m || run(sequences + together, m - together, rows + together);
            }
        }
        for (int r = 0; r < m; ++r) {
            if (!one(sequences[r], rows[r])) return false;
        }
        return true;
    }

  private:
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
