"""A job in Python: the weather of some cities, as far as it can be computed.

python examples/weather.py                   run it here and now, without a server
python examples/weather.py plan              show the graph
mainspring server                            and in another terminal:
python examples/weather.py serve             give the job to the server, and be its worker
python examples/weather.py trigger Rome      run it on the server
"""

import math
import sys

from mainspring import Retry, every, job, task

LATITUDES = {"Paris": 48.9, "Oslo": 59.9, "Rome": 41.9}


@task(retries=Retry(3, backoff="2s..60s"), timeout="10m", cpu=1, memory="512Mi")
def fetch(city: str) -> dict[str, object]:
    """How warm it should be there, by its latitude."""
    return {"city": city, "degrees": round(30 * math.cos(math.radians(LATITUDES[city])))}


@task
async def report(rows: list[dict[str, object]]) -> str:
    """All cities in one line."""
    return ", ".join(f"{row['city']} {row['degrees']}°" for row in rows)


@job(schedule=every("15m", tz="Europe/Paris"), tenant="weather", priority="p2", max_active=1)
def forecast(cities: list[str] = ["Paris", "Oslo"]) -> object:  # noqa: B006 - the body only gets a stand-in for it
    """How warm it will be."""
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
