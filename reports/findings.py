"""What the track record has to say inside a page that people wrote: docs/findings.md.

A page marks the place and names what it wants, a race or one variant of it; the lines between are written anew:

    <!-- tries: two-controllers last-replica-standing/peers-killed -->
    krash, of all tries so far:

    - `two-controllers partial-cut`: shown on 3.4.1 5/5, 3.6.2 5/5; not on 3.9.2 0/5, 4.3.1 0/5.
    <!-- end of tries -->

So no figure of krash's own stands in that page that no try stands behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reports.track_record import Line

_PART = re.compile(r"(<!-- tries: ([^>]*?) -->\n)(.*?)(<!-- end of tries -->)", re.DOTALL)
_HEAD = "krash, of all tries so far:"


def with_tries(page: str, lines: Sequence[Line]) -> str:
    """The page with every marked part written anew. ValueError where a mark names what no race is called."""

    def part(found: re.Match[str]) -> str:
        told = [told for name in found[2].split() for told in _of(name, lines)]
        body = "\n".join([_HEAD, "", *told]) if told else "krash: not tried yet."
        return f"{found[1]}{body}\n{found[4]}"

    return _PART.sub(part, page)


def _of(name: str, lines: Sequence[Line]) -> Iterator[str]:
    """One list item for each variant, and for each setting of it that is not the default."""
    race, _, variant = name.partition("/")
    mine = [line for line in lines if line.subject.race == race and (not variant or line.subject.variant == variant)]
    if not mine:
        raise ValueError(f"no race of the track record is called {name!r}")
    stories: dict[str, list[Line]] = {}
    for line in mine:
        if line.tally.tries:
            stories.setdefault(_story(line), []).append(line)
    for story, told in stories.items():
        shown = [_counted(line) for line in told if not line.safe]
        calm = [_counted(line) for line in told if line.safe]
        words = [f"shown on {', '.join(shown)}"] * bool(shown) + [f"not on {', '.join(calm)}"] * bool(calm)
        yield f"- `{story}`: {'; '.join(words)}."


def _story(line: Line) -> str:
    subject = line.subject
    settings = [f"{key}={value}" for key, value in subject.settings.items()]
    return " ".join(filter(None, [subject.race, subject.variant, *settings]))


def _counted(line: Line) -> str:
    """ "4.3.1 at 3.4 5/5"; what differs from what was stated is said to."""
    subject = line.subject
    version = subject.system.partition(":")[2] or subject.system
    at = f" at {subject.metadata_version}" if subject.metadata_version else ""
    tally = line.tally
    silent = tally.not_reached + tally.failed
    rest = f" ({silent} of them did not get there)" if silent else ""
    return f"{version}{at} {tally.shown}/{tally.tries}{rest}"
