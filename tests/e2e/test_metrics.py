"""Metrics of a service, as Prometheus reads them, and the rules and the board that are made of them."""
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request

import grpc
import pytest
import yaml

from conftest import ROOT
from service import (LOCAL, SMALL, X, base, create_request, eventually, free_port, make_certificate,
                     serving)

EXAMPLES = ROOT / "examples/monitoring"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    not PROMTOOL, reason="promtool isn't installed; it comes with the Debian package prometheus")
CONFIG = """
listen: 127.0.0.1:0
http: 127.0.0.1:{http}
pools:
  - {{name: local, count: 1, usd_per_hour: 3600}}
quota: {{users: {{local: 1}}}}
limits: {{run_timeout: 1h}}
"""
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")


class Metrics:
    """One scrape."""

    def __init__(self, text):
        self.text = text
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
        self.samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, number = SAMPLE.fullmatch(line).groups()
                pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
                key = (name, frozenset(pairs))
                assert key not in self.samples, line
                self.samples[key] = float(number)

    def get(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    @property
    def names(self):
        return {name for name, _ in self.samples}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("metrics") / "s",
                 config=CONFIG.format(http=free_port())) as running:
        yield running


@pytest.fixture
def scrape(service):
    return lambda: Metrics(service.http("/metrics")[1])


def test_calls_by_method_and_code(service, scrape):
    with service.client() as client:
        before = scrape()
        for _ in range(3):
            client.ping()
        client.refused("CreateSession", create_request())
        after = scrape()
    calls = "prony_rpc_calls_total"

    def more(name, **labels):
        return after.get(name, **labels) - (before.get(name, **labels) or 0)
    assert more(calls, method="Ping", code="OK") == 3
    assert more(calls, method="CreateSession", code="INVALID_ARGUMENT") == 1
    assert more("prony_rpc_duration_seconds_count", method="Ping") == 3
    assert more("prony_rpc_duration_seconds_sum", method="Ping") > 0


def test_histograms_add_up(service, scrape):
    with service.client() as client:
        client.ping()
    found = scrape()
    assert found.types["prony_rpc_duration_seconds"] == "histogram"
    buckets = sorted((float("inf") if le == "+Inf" else float(le), count)
                     for (name, labels), count in found.samples.items()
                     if name == "prony_rpc_duration_seconds_bucket"
                     for le in [dict(labels)["le"]] if dict(labels)["method"] == "Ping")
    counts = [count for _, count in buckets]
    assert counts == sorted(counts) and buckets[-1][0] == float("inf")
    assert counts[-1] == found.get("prony_rpc_duration_seconds_count", method="Ping")


def test_a_session_is_counted(service, scrape):
    before = scrape()
    with service.client() as client:
        session = client.session()
        session.load(SMALL)
        session.infer([X])
        held = scrape()
        assert client.create(LOCAL).HasField("error_value")  # over the quota
        session.close()
        eventually(lambda: client.status().hardware[0].free == 1, "the host is back")
    after = scrape()

    def more(name, **labels):
        return after.get(name, **labels) - (before.get(name, **labels) or 0)
    assert held.get("prony_hosts", hardware="local", state="held") == 1
    assert more("prony_session_wait_seconds_count", hardware="local") == 1
    assert more("prony_task_duration_seconds_count", kind="run") == 1
    assert more("prony_task_duration_seconds_count", kind="load") == 1
    assert more("prony_sessions_ended_total", outcome="closed") == 1
    assert more("prony_refusals_total", reason="quota") == 1
    # A dollar a second.
    seconds = after.get("prony_host_seconds_total", user="local", hardware="local")
    dollars = after.get("prony_host_dollars_total", user="local", hardware="local")
    assert 0 < held.get("prony_host_seconds_total", user="local", hardware="local") <= seconds
    assert dollars == pytest.approx(seconds)
    assert scrape().get("prony_host_seconds_total", user="local", hardware="local") == seconds


def test_an_executor_that_dies_is_counted(service, scrape):
    with service.client() as client:
        session = client.session()
        session.load(SMALL)
        for pid in service.children("executor"):
            os.kill(pid, signal.SIGKILL)
        assert session.run([X], mode=base.INFERENCE)[0].HasField("error_value")
        session.close()
    said = service.said(r"executor\.died")
    assert "cause=crash" in said and "backend=local/onnxrt-cpu" in said
    assert scrape().get("prony_executor_deaths_total", cause="crash") == 1
    assert scrape().get("prony_executor_deaths_total", cause="timeout") == 0


def test_the_process_and_the_build(service, scrape):
    found = scrape()
    version = service.said("serves on", "out").split()[1]
    assert found.get("prony_build_info", version=version) == 1
    assert abs(found.get("process_start_time_seconds") - time.time()) < 3600
    assert found.get("process_resident_memory_bytes") > 1 << 20
    assert 0 < found.get("process_open_fds") < found.get("process_max_fds")
    assert found.get("process_cpu_seconds_total") > 0
    with service.client() as client:
        client.ping()
        assert scrape().get("prony_connections", protocol="grpc") >= 1
    assert scrape().get("prony_connections", protocol="http") >= 1
    assert found.get("prony_certificate_expiry_timestamp_seconds") is None


def test_certificate_and_wrong_tokens(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    certificate, _ = make_certificate(folder)
    config = (f"listen: 127.0.0.1:0\nhttp: 127.0.0.1:{free_port()}\n"
              "tls: {certificate: cert.pem, key: key.pem}\n")
    with serving(folder, config=config) as service:
        where = next(line.split()[-1] for line in config.splitlines() if line.startswith("http:"))
        context = ssl.create_default_context(cafile=certificate)

        def scrape():
            with urllib.request.urlopen(f"https://{where}/metrics", context=context) as answer:
                return Metrics(answer.read().decode())
        end = ssl.cert_time_to_seconds(re.search("notAfter=(.*)", subprocess.run(
            ["openssl", "x509", "-enddate", "-noout", "-in", certificate], check=True,
            capture_output=True, text=True).stdout).group(1))
        assert scrape().get("prony_certificate_expiry_timestamp_seconds") == end
        assert scrape().get("prony_refusals_total", reason="token") == 0
        with service.client("prony_" + "x" * 43, certificate) as client:
            code, _ = client.refused("Ping", base.PingRequest())
            assert code == grpc.StatusCode.UNAUTHENTICATED
        assert scrape().get("prony_refusals_total", reason="token") == 1


def used_metrics(text):
    return set(re.findall(r"\b(?:prony|process)_[a-z_]+\b", text))


def test_rules_and_board_use_what_there_is(service, scrape):
    """Every name that an expression has is one that the service gives, or gives under TLS."""
    with service.client() as client:
        session = client.session()
        session.load(SMALL)
        session.infer([X])
        session.close()
        eventually(lambda: client.status().hardware[0].free == 1, "the host is back")
    there = scrape().names | {"prony_certificate_expiry_timestamp_seconds"}
    rules = [rule["expr"] for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
             for rule in group["rules"]]
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(rules) > 10 and len(shown) > 15
    for expression in rules + shown:
        used = used_metrics(expression)
        assert used - there == set() and (used or "up{" in expression), expression


def promtool(*words, **more):
    done = subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_promtool_takes_the_metrics(service, scrape):
    assert promtool("check", "metrics", input=scrape().text) == ""


@needs_promtool
def test_promtool_takes_rules_and_board(tmp_path):
    promtool("check", "rules", EXAMPLES / "alerts.yml")
    promtool("check", "config", EXAMPLES / "prometheus.yml")
    promtool("test", "rules", EXAMPLES / "alerts_test.yml")
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    rules = [{"record": f"panel:n{i}", "expr": target["expr"].replace("$instance", ".*")}
             for i, target in enumerate(t for panel in board["panels"] for t in panel["targets"])]
    path = pathlib.Path(tmp_path / "board.yml")
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    promtool("check", "rules", path)
