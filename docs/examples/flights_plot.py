"""Draw the delays that docs/examples/flights.py has summed up.

    python docs/examples/flights_plot.py DELAYS PICTURE

DELAYS is the directory of Parquet files that the stream wrote. `make setup`
installs what it needs.
"""

from __future__ import annotations

import sys

import matplotlib.dates as dates
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

# The palette of Okabe and Ito, which colour-blind people can tell apart.
COLOURS = {"EWR": "#D55E00", "JFK": "#0072B2", "LGA": "#009E73"}
NAMES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
ZONE = "America/New_York"
FLIGHTS_A_DAY_MIN = 0.25
"""Flights a day in one hour of the day; the mean of fewer is not drawn."""


def mean_delay(hours: pd.DataFrame, by: list[str] | pd.Grouper) -> pd.Series:
    """Return the mean delay of several hours, each weighted by its number of flights."""
    sums = hours.assign(total=hours.delay_minutes * hours.left).groupby(by)[["total", "left"]].sum()
    return sums.total / sums.left


def draw_year(axes: Axes, hours: pd.DataFrame) -> None:
    days = mean_delay(hours, ["airport", "day"])
    for airport, colour in COLOURS.items():
        daily = days[airport]
        axes.plot(daily.index, daily, ".", color=colour, markersize=3, alpha=0.35)
        smooth = daily.rolling(7, center=True, min_periods=4).mean()
        axes.plot(smooth.index, smooth, color=colour, linewidth=1.8, label=NAMES[airport])
    # The worst days of all three airports together.
    worst = mean_delay(hours, ["day"]).nlargest(3)
    for day, minutes in worst.items():
        axes.annotate(
            f"{day:%-d %B}, all: {minutes:.0f} min",
            (day, minutes),
            xytext=(0, 14),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": "#666666", "linewidth": 0.8},
        )
    axes.set_title(
        "By day: each dot a day at an airport, lines the mean over seven days", loc="left"
    )
    axes.xaxis.set_major_locator(dates.MonthLocator())
    axes.xaxis.set_major_formatter(dates.DateFormatter("%b"))
    beside = pd.Timedelta(hours=12)
    axes.set_xlim(hours.day.min() - beside, hours.day.max() + beside)
    axes.legend(loc="upper left", frameon=False, ncols=3)


def draw_hours(axes: Axes, hours: pd.DataFrame) -> None:
    by = ["airport", "local_hour"]
    enough = FLIGHTS_A_DAY_MIN * hours.day.nunique()
    by_hour = mean_delay(hours, by)[hours.groupby(by).left.sum() >= enough]
    for airport, colour in COLOURS.items():
        axes.plot(by_hour[airport], "o-", color=colour, linewidth=1.8, markersize=4)
    axes.set_title("By hour of the scheduled departure, New York time", loc="left")
    axes.set_xticks(range(5, 24, 2), [f"{hour}:00" for hour in range(5, 24, 2)])


def draw(delays: str, picture: str) -> None:
    hours = pd.read_parquet(delays)
    local = pd.to_datetime(hours.hour, utc=True).dt.tz_convert(ZONE)
    hours = hours.assign(day=local.dt.normalize().dt.tz_localize(None), local_hour=local.dt.hour)
    hours = hours[hours.left > 0]
    figure, (year, day) = plt.subplots(
        2, 1, figsize=(11, 8), layout="constrained", height_ratios=[3, 2]
    )
    figure.suptitle(
        f"How late {hours.left.sum():,} flights left New York in 2013",
        fontsize=14,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    draw_year(year, hours)
    draw_hours(day, hours)
    for axes in (year, day):
        axes.set_ylabel("mean delay, minutes")
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    draw(*sys.argv[1:3])
