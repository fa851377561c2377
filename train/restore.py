"""Read a GGUF of ours back into PyTorch weights, to compare a shipped file or to go on training."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize

from model import Config, Model
from weights import save_weights

ATTENTION = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}
DELTA = {"qkv": "attn_qkv", "z": "attn_gate", "out": "ssm_out"}
Weights = dict[str, Any]


def block_weights(tensors: Weights, source: str, to: str) -> Weights:
    """One layer under the module's own names."""
    t = {name.removeprefix(source): value for name, value in tensors.items() if name.startswith(source)}
    w: Weights = {
        "norm1": t["attn_norm.weight"],
        "norm2": t["post_attention_norm.weight" if "post_attention_norm.weight" in t else "ffn_norm.weight"],
        "down.weight": t["ffn_down.weight"],
    }
    w["gate_up.weight"] = np.concatenate([t["ffn_gate.weight"], t["ffn_up.weight"]])
    if "attn_q.weight" in t:
        w |= {f"mixer.{ours}.weight": t[f"{theirs}.weight"] for ours, theirs in ATTENTION.items()}
        w |= {"mixer.q_norm": t["attn_q_norm.weight"], "mixer.k_norm": t["attn_k_norm.weight"]}
    else:
        w |= {f"mixer.{ours}.weight": t[f"{theirs}.weight"] for ours, theirs in DELTA.items()}
        w["mixer.beta_alpha.weight"] = np.concatenate([t["ssm_beta.weight"], t["ssm_alpha.weight"]])
        w |= {
            "mixer.conv": t["ssm_conv1d.weight"],
            "mixer.dt": t["ssm_dt.bias"],
            "mixer.norm": t["ssm_norm.weight"],
        }
        w["mixer.a_log"] = np.log(-t["ssm_a"])
    return {to + name: value for name, value in w.items()}


def restore(path: Path, config: Config) -> Model:
    """Build the module with the weights of a file."""
    tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in GGUFReader(path).tensors}
    w: Weights = {
        "embedding.weight": tensors["token_embd.weight"],
        "output_norm": tensors["output_norm.weight"],
    }
    w["head.weight"] = tensors.get("output.weight", tensors["token_embd.weight"])
    for i in range(config.layers):
        w |= block_weights(tensors, f"blk.{i}.", f"blocks.{i}.")
    if config.mtp:
        last = f"blk.{config.layers}."
        w |= block_weights(tensors, last, "mtp.block.")
        names = {
            "join.weight": "eh_proj",
            "embedding_norm": "enorm",
            "hidden_norm": "hnorm",
            "output_norm": "shared_head_norm",
        }
        w |= {f"mtp.{ours}": tensors[f"{last}nextn.{theirs}.weight"] for ours, theirs in names.items()}
    model = Model(config)
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in w.items()})
    return model


def main() -> None:
    """Restore one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--config", type=Path, required=True)
    args = parser.parse_args()
    save_weights(restore(args.gguf, Config.load(args.config)), args.weights)


if __name__ == "__main__":
    main()
