"""Schedules: when they come round."""

from datetime import UTC, datetime

import pytest

from warmroute.resources.scaling.schedules import ScheduleError, next_run, parse_schedule, parse_zone

MONDAY = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def runs(text, zone="", *, count=1, after=MONDAY, first_s=0.0):
    """Return the next times as text in the zone."""
    schedule, tz, found = parse_schedule(text), parse_zone(zone), []
    at_s = after.timestamp()
    for _ in range(count):
        at_s = next_run(schedule, tz, after_s=at_s, first_s=first_s)
        if at_s is None:
            found.append(None)
            break
        found.append(datetime.fromtimestamp(at_s, tz).strftime("%Y-%m-%d %H:%M"))
    return found


def test_at_happens_once_in_its_zone():
    assert runs("at(2026-12-01T08:30:00)", "Europe/Berlin", count=2) == ["2026-12-01 08:30", None]
    assert runs("at(2026-12-01T08:30:00)", "Europe/Berlin") == ["2026-12-01 08:30"]
    in_berlin = next_run(
        parse_schedule("at(2026-12-01T08:30:00)"), parse_zone("Europe/Berlin"), after_s=0, first_s=0
    )
    assert in_berlin == datetime(2026, 12, 1, 7, 30, tzinfo=UTC).timestamp()


def test_a_rate_counts_from_its_beginning():
    first_s = MONDAY.timestamp() + 7
    schedule = parse_schedule("rate(2 hours)")
    assert next_run(schedule, UTC, after_s=MONDAY.timestamp(), first_s=first_s) == first_s
    assert next_run(schedule, UTC, after_s=first_s, first_s=first_s) == first_s + 7200
    assert next_run(schedule, UTC, after_s=first_s + 7199, first_s=first_s) == first_s + 7200
    assert parse_schedule("rate(1 minute)").every_s == 60
    assert parse_schedule("rate(3 days)").every_s == 3 * 86_400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cron(0 9 * * ? *)", ["2026-12-01 09:00", "2026-12-02 09:00"]),
        ("cron(*/20 12 ? * MON-FRI *)", ["2026-11-30 12:20", "2026-11-30 12:40"]),
        ("cron(15,45 10 1 * ? *)", ["2026-12-01 10:15", "2026-12-01 10:45"]),
        ("cron(0 0 L * ? *)", ["2026-12-31 00:00", "2027-01-31 00:00"]),
        ("cron(0 0 LW * ? 2027)", ["2027-01-29 00:00", "2027-02-26 00:00"]),
        ("cron(0 0 1W * ? 2027)", ["2027-01-01 00:00", "2027-02-01 00:00"]),
        ("cron(0 0 1W 5 ? *)", ["2027-05-03 00:00", "2028-05-01 00:00"]),
        ("cron(0 0 31W 1 ? 2027)", ["2027-01-29 00:00", None]),
        ("cron(0 0 15W AUG ? *)", ["2027-08-16 00:00", "2028-08-15 00:00"]),
        ("cron(0 0 ? * L *)", ["2026-12-05 00:00", "2026-12-12 00:00"]),
        ("cron(0 0 ? * FRIL *)", ["2026-12-25 00:00", "2027-01-29 00:00"]),
        ("cron(0 0 ? * 2#1 *)", ["2026-12-07 00:00", "2027-01-04 00:00"]),
        ("cron(0 0 29 2 ? *)", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("cron(0 0 1 1 ? 2026)", [None]),
        ("cron(0 0 30 2 ? *)", [None]),
        ("cron(0 6/6 * jan ? 2027-2030)", ["2027-01-01 06:00", "2027-01-01 12:00"]),
    ],
)
def test_cron_as_aws_writes_it(text, expected):
    assert runs(text, count=len(expected)) == expected


def test_cron_follows_the_clocks_of_its_zone():
    october = datetime(2026, 10, 24, 12, 0, tzinfo=UTC)
    schedule, berlin = parse_schedule("cron(30 8 * * ? *)"), parse_zone("Europe/Berlin")
    first = next_run(schedule, berlin, after_s=october.timestamp(), first_s=0)
    second = next_run(schedule, berlin, after_s=first - 86_400, first_s=0)
    assert (first, second) == (
        datetime(2026, 10, 25, 7, 30, tzinfo=UTC).timestamp(),
        datetime(2026, 10, 25, 7, 30, tzinfo=UTC).timestamp(),
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("every day", "is not at"),
        ("at(tomorrow)", "does not match format"),
        ("rate(0 minutes)", "positive number"),
        ("rate(5 weeks)", "positive number"),
        ("cron(* * * * *)", "5 fields"),
        ("cron(60 * * * ? *)", "'60' is not from 0 to 59"),
        ("cron(0 0 1 * MON *)", "one must be"),
        ("cron(0 0 0 * ? *)", "'0' is not from 1 to 31"),
        ("cron(0 0 32W * ? *)", "'32' is not from 1 to 31"),
        ("cron(0 0 ? * 8L *)", "'8' is not from 1 to 7"),
        ("cron(0 0 ? * XYZ#1 *)", "'XYZ' is not from"),
        ("cron(0 9-8 * * ? *)", "begins after its end"),
        ("cron(0/0 * * * ? *)", "no step"),
        ("cron(0/x * * * ? *)", "no step"),
        ("cron(0 0 * FOO ? *)", "'FOO' is not from 1 to 12"),
        ("cron(0 0 * * ? 1969)", "'1969' is not from 1970 to 2199"),
        ("cron(0 0 * * ? 99999)", "is not from"),
    ],
)
def test_what_is_no_schedule_is_refused(text, part):
    with pytest.raises(ScheduleError, match=part):
        parse_schedule(text)


@pytest.mark.parametrize("name", ["Nowhere/Town", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(ScheduleError, match="not known here"):
        parse_zone(name)


def test_utc_needs_no_database():
    assert parse_zone("") is UTC
    assert parse_zone("UTC") is UTC
