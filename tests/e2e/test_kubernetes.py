"""The manifests of examples/kubernetes: Kubernetes' own schemas take them, what the schemas leave open is
as it should be, what refers to something finds it, and prony takes what they give it. No cluster and no
network: PyPI's kubernetes-validate brings the schemas of each release."""
import copy
import re
import shlex

import jsonschema
import kubernetes_validate
import pytest
import yaml

from conftest import ROOT
from service import make_certificate

FOLDER = ROOT / "examples/kubernetes"
FILES = sorted(FOLDER.glob("*.yml"))
PAGE = (ROOT / "docs/cluster.md").read_text()
VERSIONS = ("1.25", kubernetes_validate.latest_version())  # the first that is carried, and the last

# To the schemas a name, an amount and a path are any text, and nothing has to be limited.
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
AMOUNTS = {"additionalProperties": {"pattern": r"^\d+(\.\d+)?(m|Ki|Mi|Gi|Ti|k|M|G|T)?$"}}
ONE_KIND = {"minProperties": 2, "maxProperties": 2}  # beside the volume's name
OBJECT = {"properties": {"metadata": {"properties": {"name": NAME}}}}
POD = {
    "required": ["securityContext", "automountServiceAccountToken"],
    "properties": {
        "automountServiceAccountToken": {"const": False},
        "securityContext": {"required": ["runAsNonRoot", "seccompProfile"],
                            "properties": {"runAsNonRoot": {"const": True}}},
        "volumes": {"items": {"properties": {"name": NAME}, **ONE_KIND}},
        "containers": {"items": {
            "required": ["image", "command", "resources", "securityContext", "volumeMounts"],
            "properties": {
                "image": {"pattern": r"^[a-z0-9./-]+:[\w.-]+$"},
                "resources": {"required": ["requests", "limits"],
                              "properties": {"requests": AMOUNTS, "limits": AMOUNTS}},
                "securityContext": {
                    "required": ["allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"],
                    "properties": {"allowPrivilegeEscalation": {"const": False},
                                   "readOnlyRootFilesystem": {"const": True},
                                   "capabilities": {"const": {"drop": ["ALL"]}}}},
                "volumeMounts": {"items": {"properties": {"mountPath": {"pattern": "^/[^:]*$"}}}},
            }}}}}
CLAIM = {"properties": {"resources": {"properties": {"requests": AMOUNTS}}}}


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


def check(document):
    """Raises one of FAULTS."""
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)
    jsonschema.validate(document, OBJECT)
    spec = document.get("spec", {})
    if "template" in spec:
        jsonschema.validate(spec["template"]["spec"], POD)
    if document["kind"] == "PersistentVolumeClaim":
        jsonschema.validate(spec, CLAIM)


FAULTS = (kubernetes_validate.ValidationError, jsonschema.ValidationError)
ALL = [d for path in FILES for d in documents(path)]


def find(kind):
    return [d for d in ALL if d["kind"] == kind]


def pods():
    return [d["spec"]["template"] for d in ALL if d["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("document", ALL, ids=lambda d: f"{d['kind']}-{d['metadata']['name']}")
def test_they_are_valid(document):
    check(document)


@pytest.mark.parametrize("damage", [
    lambda d: d["spec"]["template"]["spec"].pop("containers"),
    lambda d: d["spec"].update(replica=1),
    lambda d: d["spec"].update(replicas="one"),
    lambda d: d.update(apiVersion="apps/v1beta1"),
    lambda d: d["spec"]["template"]["spec"].update(securityContexts={}),
    lambda d: d["spec"]["template"]["spec"]["containers"][0].update(command="prony"),
    lambda d: d["spec"]["template"]["spec"]["containers"][0].pop("command"),
    lambda d: d["spec"]["template"]["spec"]["volumes"][0].update(emptyDir={}),
    lambda d: d["spec"]["template"]["spec"]["securityContext"].pop("runAsNonRoot"),
    lambda d: d["metadata"].update(name="Prony_1"),
    lambda d: d["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="1 core"),
])
def test_faults_are_found(damage):
    document = copy.deepcopy(find("Deployment")[0])
    damage(document)
    with pytest.raises((*FAULTS, kubernetes_validate.SchemaNotFoundError)):
        check(document)


def test_what_refers_to_something_finds_it():
    names = {(d["kind"], d["metadata"]["name"]) for d in ALL}
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
                assert re.search(rf"kubectl create secret \S+ {volume['secret']['secretName']}\b", PAGE)
    deployment, = find("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    service, = find("Service")
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]):
        assert selector.items() <= labels.items()
    job, = find("Job")
    assert not service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_prony_takes_the_configuration(prony, workdir):
    text = find("ConfigMap")[0]["data"]["serve.yml"]
    make_certificate(workdir)
    text = (text.replace("/run/prony/tls/tls.crt", "cert.pem").replace("/run/prony/tls/tls.key", "key.pem")
            .replace("0.0.0.0:50051", "127.0.0.1:0").replace("/var/lib/prony/state", "state"))
    (workdir / "serve.yml").write_text(text + "colour: red\n")
    done = prony("serve", "--config", "serve.yml")
    assert f"line {text.count(chr(10)) + 1}: unknown key 'colour'" in done.stderr  # and nothing before


def test_prony_takes_the_command_lines(prony, workdir):
    """Of both containers, and of the page: what they lack is the files, which would be in this folder."""
    def call(command, *more):
        assert command[0] == "prony"
        return prony(*(f"{workdir}{word}" if word.startswith("/") else word for word in command[1:]), *more)

    (serve,), (worker,) = ([c["command"] for c in pod["spec"]["containers"]] for pod in pods())
    for command, path in ((serve, "/etc/prony/serve.yml"), (worker, "/run/prony/token/token")):
        done = call(command)
        assert done.status == 1 and f"'{workdir}{path}': No such file or directory" in done.stderr
        assert call(command, "--colour").status == 2  # what the tables don't know
    token = shlex.split(re.search(r"^\$ kubectl exec deploy/prony -- (.*) > token$", PAGE,
                                  re.MULTILINE).group(1))
    (workdir / "var/lib/prony").mkdir(parents=True)
    done = call(token)
    assert done.status == 0 and re.fullmatch(r"prony_\S+\n", done.stdout)


def test_worker_and_service_find_each_other():
    (worker,), = ([c["command"] for c in pod["spec"]["containers"]] for pod in pods()[1:])
    config = yaml.safe_load(find("ConfigMap")[0]["data"]["serve.yml"])
    assert worker[worker.index("--hardware") + 1] in [p["name"] for p in config["pools"]]
    service, = find("Service")
    assert worker[worker.index("--server") + 1] == (
        f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}")
    folders = [m["mountPath"] for m in pods()[1]["spec"]["containers"][0]["volumeMounts"]]
    for option in ("--token-file", "--ca"):
        path = worker[worker.index(option) + 1]
        assert [f for f in folders if path.startswith(f + "/")]
