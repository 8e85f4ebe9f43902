"""``python -m harness.recorded VERSION``: record what this version stores and sends, and its policies, into ``tests/upgrades/recorded/VERSION``."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.recorded.recording import encode
from harness.recorded.scenes import SCENES, record, record_rooms

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "upgrades" / "recorded"
FOLDER_OF_RULES = Path(__file__).resolve().parents[2] / "manifests" / "base"
RULES = ("controller-rules", "mark-rules", "reservation-rules")


def main() -> None:
    """Record all scenes."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and the version
        sys.exit("usage: python -m harness.recorded VERSION")
    folder = FOLDER / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    recordings = {name: record(scene) for name, scene in SCENES.items()} | {"rooms": record_rooms()}
    for name, moments in recordings.items():
        lines = list(encode(moments))
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(lines)} moments\n")
    rules = "---\n".join((FOLDER_OF_RULES / f"{name}.yaml").read_text(encoding="utf-8") for name in RULES)
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")


main()
