"""The queries of the dashboard for Graphite through graphite-web's own render interface, over what a real Carbon stored.

Arguments: the folder of Carbon, the dashboard, the prefix of the names. Runs with the Python of the distribution, for which
graphite-web is installed; ends with 77 where it is not. Fails if a query is not understood, or if one of a counter that the
run has published gives no value.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

storage, dashboard, prefix = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
own = tempfile.mkdtemp()
Path(own, "render_settings.py").write_text(
    f"""
SECRET_KEY = "of a test"
STORAGE_DIR = {str(storage)!r}
WHISPER_DIR = {str(storage / "whisper")!r}
CONF_DIR = LOG_DIR = {own!r}
INDEX_FILE = {own + "/index"!r}
CARBONLINK_HOSTS = []
CLUSTER_SERVERS = []
LOG_ROTATION = False
ALLOWED_HOSTS = ["*"]
TIME_ZONE = "UTC"
DATABASES = {{"default": {{"NAME": ":memory:", "ENGINE": "django.db.backends.sqlite3"}}}}
"""
)
sys.path.insert(0, own)
os.environ |= {"GRAPHITE_SETTINGS_MODULE": "render_settings", "DJANGO_SETTINGS_MODULE": "graphite.settings"}
try:
    import django
    import graphite  # noqa: F401
except ImportError as error:
    print(f"skipped: no graphite-web ({error}): apt-get install graphite-web")
    sys.exit(77)
django.setup()
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

call_command("migrate", verbosity=0, run_syncdb=True)
client = Client(raise_request_exception=False)


def render(target: str) -> list:
    answer = client.get("/render", {"target": target, "format": "json", "from": "-10min", "noCache": "1"})
    if answer.status_code != 200:
        sys.exit(f"{target}: {answer.status_code} {answer.content[:500]!r}")
    return json.loads(answer.content)


stored = {str(path.relative_to(storage / "whisper")).removesuffix(".wsp").replace("/", ".")
          for path in (storage / "whisper").rglob("*.wsp")}
queries = filled = 0
panels = json.loads(dashboard.read_text())["panels"]
# A closed row holds its graphs.
for panel in [graph for panel in panels for graph in panel.get("panels", [panel])]:
    for target in panel["targets"]:
        query = target["target"].replace("$prefix", prefix)
        series = render(query)
        queries += 1
        if ".machine.cpu." in query and not series:
            sys.exit(f"{panel['title']}: {query}: no core")
        # `alias(perSecond(NAME), 'x')` or `alias(NAME, 'x')`
        name = query.removeprefix("alias(").removeprefix("perSecond(").split(",")[0].rstrip(")")
        if name not in stored:
            continue
        points = [value for one in render(name) for value, _ in one["datapoints"] if value is not None]
        if len(points) < 2:
            # Registered as the run ended: there is no rate yet.
            continue
        values = [value for one in series for value, _ in one["datapoints"] if value is not None]
        if not values:
            sys.exit(f"{panel['title']}: {query}: nothing, although Carbon has {name}")
        filled += 1
print(f"{queries} queries understood, {filled} with values")
if filled < 5:
    sys.exit(f"only {filled} queries have values; Carbon has {len(stored)} counters")
