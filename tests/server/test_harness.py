"""lm-evaluation-harness on a small task of our own: the same scores and likelihoods with speculation and without.

FORETOKEN_LM_EVAL names its command; `make test-harness` installs it apart from everything else and says so.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from foretoken.config import SpeculationConfig
from foretoken.models import path_of
from tests.server.running import running

COMMAND = os.environ.get("FORETOKEN_LM_EVAL")
TASKS = Path(__file__).parents[1] / "harness"
DRAFTERS = {"with": SpeculationConfig(("copy", "suffix", "mtp")), "without": SpeculationConfig(())}


def evaluate(url: str, tasks: Path, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """The scores, and every answer that they were made of."""
    model = f"model=mini,base_url={url}/v1/completions,tokenizer_backend=remote,num_concurrent=2,max_length=1024"
    command = [str(COMMAND), "--model", "local-completions", "--model_args", model, "--include_path", str(tasks)]
    command += ["--tasks", "foretoken_choose,foretoken_write", "--output_path", str(out), "--log_samples"]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(out / "hf")}
    surroundings = {**os.environ, **offline, "PYTHONPATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=surroundings)
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(next(out.rglob("results_*.json")).read_text(encoding="utf-8"))["results"]
    samples = [
        json.loads(line)
        for file in sorted(out.rglob("samples_*.jsonl"), key=lambda file: file.name)
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    answers = [[sample["doc_id"], sample["resps"]] for sample in samples]
    return results, answers


@pytest.mark.timeout(1800)
@pytest.mark.skipif(COMMAND is None, reason="FORETOKEN_LM_EVAL is not set: make test-harness")
def test_scores_do_not_depend_on_speculation(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for file in TASKS.iterdir():
        text = file.read_text(encoding="utf-8").replace("FOLDER", str(tasks))
        (tasks / file.name).write_text(text, encoding="utf-8")
    found = {}
    for name, speculation in DRAFTERS.items():
        with running(path_of("mini"), n_ctx=1024, speculation=speculation) as server:
            found[name] = evaluate(server.url, tasks, tmp_path / name)
    assert found["with"] == found["without"]
    results, answers = found["with"]
    print(json.dumps(results, indent=1))
    assert len(answers) == 24
    assert results["foretoken_choose"]["acc,none"] > 0.6
