"""Makes the shop database of the help desk: products, stores, accounts, orders.

python make_data.py [FILE] [--today 2026-11-19]

Without FILE it is made where the help desk looks for it: HELPDESK_DB, or the user's cache folder. A file that is there is
replaced. The same day gives the same rows, passwords' salts aside.
"""

import argparse
import os
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from helpdesk import database


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the help desk's shop database anew.")
    parser.add_argument("file", nargs="?", type=Path, help="where to put it (default: where the help desk looks for it)")
    parser.add_argument("--today", type=date.fromisoformat, help="the day the orders' dates are counted from (default: today)")
    arguments = parser.parse_args()
    if arguments.today:
        os.environ["HELPDESK_NOW"] = f"{arguments.today}T10:00"
    file = arguments.file or database.path()
    try:
        database.make(file, replace=True)
    except database.DatabaseProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"Made {file}: 40 products, 12 stores, 15 accounts, 31 orders.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
