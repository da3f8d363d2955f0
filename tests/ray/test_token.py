"""A cluster of our own has a token, also where its user has no home folder."""

import os
import subprocess
import sys

import pytest

ASK = """
import os
from tierledger.actors.ray import cluster
cluster.ensure_token()
has_token = cluster.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
print(has_token, len(os.environ.get("RAY_AUTH_TOKEN", "")))
"""


@pytest.mark.ray
def test_a_user_whose_home_cannot_be_written_has_a_token_of_the_process() -> None:
    environment = {key: os.environ[key] for key in os.environ if key != "RAY_AUTH_TOKEN"}

    asked = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**environment, "HOME": "/dev/null/nobody"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert asked.stdout.split() == ["True", "64"], asked.stderr
