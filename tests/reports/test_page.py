"""The page as text: it escapes everything, asks nothing of any network, stays small, and says what an unhappy run can say."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from reports import explain, page, plots
from reports.evidence import Evidence, gather
from reports.headline import headline
from reports.page import CSP, SIZE_LIMIT, render
from reports.verdict import AnomalySummary, CheckResult, Status, Verdict
from tests.reports import synthetic
from tests.reports.hostile import EVIL, hostile

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and text of a document, and whether its tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]


def page_of(run: synthetic.Run) -> str:
    return render(gather(run.run, run.verdict, run.history))


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(synthetic.unclean(tmp_path_factory.mktemp("unclean")))


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(synthetic.chaos(tmp_path_factory.mktemp("chaos")))


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(hostile(tmp_path_factory.mktemp("hostile")))


def test_the_verdict_comes_first_in_words_with_its_counts(unclean: str, chaos: str) -> None:
    assert "INVALID 200 acknowledged records were lost." in Page(unclean).text
    assert re.search(r"[\d,]+ records acknowledged [\d,]+ read back 200 lost 20 unknown outcomes", Page(unclean).text)
    assert "VALID Nothing was lost; all 9 checks passed." in Page(chaos).text
    assert Page(chaos).text.index("VALID") < Page(chaos).text.index("Timeline")


def test_a_card_names_where_when_who_and_what_did_it(unclean: str) -> None:
    text = Page(unclean).text
    assert "lost-write × 200" in text  # noqa: RUF001
    assert re.search(r"log-0 1689 w2/204/828/log/0 7108 w2 process 204 send log-0 15\.\d{3} s 15\.\d{3} s ok", text)
    assert "F2 kill b1 at 17.060 s" in text
    assert "b1 until 17.900 s, nobody until 19.600 s, then b2." in text
    assert 'w2 process 204 was told at 15.816 s that "w2/204/828/log/0" is stored in log-0 at offset 1689' in text
    assert "in the end something else was at its offset: w1/101/927/log/0" in text
    assert "Why the settings make it possible. unclean.leader.election.enable is true" in text
    assert "Reason:" not in text
    assert "What it means." in text
    assert "What to do next." in text
    assert "Not shown: 180 more of this type" in text


def test_faults_have_their_proofs_and_the_run_its_command(chaos: str) -> None:
    text = Page(chaos).text
    assert (
        "Effect: 412 packets from b2 were dropped at b1; a probe from b1 to b2 got no answer Healed: probes pass"
        in text
    )
    assert "refused: without b1 the ISR of log-2 would have 1 member" in text
    assert "1 planned fault could not be done at its moment" in text
    assert text.count("krash run examples/chaos.yaml --seed 7") == 2
    assert "krash run --replay ." in text


def test_links_inside_the_page_lead_somewhere_and_ids_are_unique(unclean: str) -> None:
    document = Page(unclean)
    ids = document.values("id")
    assert len(ids) == len(set(ids))
    targets = {href[1:] for href in document.values("href") if href.startswith("#")}
    assert targets <= set(ids)
    assert {"fault-2", "anomaly-1"} <= targets
    assert not document.open


def test_headings_descend_one_step_at_a_time(unclean: str) -> None:
    levels = [int(tag[1]) for tag, _ in Page(unclean).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_drawing_has_a_name_for_those_who_do_not_see_it(unclean: str) -> None:
    document = Page(unclean)
    drawings = [attributes for tag, attributes in document.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) == 4
    assert all(attributes["aria-labelledby"] in document.values("id") for attributes in drawings)


@pytest.mark.parametrize("name", ["unclean", "chaos", "evil"])
def test_nothing_comes_from_anywhere_else(name: str, request: pytest.FixtureRequest) -> None:
    html = request.getfixturevalue(name)
    document = Page(html)
    policies = [a["content"] for tag, a in document.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [CSP]
    assert CSP.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert not {tag for tag, _ in document.tags} & {"script", "iframe", "object", "embed", "form", "img", "base"}
    assert all(href.startswith(("#", "data:")) for href in document.values("href"))
    assert not document.values("src")
    assert not [a for _, attributes in document.tags for a in attributes if a.startswith("on")]
    style = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {
        "#hatch",
        *re.findall(r"url\((#(?:throughput|latency|unavailability)-\w+)\)", html),
    }
    if name != "evil":
        assert "http" not in html.replace("http-equiv", "")


def test_hostile_text_is_shown_and_does_nothing(evil: str) -> None:
    document = Page(evil)
    assert "<script>document.title='pwned'</script>" in document.text
    assert "{{7*7}}" in document.text
    assert not set(evil) & {"\x00", "\x1b", "\u202e", "\ufeff"}
    assert r"\u202e41" in document.text
    assert r"half \ud83d of a pair" in document.text
    evil.encode("utf-8")


def test_megabytes_are_clipped_with_a_note(tmp_path: Path) -> None:
    html = page_of(hostile(tmp_path, text="<&'\"" * 300_000, types=60))
    assert len(html.encode()) <= SIZE_LIMIT
    assert "(clipped, 1,200," in html


@pytest.mark.parametrize("text", [EVIL * 40, "\u202e" * 3_000, '"' * 3_000, "日本" * 2_000])
def test_the_size_is_bounded_whatever_the_history(text: str, tmp_path: Path) -> None:
    html = page_of(hostile(tmp_path, text=text, types=60))
    assert len(html.encode()) <= SIZE_LIMIT
    assert "INVALID" in html


def test_when_the_page_gets_too_large_it_says_what_it_left_out(
    unclean: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = synthetic.unclean(tmp_path)
    monkeypatch.setattr(page, "SIZE_LIMIT", len(unclean) // 2)
    small = page_of(run)
    assert len(small) < len(unclean) // 2
    assert "to keep this file small, not everything is shown" in small
    assert "Not shown: 199 more of this type" in Page(small).text


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, unclean: str) -> None:
    run = synthetic.unclean(tmp_path)
    first = page_of(run)
    (tmp_path / "report.html").write_text(first, encoding="utf-8")
    assert page_of(run) == first == unclean


def test_a_plot_that_fails_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(evidence: Evidence) -> None:
        raise RuntimeError("no fonts <here>")

    monkeypatch.setattr(plots, "latency", fails)
    html = page_of(synthetic.unclean(tmp_path))
    assert "the latency could not be drawn: RuntimeError(&#39;no fonts &lt;here&gt;&#39;)" in html
    assert 'aria-labelledby="throughput-title"' in html


@pytest.mark.parametrize("status", list(Status))
def test_a_run_without_anything_still_says_why(status: Status, tmp_path: Path) -> None:
    reason = "fault 3 (pause b2) could not be healed within 30 s"
    verdict = Verdict(run="r", verdict="unknown", status=status, reason=reason)
    text = Page(render(gather({}, verdict, tmp_path / "history"))).text
    assert "UNKNOWN Nothing was judged." in text
    assert f"Reason: {reason}" in text
    assert text.index(reason) < text.index("What was checked")
    assert "nothing was recorded" in text
    assert "No check was made at all." in text


def test_evidence_that_was_never_gathered_can_be_shown() -> None:
    verdict = Verdict(run="r", verdict="unknown", status="harness-error", reason="no space left on device")
    assert "no space left on device" in render(Evidence(verdict=verdict, run={}))


def test_a_run_without_faults_says_what_that_means(tmp_path: Path) -> None:
    run = synthetic.chaos(tmp_path)
    (faults,) = (run.history / "faults").iterdir()
    faults.unlink()
    synthetic.write(run, "faults", synthetic.FAULTS.empty_table())
    run.verdict = replace(run.verdict, unavailability=[])
    text = Page(page_of(run)).text
    assert "No fault was injected, so this run says nothing about failures." in text
    assert "No fault is on record." in text


def test_what_was_not_judged_stands_beside_what_was(tmp_path: Path) -> None:
    run = synthetic.chaos(tmp_path)
    checks = [
        replace(run.verdict.checks[0], verdict="unknown", note="log-3 was not read to its end"),
        *run.verdict.checks[1:],
    ]
    run.verdict = replace(
        run.verdict, verdict="unknown", checks=checks, unjudged=["log-3: final read stopped at offset 17 of 90"]
    )
    text = Page(page_of(run)).text
    assert "UNKNOWN No violation was found, but not everything could be judged." in text
    assert "log-3: final read stopped at offset 17 of 90 lost-write: log-3 was not read to its end" in text


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ('{"how": "beyond"}', "in the end the log ended before it"),
        ('{"how": "gone", "other_value": null}', "in the end the partition was gone"),
        ('{"how": ["strange"]}', "its own sentence"),
        ("[1, 2]", "its own sentence [1, 2]"),
        ("not json", "its own sentence not json"),
        (None, "its own sentence"),
    ],
)
def test_a_witness_says_what_its_row_does_not_show(detail: str | None, shown: str) -> None:
    witness = {
        "sentence": "its own sentence",
        "topic": "log",
        "partition": 1,
        "offset": 5,
        "value": "v",
        "ops": [7],
        "detail": detail,
    }
    lost = replace(found("lost-write", 1), witnesses=[witness])
    verdict = Verdict(run="r", verdict="invalid", status="judged", reason=None, checks=[check()], anomalies=[lost])
    assert f"not found in the history: op 7 {shown}" in Page(render(Evidence(verdict=verdict, run={}))).text


def test_every_check_of_ours_is_explained() -> None:
    for name in (*synthetic.CHECKS, "stale-end-offset", "unavailable"):
        assert explain.question(name), name
        assert "type" not in explain.counted(name, 2)


def check(name: str = "duplicate", verdict: str = "valid") -> CheckResult:
    return CheckResult(name=name, verdict=verdict, engine="e", judged=1, seconds=0.1)


def found(kind: str, count: int, *, tolerated: bool = False) -> AnomalySummary:
    return AnomalySummary(
        type=kind, severity="violation", count=count, expected=False, tolerated=tolerated, sentence="s", witnesses=[]
    )


@pytest.mark.parametrize(
    ("verdict", "checks", "anomalies", "said"),
    [
        ("invalid", [check()], [found("lost-write", 1)], "1 acknowledged record was lost."),
        ("invalid", [check()], [found("duplicate", 900), found("lost-write", 2)],
         "2 acknowledged records were lost, and 1 other kind of anomaly was found."),
        ("invalid", [check()], [found("own-check", 3)], "3 anomalies of type own-check."),
        ("invalid", [], [], "The system broke a promise."),
        ("valid", [check()], [], "1 check passed."),
        ("valid", [check(), check("lost-write")], [], "Nothing was lost; all 2 checks passed."),
        ("valid", [check(), check("lost-write")], [found("lost-write", 4, tolerated=True)],
         "All 2 checks passed, with 4 anomalies that the spec tolerates."),
        ("unknown", [check(verdict="unknown")], [], "No violation was found, but not everything could be judged."),
        ("unknown", [], [], "Nothing was judged."),
    ],
)  # fmt: skip
def test_headlines(verdict: str, checks: list[CheckResult], anomalies: list[AnomalySummary], said: str) -> None:
    told = headline(Verdict(run="r", verdict=verdict, status="judged", reason=None, checks=checks, anomalies=anomalies))
    assert told == said
