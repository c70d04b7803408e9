"""Draws visits to a shop as columns for a recommender: what a visitor looked at, and whether something was bought.

    python3 draw_visits.py FOLDER [VISITS]      writes FOLDER/train.csv and, with a tenth as many, FOLDER/test.csv

Whoever visits has a taste for some categories, and buys in the evening rather than at noon; one in ten does as chance has it.
"""

import csv
import pathlib
import random
import sys

CATEGORIES = ["books", "shoes", "tools", "games", "plants", "music", "bikes", "toys"]
CITIES = [f"city {n}" for n in range(40)]


def visit(draw, taste):
    city = draw.choice(CITIES)
    seen = draw.sample(CATEGORIES, draw.randint(1, 3))
    hour, minutes = draw.random() * 24, draw.expovariate(0.2)
    score = sum(taste[city, one] for one in seen) + (1 if hour > 17 else -1) + 0.1 * (minutes - 5)
    bought = score > 0 if draw.random() < 0.9 else draw.random() < 0.5
    return [int(bought), f"{hour / 12 - 1:.3f}", f"{minutes / 5 - 1:.3f}", city, "|".join(seen)]


def main():
    folder = pathlib.Path(sys.argv[1])
    visits = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    taste = {(city, one): draw.gauss(0, 1) for city in CITIES for one in CATEGORIES}
    for name, count in (("train", visits), ("test", visits // 10)):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as out:
            rows = csv.writer(out)
            rows.writerow(["label", "dense.1", "dense.2", "ids.1", "ids.2"])
            rows.writerows(visit(draw, taste) for _ in range(count))


if __name__ == "__main__":
    main()
