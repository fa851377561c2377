"""Command-line options that several commands share, under llama.cpp's names where it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

MODEL = "Model"
SPEED = "Speed and memory"
OUTPUT = "Prompt and output"
SAMPLING = "Sampling"
SPECULATION = "Speculation"
CACHE = "Kept states"

ModelArgument = Annotated[
    str | None,
    Argument(metavar="[MODEL]", help="A GGUF file, or a name from `foretoken models`; the embedded one without."),
]
ModelOption = Annotated[str | None, Option("-m", "--model", help="The same as an option.", rich_help_panel=MODEL)]
Repository = Annotated[
    str | None,
    Option("-hf", "--hf-repo", help="A GGUF of a Hugging Face repository: user/repo[:quant].", show_default=False,
           rich_help_panel=MODEL),
]  # fmt: skip
GpuLayers = Annotated[
    int,
    Option("-ngl", "--n-gpu-layers", "--gpu-layers", help="Layers on the GPU; -1 is all.", rich_help_panel=MODEL),
]

Context = Annotated[
    int | None,
    Option("-c", "--ctx-size", help="Tokens of context per slot (default: 8192 or what the model was trained for).",
           show_default=False, rich_help_panel=SPEED),
]  # fmt: skip
Parallel = Annotated[
    int, Option("-np", "--parallel", min=1, help="Slots: requests answered at once.", rich_help_panel=SPEED)
]
Threads = Annotated[
    int | None,
    Option("-t", "--threads", min=1, help="CPU threads (default: the cores there are).", show_default=False,
           rich_help_panel=SPEED),
]  # fmt: skip
BatchSize = Annotated[
    int, Option("-b", "--batch-size", min=1, help="Rows of one batch at most.", rich_help_panel=SPEED)
]
MicroBatch = Annotated[int, Option("-ub", "--ubatch-size", min=1, help="Rows computed at once.", rich_help_panel=SPEED)]
FlashAttention = Annotated[str, Option("-fa", "--flash-attn", help="on, off or auto.", rich_help_panel=SPEED)]
KvTypeK = Annotated[
    str | None,
    Option("-ctk", "--cache-type-k", help="f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl "
           "(default: q8_0 when exact, which it is on a CPU, else f16).", show_default=False, rich_help_panel=SPEED),
]  # fmt: skip
KvTypeV = Annotated[
    str | None,
    Option("-ctv", "--cache-type-v", help="Likewise for values (default: f16).", show_default=False,
           rich_help_panel=SPEED),
]  # fmt: skip
Unified = Annotated[
    bool | None,
    Option("--kv-unified/--no-kv-unified", help="One pool of cells for all slots (default: as the memory needs).",
           show_default=False, rich_help_panel=SPEED),
]  # fmt: skip
MemoryOption = Annotated[
    str,
    Option("--memory", help="How tokens are taken back: auto, trim, fork, checkpoint, checkpoint-host, ring.",
           rich_help_panel=SPEED),
]  # fmt: skip
Exact = Annotated[
    bool | None,
    Option("--exact/--no-exact", help="The same text whatever shares the batch (default: on a CPU if weights allow). "
           "--exact insists: weights that do not are answered one request at a time, without drafts.",
           show_default=False, rich_help_panel=SPEED),
]  # fmt: skip
CheckIntegrity = Annotated[
    bool,
    Option("--check-integrity", help="Prove after every step that memory is sound (slow; for debugging).",
           rich_help_panel=SPEED),
]  # fmt: skip

Prompt = Annotated[
    str | None,
    Option("-p", "--prompt", help="Text to continue, - for standard input; without it, chat.", show_default=False,
           rich_help_panel=OUTPUT),
]  # fmt: skip
Chat = Annotated[bool, Option("--chat", help="Put the prompt into the model's chat template.", rich_help_panel=OUTPUT)]
System = Annotated[str | None, Option("--system", "-sys", help="The system message of a chat.", rich_help_panel=OUTPUT)]
Color = Annotated[bool, Option("-co", "--color", help="Colour tokens by who guessed them.", rich_help_panel=OUTPUT)]
NPredict = Annotated[
    int,
    Option("-n", "--predict", "--n-predict", help="Tokens at most; -1 until the model ends.", rich_help_panel=OUTPUT),
]
Stop = Annotated[
    list[str] | None,
    Option("--stop", "-r", help="End before this text; may be given several times.", rich_help_panel=OUTPUT),
]
IgnoreEos = Annotated[bool, Option("--ignore-eos", help="Go on when the model would end.", rich_help_panel=OUTPUT)]

Grammar = Annotated[
    str | None,
    Option("--grammar", help="A grammar (GBNF) that the answer keeps to.", show_default=False, rich_help_panel=OUTPUT),
]
GrammarFile = Annotated[
    Path | None, Option("--grammar-file", help="A file that holds one.", show_default=False, rich_help_panel=OUTPUT)
]
JsonSchema = Annotated[
    str | None,
    Option("-j", "--json-schema", help="A JSON schema that the answer keeps to; {} is any JSON.", show_default=False,
           rich_help_panel=OUTPUT),
]  # fmt: skip
JsonSchemaFile = Annotated[
    Path | None,
    Option("-jf", "--json-schema-file", help="A file that holds one.", show_default=False, rich_help_panel=OUTPUT),
]

Temperature = Annotated[
    float, Option("--temp", "--temperature", help="0 always takes the best token.", rich_help_panel=SAMPLING)
]
TopK = Annotated[int, Option("--top-k", help="0 is off.", rich_help_panel=SAMPLING)]
TopP = Annotated[float, Option("--top-p", help="1 is off.", rich_help_panel=SAMPLING)]
MinP = Annotated[float, Option("--min-p", help="0 is off.", rich_help_panel=SAMPLING)]
RepeatPenalty = Annotated[float, Option("--repeat-penalty", help="1 is off.", rich_help_panel=SAMPLING)]
Seed = Annotated[
    int | None,
    Option("-s", "--seed", help="The same seed gives the same text (default: random).", show_default=False,
           rich_help_panel=SAMPLING),
]  # fmt: skip

SpecType = Annotated[
    str,
    Option("--spec-type", help="Drafters, comma-separated, as `foretoken drafters` lists them; auto or none.",
           rich_help_panel=SPECULATION),
]  # fmt: skip
Plan = Annotated[
    str,
    Option("--plan", help="adaptive verifies what is expected to pay, fixed whatever is offered.",
           rich_help_panel=SPECULATION),
]  # fmt: skip
DraftMax = Annotated[
    int,
    Option("--draft-max", "--draft", "--draft-n", "--spec-draft-n-max", min=0, help="Tokens drafted at most.",
           rich_help_panel=SPECULATION),
]  # fmt: skip
DraftMin = Annotated[
    int,
    Option("--draft-min", "--draft-n-min", "--spec-draft-n-min", min=0, help="Shorter drafts are not verified.",
           rich_help_panel=SPECULATION),
]  # fmt: skip
DraftPMin = Annotated[
    float,
    Option("--draft-p-min", "--spec-draft-p-min", min=0.0, max=1.0,
           help="Drafts end where their confidence falls below this.", rich_help_panel=SPECULATION),
]  # fmt: skip
DraftModel = Annotated[
    str | None,
    Option("-md", "--model-draft", "--spec-draft-model",
           help="A small model of the same vocabulary that drafts, or `none` (default: pico for the embedded mini).",
           show_default=False, rich_help_panel=SPECULATION),
]  # fmt: skip
DraftGpuLayers = Annotated[
    int,
    Option("-ngld", "--n-gpu-layers-draft", "--gpu-layers-draft", "--spec-draft-ngl",
           help="Layers of the draft model on the GPU.", rich_help_panel=SPECULATION),
]  # fmt: skip

UseCheckpoints = Annotated[
    str,
    Option("--spec-use-checkpoints", help="Take tokens back by state checkpoints: auto, on or off.",
           rich_help_panel=SPECULATION),
]  # fmt: skip
CtxCheckpoints = Annotated[
    int | None,
    Option("-ctxcp", "--ctx-checkpoints", min=0, help="States kept while reading one prompt, at most; 0 is none, and "
           "drafts do not use any either (default: 32).", show_default=False, rich_help_panel=CACHE),
]  # fmt: skip
CacheRam = Annotated[
    int | None,
    Option("-cram", "--cache-ram", min=-1, help="MiB of memory for states that slots had to give up; 0 is none, -1 no "
           "limit (default: an eighth of the machine's, at most 8192).", show_default=False, rich_help_panel=CACHE),
]  # fmt: skip
CacheDisk = Annotated[
    int,
    Option("--cache-disk", min=0, help="MiB of disk for states that survive a restart; 0 is none.",
           rich_help_panel=CACHE),
]  # fmt: skip
CachePath = Annotated[
    Path | None,
    Option("--cache-path", help="The folder for them (default: ~/.cache/foretoken/states).", show_default=False,
           rich_help_panel=CACHE),
]  # fmt: skip
NumTries = Annotated[
    int | None,
    Option("--spec-ckpt-num-tries", min=1, help="Drafts in a row that may lose before their drafter rests a while.",
           show_default=False, rich_help_panel=SPECULATION),
]  # fmt: skip

Json = Annotated[bool, Option("--json", help="One JSON object on standard output, for scripts.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Show what libllama logs.")]
OutPath = Annotated[Path | None, Option("--out", help="Write the JSON to a file as well.")]
