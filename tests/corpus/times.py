"""Columns of dates and times, and of what looks like them, as text."""

from __future__ import annotations

from datetime import UTC, date, datetime

from tests.corpus.case import Case, good

COLUMNS = (
    (
        "date-iso",
        ["2020-02-29", "0001-01-01", "9999-12-31"],
        [date(2020, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
        "",
    ),
    ("date-0000", ["0000-01-01", "2020-01-01"], None, "date_like"),
    ("date-10000", ["10000-01-01", "2020-01-01"], None, ""),
    ("date-slash", ["2020/02/29", "2021/01/01"], [date(2020, 2, 29), date(2021, 1, 1)], ""),
    ("date-compact", ["20200229", "20210101"], [20200229, 20210101], ""),
    ("date-2digit-dmy", ["31/12/20", "01/02/21"], None, "two_digit_years"),
    ("date-2digit-iso", ["20-12-31", "21-02-01"], None, "two_digit_years"),
    ("date-2digit-de", ["31.12.20", "01.02.21"], None, "two_digit_years"),
    ("date-ambig", ["01/02/2020", "03/04/2020"], None, "ambiguous_date"),
    ("date-us", ["12/31/2020", "01/02/2020"], [date(2020, 12, 31), date(2020, 1, 2)], "date_order"),
    ("date-de", ["31.12.2020", "1.2.2020"], [date(2020, 12, 31), date(2020, 2, 1)], "date_order"),
    ("date-conflict", ["31/12/2020", "12/31/2020"], None, ""),
    ("date-words", ["Jan 5, 2020", "Feb 6, 2020"], None, "named_months"),
    ("date-dMonY", ["5-Jan-2020", "6-Feb-2020"], None, "named_months"),
    ("date-week", ["2020-W05-1", "2020-W06-1"], None, ""),
    ("date-ordinal", ["2020-060", "2020-061"], None, ""),
    ("date-ym", ["2020-01", "2020-02"], None, ""),
    ("date-single-digit", ["2020-1-5", "2020-11-15"], None, "date_like"),
    ("date-feb29", ["2019-02-29", "2020-01-01"], None, "date_like"),
    (
        "dt-iso",
        ["2020-01-01T00:00:00", "2020-01-01 23:59:59.999999"],
        [datetime(2020, 1, 1), datetime(2020, 1, 1, 23, 59, 59, 999999)],
        "",
    ),
    (
        "dt-z",
        ["2020-01-01T00:00:00Z", "2020-06-01T02:00:00+02:00"],
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 6, 1, tzinfo=UTC)],
        "",
    ),
    (
        "dt-offset-compact",
        ["2020-06-01T02:00:00+0200", "2020-06-01T02:00:00-05"],
        [datetime(2020, 6, 1, 0, tzinfo=UTC), datetime(2020, 6, 1, 7, tzinfo=UTC)],
        "",
    ),
    (
        "dt-half",
        ["2020-06-01T02:00:00+05:30", "2020-06-01T02:00:00+05:45"],
        [datetime(2020, 5, 31, 20, 30, tzinfo=UTC), datetime(2020, 5, 31, 20, 15, tzinfo=UTC)],
        "",
    ),
    ("dt-offset-absurd", ["2020-06-01T02:00:00+99:00", "2020-06-01T02:00:00+05:45"], None, "date_like"),
    ("dt-named-zone", ["2020-06-01 02:00:00 CET", "2020-06-01 03:00:00 CEST"], None, "date_like"),
    ("dt-leap", ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"], None, "date_like"),
    ("dt-24h", ["2020-01-01T24:00:00", "2020-01-01T00:00:00"], None, "date_like"),
    ("dt-nano", ["2020-01-01T00:00:00.123456789", "2020-01-01T00:00:00.1"], None, "date_like"),
    (
        "dt-nano-whole",
        ["2020-01-01T00:00:00.123456000", "2020-01-01T00:00:00.1"],
        [datetime(2020, 1, 1, 0, 0, 0, 123456), datetime(2020, 1, 1, 0, 0, 0, 100000)],
        "",
    ),
    (
        "dt-min",
        ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"],
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
        "",
    ),
    ("dt-min-offset", ["0001-01-01T00:00:00+02:00", "2020-01-01T00:00:00Z"], None, "date_like"),
    ("dt-max-offset", ["9999-12-31T23:59:59-02:00", "2020-01-01T00:00:00Z"], None, "date_like"),
    ("dt-mixed-zones", ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00"], None, "date_like"),
    (
        "dt-hm",
        ["2020-01-01 10:30", "2020-01-01 11:45"],
        [datetime(2020, 1, 1, 10, 30), datetime(2020, 1, 1, 11, 45)],
        "",
    ),
    ("dt-date-mixed", ["2020-01-01", "2020-01-01 11:45"], None, "date_like"),
    ("dt-ampm", ["01/02/2020 10:30 PM", "01/03/2020 11:45 AM"], None, "date_like"),
    ("dt-de", ["31.12.2020 10:30", "01.02.2020 11:45"], None, "date_like"),
    ("time", ["10:30:00", "11:45:00"], None, ""),
    ("epoch", ["1600000000", "1600000060"], [1600000000, 1600000060], ""),
    ("date-comma-frac", ["2020-01-01T00:00:00,5", "2020-01-01T00:00:00,25"], None, "date_like"),
    ("date-lower-t", ["2020-01-01t00:00:00z", "2020-01-02t00:00:00z"], None, ""),
    ("two-digits-and-time", ["31/12/20 10:30", "01/02/21 11:45"], None, "two_digit_years"),
)
"""Name, cells as they stand in the file, values of the column (None: the same text), a warning that must be there."""


def cases() -> list[Case]:
    """Each column beside one of words."""
    made = []
    for name, cells, values, notes in COLUMNS:
        lines = [f'r{i},"{cell}"' if "," in cell else f"r{i},{cell}" for i, cell in enumerate(cells)]
        want = {"id": [f"r{i}" for i in range(len(cells))], "v": list(values or cells)}
        made.append(good(f"time/{name}", "id,v\n" + "\n".join(lines) + "\n", want, "", notes))
    return made
