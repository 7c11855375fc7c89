#include "messages/network.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {

static const SimdApi* g_simd = nullptr;

const MessageLevel& level() { return at_level<MessageLevel>(g_simd->level()); }

namespace {

constexpr int64_t kChunk = 1 << 14;  // entries of tables or messages that one task takes

std::vector<int64_t> cut(int64_t n, const std::vector<int64_t>& upto) {
    std::vector<int64_t> out{0};
    for (int64_t i = 0; i < n; ++i) {
        if (upto[at(i + 1)] - upto[at(out.back())] + i - out.back() >= kChunk) out.push_back(i + 1);
    }
    if (out.back() < n) out.push_back(n);
    return out;
}

}  // namespace

const PoolApi* g_pool = nullptr;

void use_modules(const PoolApi* pool, const SimdApi* simd) {
    g_pool = pool;
    g_simd = simd;
}

Status Network::lay_out(int64_t n, const int64_t* card, int64_t n_factors, const int64_t* scope_ptr,
                        const int64_t* scope, const double* const* table,
                        const factors::Structured* const* structured, const Control* control) {
    const size_t edges = at(n_factors ? scope_ptr[n_factors] : 0);
    n_ = n;
    n_factors_ = n_factors;
    card_.assign(card, card + n);
    var_at_.assign(at(n + 1), 0);
    for (int64_t v = 0; v < n; ++v) {
        var_at_[at(v + 1)] = var_at_[at(v)] + card[v];
        most_values_ = std::max(most_values_, card[v]);
    }
    factor_ptr_.assign(scope_ptr, scope_ptr + n_factors + 1);
    theta_.assign(table, table + n_factors);
    if (structured) structured_.assign(structured, structured + n_factors);
    var_ptr_.assign(at(n + 1), 0);
    top_.resize(at(n_factors));
    edge_var_.assign(scope, scope + edges);
    edge_card_.resize(edges);
    edge_factor_.resize(edges);
    edge_at_.resize(edges + 1);
    table_at_.resize(at(n_factors + 1));
    for (int64_t f = 0; f < n_factors; ++f) {
        if (cancelled(control, f)) return kCancelled;
        const factors::Structured* own = structured_at(f);
        int64_t size = 1;
        for (int64_t e = scope_ptr[f]; e < scope_ptr[f + 1]; ++e) {
            const int64_t v = scope[e], k = card[v];
            size = own ? own->size() : size * k;
            edge_card_[at(e)] = k;
            edge_factor_[at(e)] = f;
            edge_at_[at(e + 1)] = edge_at_[at(e)] + k;
            ++var_ptr_[at(v + 1)];
        }
        widest_ = std::max(widest_, scope_ptr[f + 1] - scope_ptr[f]);
        table_at_[at(f + 1)] = table_at_[at(f)] + size;
        most_sent_ = std::max(most_sent_, own ? 2 * size : 0);
        double top = -INFINITY;
        for (int64_t i = 0; i < size && !own; ++i) top = std::max(top, table[f][i]);
        top_[at(f)] = top > -INFINITY ? top : 0.0;
        if (own) scratch_size_ = std::max(scratch_size_, scratch_of(*own));
        serial_ = serial_ || (own && own->serial());
    }
    most_sent_ = std::max(most_sent_, most_values_);
    for (int64_t v = 0; v < n; ++v) {
        most_edges_ = std::max(most_edges_, var_ptr_[at(v + 1)]);
        var_ptr_[at(v + 1)] += var_ptr_[at(v)];
    }
    var_edge_.resize(edge_var_.size());
    std::vector<int64_t> fill(var_ptr_.begin(), var_ptr_.end());
    for (int64_t e = 0; e < n_edges(); ++e) {
        if (cancelled(control, e)) return kCancelled;
        var_edge_[at(fill[at(edge_var_[at(e)])]++)] = e;
    }
    std::vector<int64_t> work(1, 0);
    work.reserve(at(n + 1));
    for (int64_t v = 0; v < n; ++v) {
        work.push_back(work.back() + 4 * (1 + var_ptr_[at(v + 1)] - var_ptr_[at(v)]) * card[v]);
    }
    variable_cut_ = cut(n, work);
    work.assign(1, 0);
    for (int64_t f = 0; f < n_factors; ++f) {  // a structured factor is a task of its own
        work.push_back(work.back() + table_at_[at(f + 1)] - table_at_[at(f)] +
                       (structured_at(f) ? kChunk : 0));
    }
    factor_cut_ = cut(n_factors, work);
    const bool binary = n_factors > 0 && most_values_ == 2 && var_at_.back() == 2 * n;
    if (binary) {
        const Status status = Pairs::make(n, n_factors, factor_ptr_.data(), scope, table,
                                          structured, control, &pairs_);
        if (status != kOk) return status;
    }
    weigh(nullptr);
    return kOk;
}

void Network::weigh(const double* rho) {
    if (rho) {
        rho_.assign(rho, rho + n_factors_);
    } else {
        rho_.assign(at(n_factors_), 1.0);
    }
    if (pairs_) pairs_->weigh(rho);
    scaled_ = false;
}

void Network::scale_weights() {
    scaled_ = true;
    weight_.resize(at(table_at_.back()));
    for (int64_t f = 0; f < n_factors_; ++f) {
        if (structured_at(f)) continue;
        const double inverse = 1.0 / rho_[at(f)], top = top_[at(f)];
        double* w = weight_.data() + table_at_[at(f)];
        const int64_t size = table_at_[at(f + 1)] - table_at_[at(f)];
        for (int64_t i = 0; i < size; ++i) w[i] = std::exp((theta_[at(f)][i] - top) * inverse);
    }
}

}  // namespace vs::messages
