"""Schedules of scheduled actions: ``at(…)``, ``rate(…)`` and ``cron(…)``.

Source: the text of PutScheduledAction.Schedule. ``at(yyyy-mm-ddThh:mm:ss)``; ``rate(VALUE UNIT)`` with
``minute(s)``, ``hour(s)`` or ``day(s)``; ``cron(Minutes Hours Day-of-month Month Day-of-week Year)`` with
``*``, ``?``, lists, ranges, steps, names of months and days, and ``L``, ``W`` and ``#`` for days.

Choice: a time that a change of clocks leaves out is taken as if the clocks had not been changed; one that
it brings twice happens once, the first time.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_FORMS: Final = (
    "at(yyyy-mm-ddThh:mm:ss), rate(VALUE minutes|hours|days) or "
    "cron(Minutes Hours Day-of-month Month Day-of-week Year)"
)
_UNITS_S: Final = {"minute": 60, "hour": 3600, "day": 86_400}
_MONTHS: Final = {
    "JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6,
    "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12,
}  # fmt: skip
_DAYS: Final = {"SUN": 1, "MON": 2, "TUE": 3, "WED": 4, "THU": 5, "FRI": 6, "SAT": 7}
YEARS: Final = (1970, 2199)
"""Years that a cron expression may name."""
_SEARCHED_DAYS: Final = 366 * 41
"""How far ahead cron is searched: a 29th of February that is a Monday comes after 28 years, or 40."""


class ScheduleError(ValueError):
    """A schedule or time zone cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class At:
    """Once."""

    moment: datetime

    def after(self, after_s: float, zone: tzinfo, first_s: float) -> float | None:
        """Return when it happens, if that is later than ``after_s``."""
        del first_s
        at_s = self.moment.replace(tzinfo=zone).timestamp()
        return at_s if at_s > after_s else None


@dataclass(frozen=True, slots=True)
class Rate:
    """Every so often, in seconds."""

    every_s: int

    def after(self, after_s: float, zone: tzinfo, first_s: float) -> float | None:
        """Return the first time after ``after_s`` that is a multiple away from ``first_s``."""
        del zone
        if first_s > after_s:
            return first_s
        return first_s + self.every_s * (int((after_s - first_s) // self.every_s) + 1)


@dataclass(frozen=True, slots=True)
class Cron:
    """At given minutes of given days."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: str
    months: frozenset[int]
    weekdays: str
    years: frozenset[int]

    def after(self, after_s: float, zone: tzinfo, first_s: float) -> float | None:
        """Return the first time after ``after_s``; None when there is none in sight."""
        del first_s
        day = datetime.fromtimestamp(after_s, zone).date()
        for _ in range(_SEARCHED_DAYS):
            if day.year > max(self.years):
                return None
            if self._is_on(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()
                        if at > after_s:
                            return at
            day += timedelta(days=1)
        return None

    def _is_on(self, day: date) -> bool:
        return (
            day.year in self.years
            and day.month in self.months
            and _is_day(self.days, day)
            and _is_weekday(self.weekdays, day)
        )


Schedule = At | Rate | Cron


def parse_schedule(text: str) -> Schedule:
    """Read a schedule.

    Raises:
        ScheduleError: It has none of the three forms, or a value out of range.
    """
    found = re.fullmatch(r"(at|rate|cron)\((.*)\)", text.strip(), re.DOTALL)
    if found is None:
        raise ScheduleError(f"Schedule '{text}' is not {_FORMS}.")
    kind, inner = found.groups()
    try:
        match kind:
            case "at":
                return At(datetime.strptime(inner, "%Y-%m-%dT%H:%M:%S"))  # noqa: DTZ007  (the zone comes later)
            case "rate":
                return _rate(inner)
            case _:
                return _cron(inner.split())
    except ValueError as error:
        raise ScheduleError(f"Schedule '{text}' is not {_FORMS}: {error}.") from None


def parse_zone(name: str) -> tzinfo:
    """Return a time zone by its name, ``""`` for UTC.

    Raises:
        ScheduleError: There is no such zone on this machine.
    """
    if name in ("", "UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ScheduleError(
            f"Timezone '{name}' is not known here. It must be a name such as Europe/Berlin from the "
            "machine's time zone database."
        ) from None


def next_run(schedule: Schedule, zone: tzinfo, *, after_s: float, first_s: float) -> float | None:
    """Return when a schedule comes round next.

    Args:
        schedule: Which.
        zone: Of the times in it.
        after_s: Later than this, epoch seconds.
        first_s: When a rate begins.

    Returns:
        Epoch seconds; None for never again.
    """
    return schedule.after(after_s, zone, first_s)


def _rate(text: str) -> Rate:
    found = re.fullmatch(r"\s*([1-9]\d{0,5})\s+(minute|hour|day)s?\s*", text)
    if found is None:
        raise ValueError("a rate is a positive number and minutes, hours or days")
    return Rate(int(found[1]) * _UNITS_S[found[2]])


def _cron(fields: list[str]) -> Cron:
    if len(fields) != 6:
        raise ValueError(f"cron has {len(fields)} fields, six are needed")
    minutes, hours, days, months, weekdays, years = (field.upper() for field in fields)
    if days not in ("*", "?") and weekdays not in ("*", "?"):
        raise ValueError("of day-of-month and day-of-week one must be ?")
    _check_days(days)
    _check_weekdays(weekdays)
    return Cron(
        minutes=tuple(sorted(_numbers(minutes, 0, 59))),
        hours=tuple(sorted(_numbers(hours, 0, 23))),
        days=days,
        months=_numbers(months, 1, 12, _MONTHS),
        weekdays=weekdays,
        years=_numbers(years, *YEARS),
    )


def _numbers(field: str, low: int, high: int, names: dict[str, int] | None = None) -> frozenset[int]:
    """Return the numbers that a field allows."""
    allowed: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdigit() and int(step) > 0):
            raise ValueError(f"'{part}' has no step that is a positive number")
        if span in ("*", "?"):
            first, last = low, high
        else:
            begin, dash, end = span.partition("-")
            first = _number(begin, low, high, names)
            last = _number(end, low, high, names) if dash else (high if slash else first)
        if first > last:
            raise ValueError(f"'{part}' begins after its end")
        allowed |= set(range(first, last + 1, int(step) if slash else 1))
    return frozenset(allowed)


def _number(text: str, low: int, high: int, names: dict[str, int] | None) -> int:
    number = (names or {}).get(text)
    if number is None and text.isascii() and text.isdigit() and len(text) <= 4:
        number = int(text)
    if number is None or not low <= number <= high:
        raise ValueError(f"'{text}' is not from {low} to {high}")
    return number


def _check_days(field: str) -> None:
    nearest = re.fullmatch(r"(\d{1,2}|L)W", field)
    if field in ("L", "LW"):
        return
    _numbers(nearest[1] if nearest is not None else field, 1, 31)


def _check_weekdays(field: str) -> None:
    if field == "L":
        return
    last = re.fullmatch(r"(\w+)L", field)
    numbered = re.fullmatch(r"(\w+)#([1-5])", field)
    named = last or numbered
    _numbers(named[1] if named is not None else field, 1, 7, _DAYS)


def _is_day(field: str, day: date) -> bool:
    if field in ("*", "?"):
        return True
    length = calendar.monthrange(day.year, day.month)[1]
    if field == "L":
        return day.day == length
    if field.endswith("W"):
        wanted = length if field == "LW" else int(field[:-1])
        return wanted <= length and day == _nearest_workday(day.replace(day=wanted))
    return day.day in _numbers(field, 1, 31)


def _nearest_workday(day: date) -> date:
    """Return the working day nearest to a day, in the same month."""
    if day.weekday() == calendar.SATURDAY:
        return day - timedelta(days=1) if day.day > 1 else day + timedelta(days=2)
    if day.weekday() == calendar.SUNDAY:
        last = day.day == calendar.monthrange(day.year, day.month)[1]
        return day - timedelta(days=2) if last else day + timedelta(days=1)
    return day


def _is_weekday(field: str, day: date) -> bool:
    if field in ("*", "?"):
        return True
    weekday = day.isoweekday() % 7 + 1  # Sunday is 1
    if field == "L":
        return weekday == 7
    if field.endswith("L"):
        last = day.day + 7 > calendar.monthrange(day.year, day.month)[1]
        return last and weekday == _number(field[:-1], 1, 7, _DAYS)
    if "#" in field:
        name, _, which = field.partition("#")
        return weekday == _number(name, 1, 7, _DAYS) and (day.day - 1) // 7 + 1 == int(which)
    return weekday in _numbers(field, 1, 7, _DAYS)
