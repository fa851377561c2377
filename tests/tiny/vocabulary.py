"""The byte-level BPE vocabulary that all tiny models share."""

from functools import cache
from pathlib import Path

from gguf import GGUFWriter, TokenType

MERGES_FILE = Path(__file__).with_name("merges.txt")
SIZE = 2048
CONTROL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>")
N_MERGES = SIZE - 256 - len(CONTROL) - len(MARKUP)
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


@cache
def byte_letters() -> tuple[str, ...]:
    """Returns the printable letter that stands for each byte, as GPT-2 chose them."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    spare = iter(range(256, 512))
    return tuple(chr(b) if b in printable else chr(next(spare)) for b in range(256))


@cache
def merges() -> tuple[str, ...]:
    """Returns the committed merges, each as "left right"."""
    lines = tuple(MERGES_FILE.read_text(encoding="utf-8").splitlines())
    assert len(lines) == N_MERGES, f"{MERGES_FILE} has {len(lines)} merges, not {N_MERGES}"
    return lines


@cache
def tokens() -> tuple[str, ...]:
    """Returns every token in order of its id: bytes, merges, control, markup."""
    return (*byte_letters(), *(merge.replace(" ", "") for merge in merges()), *CONTROL, *MARKUP)


def token_id(text: str) -> int:
    """Returns the id of a control or markup token."""
    return SIZE - len(CONTROL) - len(MARKUP) + (CONTROL + MARKUP).index(text)


def control_ids() -> range:
    """Returns the ids of the control tokens."""
    first = token_id(CONTROL[0])
    return range(first, first + len(CONTROL))


def add_vocabulary(writer: GGUFWriter) -> None:
    """Adds the tokenizer's metadata and the chat template."""
    n_normal = 256 + N_MERGES
    types = [TokenType.NORMAL] * n_normal
    types += [TokenType.CONTROL] * len(CONTROL) + [TokenType.USER_DEFINED] * len(MARKUP)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list(list(tokens()))
    writer.add_token_types(types)
    writer.add_token_merges(list(merges()))
    writer.add_bos_token_id(token_id("<|endoftext|>"))
    writer.add_eos_token_id(token_id("<|im_end|>"))
    writer.add_eot_token_id(token_id("<|im_end|>"))
    writer.add_pad_token_id(token_id("<|endoftext|>"))
    for name in ("prefix", "suffix", "middle", "pad"):
        writer.add_uint32(f"tokenizer.ggml.fim_{name[:3]}_token_id", token_id(f"<|fim_{name}|>"))
    writer.add_uint32("tokenizer.ggml.fim_rep_token_id", token_id("<|repo_name|>"))
    writer.add_uint32("tokenizer.ggml.fim_sep_token_id", token_id("<|file_sep|>"))
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
