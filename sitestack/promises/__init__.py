"""The promises as code: pure functions from the histories of a run's processes to violations."""

from sitestack.promises.agreement import check_uniform_agreement as check_uniform_agreement
from sitestack.promises.ending import Ending as Ending, ending_at as ending_at, find_ending as find_ending, fold as fold
from sitestack.promises.floors import Floors as Floors
from sitestack.promises.history import Fate as Fate, History as History
from sitestack.promises.ranges import Ranges as Ranges
from sitestack.promises.reception import Reception as Reception, Stream as Stream
from sitestack.promises.report import (
    LIVENESS as LIVENESS,
    SAFETY as SAFETY,
    Checker as Checker,
    Report as Report,
    check_all as check_all,
)
from sitestack.promises.violation import Violation as Violation
