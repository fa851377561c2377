"""What each n-gram drafter is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.errors import ConfigError
from foretoken.speculation.base import Draft, DraftAsk, Verdict
from foretoken.speculation.drafters.gram_table import GramTable, gram_keys
from foretoken.speculation.drafters.ngram_cache import LAX, NgramCacheDrafter
from foretoken.speculation.drafters.ngram_map import NgramMapK4vDrafter, NgramMapKDrafter
from foretoken.speculation.drafters.ngram_mod import NgramModDrafter, Pool
from foretoken.speculation.drafters.ngram_simple import NgramSimpleDrafter
from foretoken.speculation.drafters.text import TextDrafter


def ask(drafter: TextDrafter[Any], tokens: list[int], n_max: int = 8, seq: int = 0) -> Draft:
    return drafter.draft([DraftAsk(seq, tokens, n_max)])[0]


def judge(drafter: TextDrafter[Any], draft: Draft, n_accepted: int) -> None:
    drafter.accept(0, Verdict(draft, (*draft.tokens[:n_accepted], 999), n_accepted))


class TestSimple:
    def test_copies_from_the_last_occurrence(self) -> None:
        drafter = NgramSimpleDrafter(size_n=2, size_m=3)
        assert ask(drafter, [1, 2, 3, 4, 1, 2, 5, 6, 7, 1, 2]).tokens == (5, 6, 7)

    def test_needs_the_whole_key(self) -> None:
        assert not ask(NgramSimpleDrafter(size_n=3), [1, 2, 3, 4, 9, 2, 3])

    def test_goes_on_round_a_loop(self) -> None:
        drafter = NgramSimpleDrafter(size_n=2, size_m=7)
        assert ask(drafter, [1, 2, 3, 1, 2, 3, 1, 2]).tokens == (3, 1, 2, 3, 1, 2, 3)

    @pytest.mark.parametrize("options", [{"size_n": 0}, {"size_m": 0}])
    def test_refuses_nonsense(self, options: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            NgramSimpleDrafter(**options)


class TestMapK:
    history = (1, 2, 3, 4, 5, 6, 7, 8, 1, 2)

    def test_waits_for_enough_hits(self) -> None:
        drafter = NgramMapKDrafter(size_n=2, size_m=4, min_hits=2)
        assert not ask(drafter, [*self.history])
        assert ask(drafter, [*self.history, 3, 4, 5, 9, 1, 2]).tokens == (3, 4, 5, 9)

    def test_refusal_shortens_the_drafts_of_that_key(self) -> None:
        drafter = NgramMapKDrafter(size_n=2, size_m=6)
        draft = ask(drafter, [*self.history])
        assert len(draft) == 6
        judge(drafter, draft, 2)
        again = [*self.history, 3, 4, 0, 1, 2]
        assert ask(drafter, again).tokens == (3, 4)
        assert len(ask(drafter, [*again, 3, 4])) == 6, "another key is not concerned"

    def test_success_lengthens_them_again(self) -> None:
        drafter = NgramMapKDrafter(size_n=2, size_m=6)
        judge(drafter, ask(drafter, [*self.history]), 0)
        lengths = []
        tokens = list(self.history)
        for _ in range(4):
            tokens += [3, 4, 5, 6, 7, 8, 1, 2]
            draft = ask(drafter, tokens)
            lengths.append(len(draft))
            judge(drafter, draft, len(draft))
        assert lengths == [1, 2, 4, 6]

    def test_a_draft_that_was_only_cut_is_no_refusal(self) -> None:
        drafter = NgramMapKDrafter(size_n=2, size_m=6)
        judge(drafter, ask(drafter, [*self.history]).cut(2), 2)
        assert len(ask(drafter, [*self.history, 3, 4, 5, 6, 7, 8, 1, 2])) == 6


class TestMapK4v:
    def test_drafts_the_value_that_dominates(self) -> None:
        drafter = NgramMapK4vDrafter(size_n=2, size_m=2)
        tokens = [1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 1, 2, 7, 8, 9, 1, 2]
        assert ask(drafter, tokens).tokens == (3, 4)

    def test_is_silent_between_rivals(self) -> None:
        drafter = NgramMapK4vDrafter(size_n=2, size_m=2)
        assert not ask(drafter, [1, 2, 3, 4, 0, 1, 2, 7, 8, 9, 1, 2])

    def test_a_fifth_value_replaces_the_rarest(self) -> None:
        drafter = NgramMapK4vDrafter(size_n=1, size_m=1)
        tokens = [token for value in (2, 2, 3, 4, 5, *[6] * 9) for token in (1, value)]
        assert ask(drafter, [*tokens, 1]).tokens == (6,)
        assert max(map(len, drafter._readings[0].values.values())) == drafter.MAX_VALUES

    def test_waits_for_enough_hits(self) -> None:
        drafter = NgramMapK4vDrafter(size_n=2, size_m=2, min_hits=2)
        assert not ask(drafter, [1, 2, 3, 4, 5, 1, 2])
        assert ask(drafter, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]).tokens == (3, 4)


class TestMod:
    def test_drafts_as_far_as_it_knows_the_way(self) -> None:
        drafter = NgramModDrafter(n_match=3)
        drafter.begin(0, list(range(30)), "a")
        drafter.begin(1, [5, 6, 7], "a")
        assert ask(drafter, [5, 6, 7], 64, seq=1).tokens == tuple(range(8, 30))
        assert not ask(drafter, [5, 6, 7, 9], 64, seq=1)

    def test_stays_silent_below_n_min(self) -> None:
        for n_min, expected in ((3, (27, 28, 29)), (4, ())):
            drafter = NgramModDrafter(n_match=3, n_min=n_min)
            drafter.begin(0, list(range(30)), "a")
            drafter.begin(1, [24, 25, 26], "a")
            assert ask(drafter, [24, 25, 26], 8, seq=1).tokens == expected
            assert len(ask(drafter, [24, 25, 26], 2, seq=1)) == 2, "what was not asked for is not missed"

    def test_slots_of_one_owner_share(self) -> None:
        drafter = NgramModDrafter(n_match=3)
        text = list(range(30))
        drafter.begin(0, text, "a")
        drafter.begin(1, [5, 6, 7], "a")
        drafter.begin(2, [5, 6, 7], "b")
        assert ask(drafter, [5, 6, 7], 4, seq=1).tokens == (8, 9, 10, 11)
        assert not ask(drafter, [5, 6, 7], 4, seq=2)

    def test_low_acceptance_resets_the_pool(self) -> None:
        drafter = NgramModDrafter(n_match=3, reset_after=3)
        tokens = [*range(20), 3, 4, 5]
        drafter.begin(0, tokens, "a")
        for _ in range(3):
            draft = ask(drafter, tokens)
            assert draft
            judge(drafter, draft, 0)
        assert not ask(drafter, tokens)
        assert drafter.pools.of("a").occupancy == 0

    def test_one_good_draft_ends_a_bad_streak(self) -> None:
        drafter = NgramModDrafter(n_match=3, reset_after=2)
        tokens = [*range(20), 3, 4, 5]
        drafter.begin(0, tokens, "a")
        for n_accepted in (0, 8, 0):
            judge(drafter, ask(drafter, tokens), n_accepted)
        assert ask(drafter, tokens)

    def test_a_full_pool_starts_again(self) -> None:
        drafter = NgramModDrafter(n_match=3, pool_bits=8)
        drafter.begin(0, list(range(200)), "a")
        assert drafter.pools.of("a").occupancy > 0.25
        drafter.begin(0, list(range(500, 510)), "a")
        assert drafter.pools.of("a").n_used == 7

    @given(tokens=st.lists(st.integers(0, 9), min_size=270, max_size=320))
    @settings(max_examples=20, deadline=None)
    def test_learning_in_bulk_equals_learning_one_by_one(self, tokens: list[int]) -> None:
        bulk, single = Pool(3, 1 << 12), Pool(3, 1 << 12)
        key = single.hash_of(tokens[:3])
        for end in range(4, len(tokens) + 1):
            key = single.add(key, tokens[:end], end - 1)
        assert bulk.add(0, tokens, 3) == key
        assert bulk.n_used == single.n_used
        assert bulk.walk(key, tokens[-3:], 50) == single.walk(key, tokens[-3:], 50)


class TestCache:
    def test_chains_what_usually_follows(self) -> None:
        drafter = NgramCacheDrafter()
        assert ask(drafter, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]).tokens[:4] == (3, 4, 5, 1)

    def test_is_silent_when_the_odds_are_even(self) -> None:
        assert not ask(NgramCacheDrafter(), [1, 2, 1, 3, 1, 4, 1, 5, 1])

    def test_an_owner_learns_from_earlier_answers(self) -> None:
        drafter = NgramCacheDrafter()
        for _ in range(3):
            drafter.begin(0, [0], "a")
            ask(drafter, [0, 11, 12, 13, 14, 15, 16])
            drafter.end(0)
        drafter.begin(0, [5], "a")
        assert ask(drafter, [5, 11, 12, 13]).tokens[:2] == (14, 15)

    def test_saved_statistics_serve_again(self, tmp_path: Path) -> None:
        drafter = NgramCacheDrafter()
        drafter.begin(0, [0], "a")
        ask(drafter, [0, *range(10, 30), *range(10, 30), *range(10, 30)])
        drafter.end(0)
        drafter.save(tmp_path / "cache", "a")
        for option in ("lookup_cache_static", "lookup_cache_dynamic"):
            again = NgramCacheDrafter(**{option: str(tmp_path / "cache")})  # type: ignore[arg-type]
            assert ask(again, [10, 11, 12]).tokens[:3] == (13, 14, 15)
        assert not ask(NgramCacheDrafter(), [10, 11, 12])

    @pytest.mark.parametrize("content", [b"", b"not a cache", b"PK\x03\x04"])
    def test_another_file_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "cache").write_bytes(content)
        with pytest.raises(ConfigError, match="not an n-gram cache"):
            NgramCacheDrafter(lookup_cache_static=str(tmp_path / "cache"))
        with pytest.raises(ConfigError, match="not an n-gram cache"):
            NgramCacheDrafter(lookup_cache_dynamic=str(tmp_path / "nowhere"))

    def test_memory_stays_bounded(self) -> None:
        drafter = NgramCacheDrafter(max_tokens=1024, max_grams=2000)
        tokens = [i * i % 9973 for i in range(20000)]
        drafter.begin(0, tokens[:10], "a")
        for end in range(100, len(tokens), 100):
            ask(drafter, tokens[:end])
        assert len(drafter._readings[0].table) < 5 * 1024
        drafter.end(0)
        assert len(drafter.past.of("a")) <= 2000

    @given(tokens=st.lists(st.integers(0, 6), min_size=260, max_size=400))
    @settings(max_examples=20, deadline=None)
    def test_counting_in_bulk_equals_counting_one_by_one(self, tokens: list[int]) -> None:
        bulk, single = GramTable(), GramTable()
        bulk.add(tokens, 0)
        single.add(tokens[:100], 0)
        for end in range(101, len(tokens) + 1):
            single.add(tokens[:end], end - 1)
        assert bulk._best == single._best
        assert bulk._others == single._others

    def test_the_longest_ngram_speaks_first(self) -> None:
        table = GramTable()
        table.add([1, 5, 2, 7, 3, 5, 2, 8, 4, 5, 2, 8], 0)
        three, two = table.likeliest(gram_keys([1, 5, 2]), LAX), table.likeliest(gram_keys([5, 2]), LAX)
        assert three is not None
        assert two is not None
        assert (three[0], two[0]) == (7, 8)
        assert two[1] < three[1]
