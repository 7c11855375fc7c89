#include "junction/workspace.h"

namespace vs::junction {

template <class A>
void CliqueWorkspace<A>::add_input(const View& v, const std::vector<T>& table) {
    (v.scalar ? scalar : vec).push_back(table.data());
    (v.scalar ? scalar_at : vec_at).push_back(v.at.data());
}

template <class A>
void CliqueWorkspace<A>::add_inputs(const State<A>& s, size_t c) {
    const CliqueLayout& l = s.c.l.clique[c];
    for (size_t i = 0; i < l.statics.size(); ++i) {
        add_input(l.statics[i].view, s.clique[c].tables[i]);
    }
    for (const Child& k : l.children) {
        if (k.into < 0) add_input(k.view, s.incoming(k));
    }
}

template <class A>
void CliqueWorkspace<A>::add_sum(BufferPool<T>* buffers, const Poll& poll, bool is_scalar,
                                 bool disjoint, const int32_t* at, int64_t size,
                                 std::vector<T>* into) {
    sums.push_back({is_scalar, at, into, {}});
    std::vector<std::vector<T>>& copies = sums.back().copies;
    if (blocks > 1 && !disjoint) copies.resize(static_cast<size_t>(blocks) - 1);
    const auto prepare = [&](std::vector<T>* x) {
        buffers->grow(size, x, poll);
        zero.push_back(x);
    };
    prepare(into);
    for (auto& copy : copies) prepare(&copy);
}

template <class A>
void CliqueWorkspace<A>::add_table(BufferPool<T>* buffers, const Poll& poll, const View& v,
                                   int64_t size, std::vector<T>* table, std::vector<T>* wide) {
    const bool spread = copied(v);
    add_sum(buffers, poll, v.scalar, v.disjoint, v.at.data(), spread ? v.size : size,
            spread ? wide : table);
    if (!spread) return;
    buffers->grow(size, table, poll);
    zero_later.push_back(table);
}

template <class A>
void CliqueWorkspace<A>::bound_loss(const State<A>& s, size_t c, double low) {
    if constexpr (A::kChecked) {
        const CliqueLayout& l = s.c.l.clique[c];
        double below = 0.0, most = low < kTrust ? kTiny : -INFINITY;
        bool absorbs = false;
        for (double x : s.clique[c].low) {
            low += x;
            if (x < kTrust) most = std::max(most, kTiny);
        }
        for (const Child& k : l.children) {
            absorbs = absorbs || k.absorbs;
            below += s.clique[k.clique].message_low;
            most = std::max(most, s.clique[k.clique].loss);
        }
        low += below;
        if (low >= kTrust && most == -INFINITY) return;
        if (absorbs && below < kTrust) most = std::max(most, kTiny);
        if (low < kTrust) boost = kBoost;
        if (low + boost < kTrust) most = std::max(most, kTiny - boost);
        // Each operand and each product on the way may lose as much, and entries are added up.
        const double operands = 2.0 + static_cast<double>(l.children.size() + l.statics.size());
        loss = most + std::log2(l.size) + std::log2(2.0 * operands);
    }
}

// The first block sums into the tables themselves, the others, unless they meet other entries
// anyway, into copies that are added in order. So threads do not show.
template <class A>
void CliqueWorkspace<A>::run_block(const CliqueLayout& l, int k, std::vector<T>* row,
                                   const Poll& poll) const {
    Few<T*, 8> vec_out, scalar_out;
    Few<const int32_t*, 8> vec_out_at, scalar_out_at;
    for (const SumTable<T>& s : sums) {
        const std::vector<T>& to = k == 0 || s.copies.empty() ? *s.into : s.copies[k - 1];
        (s.scalar ? scalar_out : vec_out).push_back(const_cast<T*>(to.data()));
        (s.scalar ? scalar_out_at : vec_out_at).push_back(s.at);
    }
    const auto count = [](const auto& list) { return static_cast<int>(list.size()); };
    const RowJob<T> j{first_factor<A>(boost),
                      l.width,
                      count(vec),
                      count(scalar),
                      count(vec_out),
                      count(scalar_out),
                      vec.data(),
                      vec_at.data(),
                      scalar.data(),
                      scalar_at.data(),
                      vec_out.data(),
                      vec_out_at.data(),
                      scalar_out.data(),
                      scalar_out_at.data()};
    if (row->size() < static_cast<size_t>(l.width) + 64) {
        row->resize(static_cast<size_t>(l.width) + 64);
    }
    const int64_t units = l.rows / unit;
    poll.parts(units * k / blocks * unit, units * (k + 1) / blocks * unit,
               std::max<int64_t>(1, kPoll / l.width),
               [&](int64_t a, int64_t b) { rows<A>(j, a, b, row->data()); });
}

template <class A>
void CliqueWorkspace<A>::clear(const Tables& list, LoopPiece share, const Poll& poll) const {
    for (std::vector<T>* x : list) {
        const int64_t n = static_cast<int64_t>(x->size());
        poll.parts(share.first(n), share.last(n), 4 * kPoll, [&](int64_t a, int64_t b) {
            std::fill(x->begin() + a, x->begin() + b, A::zero());
        });
    }
}

template <class A>
void CliqueWorkspace<A>::merge(LoopPiece share, const Poll& poll) const {
    for (const SumTable<T>& s : sums) {
        if (s.copies.empty()) continue;
        const int64_t n = static_cast<int64_t>(s.into->size());
        poll.parts(share.first(n), share.last(n), kNear, [&](int64_t a, int64_t b) {
            T* to = s.into->data();
            for (const auto& copy : s.copies) {
                const T* from = copy.data();
                for (int64_t e = a; e < b; ++e) to[e] = A::add(to[e], from[e]);
            }
        });
    }
}

template <class A>
void CliqueWorkspace<A>::release(BufferPool<T>* buffers) {
    for (SumTable<T>& s : sums) {
        for (auto& copy : s.copies) buffers->give_back(std::move(copy));
    }
    buffers->give_back(std::move(wide_up));
    for (auto& w : wide) buffers->give_back(std::move(w));
    buffers->give_back(std::move(folded));
}

template <class A>
void CliqueWorkspace<A>::reset() {
    for (auto* list : {&vec, &scalar}) list->clear();
    for (auto* list : {&vec_at, &scalar_at}) list->clear();
    for (auto* list : {&zero, &zero_later}) list->clear();
    for (auto* list : {&wide, &asked}) {
        for (auto& x : *list) x.clear();
    }
    sums.clear();
    outgoing.clear();
    ranges.clear();
    wide_up.clear();
    unit = blocks = 1;
    boost = 0.0;
    loss = -INFINITY;
}

template struct CliqueWorkspace<Linear64>;
template struct CliqueWorkspace<LinearWide>;
template struct CliqueWorkspace<MaxLogs>;

}  // namespace vs::junction
