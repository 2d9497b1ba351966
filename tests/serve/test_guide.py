"""What docs/service.md tells an operator to type works, in its order, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import numpy as np
import pytest

from support.service import PATIENCE, ServiceProcess

GUIDE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("SFUMATO_")}


def commands(name):
    """The commands of the guide that begin so, without their comments."""
    found = re.findall(rf"^    ({name} .*)$", GUIDE, re.M)
    return [shlex.split(line, comments=True) for line in found]


def run(words, folder):
    """Run a command of the guide."""
    command = [sys.executable, "-m", *words]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=4 * PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class GuidedService(ServiceProcess):
    """A service that is started by a command of the guide, on a free port."""

    def __init__(self, folder, words):
        self.folder, self.words = folder, words
        self.log = folder / "service.log"

    def start(self):
        words = [*self.words, "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words], cwd=self.folder, env=ENVIRONMENT, stderr=log
            )
        self.port = self.until(lambda: self._listening(0))
        self.until(self._ready)
        return self


def answer_to(words, service, secret):
    """Send what a line of curl sends; return the JSON of the answer."""
    words = [word.replace("$KEY", secret) for word in words]
    headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1] if "-d" in words else None
    url = f"http://{words[-1]}".replace("localhost:8000", f"127.0.0.1:{service.port}")
    answer = httpx.request("POST" if body else "GET", url, content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def folder(tmp_path):
    points = np.random.default_rng(0).normal(50, 9, (500, 2)).round(3)
    lines = "\n".join(f"{x},{y}" for x, y in points)
    (tmp_path / "towns.csv").write_text(f"x,y\n{lines}\n")
    return tmp_path


def test_the_first_commands_serve_and_the_example_of_all_settings_too(folder):
    (create,) = commands("sfumato store")
    secret = re.search(r"sfk_[\w-]+", run(create, folder))[0]
    (serve,) = commands("sfumato serve")
    service = GuidedService(folder, serve).start()
    try:
        event, list_ = commands("curl")
        assert answer_to(event, service, secret)["new"] == 1
        service.until(lambda: answer_to(list_, service, secret)["items"])
        assert service.stop() == 0
        for name in ("sfumato telemetry", "sfumato density"):
            (words,) = commands(name)
            run(words, folder)
        text = re.search(r"```toml\n(.*?)```", GUIDE, re.S)[1]
        (folder / "serve.toml").write_text(text)
        service = GuidedService(folder, ["sfumato", "serve", "--config", "serve.toml"]).start()
        names = tomllib.loads(text)
        held = {"authorization": f"Bearer {secret}"}
        url = f"http://127.0.0.1:{service.port}"
        with httpx.Client(base_url=url, headers=held, timeout=PATIENCE) as client:
            shown = client.get("/overview").json()
            assert [each["name"] for each in shown["metrics"]] == list(names["metrics"])
            assert [each["name"] for each in shown["densities"]] == list(names["densities"])
            budgets = {each["dataset"] for each in client.get("/budget").json()["budgets"]}
            assert budgets == set(names["budgets"])
            assert client.get("/sketches/pages/counter").status_code == 200
        assert service.stop() == 0
    finally:
        if service.process is not None:
            service.kill()
