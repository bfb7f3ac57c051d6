"""The manifests of examples/kubernetes: their fields are the ones that Kubernetes has, what refers to
something finds it, and prony takes what they give it. No cluster and no network."""
import re

import jsonschema
import pytest
import yaml

from conftest import ROOT
from service import make_certificate

FOLDER = ROOT / "examples/kubernetes"
FILES = sorted(FOLDER.glob("*.yml"))

# Of the API's schema (v1, apps/v1, batch/v1) what the manifests use. Nothing else is let through, so
# that a field in the wrong place or with a wrong name is found.
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
PATH = {"type": "string", "pattern": "^/[^:]*$"}
QUANTITY = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|Ki|Mi|Gi|Ti|k|M|G|T)?$"}
COUNT = {"type": "integer", "minimum": 0}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
TRUTH = {"type": "boolean"}
MODE = {"type": "integer", "minimum": 0, "maximum": 0o777}
LABEL = r"^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"


def obj(required="", **fields):
    return {"type": "object", "properties": fields, "required": required.split(),
            "additionalProperties": False}


def many(item, least=1):
    return {"type": "array", "items": item, "minItems": least}


LABELS = {"type": "object", "minProperties": 1, "additionalProperties": False,
          "patternProperties": {LABEL: {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,63}$"}}}
SELECTOR = obj("matchLabels", matchLabels=LABELS)
AMOUNTS = obj(cpu=QUANTITY, memory=QUANTITY, storage=QUANTITY)
PROBE = obj("tcpSocket", tcpSocket=obj("port", port={"anyOf": [PORT, NAME]}), periodSeconds=COUNT)
CONTAINER = obj(
    "name image args resources securityContext volumeMounts", name=NAME,
    image={"type": "string", "pattern": r"^[a-z0-9./-]+:[\w.-]+$"}, args=many({"type": "string"}),
    ports=many(obj("containerPort", name=NAME, containerPort=PORT)), readinessProbe=PROBE,
    livenessProbe=PROBE, resources=obj("requests", requests=AMOUNTS, limits=AMOUNTS),
    securityContext=obj(
        "allowPrivilegeEscalation capabilities", allowPrivilegeEscalation={"const": False},
        readOnlyRootFilesystem=TRUTH, capabilities=obj("drop", drop={"const": ["ALL"]})),
    volumeMounts=many(obj("name mountPath", name=NAME, mountPath=PATH, readOnly=TRUTH)))
VOLUME = {**obj(
    "name", name=NAME, configMap=obj("name", name=NAME),
    secret=obj("secretName", secretName=NAME, defaultMode=MODE,
               items=many(obj("key path", key={"type": "string"}, path={"type": "string"}))),
    persistentVolumeClaim=obj("claimName", claimName=NAME), emptyDir=obj()),
    "minProperties": 2, "maxProperties": 2}
ANTI_AFFINITY = obj("requiredDuringSchedulingIgnoredDuringExecution",
                    requiredDuringSchedulingIgnoredDuringExecution=many(
                        obj("topologyKey labelSelector", topologyKey={"type": "string"},
                            labelSelector=SELECTOR)))
POD = obj(
    "metadata spec", metadata=obj("labels", labels=LABELS),
    spec=obj(
        "containers securityContext automountServiceAccountToken", containers=many(CONTAINER),
        volumes=many(VOLUME), restartPolicy={"enum": ["Always", "OnFailure", "Never"]},
        automountServiceAccountToken={"const": False}, terminationGracePeriodSeconds=COUNT,
        affinity=obj(podAntiAffinity=ANTI_AFFINITY),
        securityContext=obj("runAsNonRoot", runAsNonRoot={"const": True}, runAsUser=COUNT,
                            runAsGroup=COUNT, fsGroup=COUNT,
                            seccompProfile=obj("type", type={"enum": ["RuntimeDefault"]}))))
KINDS = {
    ("v1", "ConfigMap"): ("data", {"data": {"type": "object",
                                            "additionalProperties": {"type": "string"}}}),
    ("v1", "PersistentVolumeClaim"): ("spec", {"spec": obj(
        "accessModes resources", accessModes=many({"enum": ["ReadWriteOnce", "ReadWriteMany"]}),
        resources=obj("requests", requests=AMOUNTS))}),
    ("v1", "Service"): ("spec", {"spec": obj("selector ports", selector=LABELS, ports=many(obj(
        "port", name=NAME, port=PORT, targetPort={"anyOf": [PORT, NAME]},
        protocol={"enum": ["TCP", "UDP"]})))}),
    ("apps/v1", "Deployment"): ("spec", {"spec": obj(
        "selector template", replicas=COUNT, selector=SELECTOR, template=POD,
        strategy=obj("type", type={"enum": ["Recreate", "RollingUpdate"]}))}),
    ("batch/v1", "Job"): ("spec", {"spec": obj(
        "template", parallelism=COUNT, completions=COUNT, backoffLimit=COUNT,
        ttlSecondsAfterFinished=COUNT, template=POD)}),
}


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


def check(document):
    """Raises jsonschema.ValidationError."""
    required, fields = KINDS[document["apiVersion"], document["kind"]]
    jsonschema.validate(document, obj(
        f"apiVersion kind metadata {required}", apiVersion={"type": "string"}, kind={"type": "string"},
        metadata=obj("name", name=NAME, labels=LABELS), **fields))


ALL = [d for path in FILES for d in documents(path)]


def find(kind):
    return [d for d in ALL if d["kind"] == kind]


def pods():
    return [d["spec"]["template"] for d in ALL if d["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_fields_are_the_api_s(path):
    for document in documents(path):
        check(document)


@pytest.mark.parametrize("damage", [
    lambda d: d["spec"]["template"]["spec"].pop("containers"),
    lambda d: d["spec"].update(replica=1),
    lambda d: d["spec"]["template"]["spec"]["containers"][0].update(command="prony"),
    lambda d: d["spec"]["template"]["spec"]["volumes"][0].update(emptyDir={}),
    lambda d: d["metadata"].update(name="Prony_1"),
    lambda d: d["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="1 core"),
])
def test_faults_are_found(damage):
    document = next(d for d in documents(FOLDER / "serve.yml") if d["kind"] == "Deployment")
    check(document)
    damage(document)
    with pytest.raises(jsonschema.ValidationError):
        check(document)


def test_what_refers_to_something_finds_it():
    names = {(d["kind"], d["metadata"]["name"]) for d in ALL}
    page = (ROOT / "docs/cluster.md").read_text()
    for pod in pods():
        spec = pod["spec"]
        volumes = {v["name"]: v for v in spec["volumes"]}
        for container in spec["containers"]:
            mounts = [m["name"] for m in container["volumeMounts"]]
            assert sorted(mounts) == sorted(volumes) and len(set(mounts)) == len(mounts)
            ports = {p["name"] for p in container.get("ports", [])}
            for probe in ("readinessProbe", "livenessProbe"):
                assert probe not in container or container[probe]["tcpSocket"]["port"] in ports
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
            if "secret" in volume:  # the page says how it is made
                assert re.search(rf"kubectl create secret \S+ {volume['secret']['secretName']}\b", page)
    deployment, = find("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    service, = find("Service")
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector.items() <= labels.items()
    job, = find("Job")
    assert not service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_prony_takes_what_they_say(prony, workdir):
    """The configuration, and the arguments of both containers."""
    text = find("ConfigMap")[0]["data"]["serve.yml"]
    make_certificate(workdir)
    text = (text.replace("/run/prony/tls/tls.crt", "cert.pem").replace("/run/prony/tls/tls.key", "key.pem")
            .replace("0.0.0.0:50051", "127.0.0.1:0").replace("/var/lib/prony/state", "state"))
    (workdir / "serve.yml").write_text(text + "colour: red\n")
    done = prony("serve", "--config", "serve.yml")
    assert f"line {text.count(chr(10)) + 1}: unknown key 'colour'" in done.stderr  # and nothing before
    config = yaml.safe_load(text)
    (serve,), (worker,) = ([c["args"] for c in pod["spec"]["containers"]] for pod in pods())
    assert serve[:2] == ["prony", "serve"] and worker[:2] == ["prony", "worker"]
    for arguments in (serve, worker):
        known = prony(arguments[1], "--help").stdout
        for option in (a for a in arguments if a.startswith("--")):
            assert re.search(rf"{option}\b", known)
    assert worker[worker.index("--hardware") + 1] in [p["name"] for p in config["pools"]]
    service, = find("Service")
    assert worker[worker.index("--server") + 1] == (
        f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}")
    folders = [m["mountPath"] for m in pods()[1]["spec"]["containers"][0]["volumeMounts"]]
    for option in ("--token-file", "--ca"):
        path = worker[worker.index(option) + 1]
        assert [f for f in folders if path.startswith(f + "/")]
