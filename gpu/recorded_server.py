"""Lets llama-server follow recordings: its own sampler still runs and is paid for, then the recording decides.

Without this its text on random weights would be another one with every setting, and its drafters could not be
compared. The file that LLAMA_RECORDED names has a line per answer: the request's seed, then the tokens. Without the
variable the server is what it was.
"""

from __future__ import annotations

from pathlib import Path

_FILE = "common/sampling.cpp"
_MARK = "LLAMA_RECORDED"
_SAMPLE = (
    "llama_token common_sampler_sample("
    "struct common_sampler * gsmpl, struct llama_context * ctx, int idx, bool grammar_first) {"
)
_BY_MODEL = _SAMPLE.replace("llama_token common_sampler_sample(", "static llama_token sample_by_model(")
_RECORDED = """static const std::vector<llama_token> & recorded_text(uint32_t seed) {
    static const auto texts = [] {
        std::map<uint32_t, std::vector<llama_token>> res;
        const char * path = getenv("LLAMA_RECORDED");
        std::ifstream file(path ? path : "");
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            uint32_t key;
            words >> key;
            for (llama_token token; words >> token;) {
                res[key].push_back(token);
            }
        }
        return res;
    }();
    static const std::vector<llama_token> none;
    const auto it = texts.find(seed);
    return it == texts.end() ? none : it->second;
}

"""
_FOLLOW = """
    const llama_token id = sample_by_model(gsmpl, ctx, idx, grammar_first);
    const auto & text = recorded_text(gsmpl->params.seed);
    return gsmpl->n_said < text.size() ? text[gsmpl->n_said] : id;
}

"""


def patch(sources: Path) -> None:
    """Change llama.cpp's sources so that its samplers follow recordings; a second time does nothing."""
    path = sources / _FILE
    text = path.read_text()
    if _MARK in text:
        return
    edits = [
        # How many tokens a sampler has said travels with it: through resets, copies and clones.
        ("    mutable int64_t t_total_us = 0;\n", "    mutable int64_t t_total_us = 0;\n    size_t n_said = 0;\n"),
        ("        prev.clear();\n", "        prev.clear();\n        n_said = 0;\n"),
        ("    gsmpl->prev.push_back(token);\n",
         "    gsmpl->prev.push_back(token);\n    gsmpl->n_said += is_generated;\n"),
        ("    return new common_sampler {\n", "    auto * copy = new common_sampler {\n"),
        ("gsmpl->cur_p,\n    };\n}", "gsmpl->cur_p,\n    };\n    copy->n_said = gsmpl->n_said;\n    return copy;\n}"),
        ("    dst->t_total_us = src->t_total_us;\n",
         "    dst->t_total_us = src->t_total_us;\n    dst->n_said = src->n_said;\n"),
        (_SAMPLE, f"{_RECORDED}{_BY_MODEL[:-2]};\n\n{_SAMPLE}{_FOLLOW}{_BY_MODEL}"),
        ("#include <algorithm>\n", "#include <algorithm>\n#include <fstream>\n#include <map>\n#include <sstream>\n"),
    ]  # fmt: skip
    for old, new in edits:
        # The clone is not the first place that makes a sampler.
        start = max(0, text.find("common_sampler_clone(")) if "copy" in new else 0
        where = text.find(old, start)
        if where < 0:
            raise SystemExit(f"{path} is not the llama.cpp this was written for: {old.strip()!r} is not in it")
        text = text[:where] + new + text[where + len(old) :]
    path.write_text(text)
