// The way up: a clique's message to its parent.
//
//   m_c(S) = sum over C \ S of  statics(C) * product of the children's messages
#include "junction/workspace.h"

namespace vs::junction {
namespace {

// product_k(S) = m_k(S) * product of the messages that m_k absorbs, each at its part of S
template <class A>
void absorb(State<A>* s, const CliqueLayout& l, const Child& k, LoopPiece share, const Poll& poll) {
    using T = typename A::T;
    typename State<A>::Clique& child = s->clique[k.clique];
    const int64_t n = static_cast<int64_t>(child.message.size());
    poll.parts(share.first(n), share.last(n), kNear, [&](int64_t a, int64_t b) {
        T* to = child.product.data();
        std::copy(child.message.data() + a, child.message.data() + b, to + a);
        for (int32_t i : k.absorbed) {
            const Child& other = l.children[i];
            const typename State<A>::Clique& from = s->clique[other.clique];
            const T* table = other.absorbs ? from.product.data() : from.message.data();
            for (int64_t e = a, r = a / other.run; e < b; ++r) {
                const int64_t end = std::min(b, (r + 1) * other.run);
                const T* x = table + other.map[r];
                if (other.contiguous) {
                    x += e - r * other.run;
                    for (; e < end; ++e, ++x) to[e] = A::mul(to[e], *x);
                } else {
                    for (; e < end; ++e) to[e] = A::mul(to[e], *x);
                }
            }
        }
    });
}

template <class A>
void reserve_up(State<A>* s, size_t c, CliqueWorkspace<A>* w, const Poll& poll) {
    const CliqueLayout& l = s->c.l.clique[c];
    typename State<A>::Clique& own = s->clique[c];
    if (!own.loaded) {
        load(s, c, &w->loading);
        own.loaded = true;
    }
    for (int32_t i : l.order) {
        const Child& k = l.children[i];
        typename State<A>::Clique& child = s->clique[k.clique];
        if (!poll.go_on()) return;
        if (k.absorbs) {
            grow(&child.product, static_cast<int64_t>(child.message.size()), poll);
            // Messages that rows meet are multiplied in kAbsorb, in pieces.
            if (k.into >= 0) absorb(s, l, k, {0, 1}, poll);
        }
        if (k.into < 0 && copied(k.view)) grow(&child.spread, k.view.size, poll);
    }
    w->bound_loss(*s, c, 0.0);
    w->add_inputs(*s, c);
    w->unit = l.unit;
    w->blocks = l.pieces[1].blocks;
    w->outgoing.resize(1);
    w->ranges.resize(static_cast<size_t>(l.pieces[1].after));
    if (s->c.t.parent[c] < 0) {
        w->add_sum(&s->buffers, poll, true, false, nullptr, 1, &own.message);
    } else {
        w->add_table(&s->buffers, poll, l.up, l.message.size, &own.message, &w->wide_up);
    }
}

// loss_c = loss of the sums + boost - bits, in the units of the message's largest entry
template <class A>
Status decide_up(State<A>* s, size_t c, CliqueWorkspace<A>* w) {
    typename State<A>::Clique& own = s->clique[c];
    Range<A> all;
    for (const Range<A>& r : w->ranges) all.join(r);
    double bits;
    if (!all.find_scale(&bits, &own.message_low)) {
        return w->loss > -INFINITY ? kWiden : kInfeasible;
    }
    own.loss = w->loss + w->boost - bits;
    if (A::kChecked && own.message_low < kTiny) own.loss = std::max(own.loss, kTiny) + 1.0;
    if (own.loss > kLost) return kWiden;
    own.scale = bits - w->boost;
    own.tail = A::tail(all.top);
    w->outgoing[0].top = all.top;
    return kOk;
}

}  // namespace

template <class A>
Status stage_up(State<A>* s, size_t c, CliqueWorkspace<A>* w, Stage stage, LoopPiece share,
                const Poll& poll) {
    const CliqueLayout& l = s->c.l.clique[c];
    typename State<A>::Clique& own = s->clique[c];
    switch (stage) {
        case kReserve:
            reserve_up(s, c, w, poll);
            break;
        case kAbsorb:
            for (const Child& k : l.children) {
                if (k.absorbs && k.into < 0) absorb(s, l, k, share, poll);
            }
            break;
        case kSpread:
            for (const Child& k : l.children) {
                if (k.into >= 0 || !copied(k.view)) continue;
                typename State<A>::Clique& child = s->clique[k.clique];
                spread<A>(k.view, l.width, k.absorbs ? child.product : child.message, share, poll,
                          &child.spread);
            }
            w->clear(w->zero, share, poll);
            break;
        case kGather:
            if (!w->wide_up.empty()) {
                gather<A>(l.up, l.width, w->wide_up, share, poll, &own.message);
            }
            break;
        case kDivide: {
            const int64_t n = static_cast<int64_t>(own.message.size()), first = share.first(n);
            w->ranges[share.p] = Range<A>::of(own.message.data() + first, share.last(n) - first);
            break;
        }
        case kDecide:
            return decide_up(s, c, w);
        case kScale:
            scale<A>(&own.message, w->outgoing[0].top, share, poll);
            break;
        case kRelease:
            own.sent = true;
            break;
        default:
            break;
    }
    return kOk;
}

template Status stage_up(State<Linear64>*, size_t, CliqueWorkspace<Linear64>*, Stage, LoopPiece,
                         const Poll&);
template Status stage_up(State<LinearWide>*, size_t, CliqueWorkspace<LinearWide>*, Stage, LoopPiece,
                         const Poll&);
template Status stage_up(State<MaxLogs>*, size_t, CliqueWorkspace<MaxLogs>*, Stage, LoopPiece,
                         const Poll&);

}  // namespace vs::junction
