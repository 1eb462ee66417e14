"""The golden-comments rows that the public tool would count: from recorded lists (rule 19).

For judges that crb ran these are the lists that the tool would have recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from crb_core.comment_rows import CommentBuilds, CommentRow, CommentTrial, marks_of, problems_of, ranked_rows
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.golden_comments import DedupGroups, RecordedLists, compatible

__all__ = ["compatible_rows", "text_keyed_lists"]


def compatible_rows(builds: CommentBuilds, *, judge: str) -> tuple[CommentRow, ...]:
    """Rows as the public tool counts: no profile, beta 1, 0 where undefined; rounds are pooled."""
    rows = []
    for build, identity, trials in builds:
        lists = [found for found in map(_lists, trials) if found is not None]
        result = compatible(lists)
        skipped = [trial for trial in trials if _lists(trial) is None]
        rows.append(
            CommentRow(
                build=build,
                identity=identity,
                judge=judge,
                ranked=bool(lists),
                marks=tuple(marks_of(build, [f"{len(skipped)} reviews without evaluation"] if skipped else [])),
                figures={
                    **result.model_dump(mode="json", exclude={"reviews"}),
                    "reviews": len(lists),
                    "skipped": len(skipped),
                    "problems": problems_of(skipped),
                },
            )
        )
    return ranked_rows(rows)


def text_keyed_lists(
    judged: JudgedPullRequest,
    probabilities: Mapping[tuple[int, int], float] | None = None,
    dedup_groups: DedupGroups = (),
) -> RecordedLists:
    """The lists that the public tool would record for these correspondences (facts C3).

    State is keyed by text, so equal texts collapse. Golden comment by golden comment, a candidate replaces the best one
    so far only with a higher probability (1 where none is known); one that is replaced keeps its mark and is in no
    list; one that comes later with the same or a lower probability stays unmatched and is a false positive.
    """
    links = {(record.candidate, golden) for record in judged.correspondences for golden in record.golden}
    known = probabilities or {}
    siblings = {place: group for group in dedup_groups for place in group}
    best: dict[str, tuple[float, str]] = {}
    marked: set[str] = set()
    for position, golden in enumerate(judged.golden):
        for place, candidate in enumerate(judged.candidates):
            confidence = known.get((place, position), 1.0) if (place, position) in links else 0.0
            if confidence > best.get(golden.message, (0.0, ""))[0]:
                best[golden.message] = (confidence, candidate.message)
                marked.update(judged.candidates[each].message for each in siblings.get(place, (place,)))
    golden_texts = list(dict.fromkeys(golden.message for golden in judged.golden))
    candidate_texts = list(dict.fromkeys(candidate.message for candidate in judged.candidates))
    return RecordedLists(
        true_positives=[text for text in golden_texts if text in best],
        false_positives=[text for text in candidate_texts if text not in marked],
        false_negatives=[text for text in golden_texts if text not in best],
    )


def _lists(trial: CommentTrial) -> RecordedLists | None:
    if trial.recorded is not None or trial.judged is None:
        return trial.recorded
    if not trial.judged.golden:
        return None
    return text_keyed_lists(trial.judged, trial.probabilities, trial.dedup_groups)
