"""The bundle is small, carries its licences, and is what its sources make."""

import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

BUNDLES = ["sfumato-telemetry.js", "sfumato-telemetry.script.js"]
UNREACHABLE = r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH"


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_is_below_20_kb_and_names_its_licences(web, name):
    text = (web / "dist" / name).read_text(encoding="utf-8")
    assert len(text.encode()) < 20_000
    assert "Apache-2.0" in text.splitlines()[0]
    assert "The MIT License" in text
    assert "Paul Miller" in text


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_was_built_from_these_sources(web, name):
    # The stamp covers what `npm run build` reads, so an edit without a build is noticed offline.
    files = [web / "build.js", web / "package-lock.json", *sorted(web.glob("src/*.js"))]
    text = b"".join(path.read_bytes() + b"\0" for path in files)
    stamp = hashlib.sha256(text).hexdigest()[:16]
    assert f"Sources {stamp}." in (web / "dist" / name).read_text(encoding="utf-8")


def test_one_dependency_at_run_time_and_every_version_is_exact(web):
    package = json.loads((web / "package.json").read_text())
    assert package["private"] is True
    assert list(package["dependencies"]) == ["@noble/hashes"]
    versions = package["dependencies"] | package["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())


def test_a_build_gives_the_same_bytes(web, tmp_path):
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("no npm: install Node with npm to build the bundle anew")
    left_out = shutil.ignore_patterns("node_modules", "dist")
    copy = shutil.copytree(web, tmp_path / "web", ignore=left_out)
    settings = {
        **os.environ,
        "npm_config_fetch_retries": "0",
        "npm_config_update_notifier": "false",
    }
    wanted = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    ready = subprocess.run([npm, *wanted], cwd=copy, env=settings, capture_output=True, text=True)
    if ready.returncode and re.search(UNREACHABLE, ready.stderr):
        pytest.skip("no registry: npm cannot fetch the two packages that the build needs")
    assert ready.returncode == 0, ready.stderr
    subprocess.run([npm, "run", "build"], cwd=copy, check=True, capture_output=True)
    for name in BUNDLES:
        assert (copy / "dist" / name).read_bytes() == (web / "dist" / name).read_bytes()
