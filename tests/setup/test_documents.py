"""The documents name files that are there."""

from __future__ import annotations

import re

import pytest

from tests.setup.checkout import ROOT

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    targets = re.findall(r"(?<!!)\[[^]]*]\((?!https?:)([^)#]+)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_are_there(document: str) -> None:
    text = (ROOT / document).read_text()
    named = [
        name.rstrip("/")
        for name in re.findall(r"`((?:tests|harness|nodes|nemesis|workloads|reports|examples)/[\w./-]*)`", text)
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_table_of_folders_names_their_files() -> None:
    rows = re.findall(r"^\| `(\w+)/` \| (.*) \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    rows = [(folder, told) for folder, told in rows if (ROOT / folder).is_dir()]
    assert [folder for folder, _ in rows] == ["nodes", "workloads", "nemesis", "reports", "harness", "tests"]
    named = [f"{folder}/{name}" for folder, told in rows for name in re.findall(r"`([\w/]+(?:\.py|/))`", told)]
    assert len(named) > 30
    assert [name for name in named if not (ROOT / name).exists()] == []
