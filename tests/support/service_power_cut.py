"""A service under load in this process, on a disk that loses what was not synchronised.

`python service_power_cut.py FOLDER SEED MODE` sends events, keys of a sketch and orders of releases
through the routes while `power_cut.py` takes images of the database; beside each image it writes
what clients had been answered by then. There is no trainer: its process would write past the disk.
"""

import asyncio
import random
import sys
from pathlib import Path

import httpx
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))  # also where this runs by itself

from sfumato.serve import create_app
from sfumato.serve.config import BudgetConfig, ServiceConfig, SketchConfig
from sfumato.store import open_store
from support.power_cut import PowerCuts

ROUNDS = 60
ORDER = {"kind": "sketch", "sketch": "pages", "dataset": "views", "epsilon": 0.01}


async def events(client, name, draws, answered):
    for turn in range(ROUNDS):
        ids = [f"{name}-{turn}-{k}" for k in range(draws.choice((1, 1, 20)))]
        rows = [
            {"user": f"u{draws.randrange(50)}", "item": f"i{draws.randrange(30)}", "id": each}
            for each in ids
        ]
        answered["sent"] += ids
        answer = await client.post("/events", json=rows)
        assert answer.status_code == 200, answer.text
        answered["events"] += ids


async def keys(client, answered):
    for turn in range(ROUNDS):
        answered["keys_sent"] += 3
        body = {"keys": ["home"] * 3, "id": str(turn)}
        answer = await client.post("/sketches/pages", json=body)
        assert answer.status_code == 200, answer.text
        answered["keys"] += 3


async def releases(client, answered):
    for turn in range(ROUNDS // 3):
        answer = await client.post("/releases", json={"release": f"r{turn}", **ORDER})
        assert answer.status_code == 201, answer.text
        answered["releases"][f"r{turn}"] = answer.content.hex()


async def load(app, cuts, secret, draws, answered):
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        headers = {"authorization": f"Bearer {secret}"}
        options = {"base_url": "http://service", "headers": headers, "transport": transport}
        async with httpx.AsyncClient(**options) as client:
            cuts.started = True
            await asyncio.gather(
                *(events(client, name, draws, answered) for name in "abcd"),
                keys(client, answered),
                releases(client, answered),
            )
            cuts.started = False


def main():
    folder, draws = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    answered = {"sent": [], "events": [], "keys_sent": 0, "keys": 0, "releases": {}}
    cuts = PowerCuts(folder, draws, answered, sys.argv[3])
    with open_store(cuts.path) as store:
        secret = store.create_key("load", ["admin"])[1]
    pages = SketchConfig("count-sketch", {"width": 256}, "views", commit_seconds=0.005)
    config = msgspec.structs.replace(
        ServiceConfig(database=cuts.path),
        trainer=False,
        budgets={"views": BudgetConfig(1000.0, unit="event")},
        sketches={"pages": pages},
    )
    asyncio.run(load(create_app(config), cuts, secret, random.Random(draws.random()), answered))
    print(cuts.images)


if __name__ == "__main__":
    main()
