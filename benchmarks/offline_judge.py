"""Train and measure the judge ``offline`` on a folder laid out as the golden-comments benchmark (facts C1).

    python benchmarks/offline_judge.py measure FOLDER    the model in the package, on any such folder
    python benchmarks/offline_judge.py held-out FOLDER   one model a repository, trained on the others (scikit-learn)
    python benchmarks/offline_judge.py train FOLDER      the same, then a model of all data into the package

FOLDER holds ``golden_comments/*.json`` and ``results/<judge>/{candidates,evaluations}.json``; without it,
``$CRB_SHARED_DATA/golden-comments`` is read. ``--json`` prints the figures as JSON.

One question is "does this tool cover this golden", for tools with at least one candidate; the answers of the folder's
LLM judges are the reference, each on its own candidates. Pairs are certain only in part: a recorded match is one, and a
golden that nothing matched has none; other candidates of a covered golden are left out of the training.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crb_core.agreement import agreement
from crb_core.calibration import Counts, f1_of, kendall_tau, matched_counts
from crb_core.errors import CrbError, InputError, Where
from crb_core.finding import CandidateFinding
from crb_core.formats.strict_json import load_json
from crb_core.matching import Correspondence
from crb_worker.calibration.tuning import short_digest, text_digest
from crb_worker.judge.features import FEATURES, Pair, Vocabulary, pair_features
from crb_worker.judge.offline_model import MODEL_FILE, Forest, OfflineModel, Training, Tree

#: Match from this probability on: as likely as not. Not tuned.
THRESHOLD = 0.5

#: Size of the model; leaves count rows of the training set, which holds every pair several times.
TREES, DEPTH, SMALLEST_LEAF, FEATURE_SHARE, SEED = 100, 6, 27, 0.4, 0

#: Copies of the data in which a tool's wording stands in for this share of the covered goldens, and their rows' weight.
BORROWED_COPIES, BORROWED_SHARE, BORROWED_WEIGHT = 2, 0.7, 0.25

#: Rows of features to probabilities.
Probabilities = Callable[[Sequence[Sequence[float]]], list[float]]


@dataclass(frozen=True, kw_only=True)
class Review:
    """One tool's candidates on one pull request beside one judge's answers. ``matched`` maps golden to candidate."""

    judge: str
    repository: str
    pull_request: str
    tool: str
    golden: tuple[str, ...]
    candidates: tuple[str, ...]
    matched: dict[int, str]
    false_positives: int

    @property
    def pairs(self) -> list[Pair]:
        return [(place, position) for place in range(len(self.candidates)) for position in range(len(self.golden))]

    def features(self, vocabulary: Vocabulary) -> dict[Pair, tuple[float, ...]]:
        return pair_features(self.candidates, self.golden, self.pairs, vocabulary)


def read(folder: Path) -> list[Review]:
    """Every (judge, pull request, tool) of a folder; what does not fit together is an InputError."""
    golden: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path in sorted((folder / "golden_comments").glob("*.json")):
        for entry in load_json(path):
            golden[entry["url"]] = (path.stem, tuple(comment["comment"] for comment in entry["comments"]))
    if not golden:
        raise InputError("there are no golden comments", where=Where(file=str(folder / "golden_comments")))
    reviews = []
    for path in sorted((folder / "results").glob("*/evaluations.json")):
        candidates = load_json(path.with_name("candidates.json"))
        for url, by_tool in load_json(path).items():
            repository, texts = golden[url]
            for tool, evaluation in by_tool.items():
                if evaluation.get("skipped"):
                    continue
                found = tuple(item["text"] for item in candidates.get(url, {}).get(tool, ()))
                matched = {}
                for match in evaluation["true_positives"]:
                    if match["golden_comment"] not in texts or match["matched_candidate"] not in found:
                        raise InputError(
                            f"a recorded match of {tool} names a golden or candidate that is not there",
                            where=Where(file=str(path), field=url),
                        )
                    matched[texts.index(match["golden_comment"])] = match["matched_candidate"]
                reviews.append(
                    Review(
                        judge=path.parent.name,
                        repository=repository,
                        pull_request=url,
                        tool=tool,
                        golden=texts,
                        candidates=found,
                        matched=matched,
                        false_positives=evaluation["fp"] if found else 0,
                    )
                )
    if not reviews:
        raise InputError("there are no evaluations", where=Where(file=str(folder / "results")))
    return reviews


def digest(folder: Path) -> str:
    """SHA-256 over ``path NUL sha256 newline`` of every file that training reads, in path order."""
    files = sorted([*folder.glob("golden_comments/*.json"), *folder.glob("results/*/*s.json")])
    lines = [f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def vocabulary_of(reviews: Sequence[Review]) -> Vocabulary:
    return Vocabulary(text for review in reviews for text in review.golden)


def certain_pairs(reviews: Sequence[Review]) -> Iterator[tuple[tuple[float, ...], bool]]:
    """Features and label of each certain pair, weighed as in a corpus of all, of one repository, and of one request.

    Rarity depends on the size of a corpus; a model that saw three sizes does not depend on one.
    """
    for group in (lambda _: "", lambda review: review.repository, lambda review: review.pull_request):
        parts: dict[str, list[Review]] = {}
        for review in reviews:
            parts.setdefault(group(review), []).append(review)
        for part in parts.values():
            vocabulary = vocabulary_of(part)
            for review in part:
                for (place, position), values in review.features(vocabulary).items():
                    if position not in review.matched:
                        yield values, False
                    elif review.matched[position] == review.candidates[place]:
                        yield values, True


def borrowed(reviews: Sequence[Review], copy: int) -> list[Review]:
    """The reviews again, with goldens in the words of another tool that found the same issue.

    Goldens of other corpora are written by tools, in other words and lengths; a judge that saw only one style of golden
    leans on that style.
    """
    chance = random.Random(f"{SEED} {copy}")
    finders: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for review in reviews:
        for position, text in review.matched.items():
            finders.setdefault((review.judge, review.pull_request, position), []).append((review.tool, text))
    result = []
    for review in reviews:
        golden = []
        for position, text in enumerate(review.golden):
            found = finders.get((review.judge, review.pull_request, position), [])
            others = [wording for tool, wording in found if tool != review.tool]
            golden.append(chance.choice(others) if others and chance.random() < BORROWED_SHARE else text)
        result.append(dataclasses.replace(review, golden=tuple(golden)))
    return result


def train(reviews: Sequence[Review]) -> tuple[tuple[Tree, ...], int, int]:
    """Extremely randomised trees (Geurts et al. 2006) on the certain pairs, with the number of rows and positives."""
    from sklearn.ensemble import ExtraTreesClassifier  # type: ignore[import-not-found]

    plain = list(certain_pairs(reviews))
    extra = [row for copy in range(BORROWED_COPIES) for row in certain_pairs(borrowed(reviews, copy))]
    rows = plain + extra
    forest = ExtraTreesClassifier(
        TREES, max_depth=DEPTH, min_samples_leaf=SMALLEST_LEAF, max_features=FEATURE_SHARE, random_state=SEED
    )
    forest.fit(
        np.array([values for values, _ in rows]),
        np.array([label for _, label in rows]),
        sample_weight=np.array([1.0] * len(plain) + [BORROWED_WEIGHT] * len(extra)),
    )
    return tuple(_tree(estimator.tree_) for estimator in forest.estimators_), len(rows), sum(label for _, label in rows)


def _tree(raw: Any) -> Tree:
    leaf = raw.children_left < 0
    counts = raw.value[:, 0, :]
    return Tree(
        feature=tuple(np.where(leaf, -1, raw.feature).tolist()),
        threshold=tuple(round(value, 5) for value in np.where(leaf, 0, raw.threshold).tolist()),
        left=tuple(np.where(leaf, -1, raw.children_left).tolist()),
        right=tuple(np.where(leaf, -1, raw.children_right).tolist()),
        value=tuple(round(value, 4) for value in (counts[:, 1] / counts.sum(axis=1)).tolist()),
    )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A review with the offline judge's probability of every pair."""

    review: Review
    probabilities: dict[Pair, float]

    def covered(self) -> list[tuple[bool, bool, float]]:
        """For each golden: the reference's answer, ours, and our probability."""
        best = [
            max(self.probabilities[(place, position)] for place in range(len(self.review.candidates)))
            for position in range(len(self.review.golden))
        ]
        return [(position in self.review.matched, value >= THRESHOLD, value) for position, value in enumerate(best)]

    def counts(self) -> Counts:
        """tp, fp and fn as the public tool counts them (facts C3)."""
        review = self.review
        found: dict[int, list[tuple[int, float]]] = {}
        for (place, position), chance in self.probabilities.items():
            if chance >= THRESHOLD:
                found.setdefault(place, []).append((position, chance))
        return matched_counts(
            [CandidateFinding(message=text, producer=review.tool) for text in review.candidates],
            len(review.golden),
            [
                Correspondence(
                    candidate=place,
                    golden=tuple(position for position, _ in matches),
                    probabilities=tuple(chance for _, chance in matches),
                )
                for place, matches in found.items()
            ],
        )


def judge(reviews: Sequence[Review], vocabulary: Vocabulary, probabilities: Probabilities) -> list[Judged]:
    judged = []
    for review in reviews:
        features = review.features(vocabulary)
        chances = probabilities(list(features.values()))
        judged.append(Judged(review=review, probabilities=dict(zip(features, chances, strict=True))))
    return judged


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """What the report says of a set of judged reviews of one or of several reference judges."""
    units = [(item.review, *unit) for item in judged if item.review.candidates for unit in item.covered()]
    reference = [expected for _, expected, _, _ in units]
    ours = [answer for _, _, answer, _ in units]
    found = agreement(reference, ours, clusters=[review.pull_request for review, *_ in units])
    hits = sum(expected and answer for expected, answer in zip(reference, ours, strict=True))
    precision = hits / sum(ours) if sum(ours) else None
    recall = hits / sum(reference) if sum(reference) else None
    tools = {name: _tool(judged, name) for name in sorted({item.review.tool for item in judged})}
    values = [(tool["f1"], tool["reference_f1"]) for tool in tools.values()]
    return {
        "n": found.n,
        "agreement": found.raw,
        "kappa": found.kappa,
        "kappa_low": found.kappa_low,
        "kappa_high": found.kappa_high,
        "precision": precision,
        "recall": recall,
        "f1": 2 * hits / (sum(ours) + sum(reference)) if sum(ours) + sum(reference) else None,
        "covered": sum(ours) / len(ours),
        "reference_covered": sum(reference) / len(reference),
        "expected_calibration_error": _calibration_error([value for *_, value in units], reference),
        "tools": tools,
        "largest_f1_difference": max(abs(left - right) for left, right in values),
        "mean_f1_difference": sum(left - right for left, right in values) / len(values),
        "kendall_tau": kendall_tau(values),
    }


def _tool(judged: Sequence[Judged], name: str) -> dict[str, float]:
    own = reference = Counts(0, 0, 0)
    for item in judged:
        review = item.review
        if review.tool == name:
            own += item.counts()
            found = len(review.matched)
            reference += Counts(found, review.false_positives, len(review.golden) - found)
    return {"f1": f1_of(own) or 0.0, "reference_f1": f1_of(reference) or 0.0}


def _calibration_error(probabilities: Sequence[float], answers: Sequence[bool], bins: int = 10) -> float:
    """Mean distance of probability and frequency over ten equal bins, weighted by their size (Naeini et al. 2015)."""
    values, truth = np.array(probabilities), np.array(answers, dtype=float)
    places = np.minimum((values * bins).astype(int), bins - 1)
    return float(
        sum(
            abs(values[places == place].mean() - truth[places == place].mean()) * (places == place).mean()
            for place in range(bins)
            if (places == place).any()
        )
    )


def held_out(reviews: Sequence[Review]) -> list[Judged]:
    """Every repository judged by a model that was trained on the others."""
    vocabulary = vocabulary_of(reviews)
    judged = []
    for repository in sorted({review.repository for review in reviews}):
        trees, _, _ = train([review for review in reviews if review.repository != repository])
        judged += judge(
            [review for review in reviews if review.repository == repository], vocabulary, Forest(trees).probabilities
        )
    return judged


def report(judged: Sequence[Judged]) -> dict[str, Any]:
    """Figures for each reference judge, for each repository, and for all together."""
    judges = sorted({item.review.judge for item in judged})
    repositories = sorted({item.review.repository for item in judged})
    return {
        "judges": {name: figures([item for item in judged if item.review.judge == name]) for name in judges},
        "repositories": {
            name: figures([item for item in judged if item.review.repository == name]) for name in repositories
        },
        "pooled": figures(judged),
    }


def show(data: dict[str, Any]) -> str:
    lines = [f"{'':38}    n  agree  kappa  (95% interval)   prec    rec     f1  max dF1    tau    ece"]
    for name, item in [*data["judges"].items(), *data["repositories"].items(), ("pooled", data["pooled"])]:
        lines.append(
            f"{name:38} {item['n']:4}  {item['agreement']:.3f}  {item['kappa']:.3f}  "
            f"({item['kappa_low']:.3f} to {item['kappa_high']:.3f})  {item['precision']:.3f}  {item['recall']:.3f}  "
            f"{item['f1']:.3f}    {item['largest_f1_difference']:.3f}  {item['kendall_tau']:.3f}  "
            f"{item['expected_calibration_error']:.3f}"
        )
    lines.append("")
    lines.append(f"{'tool':14} f1 of the offline judge / of the reference, for each judge and pooled")
    parts = [*data["judges"].values(), data["pooled"]]
    for tool in data["pooled"]["tools"]:
        cells = [f"{part['tools'][tool]['f1']:.3f}/{part['tools'][tool]['reference_f1']:.3f}" for part in parts]
        lines.append(f"{tool:14} " + "  ".join(cells))
    return "\n".join(lines)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def write_model(folder: Path, reviews: Sequence[Review], measured: dict[str, Any]) -> None:
    trees, pairs, positives = train(reviews)
    urls = sorted({review.pull_request for review in reviews})
    model = OfflineModel(
        format="crb.offline-judge/1",
        features=FEATURES,
        threshold=THRESHOLD,
        trees=trees,
        training=Training(
            data="golden-comments benchmark, the part of it that was open to this project",
            sha256=digest(folder),
            repositories=tuple(sorted({review.repository for review in reviews})),
            examples=tuple(short_digest(url) for url in urls),
            texts=tuple(sorted({text_digest(text) for review in reviews for text in review.golden})),
            pairs=pairs,
            positives=positives,
            method=f"{TREES} extremely randomised trees, depth {DEPTH}, leaves of {SMALLEST_LEAF} or more, seed {SEED}",
        ),
        agreement={"method": "leave-one-repository-out", **_rounded(measured)},
    )
    data = model.model_dump(mode="json")
    body = ",\n".join(f' "{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in data.items())
    MODEL_FILE.write_text("{\n" + body + "\n}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("action", choices=["measure", "held-out", "train"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shared = os.environ.get("CRB_SHARED_DATA")
    if options.folder is None and shared is None:
        parser.error("name the data folder, or set CRB_SHARED_DATA")
    folder = options.folder or Path(str(shared)) / "golden-comments"
    reviews = read(folder)
    if options.action == "measure":
        model = OfflineModel.load()
        forest = Forest(model.trees)
        start = time.process_time()
        judged = judge(reviews, vocabulary_of(reviews), forest.probabilities)
        spent = time.process_time() - start
        data = report(judged)
        data["ms_per_1000_pairs"] = spent * 1e6 / sum(len(review.pairs) for review in reviews)
        own = {short_digest(review.pull_request) for review in reviews}
        data["examples_in_training"] = len(own & set(model.training.examples))
    else:
        data = report(held_out(reviews))
    if options.action == "train":
        write_model(folder, reviews, data)
    print(json.dumps(_rounded(data), indent=1) if options.json else show(data))
    if data.get("examples_in_training") and not options.json:
        print(
            f"\nThe model was trained on {data['examples_in_training']} of these pull requests: this is no measurement."
        )
    if "ms_per_1000_pairs" in data and not options.json:
        print(f"\n{data['ms_per_1000_pairs']:.0f} ms of processor time per 1,000 pairs")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CrbError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
