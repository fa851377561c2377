"""The tensors of each kind of block, as libllama's models name and shape them."""

from .tensors import Tensor, convolution, decay_rate, exact, experts, matrix, norm, stacked, step_bias

N_EMBD = 64
HEAD_DIM = 32
N_HEAD = 2
N_HEAD_KV = 1
N_FF = 128
N_EXPERT = 4
N_FF_EXPERT = 64
CONV_WIDTH = 4

# Gated delta net: the state of a head is square.
DELTA_STATE = 32
DELTA_K_HEADS = 2
DELTA_V_HEADS = 4

# Mamba: libllama's models insist on d_inner = 2 * n_embd; the state sizes are those the CUDA kernels know.
D_INNER = 2 * N_EMBD
MAMBA1_STATE = 16
MAMBA1_RANK = 32
MAMBA2_STATE = 128
MAMBA2_HEADS = 4

SHORT_CONV_WIDTH = 3
SHARP = 3.0  # attention that looks at few tokens, so that one of them matters


def attention(b: str, gated: bool = False, qk_norm: bool = True) -> list[Tensor]:
    """Lists full attention, with the output gate of Qwen3.5 inside the query when gated."""
    n_q = HEAD_DIM * N_HEAD
    plain = 1.0 if qk_norm else SHARP
    tensors = [
        matrix(f"{b}.attn_q.weight", n_q * (2 if gated else 1), N_EMBD, plain),
        matrix(f"{b}.attn_k.weight", HEAD_DIM * N_HEAD_KV, N_EMBD),
        matrix(f"{b}.attn_v.weight", HEAD_DIM * N_HEAD_KV, N_EMBD),
        matrix(f"{b}.attn_output.weight", N_EMBD, n_q, 2.0),
    ]
    if qk_norm:
        tensors += [
            norm(f"{b}.attn_q_norm.weight", HEAD_DIM, weight=SHARP),
            norm(f"{b}.attn_k_norm.weight", HEAD_DIM),
        ]
    return tensors


def delta_net(b: str, fused_beta_alpha: bool = False) -> list[Tensor]:
    """Lists a gated delta net, with beta and alpha in one matrix as Qwen3-Next has them when fused."""
    n_k, n_v = DELTA_STATE * DELTA_K_HEADS, DELTA_STATE * DELTA_V_HEADS
    per_key = DELTA_V_HEADS // DELTA_K_HEADS
    if fused_beta_alpha:
        gates = [stacked(f"{b}.ssm_ba.weight", N_EMBD, *((per_key, 1.0), (per_key, 0.5)) * DELTA_K_HEADS)]
    else:
        gates = [
            matrix(f"{b}.ssm_beta.weight", DELTA_V_HEADS, N_EMBD),
            matrix(f"{b}.ssm_alpha.weight", DELTA_V_HEADS, N_EMBD, 0.5),
        ]
    return [
        matrix(f"{b}.attn_qkv.weight", 2 * n_k + n_v, N_EMBD),
        matrix(f"{b}.attn_gate.weight", n_v, N_EMBD),
        convolution(f"{b}.ssm_conv1d.weight", 2 * n_k + n_v, CONV_WIDTH, gain=2.0),
        step_bias(f"{b}.ssm_dt.bias", DELTA_V_HEADS, 0.002, 0.05),
        decay_rate(f"{b}.ssm_a", DELTA_V_HEADS),
        *gates,
        norm(f"{b}.ssm_norm.weight", DELTA_STATE),
        matrix(f"{b}.ssm_out.weight", N_EMBD, n_v, 2.0),
    ]


def mamba1(b: str, normed: bool = False) -> list[Tensor]:
    """Lists a Mamba mixer, with Jamba's norms of step, B and C when normed."""
    tensors = [
        matrix(f"{b}.ssm_in.weight", 2 * D_INNER, N_EMBD),
        convolution(f"{b}.ssm_conv1d.weight", D_INNER, CONV_WIDTH, gain=2.0),
        exact(f"{b}.ssm_conv1d.bias", (D_INNER,), 0.0, 0.1),
        stacked(f"{b}.ssm_x.weight", D_INNER, (MAMBA1_RANK, 0.5), (2 * MAMBA1_STATE, 1.5)),
        matrix(f"{b}.ssm_dt.weight", D_INNER, MAMBA1_RANK, 0.5),
        step_bias(f"{b}.ssm_dt.bias", D_INNER, 0.02, 0.2),
        decay_rate(f"{b}.ssm_a", D_INNER, MAMBA1_STATE, slowest=0.1, fastest=1.0),
        exact(f"{b}.ssm_d", (D_INNER,), 0.3, 0.03),
        matrix(f"{b}.ssm_out.weight", N_EMBD, D_INNER, 2.0),
    ]
    if normed:
        tensors += [
            norm(f"{b}.ssm_dt_norm.weight", MAMBA1_RANK),
            norm(f"{b}.ssm_b_norm.weight", MAMBA1_STATE),
            norm(f"{b}.ssm_c_norm.weight", MAMBA1_STATE),
        ]
    return tensors


def mamba2(b: str) -> list[Tensor]:
    """Lists a Mamba-2 mixer with one group."""
    channels = D_INNER + 2 * MAMBA2_STATE
    return [
        stacked(f"{b}.ssm_in.weight", N_EMBD, (D_INNER + channels, 1.0), (MAMBA2_HEADS, 0.5)),
        convolution(f"{b}.ssm_conv1d.weight", channels, CONV_WIDTH, gain=0.5),
        exact(f"{b}.ssm_conv1d.bias", (channels,), 0.0, 0.1),
        step_bias(f"{b}.ssm_dt.bias", MAMBA2_HEADS, 0.02, 0.2),
        decay_rate(f"{b}.ssm_a", MAMBA2_HEADS, 1, slowest=0.3, fastest=0.3),
        exact(f"{b}.ssm_d", (MAMBA2_HEADS, 1), 0.05, 0.005),
        norm(f"{b}.ssm_norm.weight", 1, D_INNER),
        matrix(f"{b}.ssm_out.weight", N_EMBD, D_INNER, 1.5),
    ]


def short_convolution(b: str) -> list[Tensor]:
    """Lists LFM2's gated short convolution."""
    return [
        convolution(f"{b}.shortconv.conv.weight", N_EMBD, SHORT_CONV_WIDTH, gain=1.0),
        matrix(f"{b}.shortconv.in_proj.weight", 3 * N_EMBD, N_EMBD),
        matrix(f"{b}.shortconv.out_proj.weight", N_EMBD, N_EMBD),
    ]


def feed_forward(b: str) -> list[Tensor]:
    """Lists a gated feed-forward network."""
    return [
        matrix(f"{b}.ffn_gate.weight", N_FF, N_EMBD),
        matrix(f"{b}.ffn_up.weight", N_FF, N_EMBD),
        matrix(f"{b}.ffn_down.weight", N_EMBD, N_FF, 1.5),
    ]


def mixture(b: str) -> list[Tensor]:
    """Lists routed experts beside a gated shared one."""
    return [
        matrix(f"{b}.ffn_gate_inp.weight", N_EXPERT, N_EMBD),
        experts(f"{b}.ffn_gate_exps.weight", N_EXPERT, N_FF_EXPERT, N_EMBD),
        experts(f"{b}.ffn_up_exps.weight", N_EXPERT, N_FF_EXPERT, N_EMBD),
        experts(f"{b}.ffn_down_exps.weight", N_EXPERT, N_EMBD, N_FF_EXPERT, 1.5),
        exact(f"{b}.ffn_gate_inp_shexp.weight", (N_EMBD,), 0.0, N_EMBD**-0.5),
        matrix(f"{b}.ffn_gate_shexp.weight", N_FF_EXPERT, N_EMBD),
        matrix(f"{b}.ffn_up_shexp.weight", N_FF_EXPERT, N_EMBD),
        matrix(f"{b}.ffn_down_shexp.weight", N_EMBD, N_FF_EXPERT, 1.5),
    ]


def next_token(b: str) -> list[Tensor]:
    """Lists what a multi-token-prediction block has beside its layer."""
    return [
        matrix(f"{b}.nextn.eh_proj.weight", N_EMBD, 2 * N_EMBD),
        norm(f"{b}.nextn.enorm.weight", N_EMBD),
        norm(f"{b}.nextn.hnorm.weight", N_EMBD),
        norm(f"{b}.nextn.shared_head_norm.weight", N_EMBD),
    ]
