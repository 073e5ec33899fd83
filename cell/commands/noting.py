"""Commands about what a person says of a trial and hands on of it: label, bundle."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from cell import bundle as bundles
from cell import cells, labelling, trials
from cell.doctor import size
from cell.errors import UsageError
from cell.plain import plain

from .entering import me
from .saying import means_line, say


def label(args: argparse.Namespace) -> int:
    """Label a trial, take its label away, or show it; with the means of its job as they are then."""
    if args.remove and args.word:
        raise UsageError("--remove takes the label away: say no WORD with it")
    trial = cells.find(args.cell, Path(args.jobs_dir))
    if args.remove or args.word:
        labelling.put(trial.path, " ".join([args.word, *args.note]), who=me(args))
        trial = trials.read_trial(trial.path)
    job = trials.read_job(Path(trial.path).parent)
    if args.json:
        about = {key: value for key, value in job.as_dict().items() if key != "trials"}
        say(json.dumps({"trial": trial.path, "label": msgspec.to_builtins(trial.label), "job": about}))
        return 0
    said = f"{trial.label.word}  {trial.label.note}".rstrip() if trial.label else "no label"
    say(f"{trial.id}  {said}\n{means_line(job)}")
    return 0


def bundle(args: argparse.Namespace) -> int:
    """Write a trial's incident bundle."""
    trial = cells.find(args.cell, Path(args.jobs_dir))
    out = Path(args.out) if args.out else bundles.free_name(Path(), trial)
    made = bundles.write(trial, out, root=args.root)
    if args.json:
        counts = {"files": made.files, "bytes": made.size, "changed": made.changed, "omitted": made.omitted}
        say(json.dumps({"trial": trial.path, "bundle": str(made.path), **counts}))
        return 0
    said = f"{size(made.size)}, {made.files} files; its SUMMARY.txt says what is left out"
    say(f"{plain(str(made.path))}  {said}")
    for one in made.changed:
        say(f"  taken out of {plain(one, limit=200)}")
    return 0
