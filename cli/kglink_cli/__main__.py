"""The command, as its script and ``python -m kglink_cli`` start it."""

from __future__ import annotations

import gc

from kglink_cli.interrupts import heed_interrupts, stop_came, stopped_code, tell_of_stop

#: New objects between two searches for cycles that nothing refers to. Records hold none; with
#: Python's own number a fifth of an ingest is such searches.
OBJECTS_BETWEEN_SEARCHES = 50_000


def main() -> None:
    """Hear Ctrl-C before anything else: the imports take a while."""
    heed_interrupts()
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    try:
        from kglink_cli.main import run
    except BaseException:  # a stop, or what a library made of it
        if not stop_came():
            raise
        tell_of_stop()
        raise SystemExit(stopped_code()) from None
    try:
        run()
    finally:
        heed_interrupts()  # Python itself ends only after this


if __name__ == "__main__":
    main()
