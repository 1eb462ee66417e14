"""The Grafana dashboard, Prometheus's configuration and the operators' page name metrics that really exist."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from crb_core.store import open_store
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.metrics import SchedulerMetrics
from crb_worker.app import BrokerClient
from crb_worker.metrics import WorkerMetrics
from tests.crb_core.store.planned import plan

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docker" / "grafana"
#: A metric name in a PromQL expression: not a function, label or keyword, which are followed or preceded otherwise.
NAME = re.compile(r"\b(?:crb|process|flower)_[a-z_]+\b")
#: Labels that Prometheus adds to what it scrapes.
OF_PROMETHEUS = {"instance", "job"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",), "gauge": ("",)}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The names that a worker and a scheduler serve, with the labels of none of them."""
    folder = tmp_path_factory.mktemp("farm")
    store = open_store(f"sqlite:///{folder / 'crb.sqlite'}")
    plan(store)
    scheduler = SchedulerMetrics()
    with EmbeddedBroker(folder / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        scheduler.watch_farm(store, client, lease_seconds=30)
        found = {"worker": _names(WorkerMetrics().registry), "scheduler": _names(scheduler.registry)}
        client.close()
    store.close()
    return found


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every metric that a worker or a scheduler serves, by the name that Prometheus shows."""
    folder = tmp_path_factory.mktemp("labels")
    store = open_store(f"sqlite:///{folder / 'crb.sqlite'}")
    planned = plan(store)
    planned.queue(*planned.ids())
    worker, scheduler = WorkerMetrics(), SchedulerMetrics()
    worker.attempt_ended("a", "succeeded", phases_ms={"prepare": 1.0}, review_ms=1.0)
    worker.set_slots({"review": 1})
    worker.judge_step_ended("match", "done", 1.0)
    worker.late.labels("review").inc()
    with worker.holding("review", 1.0):
        pass
    for usage in ({"input_tokens": 1, "list_price_usd": 1.0, "charge_usd": 1.0}, {}):
        worker.judge_call_ended("m", "answered", milliseconds=1.0, usage=usage)
    found: dict[str, set[str]] = {}
    with EmbeddedBroker(folder / "broker-folder") as broker:
        client = BrokerClient(broker.url)
        scheduler.watch_farm(store, client, lease_seconds=30)
        for registry in (worker.registry, scheduler.registry):
            for family in registry.collect():
                assert family.samples, f"{family.name} has no sample here, so nobody knows its labels"
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
        client.close()
    store.close()
    return found


def _names(registry: CollectorRegistry) -> set[str]:
    return {family.name + suffix for family in registry.collect() for suffix in SUFFIXES[family.type]}


@cache
def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "crb.json").read_text())
    return document


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_panel_asks_for_metrics_that_exist(panel: dict[str, Any], registries: dict[str, set[str]]) -> None:
    """Each expression names at least one metric, and each name is served by a worker or a scheduler."""
    served = registries["worker"] | registries["scheduler"]
    assert panel["targets"]
    for target in panel["targets"]:
        named = set(NAME.findall(target["expr"]))
        assert named
        assert named <= served, named - served
        assert target["expr"].count("(") == target["expr"].count(")")
        assert target["expr"].count("{") == target["expr"].count("}")
        if "histogram_quantile" in target["expr"]:
            assert re.search(r"by \(le\b", target["expr"]), "a quantile needs the buckets"
        for counter in (name for name in named if name.endswith(("_total", "_bucket"))):
            window = re.search(rf"(rate|increase)\({counter}", target["expr"])
            assert window, f"{counter} only ever rises; a panel shows its rate"


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_panel_asks_for_labels_that_exist(panel: dict[str, Any], labels: dict[str, set[str]]) -> None:
    """Those that it selects, groups by and shows belong to each metric of the expression."""
    for target in panel["targets"]:
        expression, named = target["expr"], set(NAME.findall(target["expr"]))
        selectors = re.findall(r"\{([^}]*)\}", expression)
        asked = {label for selector in selectors for label in re.findall(r"(\w+)\s*[=!]", selector)}
        for group in re.findall(r"\bby \(([^)]*)\)", expression):
            asked |= {label.strip() for label in group.split(",")}
        asked |= set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat") or ""))
        for name in named:
            assert asked - OF_PROMETHEUS <= labels[name], (name, asked - OF_PROMETHEUS - labels[name])
        shown = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat") or ""))
        groups = re.findall(r"^sum by \(([^)]*)\)", expression)
        assert not groups or shown <= {label.strip() for label in groups[0].split(",")}, "a legend shows what is left"


def test_every_metric_of_ours_is_on_the_dashboard(registries: dict[str, set[str]]) -> None:
    """A metric that nobody can see is not there; a histogram counts by any of its series."""
    shown = {name for panel in panels() for target in panel["targets"] for name in NAME.findall(target["expr"])}
    ours = {name for names in registries.values() for name in names if name.startswith("crb_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert families - {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} == set()


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """Panels with ids of their own that lie side by side without overlapping, every query with the chosen source."""
    document = dashboard()
    assert document["schemaVersion"] >= 39
    assert document["uid"] == "crb-farm"
    ids = [panel["id"] for panel in document["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]} == {"${datasource}"}
    variables = {variable["name"] for variable in document["templating"]["list"]}
    used = {
        name for panel in panels() for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])
    }
    assert used - {"__rate_interval", "__range"} <= variables


def test_two_schedulers_do_not_count_the_store_twice(registries: dict[str, set[str]]) -> None:
    """What a scheduler reads in the store is in no sum unless a max is taken first."""
    own = {"crb_steps_published_total", "crb_steps_lost_total", "crb_dispatch_seconds", "crb_scheduler"}
    read = {name for name in registries["scheduler"] - registries["worker"] if not name.startswith(tuple(own))}
    for panel in panels():
        for target in panel["targets"]:
            for name in set(NAME.findall(target["expr"])) & read:
                assert re.search(rf"(max|min)( by \([a-z, ]+\))? \({name}|(max|min)\({name}", target["expr"]), name


def test_prometheus_scrapes_the_services_of_compose_at_the_port_that_they_serve() -> None:
    """The names and the port are those of compose.yaml; Prometheus and Grafana start with their profile only."""
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = compose["services"]
    (found,) = scrape[0]["dns_sd_configs"]
    for name in found["names"]:
        assert services[name]["environment"]["CRB_METRICS_PORT"] == str(found["port"])
    assert {name for name, service in services.items() if "monitoring" in service.get("profiles", [])} == {
        "prometheus",
        "grafana",
    }
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", []))
    for volume in (*services["prometheus"]["volumes"], *services["grafana"]["volumes"]):
        source = volume.split(":")[0]
        assert not source.startswith("./") or (ROOT / source).is_file()


def test_the_operators_page_lists_every_metric(registries: dict[str, set[str]]) -> None:
    """By the name that Prometheus shows; histograms without their suffixes."""
    page = (ROOT / "docs" / "operators.md").read_text()
    ours = {name for names in registries.values() for name in names if name.startswith("crb_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert {name for name in families if f"`{name}`" not in page} == set()
