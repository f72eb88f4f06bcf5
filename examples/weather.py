"""A job in Python: estimates the temperature of some cities.

python examples/weather.py                   run it in this process, without a server
python examples/weather.py plan              show the graph
mainspring server                            and in another terminal:
python examples/weather.py serve             deploy the job, and run its worker
python examples/weather.py trigger Rome      run it on the server
"""

import math
import sys

from mainspring import Retry, every, job, task

LATITUDES = {"Paris": 48.9, "Oslo": 59.9, "Rome": 41.9}


@task(retries=Retry(3, backoff="2s..60s"), timeout="10m", cpu=1, memory="512Mi")
def fetch(city: str) -> dict[str, object]:
    """Estimate the temperature of a city by its latitude."""
    return {"city": city, "degrees": round(30 * math.cos(math.radians(LATITUDES[city])))}


@task
async def report(rows: list[dict[str, object]]) -> str:
    """Format all cities in one line."""
    return ", ".join(f"{row['city']} {row['degrees']}°" for row in rows)


@job(schedule=every("15m", tz="Europe/Paris"), tenant="weather", priority="p2", max_active=1)
def forecast(cities: list[str] = ["Paris", "Oslo"]) -> object:  # noqa: B006 - the body gets a deferred value
    """Report the temperatures."""
    return report(fetch.map(cities))


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(forecast.run().value)
        case ["plan"]:
            print(forecast.plan())
        case ["trigger", *cities]:
            print(forecast.trigger(cities=cities or ["Paris", "Oslo"]).result())
        case ["serve"]:
            forecast.serve()
        case _:
            sys.exit(__doc__)
