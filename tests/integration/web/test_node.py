"""The browser client in Node: its own tests pass on the bundle that is shipped."""

import re
import subprocess


def test_the_tests_of_the_bundle_pass_in_node(node, web):
    files = sorted(str(path.relative_to(web)) for path in web.glob("test/*.test.js"))
    command = [node, "--test", "--test-reporter=tap", *files]
    done = subprocess.run(command, cwd=web, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, "\n".join(
        re.findall(r"^ *not ok.*(?:\n.*){12}", done.stdout, re.M)
    )
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.M)[1]) >= 50
    assert re.search(r"^# (?:skipped|todo|cancelled) [1-9]", done.stdout, re.M) is None
