// One half of the words of a random walk is eliminated, and later what they do is found from the
// other half: the two steps of laplacian.h.
//
// A node is a matrix (n, rows) with the step from word i to word j at [i, j] and zeros behind, and
// the steps to the root. Eliminated words come first. Rows that step into a block of them change
// once for all of it. Columns of words that are gone hold zeros, so that rows may begin at a whole
// vector.
#pragma once

#include <cstdint>

#include "simd/each.h"

namespace VS_NS {

template <class A>
class BlockElimination {
    using T = typename A::T;

  public:
    static constexpr int kBlock = 4;
    static int64_t stride(int64_t n) { return (n + A::kPad - 1) / A::kPad * A::kPad; }
    static int64_t scratch(int64_t n) { return n * stride(n) + 2 * n; }

    BlockElimination() = default;
    // n words: those from `at_kept` on are kept, those from `at_gone` on are to go.
    BlockElimination(int64_t n, int64_t at_kept, int64_t kept, T* scratch)
        : n_(n),
          rows_(stride(n)),
          kept_(kept),
          gone_(n - kept),
          at_kept_(at_kept),
          at_gone_(at_kept == 0 ? kept : 0),
          w_(scratch),
          root_(scratch + n * rows_),
          inverse_(root_ + n) {}

    // The kept words as the steps of another node.
    const T* left() const { return w_ + gone_ * rows_ + gone_; }
    const T* roots_left() const { return root_ + gone_; }
    int64_t rows() const { return rows_; }

    // steps: rows are `from` apart. s_k in pivot, if any. False where some is 0. With a single root
    // s_k does not hold the root.
    bool eliminate(const T* steps, int64_t from, const T* root, bool single, T* pivot) {
        for (int64_t i = 0; i < n_; ++i) {
            const T* x = steps + (i < gone_ ? at_gone_ + i : at_kept_ + i - gone_) * from;
            T* y = w_ + i * rows_;
            A::copy(x + at_gone_, y, gone_);
            A::copy(x + at_kept_, y + gone_, kept_);
            for (int64_t j = n_; j < rows_; ++j) y[j] = A::zero();
        }
        A::copy(root + at_gone_, root_, gone_);
        A::copy(root + at_kept_, root_ + gone_, kept_);
        int64_t k = 0;
        for (; k + kBlock <= gone_; k += kBlock) {
            if (!block<kBlock>(k, single, pivot)) return false;
        }
        if (k + 2 <= gone_) {
            if (!block<2>(k, single, pivot)) return false;
            k += 2;
        }
        return k == gone_ || block<1>(k, single, pivot);
    }

    // hit (n, ld) [h, m] of words: those of kept words are there, those from a word that is gone
    // follow: it steps to the root, to a kept word, or to one that went after it.
    void substitute(T* hit, int64_t ld) const {
        const T* inner = hit + at_kept_ * ld + at_kept_;
        T* out = hit + at_gone_ * ld + at_kept_;
        for (int64_t end = gone_; end > 0;) {
            const int64_t first = end > kBlock ? end - kBlock : 0, count = end - first;
            const T* row = w_ + first * rows_;
            T* y = out + first * ld;
            for (int64_t k = 0; k < count; ++k) {
                const T root = root_[first + k];
                for (int64_t m = 0; m < kept_; ++m) y[k * ld + m] = root;
            }
            A::add_product(row + gone_, rows_, count, inner, ld, kept_, y, ld, kept_);
            A::add_product(row + end, rows_, count, out + end * ld, ld, gone_ - end, y, ld, kept_);
            if (count == kBlock) {
                A::template solve_rows<kBlock>(row + first, rows_, inverse_ + first, y, ld, kept_);
            } else {
                for (int64_t k = count; k-- > 0;) {
                    const int64_t later = count - k - 1;
                    A::add_rows(row + k * rows_ + first + k + 1, y + (k + 1) * ld, ld, later,
                                y + k * ld, kept_);
                    A::scale(inverse_[first + k], y + k * ld, kept_);
                }
            }
            end = first;
        }
    }

  private:
    template <int B>
    bool block(int64_t first, bool single, T* pivot) {
        T* panel = w_ + first * rows_;
        const int64_t start = (first + B) / A::kLanes * A::kLanes;
        T among[B][B], inverse[B];  // steps from one of the block to another; 1 / s
        bool fine = true;
        each<B>([&](auto b) VS_INLINE_LAMBDA {
            T* row = panel + b * rows_;
            T c[1][B], inside[B];
            T r = root_[first + b], s = A::zero();
            each<B>([&](auto j) VS_INLINE_LAMBDA {
                inside[j] = row[first + j];
                row[first + j] = A::zero();
            });
            each<b>([&](auto a) VS_INLINE_LAMBDA {
                c[0][a] = A::times(inside[a], inverse[a]);
                r = A::more(c[0][a], root_[first + a], r);
                each<B>([&](auto j) VS_INLINE_LAMBDA {
                    if constexpr (j > a) inside[j] = A::more(c[0][a], among[a][j], inside[j]);
                });
            });
            each<B>([&](auto j) VS_INLINE_LAMBDA {
                if constexpr (j >= b) c[0][j] = A::zero();
                among[b][j] = inside[j];
                if constexpr (j > b) s = A::plus(s, inside[j]);
            });
            root_[first + b] = r;
            if (!single) s = A::plus(s, r);
            s = A::plus(s, A::template add_block<B, 1>(c, panel + start, rows_, row + start,
                                                       rows_ - start));
            fine = fine && !A::is_zero(s);
            if (pivot) pivot[first + b] = s;
            inverse[b] = inverse_[first + b] = A::over(A::one(), s);
        });
        if (!fine) return false;
        // chain[a][b]: how often the block is left from b, entered at a; then to the root.
        T chain[B * B], to_root[B];
        each<B>([&](auto a) VS_INLINE_LAMBDA {
            each<B>([&](auto b) VS_INLINE_LAMBDA {
                T x = b == a ? A::one() : A::zero();
                each<b>([&](auto j) VS_INLINE_LAMBDA {
                    if constexpr (j >= a) x = A::more(chain[a * B + j], among[j][b], x);
                });
                chain[a * B + b] = A::times(x, inverse[b]);
            });
            to_root[a] = A::zero();
            each<B>([&](auto b) VS_INLINE_LAMBDA {
                if constexpr (b >= a)
                    to_root[a] = A::more(chain[a * B + b], root_[first + b], to_root[a]);
            });
        });
        int64_t i = first + B;
        for (; i + 2 <= n_; i += 2) change<B, 2>(panel, i, first, start, chain, to_root);
        if (i < n_) change<B, 1>(panel, i, first, start, chain, to_root);
        each<B>([&](auto b) VS_INLINE_LAMBDA {
            each<B>([&](auto j) VS_INLINE_LAMBDA {
                if constexpr (j > b) panel[b * rows_ + first + j] = among[b][j];
            });
        });
        return true;
    }

    // R rows from i on: they step into the block, and from there on.
    template <int B, int R>
    VS_INLINE void change(const T* panel, int64_t i, int64_t first, int64_t start,
                          const T (&chain)[B * B], const T (&to_root)[B]) {
        T c[R][B];
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            T *own = w_ + (i + r) * rows_ + first, root = root_[i + r];
            A::template combine<B>(own, chain, c[r]);
            each<B>([&](auto b) VS_INLINE_LAMBDA {
                root = A::more(own[b], to_root[b], root);
                own[b] = A::zero();
            });
            root_[i + r] = root;
        });
        A::template add_block<B, R>(c, panel + start, rows_, w_ + i * rows_ + start, rows_ - start);
    }

    int64_t n_ = 0, rows_ = 0, kept_ = 0, gone_ = 0, at_kept_ = 0, at_gone_ = 0;
    T *w_ = nullptr, *root_ = nullptr, *inverse_ = nullptr;
};

}  // namespace VS_NS
