"""The judged trials of a sweep as numpy arrays: what the fast path of scoring counts.

Claims are made here, once (rule 5). Trials lie in a grid of ``slot`` (one pull request of a group) x ``group`` (one
round of one agent build); groups with fewer pull requests are padded with empty positions, which count nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crb_core.errors import InputError
from crb_core.matching import JudgedPullRequest
from crb_core.recipes import Recipe, recipe_named
from crb_core.strata import LABEL_FILTERS

__all__ = ["ArraysBuilder", "Bools", "Ints", "ScoringArrays", "arrays_of"]

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ScoringArrays:
    """Everything that counts of trials are made of. Arrays of equal prefix have equal length.

    A ``position`` is ``slot * len(groups) + group``; ``position_pull_request`` names its pull request, -1 where it is
    padding. Codes are places in ``values`` of their axis, -1 where a finding has no value. ``claimed``, ``intended``
    and ``covered`` are lists of (position, golden) pairs, ``label`` lists the classified unmatched candidates, and
    ``unclassified`` counts the others by position.
    """

    recipe: Recipe
    groups: tuple[Hashable, ...]
    pull_requests: tuple[str, ...]
    slots: int
    values: Mapping[str, tuple[str, ...]]
    producers: tuple[str, ...]
    position_pull_request: Ints
    unclassified: Ints
    candidates: Ints
    golden_pull_request: Ints
    golden_tp: Bools
    golden_codes: Mapping[str, Ints]
    golden_producer: Ints
    claimed: tuple[Ints, Ints]
    intended: tuple[Ints, Ints]
    covered: tuple[Ints, Ints]
    label_position: Ints
    label_tp: Bools
    label_codes: Mapping[str, Ints]
    #: Precomputed by axes; see ``_Layout``.
    layouts: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)

    @property
    def findings(self) -> int:
        """Candidates in all."""
        return int(self.candidates.sum())

    def within(self, pull_requests: Collection[str]) -> ScoringArrays:
        """The same without the trials of other pull requests; the golden findings, their numbers and codes stay."""
        inside = np.array([key in pull_requests for key in self.pull_requests] + [False], dtype=np.bool_)
        kept = inside[self.position_pull_request]
        label = kept[self.label_position]

        def pairs(of: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
            mine = kept[of[0]]
            return of[0][mine], of[1][mine]

        return replace(
            self,
            position_pull_request=np.where(kept, self.position_pull_request, -1),
            unclassified=np.where(kept, self.unclassified, 0),
            candidates=np.where(kept, self.candidates, 0),
            claimed=pairs(self.claimed),
            intended=pairs(self.intended),
            covered=pairs(self.covered),
            label_position=self.label_position[label],
            label_tp=self.label_tp[label],
            label_codes={axis: codes[label] for axis, codes in self.label_codes.items()},
            layouts={},
        )

    def positions(self, group: int) -> Ints:
        """The positions of a group that hold a trial, in the order in which its trials were given."""
        mine = np.arange(self.slots, dtype=np.int64) * len(self.groups) + group
        return mine[self.position_pull_request[mine] >= 0]


class ArraysBuilder:
    """Builds the arrays trial by trial, making the claims.

    ``leave_out`` says of a producer whether its golden findings are dropped before claims are made (rule 8). With
    ``slot_of_pull_request`` a trial's slot is its pull request's number, so that the order in which trials are added
    matters to nothing; else the trials of a group fill the slots as they come.
    """

    def __init__(
        self,
        recipe: Recipe,
        groups: Sequence[Hashable],
        *,
        leave_out: Callable[[str], bool] | None = None,
        slot_of_pull_request: bool = False,
    ) -> None:
        self._recipe = recipe
        self._leave_out = leave_out
        self._kept: list[dict[int, int] | None] = []
        self._groups = {name: place for place, name in enumerate(groups)}
        if len(self._groups) != len(groups):
            raise ValueError("a group is named twice")
        self._by_pull_request = slot_of_pull_request
        self._filled = [0] * len(groups)
        self._codes: dict[str, dict[str | None, int]] = {axis: {None: -1} for axis in LABEL_FILTERS}
        self._producers: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._seen: set[tuple[int, int]] = set()
        self._golden: list[tuple[int, bool, int]] = []
        self._golden_codes: dict[str, list[int]] = {axis: [] for axis in LABEL_FILTERS}
        self._golden_sizes: list[int] = []
        # Flat and packed: a sweep that runs is built again and again, and numbers of Python take ten times as long.
        self._trials = array("q")
        self._pairs = {"claimed": array("q"), "intended": array("q"), "covered": array("q")}
        self._labels = array("q")
        self._label_codes = array("q")
        #: By identity, so that a label that many share is read once; kept, so that no other takes its identity.
        self._known_labels: dict[int, tuple[Mapping[str, Any], bool, tuple[int, ...]]] = {}

    def add_pull_request(self, key: str, golden: Iterable[tuple[Mapping[str, Any], str]]) -> None:
        """Make a pull request known: label (``tp_fp`` and axes) and producer of its golden findings, in order."""
        if key in self._keys:
            raise ValueError(f"pull request {key} is given twice")
        number = self._keys[key] = len(self._keys)
        self._first[key] = len(self._golden)
        kept: dict[int, int] = {}
        size = 0
        for position, (label, producer) in enumerate(golden):
            size += 1
            if self._leave_out is not None and self._leave_out(producer):
                continue
            kept[position] = len(kept)
            code = self._producers.setdefault(producer, len(self._producers))
            self._golden.append((number, label["tp_fp"] == "tp", code))
            for axis, codes in self._golden_codes.items():
                codes.append(self._code(axis, label.get(axis)))
        self._golden_sizes.append(size)
        self._kept.append(None if len(kept) == size else kept)

    def knows(self, key: str) -> bool:
        return key in self._keys

    def add_trial(
        self,
        group: Hashable,
        key: str,
        candidates: int,
        matches: Sequence[tuple[int, Sequence[int]]],
        labels: Iterable[tuple[int, Mapping[str, Any]]],
    ) -> None:
        """Add one scored trial.

        ``matches`` are (candidate, ascending golden positions) in ascending candidate order; ``labels`` are
        (candidate, label) of classified ones. InputError for a position out of range, a candidate that is classified
        although it takes a golden finding's label, and a pull request given twice in one group.
        """
        recipe, column = self._recipe, self._groups[group]
        number, offset = self._keys[key], self._first[key]
        if (column, number) in self._seen:
            raise InputError(
                f"pull request {key!r} is given twice in one round",
                remedy="Score one round of one agent build at a time",
            )
        self._seen.add((column, number))
        size, kept = self._golden_sizes[number], self._kept[number]
        slot = number if self._by_pull_request else self._filled[column]
        position = slot * len(self._groups) + column
        self._filled[column] += 1
        settled: set[int] = set()
        taken: set[int] = set()
        covered: set[int] = set()
        for candidate, goldens in matches:
            if not 0 <= candidate < candidates or any(not 0 <= golden < size for golden in goldens):
                raise InputError(
                    f"pull request {key}: a match names candidate {candidate} and golden {list(goldens)}, but there "
                    f"are {candidates} candidates and {size} golden findings"
                )
            if kept is not None:
                goldens = [kept[golden] for golden in goldens if golden in kept]
            claim = trade_off = None
            for golden in goldens:
                if recipe.has_intended and not self._golden[offset + golden][1]:
                    trade_off = golden if trade_off is None else trade_off
                    continue
                covered.add(golden)
                if claim is None and golden not in taken:
                    claim = golden
            if claim is not None:
                taken.add(claim)
                settled.add(candidate)
                self._pairs["claimed"].extend((position, offset + claim))
            elif trade_off is not None:
                settled.add(candidate)
                self._pairs["intended"].extend((position, offset + trade_off))
        for golden in covered:
            if self._golden[offset + golden][1]:
                self._pairs["covered"].extend((position, offset + golden))
        classified = self._add_labels(key, position, candidates, settled, labels)
        self._trials.extend((position, number, candidates - len(settled) - classified, candidates))

    def _add_labels(
        self,
        key: str,
        position: int,
        candidates: int,
        settled: set[int],
        labels: Iterable[tuple[int, Mapping[str, Any]]],
    ) -> int:
        done: set[int] = set()
        for candidate, label in labels:
            if candidate in settled or candidate in done or not 0 <= candidate < candidates:
                reason = (
                    "takes the label of a golden finding, so it is not classified"
                    if candidate in settled
                    else "is already classified"
                    if candidate in done
                    else f"does not exist: there are {candidates}"
                )
                raise InputError(f"pull request {key}: candidate {candidate} {reason}")
            done.add(candidate)
            known = self._known_labels.get(id(label))
            if known is None:
                codes = tuple(self._code(axis, label.get(axis)) for axis in LABEL_FILTERS)
                known = self._known_labels[id(label)] = (label, label["tp_fp"] == "tp", codes)
            self._labels.extend((position, known[1]))
            self._label_codes.extend(known[2])
        return len(done)

    def _code(self, axis: str, value: Any) -> int:
        known = self._codes[axis]
        if value not in known:
            known[str(value)] = len(known) - 1
        return known[value]

    def build(self) -> ScoringArrays:
        """The arrays of everything that was added."""
        groups = len(self._groups)
        slots = len(self._keys) if self._by_pull_request else max(self._filled, default=0)
        positions = slots * groups
        pull_request = np.full(positions, -1, dtype=np.int64)
        unclassified = np.zeros(positions, dtype=np.int64)
        candidates = np.zeros(positions, dtype=np.int64)
        if self._trials:
            table = _packed(self._trials, 4)
            pull_request[table[:, 0]] = table[:, 1]
            unclassified[table[:, 0]] = table[:, 2]
            candidates[table[:, 0]] = table[:, 3]
        golden = np.array(self._golden, dtype=np.int64).reshape(-1, 3)
        labels = _packed(self._labels, 2)
        label_codes = _packed(self._label_codes, len(LABEL_FILTERS))
        pairs = {}
        for name, flat in self._pairs.items():
            both = _packed(flat, 2)
            pairs[name] = (both[:, 0].copy(), both[:, 1].copy())
        return ScoringArrays(
            recipe=self._recipe,
            groups=tuple(self._groups),
            pull_requests=tuple(self._keys),
            slots=slots,
            values={
                axis: tuple(str(value) for value in known if value is not None) for axis, known in self._codes.items()
            },
            producers=tuple(self._producers),
            position_pull_request=pull_request,
            unclassified=unclassified,
            candidates=candidates,
            golden_pull_request=golden[:, 0].copy(),
            golden_tp=golden[:, 1].astype(np.bool_),
            golden_codes={axis: np.array(codes, dtype=np.int64) for axis, codes in self._golden_codes.items()},
            golden_producer=golden[:, 2].copy(),
            claimed=pairs["claimed"],
            intended=pairs["intended"],
            covered=pairs["covered"],
            label_position=labels[:, 0].copy(),
            label_tp=labels[:, 1].astype(np.bool_),
            label_codes={axis: label_codes[:, place].copy() for place, axis in enumerate(LABEL_FILTERS)},
        )


def _packed(values: array[int], columns: int) -> Ints:
    """A copy as a table of so many columns."""
    # An array cannot grow while anything looks into it.
    return np.array(values, dtype=np.int64).reshape(-1, columns)


def arrays_of(
    groups: Mapping[Any, Sequence[JudgedPullRequest]],
    protocol: str = "reviewbench",
    *,
    leave_out: Callable[[str], bool] | None = None,
) -> ScoringArrays:
    """The arrays of judged pull requests by group; ``leave_out`` as for ``ArraysBuilder``.

    InputError for a contradictory judgment, and for a pull request whose golden findings differ between groups: such
    trials have other answer keys and cannot be compared.
    """
    builder = ArraysBuilder(recipe_named(protocol), list(groups), leave_out=leave_out)
    golden: dict[str, Any] = {}
    for group, judged in groups.items():
        for pr in judged:
            if pr.key not in golden:
                golden[pr.key] = pr.golden
                builder.add_pull_request(pr.key, ((each.label.__dict__, each.producer) for each in pr.golden))
            elif golden[pr.key] != pr.golden:
                raise InputError(f"pull request {pr.key!r} has other golden findings in another round or agent build")
            builder.add_trial(
                group,
                pr.key,
                len(pr.candidates),
                sorted((record.candidate, sorted(record.golden)) for record in pr.correspondences),
                ((record.candidate, record.label.__dict__) for record in pr.classifications),
            )
    return builder.build()
