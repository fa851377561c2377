"""Write a trained model as GGUF (F16, Q8_0 or Q4_0 by gguf's own quantiser), or quantise it with libllama."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from gguf.quants import quantize
from numpy.typing import NDArray

from chat import END, END_OF_TEXT, FIM, TEMPLATE
from fetch import HERE
from model import Config

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
FILE_TYPES = {
    "f32": LlamaFileType.ALL_F32,
    "f16": LlamaFileType.MOSTLY_F16,
    "q8_0": LlamaFileType.MOSTLY_Q8_0,
    "q4_0": LlamaFileType.MOSTLY_Q4_0,
}
Array = NDArray[np.float32]


class Export:
    """One GGUF file in the making."""

    def __init__(self, path: Path, config: Config, weights: dict[str, Array], kind: str) -> None:
        self.config, self.weights, self.kind = config, weights, kind
        self.writer = GGUFWriter(path, config.architecture)

    def header(self, name: str) -> None:
        """Shape of the model, in libllama's keys."""
        c, w = self.config, self.writer
        w.add_name(name)
        w.add_license("apache-2.0")
        w.add_file_type(FILE_TYPES[self.kind])
        w.add_block_count(c.layers + int(c.mtp))
        w.add_context_length(c.context)
        w.add_embedding_length(c.width)
        w.add_feed_forward_length(c.feed_forward)
        w.add_head_count(c.heads)
        w.add_head_count_kv(c.kv_heads)
        w.add_key_length(c.head_size)
        w.add_value_length(c.head_size)
        w.add_rope_freq_base(c.rope_base)
        w.add_rope_dimension_count(c.rotary)
        w.add_layer_norm_rms_eps(c.eps)
        if c.gated:
            self.hybrid_header()

    def hybrid_header(self) -> None:
        """What only a model with DeltaNet layers has."""
        c, w = self.config, self.writer
        # the sections must cover every rotated pair, or a pair stays at position 0
        third = c.rotary // 2 // 3
        w.add_rope_dimension_sections([c.rotary // 2 - 2 * third, third, third, 0])
        w.add_ssm_conv_kernel(c.conv)
        w.add_ssm_inner_size(c.delta_heads * c.delta_size)
        w.add_ssm_state_size(c.delta_size)
        w.add_ssm_time_step_rank(c.delta_heads)
        w.add_ssm_group_count(c.delta_heads)
        w.add_uint32("qwen35.full_attention_interval", c.attention_every)
        if c.mtp:
            w.add_uint32("qwen35.nextn_predict_layers", 1)

    def vocabulary(self, path: Path) -> None:
        """Tokens, merges, special tokens and the chat template."""
        saved: dict[str, Any] = json.loads(path.read_text())
        tokens = [f"[unused{i}]" for i in range(self.config.vocabulary)]
        types = [UNUSED] * len(tokens)
        for token, i in saved["model"]["vocab"].items():
            tokens[i], types[i] = token, NORMAL
        ids = {}
        for added in saved["added_tokens"]:
            tokens[added["id"]], ids[added["content"]] = added["content"], added["id"]
            types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
        w = self.writer
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("qwen35")
        w.add_token_list(tokens)
        w.add_token_types(types)
        w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in saved["model"]["merges"]])
        w.add_bos_token_id(ids[END_OF_TEXT])
        w.add_add_bos_token(False)
        w.add_eos_token_id(ids[END])
        w.add_eot_token_id(ids[END])
        w.add_pad_token_id(ids[END_OF_TEXT])
        for key, mark in zip(("fim_pre", "fim_suf", "fim_mid"), FIM, strict=True):
            w.add_uint32(f"tokenizer.ggml.{key}_token_id", ids[mark])
        w.add_chat_template(TEMPLATE)

    def matrix(self, name: str, values: Array) -> None:
        """Add a matrix in the file's own type."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        if self.kind in ("q8_0", "q4_0") and values.shape[-1] % 32 == 0:
            kind = GGMLQuantizationType[self.kind.upper()]
            self.writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
        else:
            self.writer.add_tensor(name, values if self.kind == "f32" else values.astype(np.float16))

    def vector(self, name: str, values: Array) -> None:
        """Add a small tensor in full precision."""
        self.writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def block(self, source: str, number: int) -> None:
        """Add one layer."""
        w = {k.removeprefix(source): v for k, v in self.weights.items() if k.startswith(source)}
        to, heads, inner = f"blk.{number}.", self.config.delta_heads, self.config.feed_forward
        self.vector(to + "attn_norm.weight", w["norm1"])
        self.vector(to + ("post_attention_norm" if self.config.gated else "ffn_norm") + ".weight", w["norm2"])
        if "mixer.q.weight" in w:
            for ours, theirs in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v"), ("o", "attn_output")):
                self.matrix(f"{to}{theirs}.weight", w[f"mixer.{ours}.weight"])
            self.vector(to + "attn_q_norm.weight", w["mixer.q_norm"])
            self.vector(to + "attn_k_norm.weight", w["mixer.k_norm"])
        else:
            for ours, theirs in (("qkv", "attn_qkv"), ("z", "attn_gate"), ("out", "ssm_out")):
                self.matrix(f"{to}{theirs}.weight", w[f"mixer.{ours}.weight"])
            self.matrix(to + "ssm_beta.weight", w["mixer.beta_alpha.weight"][:heads])
            self.matrix(to + "ssm_alpha.weight", w["mixer.beta_alpha.weight"][heads:])
            self.vector(to + "ssm_conv1d.weight", w["mixer.conv"])
            self.vector(to + "ssm_dt.bias", w["mixer.dt"])
            self.vector(to + "ssm_a", -np.exp(w["mixer.a_log"]))
            self.vector(to + "ssm_norm.weight", w["mixer.norm"])
        self.matrix(to + "ffn_gate.weight", w["gate_up.weight"][:inner])
        self.matrix(to + "ffn_up.weight", w["gate_up.weight"][inner:])
        self.matrix(to + "ffn_down.weight", w["down.weight"])

    def tensors(self) -> None:
        """Add all weights."""
        c, w = self.config, self.weights
        self.matrix("token_embd.weight", w["embedding.weight"])
        self.vector("output_norm.weight", w["output_norm"])
        if not c.tied:
            self.matrix("output.weight", w["head.weight"])
        for i in range(c.layers):
            self.block(f"blocks.{i}.", i)
        if c.mtp:
            to = f"blk.{c.layers}.nextn."
            self.block("mtp.block.", c.layers)
            self.matrix(to + "eh_proj.weight", w["mtp.join.weight"])
            self.vector(to + "enorm.weight", w["mtp.embedding_norm"])
            self.vector(to + "hnorm.weight", w["mtp.hidden_norm"])
            self.vector(to + "shared_head_norm.weight", w["mtp.output_norm"])

    def write(self) -> None:
        """Write the file."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def export(weights_path: Path, out: Path, kind: str, name: str, tokenizer: Path) -> None:
    """Turn saved weights into a GGUF file of one kind."""
    saved = torch.load(weights_path, map_location="cpu", weights_only=True)
    weights = {k: v.float().numpy() for k, v in saved["weights"].items()}
    made = Export(out, Config(**saved["config"]), weights, kind)
    made.header(name)
    made.vocabulary(tokenizer)
    made.tensors()
    made.write()


def requantise(source: Path, out: Path, kind: str) -> None:
    """Let libllama quantise a file to one of its own mixtures, such as Q8_0 or Q4_K_M."""
    import llama_cpp

    options: Any = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind.upper()}")
    options.allow_requantize = True
    options.nthread = 1
    if llama_cpp.llama_model_quantize(str(source).encode(), str(out).encode(), options) != 0:
        raise SystemExit(f"libllama could not quantise {source} to {kind}")


def main() -> None:
    """Export one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--kind", default="f16", help="f32, f16, q8_0, q4_0, or a mixture that libllama makes, such as q4_k_m"
    )
    parser.add_argument("--name", default="foretoken-mini")
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    args = parser.parse_args()
    if args.weights.suffix == ".gguf":
        requantise(args.weights, args.out, args.kind)
    else:
        export(args.weights, args.out, args.kind, args.name, args.tokenizer)
    print(f"{args.out.name}: {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
