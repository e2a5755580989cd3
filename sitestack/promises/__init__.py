"""The promises as code: pure functions over the histories of a run's processes, each giving the violations it finds."""

from sitestack.promises.across import check_introduced
from sitestack.promises.agreement import check_uniform_agreement
from sitestack.promises.ending import Ending, ending_at, find_ending, fold
from sitestack.promises.history import Fate, History
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Reception, Stream
from sitestack.promises.report import LIVENESS, SAFETY, Checker, Report, check_all
from sitestack.promises.violation import Violation

__all__ = [
    "LIVENESS",
    "SAFETY",
    "Checker",
    "Ending",
    "Fate",
    "History",
    "Ranges",
    "Reception",
    "Report",
    "Stream",
    "Violation",
    "check_all",
    "check_introduced",
    "check_uniform_agreement",
    "ending_at",
    "find_ending",
    "fold",
]
