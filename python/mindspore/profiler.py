"""Times of programs: how often each ran and how long, with its plan."""

from __future__ import annotations

import json
import os

from . import _compile, context
from ._missing import missing


class Profiler:
    """From `start` (or its making) to `analyse` the steps of each program are timed; the folder gets times.json and the plans."""

    def __init__(self, start_profile: bool = True, output_path: str = "./data", **settings):
        if settings:
            context.tell("mindspore: Profiler times programs and shows their plans; its other settings have no effect")
        self.output_path = os.path.abspath(output_path)
        self.times: dict[int, dict] = {}
        if start_profile:
            self.start()

    def start(self) -> None:
        _compile.watchers.append(self._note)

    def stop(self) -> None:
        if self._note in _compile.watchers:
            _compile.watchers.remove(self._note)

    def _note(self, program, seconds: float) -> None:
        entry = self.times.setdefault(id(program), {"program": program, "seconds": []})
        entry["seconds"].append(seconds)

    def analyse(self, *args, **settings) -> None:
        """Writes what was seen, and ends it."""
        self.stop()
        os.makedirs(self.output_path, exist_ok=True)
        found = []
        for number, entry in enumerate(self.times.values()):
            plan, seconds = f"plan_{number}.txt", entry["seconds"]
            with open(os.path.join(self.output_path, plan), "w", encoding="utf-8") as file:
                file.write(entry["program"].planned.explain())
            found.append({"plan": plan, "steps": len(seconds), "first_s": seconds[0], "least_s": min(seconds),
                          "mean_s": sum(seconds) / len(seconds)})
        with open(os.path.join(self.output_path, "times.json"), "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *error) -> None:
        self.analyse()


__getattr__ = missing("mindspore.profiler", globals())
