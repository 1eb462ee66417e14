"""An independent scorer of bundles, written from the seeds' set definitions by brute force; it shares no code with crb.

It works on the plain JSON objects of a bundle and on exact fractions, and answers plain JSON like ``crb.score/1``.
"""

from __future__ import annotations

from fractions import Fraction

LABEL_AXES = ["severity", "category", "scope", "difficulty", "context_required", "actionability"]


def divide(numerator, denominator):
    return None if denominator == 0 else Fraction(numerator) / Fraction(denominator)


def f_beta(precision, recall, beta):
    if precision is None or recall is None:
        return None
    if precision == recall == 0:
        return Fraction(0)
    square = Fraction(beta) ** 2
    return (1 + square) * precision * recall / (square * precision + recall)


def average(values):
    defined = [value for value in values if value is not None]
    return divide(sum(defined), len(defined)), len(defined)


def golden_value(golden, axis):
    """A golden finding's own label, else the stored classifier's (rule 7)."""
    if golden.get(axis) is not None:
        return golden[axis]
    if axis in ("severity", "category"):
        return (golden.get("classifier") or {}).get(axis)
    return None


def golden_inside(golden, filters):
    for axis, wanted in filters.items():
        value = golden.get("producer", "(unknown)") if axis == "producer" else golden_value(golden, axis)
        if value not in wanted:
            return False
    return True


def label_inside(label, filters):
    return all(label.get(axis) in wanted for axis, wanted in filters.items() if axis != "producer")


def matches(pr):
    return {(record["candidate"], golden) for record in pr["correspondences"] for golden in record["golden"]}


def claims(pr):
    """Seed A 6.2.4, one candidate after the other, one golden finding after the other."""
    pairs, claimed = matches(pr), {}
    for candidate in range(len(pr["candidates"])):
        for golden in range(len(pr["golden"])):
            if (candidate, golden) in pairs and golden not in claimed.values():
                claimed[candidate] = golden
                break
    return claimed


def reviewbench_sets(pr, filters):
    """Sizes of the sets of seed A 7 restricted to S."""
    claimed, pairs = claims(pr), matches(pr)
    labels = {record["candidate"]: record for record in pr.get("classifications", [])}
    golden = {g for g, finding in enumerate(pr["golden"]) if golden_inside(finding, filters)}
    golden_tp = {g for g in golden if pr["golden"][g]["tp_fp"] == "tp"}
    matched = {c for c, g in claimed.items() if g in golden}
    matched_tp = {c for c in matched if claimed[c] in golden_tp}
    everyone_unmatched = {c for c in range(len(pr["candidates"])) if c not in claimed}
    unclassified = {c for c in everyone_unmatched if c not in labels}
    unmatched_tp = {
        c for c in everyone_unmatched - unclassified if label_inside(labels[c], filters) and labels[c]["tp_fp"] == "tp"
    }
    unmatched_fp = {
        c for c in everyone_unmatched - unclassified if label_inside(labels[c], filters) and labels[c]["tp_fp"] == "fp"
    }
    visible = set() if set(filters) & set(LABEL_AXES) else unclassified
    unmatched = unmatched_tp | unmatched_fp | visible
    covered = {g for g in golden_tp if any((c, g) in pairs for c in range(len(pr["candidates"])))}
    return {
        "candidate_count": len(matched) + len(unmatched),
        "golden_tp_count": len(golden_tp),
        "matched_count": len(matched),
        "matched_tp_count": len(matched_tp),
        "unmatched_count": len(unmatched),
        "unmatched_tp_count": len(unmatched_tp),
        "unmatched_fp_count": len(unmatched_fp),
        "unclassified_count": len(unclassified),
        "golden_covered_count": len(covered),
        "novel_tp_count": len(unmatched_tp),
    }


def reviewbench_ratios(n, filters):
    values = {
        "grounded_precision": divide(n["matched_tp_count"], n["matched_count"]),
        "grounded_recall": divide(n["golden_covered_count"], n["golden_tp_count"]),
        "augmented_precision": divide(n["matched_tp_count"] + n["unmatched_tp_count"], n["candidate_count"]),
        "augmented_recall": divide(
            n["golden_covered_count"] + n["unmatched_tp_count"], n["golden_tp_count"] + n["unmatched_tp_count"]
        ),
        "novel_tp_yield": divide(n["unmatched_tp_count"], n["candidate_count"]),
    }
    if n["unclassified_count"] or "producer" in filters:
        values |= {"augmented_precision": None, "augmented_recall": None, "novel_tp_yield": None}
    return values


def keyed_sets(pr, filters):
    """Sizes of the sets of seed B, rule 20, restricted to S."""
    pairs = matches(pr)
    labels = {record["candidate"]: record for record in pr.get("classifications", [])}
    golden = {g for g, finding in enumerate(pr["golden"]) if golden_inside(finding, filters)}
    kind = [finding["tp_fp"] for finding in pr["golden"]]
    claimed, intended = {}, {}
    for candidate in range(len(pr["candidates"])):
        mine = [g for g in range(len(kind)) if (candidate, g) in pairs]
        free = [g for g in mine if kind[g] == "tp" and g not in claimed.values()]
        trade_offs = [g for g in mine if kind[g] == "fp"]
        if free:
            claimed[candidate] = min(free)
        elif trade_offs:
            intended[candidate] = min(trade_offs)
    unkeyed = {c for c in range(len(pr["candidates"])) if c not in claimed and c not in intended}
    unclassified = unkeyed - set(labels)
    tps = {c for c in unkeyed & set(labels) if labels[c]["tp_fp"] == "tp" and label_inside(labels[c], filters)}
    fps = {c for c in unkeyed & set(labels) if labels[c]["tp_fp"] == "fp" and label_inside(labels[c], filters)}
    visible = set() if set(filters) & set(LABEL_AXES) else unclassified
    defects = {g for g in golden if kind[g] == "tp"}
    found = {g for g in defects if any(pair[1] == g for pair in pairs)}
    n_claimed = sum(g in golden for g in claimed.values())
    n_intended = sum(g in golden for g in intended.values())
    return {
        "candidate_count": n_claimed + n_intended + len(tps | fps | visible),
        "defect_count": len(defects),
        "found_count": len(found),
        "missed_count": len(defects - found),
        "claimed_count": n_claimed,
        "intended_count": n_intended,
        "unkeyed_count": len(tps | fps | visible),
        "unkeyed_tp_count": len(tps),
        "unkeyed_fp_count": len(fps),
        "unclassified_count": len(unclassified),
    }


def keyed_ratios(n, filters):
    precision = divide(n["claimed_count"] + n["unkeyed_tp_count"], n["candidate_count"] - n["intended_count"])
    if n["unclassified_count"] or "producer" in filters:
        precision = None
    return {"precision": precision, "recall": divide(n["found_count"], n["found_count"] + n["missed_count"])}


F_PARTS = {
    "reviewbench": {
        "grounded_f": ("grounded_precision", "grounded_recall"),
        "augmented_f": ("augmented_precision", "augmented_recall"),
    },
    "answer-key": {"f": ("precision", "recall")},
}
SETS = {"reviewbench": reviewbench_sets, "answer-key": keyed_sets}
RATIOS = {"reviewbench": reviewbench_ratios, "answer-key": keyed_ratios}
STRATA = {"reviewbench": ["severity", "category"], "answer-key": ["severity", "difficulty", "category"]}
#: Ratios that one unclassified candidate anywhere makes undefined (rule 10).
NEEDS_LABELS = {"augmented_precision", "augmented_recall", "novel_tp_yield", "precision"}


def narrowed(filters, axis, value):
    return {**filters, axis: [value] if value in filters.get(axis, [value]) else []}


def values_of(pr, filters, axis):
    keyed = {record["candidate"] for record in pr.get("classifications", [])}
    found = {golden_value(golden, axis) for golden in pr["golden"] if golden_inside(golden, filters)}
    found |= {
        record.get(axis)
        for record in pr.get("classifications", [])
        if record["candidate"] in keyed and label_inside(record, filters)
    }
    return found - {None}


def as_float(value):
    return float(value) if isinstance(value, Fraction) else value


def finish(protocol, counts, ratios, beta):
    ratios = dict(ratios)
    for name, (precision, recall) in F_PARTS[protocol].items():
        ratios[name] = f_beta(ratios[precision], ratios[recall], beta)
    return {**counts, **{name: as_float(value) for name, value in ratios.items()}}


def aggregate(protocol, prs, filters, beta):
    """Micro and macro of one set, and the number of pull requests behind each macro mean."""
    parts = [SETS[protocol](pr, filters) for pr in prs]
    names = SETS[protocol]({"golden": [], "candidates": [], "correspondences": []}, filters)
    total = {name: sum(part[name] for part in parts) for name in names}
    each = [RATIOS[protocol](part, filters) for part in parts]
    macro, n = {}, {}
    for name in RATIOS[protocol](total, filters):
        macro[name], n[name] = average(values[name] for values in each)
        if total["unclassified_count"] and name in NEEDS_LABELS:
            macro[name] = None
    micro = RATIOS[protocol](total, filters)
    return finish(protocol, total, micro, beta), finish(protocol, total, macro, beta), n


def score(bundle, beta=1, filters=None, protocol="reviewbench"):
    filters = {axis: sorted(values) for axis, values in (filters or {}).items()}
    prs = bundle["pull_requests"]
    micro, macro, n = {}, {}, {}
    micro["overall"], macro["overall"], n["overall"] = aggregate(protocol, prs, filters, beta)
    for axis in STRATA[protocol]:
        name = f"by_{axis}"
        micro[name], macro[name], n[name] = {}, {}, {}
        for value in set().union(*(values_of(pr, filters, axis) for pr in prs)):
            inside = narrowed(filters, axis, value)
            micro[name][value], macro[name][value], n[name][value] = aggregate(protocol, prs, inside, beta)
    per_pr = []
    for pr in prs:
        entry = {"key": pr["key"], "overall": aggregate(protocol, [pr], filters, beta)[0]}
        for axis in STRATA[protocol]:
            entry[f"by_{axis}"] = {
                value: aggregate(protocol, [pr], narrowed(filters, axis, value), beta)[0]
                for value in values_of(pr, filters, axis)
            }
        per_pr.append(entry)
    return {
        "format": "crb.score/1",
        "protocol": protocol,
        "beta": float(beta),
        "filters": filters,
        "macro": {**macro, "n": n},
        "micro": micro,
        "per_pull_request": per_pr,
    }


def golden_comments_counts(pr, categories, groups):
    """Seed C step 2.5 and 3, rule 18: sizes for one pull request under a profile."""
    pairs = matches(pr)
    included = {g for g, golden in enumerate(pr["golden"]) if golden_value(golden, "category") in categories}
    found = {golden for _, golden in pairs}
    group_of = {c: number for number, group in enumerate(groups) for c in group}
    noise = set()
    for candidate in range(len(pr["candidates"])):
        group = group_of.get(candidate, f"alone {candidate}")
        siblings = {c for c in range(len(pr["candidates"])) if group_of.get(c, f"alone {c}") == group}
        if not any(c in siblings for c, _ in pairs):
            noise.add(group)
    everything = set(range(len(pr["golden"])))
    return {
        "tp": len(included & found),
        "fn": len(included - found),
        "fp": len(noise),
        "matched_excluded_count": len((everything - included) & found),
    }
