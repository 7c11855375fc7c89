// Sums over projective trees of several sentences at once, a sentence in each lane: the same bits
// as one by one. A shorter one has words without arcs behind it.
#pragma once

#include <cstdint>

#include "dependency/abreast.h"
#include "dependency/eisner.h"
#include "dependency/lanes.h"
#include "dependency/run.h"
#include "simd/transpose.h"

namespace VS_NS {

class ProjectiveSentences {
    using V = Vec<double>;
    using Lanes = Eisner<Abreast>;

  public:
    static constexpr int kLanes = V::N;
    static int64_t scratch(int64_t n) {  // with room to align it
        return kLanes * (Lanes::scratch(n) + Lanes::side(n) + 1) + 8;
    }

    // As `dependency::sum` of each; `spans`: its joints may be asked for. doubt[l]: nothing that
    // was written for it counts.
    static void run(const vs::dependency::Sentence* s, const vs::dependency::Arcs* arcs,
                    int64_t count, double* const* scratch, bool spans, vs::dependency::Sums* sums,
                    double* log_z, bool* doubt, double* shared) {
        Projective<Plain> own[kLanes];
        bool open[kLanes] = {}, any = false;
        int64_t n = 0;
        Plain::begin();
        for (int64_t l = 0; l < count; ++l) {
            open[l] = own[l].open(s[l], arcs[l], scratch[l], doubt + l);
            log_z[l] = own[l].o.answer;
            any |= open[l];
            if (open[l] && s[l].n > n) n = s[l].n;
        }
        if (!any) return;
        const auto bytes = reinterpret_cast<uintptr_t>(shared);
        shared = reinterpret_cast<double*>((bytes + 63) / 64 * 64);
        double* rows = shared + Lanes::scratch(n) * kLanes;  // (kLanes, side)
        Lanes eisner(n, s[0].single_root, reinterpret_cast<V*>(shared));
        write(own, open, n, rows, &eisner);
        eisner.inside();
        any = false;
        for (int64_t l = 0; l < count; ++l) {
            if (!open[l]) continue;
            const V mass = eisner.mass(s[l].n);
            open[l] = own[l].weigh(number(&mass, static_cast<int>(l)), sums != nullptr, doubt + l);
            log_z[l] = own[l].o.answer;
            any |= open[l];
        }
        if (!any) return;
        eisner.outside();
        double* to[kLanes];
        for (int l = 0; l < kLanes; ++l) to[l] = own[l].rest;
        read(own, open, eisner.weights(), n, to, [&](int l) { return own[l].o.ld; }, rows);
        V* squares[Lanes::kSpans];
        eisner.squares(squares);
        for (int i = 0; spans && i < Lanes::kSpans; ++i) {
            for (int l = 0; l < kLanes; ++l) {
                if (!open[l]) continue;
                double* single[Lanes::kSpans];
                Eisner<Plain>(own[l].n, false, own[l].spans).squares(single);
                to[l] = single[i];
            }
            read(
                own, open, squares[i], n, to, [&](int l) { return Eisner<Plain>::side(own[l].n); },
                rows);
        }
        for (int64_t l = 0; l < count; ++l) {
            if (!open[l]) continue;
            own[l].answer(sums ? sums + l : nullptr, doubt + l);
            if (sums && !spans) sums[l].spans = nullptr;
        }
    }

  private:
    static double number(const V* x, int lane) {
        double all[kLanes];
        x->store(all);
        return all[lane];
    }
    static void write(const Projective<Plain>* own, const bool* open, int64_t n, double* rows,
                      Lanes* eisner) {
        const int64_t side = Lanes::side(n);
        for (int64_t i = 0; i < kLanes * side; ++i) rows[i] = 0.0;
        const double* from[kLanes];
        for (int l = 0; l < kLanes; ++l) from[l] = rows + l * side;
        for (int64_t h = 0; h < side; ++h) {
            for (int l = 0; l < kLanes; ++l) {
                double* row = rows + l * side;
                if (!open[l]) continue;
                const bool here = h <= own[l].n;
                const double* weight = own[l].o.weight + (here ? h * own[l].o.ld : 0);
                for (int64_t m = 0; m <= own[l].n; ++m) row[m] = here ? weight[m] : 0.0;
            }
            weave<double, kLanes>(from, side,
                                  reinterpret_cast<double*>(eisner->weights() + h * side));
            double ends[kLanes];
            for (int l = 0; l < kLanes; ++l) ends[l] = open[l] && own[l].n == h ? 1.0 : 0.0;
            eisner->ends()[h] = V::load(ends);
        }
    }
    // The square of each lane.
    template <class Ld>
    static void read(const Projective<Plain>* own, const bool* open, const V* square, int64_t n,
                     double* const* out, Ld ld, double* rows) {
        const int64_t side = Lanes::side(n);
        double* to[kLanes];
        for (int64_t h = 0; h <= n; ++h) {
            const auto fits = [&](int l) { return open[l] && own[l].n == n; };
            for (int l = 0; l < kLanes; ++l) to[l] = fits(l) ? out[l] + h * ld(l) : rows + l * side;
            unweave<double, kLanes>(reinterpret_cast<const double*>(square + h * side), n + 1, to);
            for (int l = 0; l < kLanes; ++l) {
                if (!open[l] || fits(l) || h > own[l].n) continue;
                const double* row = rows + l * side;
                Plain::copy(row, out[l] + h * ld(l), own[l].n + 1);
            }
        }
    }
};

}  // namespace VS_NS
