// The way down: from a clique to its children, and marginals on the way.
//
//   belief_k(S) = sum over C \ S of everything multiplied into C, its message from above included
//   d_k(S)      = belief_k(S) / m_k(S)
//   p(v)        = sum over S \ v of belief_k(S), from the smallest separator that has v
#include "junction/workspace.h"

namespace vs::junction {
namespace {

// On the way down, all of the model is multiplied into a clique: its loss is compared with the mass
// of the whole. At roots, the way up has done that.
template <class A>
Status check_loss(State<A>* s, size_t c, const CliqueWorkspace<A>& w) {
    if constexpr (A::kChecked) {
        const typename State<A>::Clique& own = s->clique[c];
        if (w.loss == -INFINITY) return kOk;
        s->lost.store(true, std::memory_order_relaxed);
        if (s->c.t.parent[c] < 0) return kOk;
        double mass = 0.0;
        for (size_t e = 0; e < own.belief.size(); ++e) mass += own.belief[e] * own.message[e];
        if (!(std::log2(mass) + kLost > w.loss)) return kWiden;
    }
    return kOk;
}

template <class A>
Status reserve_down(State<A>* s, size_t c, CliqueWorkspace<A>* w, const Poll& poll) {
    const CliqueLayout& l = s->c.l.clique[c];
    typename State<A>::Clique& own = s->clique[c];
    BufferPool<typename A::T>& buffers = s->buffers;
    w->bound_loss(*s, c, own.belief_low);
    const Status status = check_loss(s, c, *w);
    if (status != kOk) return status;
    w->add_inputs(*s, c);
    w->unit = l.unit;
    w->blocks = l.pieces[0].blocks;
    const int after = l.pieces[0].after;
    if (s->c.t.parent[c] >= 0) {
        if (copied(l.up)) buffers.grow(l.up.size, &w->wide_up, poll);
        w->add_input(l.up, copied(l.up) ? w->wide_up : own.belief);
    }
    w->wide.resize(l.children.size());
    w->outgoing.resize(l.children.size());
    int64_t folded = 0, sums = 0;
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        typename State<A>::Clique& child = s->clique[k.clique];
        const Dims& d = s->c.l.clique[k.clique].message;
        if (k.into < 0) {
            w->add_table(&buffers, poll, k.view, d.size, &child.belief, &w->wide[i]);
        } else {
            buffers.grow(d.size, &child.belief, poll);
        }
        w->outgoing[i].folded = folded;
        w->outgoing[i].sums = sums;
        if (k.n_read > 0) sums += after * s->c.d.size(d.var[0]);
        if (k.n_read > 1) folded += d.stride[0];
        if (!poll.go_on()) return kOk;
    }
    w->ranges.resize(l.children.size() * static_cast<size_t>(after));
    buffers.grow(folded, &w->folded, poll);
    grow(&w->sum, sums, poll);
    if (l.local_in_tile) w->add_sum(&buffers, poll, false, false, nullptr, l.width, &w->tile);
    for (const Local& v : l.local_outer) {
        w->add_sum(&buffers, poll, true, false, v.at.data(), s->c.d.size(v.var),
                   &s->marginal[v.var]);
    }
    w->asked.resize(own.asked.size());
    for (size_t i = 0; i < own.asked.size(); ++i) {
        const int32_t q = own.asked[i];
        const Query& query = s->c.queries[q];
        w->add_table(&buffers, poll, query.view, query.dims.size, &s->query[q], &w->asked[i]);
    }
    return kOk;
}

// belief_k(S_k) = sum over S \ S_k of belief(S), S the separator whose message absorbed k's.
// Shares are values of the first variable: each has entries of its own, and adds to each in the
// same order.
template <class A>
void project(State<A>* s, const CliqueLayout& l, const Child& k, LoopPiece share,
             const Poll& poll) {
    using T = typename A::T;
    const int32_t above = l.children[k.into].clique;
    const Dims &d = s->c.l.clique[k.clique].message, &from = s->c.l.clique[above].message;
    const T* in = s->clique[above].belief.data();
    T* out = s->clique[k.clique].belief.data();
    if (d.var.empty()) {
        if (share.p == 0) out[0] = fold<A>(in, from.size, nullptr);
        return;
    }
    const int64_t values = s->c.d.size(d.var[0]), stride = from.stride_of(d.var[0]);
    const int64_t first = share.first(values), last = share.last(values);
    const int64_t begin = first * d.stride[0], size = (last - first) * d.stride[0];
    if (size == 0) return;
    // Shares that write to the same cache lines would take them from each other all the time.
    std::vector<T> near;
    T* to = out + begin;
    if (share.n > 1 && size <= kNear) {
        near.resize(static_cast<size_t>(size));
        to = near.data();
    }
    std::fill(to, to + size, A::zero());
    // Blocks of entries with those values: runs, or (contiguous) parts of one run.
    const int64_t block = stride * values, run = std::min(k.run, (last - first) * stride);
    poll.parts(0, from.size / block, std::max<int64_t>(1, 4 * kPoll / block),
               [&](int64_t a, int64_t b) {
                   for (int64_t i = a; i < b; ++i) {
                       const int64_t end = i * block + last * stride;
                       int64_t e = i * block + first * stride, r = e / k.run;
                       for (; e < end; e += run, ++r) {
                           T* x = to + (k.map[r] - begin + (k.contiguous ? e - r * k.run : 0));
                           if (k.contiguous) {
                               for (int64_t t = 0; t < run; ++t) x[t] = A::add(x[t], in[e + t]);
                           } else if (run > 32) {
                               *x = A::add(*x, fold<A>(in + e, run, nullptr));
                           } else {
                               T sum = in[e];
                               for (int64_t t = 1; t < run; ++t) sum = A::add(sum, in[e + t]);
                               *x = A::add(*x, sum);
                           }
                       }
                   }
               });
    if (!near.empty()) std::copy(near.begin(), near.end(), out + begin);
}

// d_k(S) = belief_k(S) / m_k(S), and before that the sums from which marginals are read: for each
// value of the first variable, and (folded) the table with that variable summed out.
template <class A>
void divide_belief(State<A>* s, const Child& k, size_t i, CliqueWorkspace<A>* w, LoopPiece share,
                   const Poll& poll) {
    using T = typename A::T;
    const Dims& d = s->c.l.clique[k.clique].message;
    T* belief = s->clique[k.clique].belief.data();
    const T* message = s->clique[k.clique].message.data();
    Range<A> range;
    const auto pass = [&](int64_t a, int64_t b) {
        divide<A>(belief + a, message + a, b - a);
        range.join(Range<A>::of(belief + a, b - a));
    };
    Range<A>& found = w->ranges[i * static_cast<size_t>(share.n) + static_cast<size_t>(share.p)];
    if (k.n_read == 0) {
        poll.parts(share.first(d.size), share.last(d.size), kNear, pass);
        found = range;
        return;
    }
    const int64_t values = s->c.d.size(d.var[0]), stride = d.stride[0];
    const int64_t first = share.first(stride), last = share.last(stride);
    T* into = k.n_read > 1 ? w->folded.data() + w->outgoing[i].folded : nullptr;
    T* sums = w->sum.data() + w->outgoing[i].sums + share.p * values;
    if (into) std::fill(into + first, into + last, A::zero());
    for (int64_t x = 0; x < values; ++x) {
        T sum = A::zero();
        poll.parts(first, last, kNear, [&](int64_t a, int64_t b) {
            sum = A::add(sum, fold<A>(belief + x * stride + a, b - a, into ? into + a : nullptr));
            if (share.n > 1) pass(x * stride + a, x * stride + b);
        });
        sums[x] = sum;
    }
    if (share.n == 1) poll.parts(0, d.size, kNear, pass);
    found = range;
}

// The first variable's marginal from its sums, then those of the folded table's variables.
template <class A>
void read_separator(State<A>* s, const Child& k, const Outgoing<A>& o, CliqueWorkspace<A>* w,
                    int pieces) {
    using T = typename A::T;
    const Dims& d = s->c.l.clique[k.clique].message;
    T* table = w->folded.data() + o.folded;
    const T* sums = w->sum.data() + o.sums;
    for (int i = 0; i < k.n_read; ++i) {
        const int32_t v = d.var[i];
        const int64_t values = s->c.d.size(v), stride = d.stride[i];
        const bool wanted = s->c.l.read_in[v] == k.clique;
        std::vector<T>& m = s->marginal[v];
        if (i == 0) {
            if (!wanted) continue;
            m.assign(sums, sums + values);
            for (int p = 1; p < pieces; ++p) {
                for (int64_t x = 0; x < values; ++x) m[x] = A::add(m[x], sums[p * values + x]);
            }
            continue;
        }
        if (wanted) m.resize(static_cast<size_t>(values));
        for (int64_t x = 0; x < values; ++x) {
            T* into = i + 1 < k.n_read && x > 0 ? table : nullptr;
            const T sum =
                stride == 1 && !into ? table[x] : fold<A>(table + x * stride, stride, into);
            if (wanted) m[x] = sum;
        }
    }
}

// p(v) = sum over everything else of a table
template <class A>
void read_table(State<A>* s, int32_t v, const Dims& d, const typename A::T* table) {
    using T = typename A::T;
    const int64_t stride = d.stride_of(v), values = s->c.d.size(v);
    std::vector<T>& m = s->marginal[v];
    m.assign(static_cast<size_t>(values), A::zero());
    for (int64_t outer = 0; outer < d.size; outer += stride * values) {
        for (int64_t x = 0; x < values; ++x) {
            T sum = A::zero();
            const T* from = table + outer + x * stride;
            for (int64_t i = 0; i < stride; ++i) sum = A::add(sum, from[i]);
            m[x] = A::add(m[x], sum);
        }
    }
}

template <class A>
Status decide_down(State<A>* s, size_t c, CliqueWorkspace<A>* w, const Poll& poll) {
    const CliqueLayout& l = s->c.l.clique[c];
    for (size_t i = 0; i < w->asked.size(); ++i) {
        if (w->asked[i].empty()) continue;
        const int32_t q = s->clique[c].asked[i];
        gather<A>(s->c.queries[q].view, l.width, w->asked[i], {0, 1}, poll, &s->query[q]);
    }
    if (l.local_in_tile) {
        const Dims d = dims_of(s->c.d, l.tile);
        for (int32_t v : l.local) {
            if (has(l.tile, v)) read_table(s, v, d, w->tile.data());
        }
    }
    const int after = l.pieces[0].after;
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        read_separator(s, k, w->outgoing[i], w, after);
        Range<A> all;
        for (int p = 0; p < after; ++p) all.join(w->ranges[i * after + p]);
        double bits;
        if (!all.find_scale(&bits, &s->clique[k.clique].belief_low)) {
            return A::kChecked ? kWiden : kInfeasible;
        }
        w->outgoing[i].top = all.top;
    }
    return kOk;
}

}  // namespace

template <class A>
Status stage_down(State<A>* s, size_t c, CliqueWorkspace<A>* w, Stage stage, LoopPiece share,
                  const Poll& poll) {
    const CliqueLayout& l = s->c.l.clique[c];
    const size_t n = l.children.size();
    switch (stage) {
        case kReserve:
            return reserve_down(s, c, w, poll);
        case kSpread:
            if (!w->wide_up.empty()) {
                spread<A>(l.up, l.width, s->clique[c].belief, share, poll, &w->wide_up);
            }
            w->clear(w->zero, share, poll);
            break;
        case kGather:
            for (size_t i = 0; i < n; ++i) {
                if (w->wide[i].empty()) continue;
                const Child& k = l.children[i];
                gather<A>(k.view, l.width, w->wide[i], share, poll, &s->clique[k.clique].belief);
            }
            break;
        case kProject:
        case kNested:
            // Larger ones first: others are summed out of them.
            for (size_t i = n; i-- > 0 && poll.go_on();) {
                const Child& k = l.children[l.order[i]];
                if (k.into < 0) continue;
                const bool nested = l.children[k.into].into >= 0;
                if (nested == (stage == kNested)) project(s, l, k, share, poll);
            }
            break;
        case kDivide:
            for (size_t i = 0; i < n; ++i) divide_belief(s, l.children[i], i, w, share, poll);
            break;
        case kDecide:
            return decide_down(s, c, w, poll);
        case kScale:
            for (size_t i = 0; i < n; ++i) {
                scale<A>(&s->clique[l.children[i].clique].belief, w->outgoing[i].top, share, poll);
            }
            break;
        default:
            break;
    }
    return kOk;
}

template Status stage_down(State<Linear64>*, size_t, CliqueWorkspace<Linear64>*, Stage, LoopPiece,
                           const Poll&);
template Status stage_down(State<LinearWide>*, size_t, CliqueWorkspace<LinearWide>*, Stage,
                           LoopPiece, const Poll&);

}  // namespace vs::junction
