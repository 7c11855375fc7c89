#include "junction/graph.h"

#include <algorithm>
#include <cmath>

#include "junction/few.h"
#include "junction/poll.h"

namespace vs::junction {
namespace {

// Arc consistency: a factor is revised whenever a variable of it has lost a value.
class Consistency {
  public:
    Consistency(const Graph& g, Control* control)
        : g_(g), poll_{control}, ptr_(static_cast<size_t>(g.n) + 1, 0) {
        for (int64_t v = 0; v < g.n; ++v) ptr_[v + 1] = ptr_[v] + g.card[v];
        alive_.assign(static_cast<size_t>(ptr_[g.n]), 1);
        seen_.assign(static_cast<size_t>(ptr_[g.n]), 0);
        left_.assign(g.card, g.card + g.n);
        queued_.assign(static_cast<size_t>(g.n_factors), 0);
        at_.resize(static_cast<size_t>(g.n));
        for (int64_t f = 0; f < g.n_factors; ++f) {
            if (!g.forbids[f]) continue;
            for (int64_t i = g.scope_ptr[f]; i < g.scope_ptr[f + 1]; ++i)
                at_[g.scope[i]].push_back(f);
        }
    }

    int64_t run(const int64_t* held) {
        for (int64_t v = 0; v < g_.n; ++v) {
            if (held[v] < 0) continue;
            for (int64_t x = 0; x < g_.card[v]; ++x) alive_[ptr_[v] + x] = x == held[v];
            left_[v] = 1;
        }
        for (int64_t f = 0; f < g_.n_factors; ++f) {
            if (g_.forbids[f]) push(f);
        }
        while (!queue_.empty()) {
            const int64_t f = queue_.back();
            queue_.pop_back();
            queued_[f] = 0;
            const int64_t empty = revise(f);
            if (empty != kReady) return empty;
        }
        return kReady;
    }

    void collect(Domains* out) const {
        out->ptr.assign(static_cast<size_t>(g_.n) + 1, 0);
        out->value.clear();
        for (int64_t v = 0; v < g_.n; ++v) {
            for (int64_t x = 0; x < g_.card[v]; ++x) {
                if (alive_[ptr_[v] + x]) out->value.push_back(static_cast<int32_t>(x));
            }
            out->ptr[v + 1] = static_cast<int64_t>(out->value.size());
        }
    }

  private:
    void push(int64_t f) {
        if (queued_[f]) return;
        queued_[f] = 1;
        queue_.push_back(f);
    }

    // Marks the values that some living entry of f supports; the others are removed.
    int64_t revise(int64_t f) {
        const int64_t* scope = g_.scope + g_.scope_ptr[f];
        const int64_t d = g_.scope_ptr[f + 1] - g_.scope_ptr[f];
        int64_t missing = 0;
        for (int64_t i = 0; i < d; ++i) {
            const int64_t v = scope[i];
            missing += left_[v];
            std::fill_n(seen_.begin() + ptr_[v], g_.card[v], uint8_t{0});
        }
        if (d == 0) return kReady;
        if (!poll_.go_on_after(16)) return kStopped;
        stride_.assign(static_cast<size_t>(d), 1);
        for (int64_t i = d - 1; i > 0; --i) stride_[i - 1] = stride_[i] * g_.card[scope[i]];
        state_.assign(static_cast<size_t>(d), 0);
        int64_t offset = 0;
        for (int64_t i = 0; i < d; ++i) {
            while (!alive_[ptr_[scope[i]] + state_[i]]) ++state_[i];
            offset += state_[i] * stride_[i];
        }
        const double* t = g_.table[f];
        for (;;) {
            if (t[offset] > -INFINITY) {
                for (int64_t i = 0; i < d; ++i) {
                    uint8_t& s = seen_[ptr_[scope[i]] + state_[i]];
                    missing -= s == 0;
                    s = 1;
                }
                if (missing == 0) return kReady;
            }
            if (!poll_.go_on_after(1)) return kStopped;
            int64_t i = d - 1;
            for (; i >= 0; --i) {  // the next living entry
                const int64_t v = scope[i], before = state_[i];
                int64_t x = before + 1;
                while (x < g_.card[v] && !alive_[ptr_[v] + x]) ++x;
                const bool wraps = x == g_.card[v];
                if (wraps) {
                    x = 0;
                    while (!alive_[ptr_[v] + x]) ++x;
                }
                state_[i] = x;
                offset += (x - before) * stride_[i];
                if (!wraps) break;
            }
            if (i < 0) break;
        }
        for (int64_t i = 0; i < d; ++i) {
            const int64_t v = scope[i];
            bool shrunk = false;
            for (int64_t x = 0; x < g_.card[v]; ++x) {
                if (alive_[ptr_[v] + x] && !seen_[ptr_[v] + x]) {
                    alive_[ptr_[v] + x] = 0;
                    --left_[v];
                    shrunk = true;
                }
            }
            if (left_[v] == 0) return v;
            if (!shrunk) continue;
            for (int64_t q : at_[v]) push(q);
        }
        return kReady;
    }

    const Graph& g_;
    Poll poll_;
    std::vector<int64_t> ptr_, left_, queue_, stride_, state_;
    std::vector<Few<int64_t, 4>> at_;  // factors with zeros at each variable
    std::vector<uint8_t> alive_, seen_, queued_;
};

}  // namespace

int64_t find_domains(const Graph& g, const int64_t* held, Control* control, Domains* out) {
    Consistency c(g, control);
    const int64_t empty = c.run(held);
    if (empty == kReady) c.collect(out);
    return empty;
}

}  // namespace vs::junction
