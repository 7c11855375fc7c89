// The best projective tree, and the best one with and without each arc: Eisner's spans in (max, +).
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/best.h"
#include "dependency/eisner.h"
#include "dependency/odds.h"
#include "dependency/run.h"

namespace VS_NS {

// The words from h to e below h, whose own head is g: the first way in order that has the span's
// score. Along the outer side in a loop, so that calls nest no deeper than arcs do.
template <class Spans>
void attach(const Spans& spans, int64_t g, int64_t h, int64_t e, int64_t* heads) {
    while (h != e) {
        int64_t m = h < e ? h + 1 : e;
        while (spans.arc(g, h, m) + spans.complete(h, m, e) != spans.complete(g, h, e)) ++m;
        heads[m - 1] = h;
        // Between h and m: as of the lower one up to k, the rest below the higher one.
        const bool right = h < m;
        const int64_t i = right ? h : m, j = right ? m : h;
        const double whole = spans.arc(g, h, m), w = spans.weight(g, h, m);
        int64_t k = i;
        while (spans.complete(right ? g : h, i, k) + spans.complete(right ? h : g, j, k + 1) + w !=
               whole) {
            ++k;
        }
        attach(spans, right ? g : h, i, k, heads);
        attach(spans, right ? h : g, j, k + 1, heads);
        g = h;
        h = m;
    }
}

// The spans of a sentence, inside.
class BestSpans {
  public:
    BestSpans(const vs::dependency::Sentence& s, double* scratch)
        : n_(s.n), ld_(row_of(s.n)), single_(s.single_root), pieces_{scratch} {
        weight_ = pieces_.take<double>((n_ + 1) * ld_);
        for (int64_t h = 0; h <= n_; ++h) {
            double* w = weight_ + h * ld_;
            for (int64_t m = 0; m <= n_; ++m) w[m] = s.scores[h * (n_ + 1) + m];
            w[0] = w[h] = -INFINITY;
        }
    }

    double best(int64_t* heads) {
        Eisner<MaxPlus> spans = inside();
        const double score = n_ > 0 ? spans.mass(n_) : 0.0;
        for (int64_t m = 0; m < n_; ++m) heads[m] = -1;
        if (score > -INFINITY && n_ > 0) attach(spans.spans(weight_, ld_), 0, 0, n_, heads);
        return score;
    }

    double ratios(double* ratio) {
        double* rest = pieces_.take<double>((n_ + 1) * ld_);
        double* none = pieces_.take<double>(ld_);
        Eisner<MaxPlus> spans = inside();
        const double score = n_ > 0 ? spans.mass(n_) : 0.0;
        vs::dependency::Arcs arcs;
        arcs.ratio = ratio;
        if (score == -INFINITY || n_ == 0) return nothing(arcs, n_, score);
        spans.outside();
        spans.read(n_, rest, ld_);
        for (int64_t m = 0; m <= n_; ++m) none[m] = 0.0;
        Odds<MaxPlus> odds(weight_, rest, n_, ld_,
                           pieces_.take<double>(Odds<MaxPlus>::scratch(n_, ld_)));
        odds.tell(none, arcs);
        return score;
    }

  private:
    Eisner<MaxPlus> inside() {
        Eisner<MaxPlus> spans(n_, single_, pieces_.take<double>(Eisner<MaxPlus>::scratch(n_)));
        spans.write(n_, weight_, ld_);
        spans.inside();
        return spans;
    }
    const int64_t n_, ld_;
    const bool single_;
    ScratchPieces pieces_;
    double* weight_;
};

}  // namespace VS_NS
