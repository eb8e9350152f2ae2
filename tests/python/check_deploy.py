"""Checks deploy/compose.yaml and deploy/kubernetes.yaml: `check_deploy.py FILE SCHEMAS`.

Against their schemas (vectors/schemas), and for what schemas do not see: names that refer to something in the file. Prints the
command lines of Fullcount in it as JSON: [[argument, ...], ...]. Exit code 1 with what is wrong.
"""

import json
import re
import sys
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

SECTORS = "metadata.labels['apps.kubernetes.io/pod-index']"


def refused(schema, document, name):
    errors = Draft202012Validator(schema).iter_errors(document)
    return [f"{name}: {'.'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in errors]


def compose(document, schema):
    wrong = refused(schema, document, "compose")
    if wrong:
        return wrong, []
    commands = []
    published = {}
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            if volume.split(":")[0] not in document["volumes"]:
                wrong.append(f"{name}: there is no volume {volume}")
        for port in service.get("ports", []):
            outside = port.rsplit(":", 1)[0].rsplit(":", 1)[-1] + ("/udp" if port.endswith("/udp") else "")
            if published.setdefault(outside, name) != name:
                wrong.append(f"{name}: port {outside} is that of {published[outside]}")
        if service["image"] == "fullcount":
            commands.append(service["command"])
    used = {v.split(":")[0] for s in document["services"].values() for v in s.get("volumes", [])}
    wrong += [f"nobody uses the volume {name}" for name in set(document["volumes"]) - used]
    return wrong, commands


def stateful_set(document, services):
    name, spec = document["metadata"]["name"], document["spec"]
    template = spec["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    wrong = []
    if not spec["selector"]["matchLabels"].items() <= labels.items():
        wrong.append(f"{name}: the selector does not find its own pods")
    service = services.get(spec["serviceName"])
    if service is None or not service["spec"]["selector"].items() <= labels.items():
        wrong.append(f"{name}: no service {spec['serviceName']} finds its pods")
    claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    commands = []
    for container in pod["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in claims:
                wrong.append(f"{name}: there is no volume {mount['name']}")
        ports = {port["name"] for port in container.get("ports", [])}
        for kind in ("readinessProbe", "livenessProbe"):
            probe = container.get(kind, {}).get("httpGet", {}).get("port")
            if probe is not None and probe not in ports:
                wrong.append(f"{name}: there is no port {probe}")
        values = {v["name"]: v["valueFrom"]["fieldRef"]["fieldPath"] for v in container.get("env", [])}
        for pod_number in range(spec["replicas"]):
            known = {SECTORS: str(pod_number), "metadata.name": f"{name}-{pod_number}"}

            def value(match):
                path = values.get(match[1])
                if path not in known:
                    wrong.append(f"{name}: $({match[1]}) is not set")
                return known.get(path, "")

            commands.append([re.sub(r"\$\((\w+)\)", value, argument) for argument in container["args"]])
    return wrong, commands


def kubernetes(documents, schema):
    wrong, commands = [], []
    for document in documents:
        kind = f"{document.get('apiVersion')}/{document.get('kind')}"
        definition = schema["kinds"].get(kind)
        if definition is None:
            wrong.append(f"{kind}: none of {sorted(schema['kinds'])}")
            continue
        root = {"$ref": f"#/$defs/{definition}", "$defs": schema["$defs"]}
        wrong += refused(root, document, f"{kind} {document.get('metadata', {}).get('name')}")
    if wrong:
        return wrong, []
    services = {d["metadata"]["name"]: d for d in documents if d["kind"] == "Service"}
    for document in documents:
        if document["kind"] == "StatefulSet":
            more, these = stateful_set(document, services)
            wrong += more
            commands += these
    return wrong, commands


def main(path, schemas):
    documents = list(yaml.safe_load_all(path.read_text()))
    if path.name == "compose.yaml":
        schema = json.loads((schemas / "compose-spec.json").read_text())
        wrong, commands = compose(documents[0], schema)
    else:
        schema = json.loads((schemas / "kubernetes-1.34.json").read_text())
        wrong, commands = kubernetes(documents, schema)
    if wrong:
        sys.exit("\n".join(wrong))
    print(json.dumps(commands))


main(Path(sys.argv[1]), Path(sys.argv[2]))
