"""Each transcript in `transcripts` says what actors do today.

After an intended change, `TRANSCRIPTS=write pytest tests/actors/test_transcripts.py` writes the
effects anew; the diff shows what has changed.
"""

import os
from pathlib import Path

import pytest

from tests.models.actors.transcript import Transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_happens_has_the_effects_that_are_written_down(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    played = Transcript().play(text)

    if os.environ.get("TRANSCRIPTS") == "write":
        path.write_text(played, encoding="utf-8")
    assert played == text


def test_a_line_that_says_nothing_that_can_happen_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing that can happen: 'a dances'"):
        Transcript().play("a dances\n")
