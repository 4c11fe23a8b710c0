// Kernels in CUDA Tile C++, as its users write them. nvcc's compiler makes Tile IR of them that differs from the Python frontend's:
// truth values are 8-bit integers, lengths and strides are sums of products of constants and parameters that nobody has folded,
// loops carry tokens of loads, a return in the middle makes the kernel a loop that runs once, and nothing is known of a length.
// kernels.tilebc is their bytecode (`python -m tests.tilecpp.make` says how it is made).
#include <cuda_tile.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

extern "C" __tile_global__ void add_vectors(const __half* __restrict__ a_, const __half* __restrict__ b_, __half* __restrict__ c_,
                                            std::size_t n) {
  auto a = ct::assume_aligned(a_, 16_ic);
  auto b = ct::assume_aligned(b_, 16_ic);
  auto c = ct::assume_aligned(c_, 16_ic);
  auto va = ct::partition_view{ct::tensor_span{a, ct::extents{n}}, ct::shape{1024_ic}};
  auto vb = ct::partition_view{ct::tensor_span{b, ct::extents{n}}, ct::shape{1024_ic}};
  auto vc = ct::partition_view{ct::tensor_span{c, ct::extents{n}}, ct::shape{1024_ic}};
  auto i = ct::bid().x;
  vc.store_masked(va.load_masked(i) + vb.load_masked(i), i);
}

extern "C" __tile_global__ void axpy(float alpha, const float* __restrict__ x, float* __restrict__ y, int n) {
  auto i = (int)ct::bid().x * 512 + ct::iota<ct::tile<int, ct::shape<512>>>();
  auto within = i < n;
  ct::store_masked(y + i, ct::load_masked(x + i, within, 0.0f) * alpha + ct::load_masked(y + i, within, 0.0f), within);
}

extern "C" __tile_global__ void gelu(const __nv_bfloat16* __restrict__ x_, __nv_bfloat16* __restrict__ y_, long long n) {
  auto x = ct::assume_aligned<16>(x_);
  auto y = ct::assume_aligned<16>(y_);
  auto i = (long long)ct::bid().x * 2048 + ct::iota<ct::tile<long long, ct::shape<2048>>>();
  auto within = i < n;
  auto v = ct::element_cast<float>(ct::load_masked(x + i, within, __nv_bfloat16(0.f)));
  auto g = 0.5f * v * (1.0f + ct::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
  ct::store_masked(y + i, ct::element_cast<__nv_bfloat16>(g), within);
}

extern "C" __tile_global__ void turn(const float* __restrict__ a, float* __restrict__ b, std::size_t n, std::size_t m) {
  auto [i, j, k] = ct::bid();
  auto va = ct::partition_view{ct::tensor_span{a, ct::extents{n, m}}, ct::shape<32, 64>{}};
  auto vb = ct::partition_view{ct::tensor_span{b, ct::extents{m, n}}, ct::shape<64, 32>{}};
  vb.store_masked(ct::transpose(va.load_masked(i, j)), j, i);
}

extern "C" __tile_global__ void product(float* c, const __half* a, const __half* b, int M, int N, int K) {
  constexpr int TM = 32, TN = 64, TK = 32;
  auto va = ct::partition_view{ct::tensor_span{a, ct::extents{M, K}}, ct::shape<TM, TK>{}};
  auto vb = ct::partition_view{ct::tensor_span{b, ct::extents{K, N}}, ct::shape<TK, TN>{}};
  auto vc = ct::partition_view{ct::tensor_span{c, ct::extents{M, N}}, ct::shape<TM, TN>{}};
  auto [i, j, z] = ct::bid();
  if (i * TM >= M || j * TN >= N) return;
  auto acc = ct::zeros<ct::tile<float, ct::shape<TM, TN>>>();
  for (int k = 0; k < (K + TK - 1) / TK; ++k)
    acc = ct::mma(va.load_masked(i, k), vb.load_masked(k, j), acc);
  vc.store_masked(acc, i, j);
}

extern "C" __tile_global__ void product_told(float* __restrict__ c_, const __half* __restrict__ a_, const __half* __restrict__ b_,
                                             int M_, int N_, int K_) {
  constexpr int TM = 64, TN = 64, TK = 64;
  auto c = ct::assume_aligned<16>(c_);
  auto a = ct::assume_aligned<16>(a_);
  auto b = ct::assume_aligned<16>(b_);
  auto M = ct::assume_divisible<16>(M_);
  auto N = ct::assume_divisible<16>(N_);
  auto K = ct::assume_divisible<16>(K_);
  auto va = ct::partition_view{ct::tensor_span{a, ct::extents{M, K}}, ct::shape<TM, TK>{}};
  auto vb = ct::partition_view{ct::tensor_span{b, ct::extents{K, N}}, ct::shape<TK, TN>{}};
  auto vc = ct::partition_view{ct::tensor_span{c, ct::extents{M, N}}, ct::shape<TM, TN>{}};
  auto [i, j, z] = ct::bid();
  auto acc = ct::zeros<ct::tile<float, ct::shape<TM, TN>>>();
  for (auto k : ct::irange(0, (K + TK - 1) / TK)) {
    ct::tile<__half, ct::shape<TM, TK>> x;
    ct::tile<__half, ct::shape<TK, TN>> y;
    [[ cutile::hint(0, latency=4) ]] x = va.load(i, k);
    [[ cutile::hint(0, latency=4) ]] y = vb.load(k, j);
    acc = ct::mma(x, y, acc);
  }
  [[ cutile::hint(0, latency=4) ]] vc.store(acc, i, j);
}

template <typename T, int TM, int TN, int TK, int Q, int M, int N, int K, int CTAS>
[[ using cutile : hint(0, num_cta_in_cga=CTAS), hint(0, occupancy=1) ]]
__tile_global__ void batched(const T* __restrict__ a_, const T* __restrict__ b_, T* __restrict__ c_) {
  auto a = ct::assume_aligned<16>(a_);
  auto b = ct::assume_aligned<16>(b_);
  auto c = ct::assume_aligned<16>(c_);
  constexpr int rows = (M + TM - 1) / TM, columns = (N + TN - 1) / TN;
  auto pa = ct::partition_view{ct::tensor_span{a, ct::layout_right_mapping{ct::extents{Q, M, K}}}, ct::shape<1, TM, TK>{}};
  auto pb = ct::partition_view{ct::tensor_span{b, ct::layout_right_mapping{ct::extents{Q, K, N}}}, ct::shape<1, TK, TN>{}};
  auto pc = ct::partition_view{ct::tensor_span{c, ct::layout_right_mapping{ct::extents{Q, M, N}}}, ct::shape<1, TM, TN>{}};
  int first = ct::bid().x, step = ct::num_blocks().x;
  for (auto at : ct::irange(first, rows * columns * Q, step)) {
    int q = at / (rows * columns), i = at % (rows * columns) / columns, j = at % columns;
    auto acc = ct::zeros<ct::tile<float, ct::shape<1, TM, TN>>>();
    for (auto k : ct::irange(0, (K + TK - 1) / TK))
      acc = ct::mma(pa.load_masked(q, i, k), pb.load_masked(q, k, j), acc);
    pc.store_masked(ct::element_cast<T>(acc), q, i, j);
  }
}
template __tile_global__ void batched<__half, 64, 64, 32, 3, 96, 128, 72, 1>(const __half* __restrict__, const __half* __restrict__,
                                                                              __half* __restrict__);
template __tile_global__ void batched<__half, 256, 256, 64, 2, 256, 512, 192, 2>(const __half* __restrict__,
                                                                                  const __half* __restrict__, __half* __restrict__);

template <typename T, int BN, int N, int D, int BLOCKS>
__tile_global__ void norm(const T* __restrict__ x_, T* __restrict__ y_, const T* __restrict__ w_, float* __restrict__ mean_) {
  using F = ct::tile<float, ct::shape<BN>>;
  auto x = ct::assume_aligned<16>(x_);
  auto y = ct::assume_aligned<16>(y_);
  auto w = ct::assume_aligned<16>(w_);
  using Rows = ct::extents<uint32_t, (uint32_t)N, (uint32_t)D>;
  auto px = ct::partition_view(ct::tensor_span{x, Rows{}}, ct::shape<BN, D>{});
  auto py = ct::partition_view(ct::tensor_span{y, Rows{}}, ct::shape<BN, D>{});
  auto pw = ct::partition_view(ct::tensor_span{w, ct::extents<uint32_t, (uint32_t)D>{}}, ct::shape<D>{});
  auto pm = ct::partition_view(ct::tensor_span{mean_, ct::extents<uint32_t, (uint32_t)N>{}}, ct::shape<BN>{});
  auto scale = ct::reshape<ct::shape<1, D>>(ct::element_cast<float>(pw.load(0)));
  auto share = ct::full<F>(1.0f / (float)D);
  for (auto i : ct::irange((int)ct::bid().x, (N + BN - 1) / BN, BLOCKS)) {
    ct::tile<T, ct::shape<BN, D>> t;
    [[ using cutile : hint(0, latency=4) ]] t = px.load_masked(i, 0);
    auto v = ct::element_cast<float>(t);
    F mean = ct::reshape<ct::shape<BN>>(ct::sum<1>(v)) * share;
    F square = ct::reshape<ct::shape<BN>>(ct::sum<1>(v * v)) * share;
    F rstd = ct::rsqrt(square - mean * mean + ct::full<F>(1e-5f));
    [[ using cutile : hint(0, allow_tma=false) ]] pm.store_masked(mean, i);
    auto out = (v - ct::reshape<ct::shape<BN, 1>>(mean)) * ct::reshape<ct::shape<BN, 1>>(rstd) * scale;
    py.store_masked(ct::element_cast<T>(out), i, 0);
  }
}
template __tile_global__ void norm<__half, 4, 30, 256, 3>(const __half* __restrict__, __half* __restrict__,
                                                          const __half* __restrict__, float* __restrict__);

template <int R, int C>
[[cutile::hint(0, occupancy = 8)]]
__tile_global__ void sliced(int rows, const int* __restrict__ columns, const float* __restrict__ values,
                            const int* __restrict__ begins, const int* __restrict__ widths, const int* __restrict__ places,
                            const float* __restrict__ x, float* __restrict__ y) {
  int slice = ct::bid().x, base = slice * R;
  auto row = ct::iota<ct::tile<int, ct::shape<R>>>();
  auto known = (base + row) < rows;
  auto to = ct::load_masked(places + base + row, known, 0);
  int begin = begins[slice], width = widths[slice];
  auto row2 = ct::broadcast(ct::reshape(row, ct::shape<R, 1>{}), ct::shape<R, C>{});
  auto known2 = ct::broadcast(ct::reshape(known, ct::shape<R, 1>{}), ct::shape<R, C>{});
  auto step = ct::broadcast(ct::reshape(ct::iota<ct::tile<int, ct::shape<C>>>(), ct::shape<1, C>{}), ct::shape<R, C>{});
  auto acc = ct::zeros<ct::tile<float, ct::shape<R, C>>>();
  int whole = (width / C) * C;
  #pragma unroll 1
  for (int k = 0; k < whole; k += C) {
    auto at = begin + (k + step) * R + row2;
    acc = acc + ct::load_masked(values + at, known2, 0.0f) * ct::load_masked(x + ct::load_masked(columns + at, known2, 0), known2, 0.0f);
  }
  if (whole < width) {
    auto k = whole + step;
    auto rest = known2 & (k < width);
    auto at = begin + k * R + row2;
    acc = acc + ct::load_masked(values + at, rest, 0.0f) * ct::load_masked(x + ct::load_masked(columns + at, rest, 0), rest, 0.0f);
  }
  ct::store_masked(y + to, ct::reshape(ct::sum(acc, 1_ic), ct::shape<R>{}), known);
}
template __tile_global__ void sliced<16, 8>(int, const int* __restrict__, const float* __restrict__, const int* __restrict__,
                                            const int* __restrict__, const int* __restrict__, const float* __restrict__,
                                            float* __restrict__);

extern "C" __tile_global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  if ((int)ct::bid().x >= rows) return;
  auto vx = ct::partition_view{ct::tensor_span{x, ct::extents{rows, columns}}, ct::shape<1, 256>{}};
  auto vy = ct::partition_view{ct::tensor_span{y, ct::extents{rows, columns}}, ct::shape<1, 256>{}};
  auto at = ct::reshape(ct::iota<ct::tile<int, ct::shape<256>>>(), ct::shape<1, 256>{});
  int steps = (columns + 255) / 256;
  for (int r = ct::bid().x; r < rows; r += ct::num_blocks().x) {
    auto top = ct::full<ct::tile<float, ct::shape<1, 1>>>(-INFINITY);
    auto sum = ct::zeros<ct::tile<float, ct::shape<1, 1>>>();
    for (int k = 0; k < steps; ++k) {
      auto v = ct::select(k * 256 + at < columns, vx.load_masked(r, k), ct::full<ct::tile<float, ct::shape<1, 256>>>(-INFINITY));
      auto higher = ct::max(top, ct::reduce_max(v, 1_ic));
      sum = sum * ct::exp(top - higher) + ct::sum(ct::exp(v - higher), 1_ic);
      top = higher;
    }
    for (int k = 0; k < steps; ++k) vy.store_masked(ct::exp(vx.load_masked(r, k) - top) / sum, r, k);
  }
}

extern "C" __tile_global__ void total(const float* __restrict__ x, float* sum, int n) {
  auto i = (int)ct::bid().x * 1024 + ct::iota<ct::tile<int, ct::shape<1024>>>();
  auto s = ct::sum(ct::load_masked(x + i, i < n, 0.0f), 0_ic);
  ct::atomic_add<ct::memory_order::relaxed>(sum + ct::zeros<ct::tile<int, ct::shape<1>>>(), s);
}

template <int TM, int TN, int D, bool CAUSAL>
__tile_global__ void attend(const __half* __restrict__ q_, const __half* __restrict__ k_, const __half* __restrict__ v_,
                            __half* __restrict__ o_, int H, int S, float scale) {
  auto q = ct::assume_aligned<16>(q_);
  auto k = ct::assume_aligned<16>(k_);
  auto v = ct::assume_aligned<16>(v_);
  auto o = ct::assume_aligned<16>(o_);
  auto span = [&](auto p) { return ct::tensor_span{p, ct::extents{H, S, ct::integral_constant<D>{}}}; };
  auto vq = ct::partition_view{span(q), ct::shape<1, TM, D>{}};
  auto vk = ct::partition_view{span(k), ct::shape<1, TN, D>{}};
  auto vv = ct::partition_view{span(v), ct::shape<1, TN, D>{}};
  auto vo = ct::partition_view{span(o), ct::shape<1, TM, D>{}};
  using Scores = ct::tile<float, ct::shape<TM, TN>>;
  using Row = ct::tile<float, ct::shape<TM, 1>>;
  auto [i, h, z] = ct::bid();
  auto tq = ct::reshape(vq.load_masked(h, i, 0), ct::shape<TM, D>{});
  auto top = ct::full<Row>(-INFINITY);
  auto sum = ct::zeros<Row>();
  auto acc = ct::zeros<ct::tile<float, ct::shape<TM, D>>>();
  int end = (S + TN - 1) / TN;
  if (CAUSAL) {
    int own = ((int)i * TM + TM + TN - 1) / TN;
    end = own < end ? own : end;
  }
  auto rows = (int)i * TM + ct::reshape(ct::iota<ct::tile<int, ct::shape<TM>>>(), ct::shape<TM, 1>{});
  auto columns = ct::reshape(ct::iota<ct::tile<int, ct::shape<TN>>>(), ct::shape<1, TN>{});
  for (int j = 0; j < end; ++j) {
    auto tk = ct::reshape(vk.load_masked(h, j, 0), ct::shape<TN, D>{});
    auto s = ct::mma(tq, ct::transpose(tk), ct::zeros<Scores>()) * (scale * 1.4426950408889634f);
    auto c = j * TN + columns;
    s = ct::select(c < S, s, ct::full<Scores>(-INFINITY));
    if (CAUSAL) s = ct::select(c <= rows, s, ct::full<Scores>(-INFINITY));
    auto higher = ct::max(top, ct::reduce_max(s, 1_ic));
    auto p = ct::exp2(s - higher);
    auto less = ct::exp2(top - higher);
    sum = sum * less + ct::sum(p, 1_ic);
    top = higher;
    auto tv = ct::reshape(vv.load_masked(h, j, 0), ct::shape<TN, D>{});
    acc = ct::mma(ct::element_cast<__half>(p), tv, acc * less);
  }
  vo.store_masked(ct::reshape(ct::element_cast<__half>(acc / sum), ct::shape<1, TM, D>{}), h, i, 0);
}
template __tile_global__ void attend<64, 64, 64, true>(const __half* __restrict__, const __half* __restrict__,
                                                       const __half* __restrict__, __half* __restrict__, int, int, float);
template __tile_global__ void attend<128, 64, 64, false>(const __half* __restrict__, const __half* __restrict__,
                                                         const __half* __restrict__, __half* __restrict__, int, int, float);

// What load and store promise doesn't hold: three rows, tiles of eight.
template <int ROWS>
__tile_global__ void beyond(const float* __restrict__ x_, float* __restrict__ y_) {
  auto x = ct::assume_aligned<16>(x_);
  auto y = ct::assume_aligned<16>(y_);
  using Few = ct::extents<uint32_t, ROWS, 64>;
  auto vx = ct::partition_view{ct::tensor_span{x, Few{}}, ct::shape<8, 64>{}};
  auto vy = ct::partition_view{ct::tensor_span{y, Few{}}, ct::shape<8, 64>{}};
  vy.store(vx.load(0, 0) * 2.0f, 0, 0);
}
template __tile_global__ void beyond<3>(const float* __restrict__, float* __restrict__);
