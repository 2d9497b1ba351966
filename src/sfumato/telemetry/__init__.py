"""Telemetry: clients report noised bits of a value, servers count them and decode a table."""

from sfumato.telemetry._decoded import Decoded
from sfumato.telemetry._dispersion import Dispersion
from sfumato.telemetry._lines import read_reports, write_reports
from sfumato.telemetry._scheme import Scheme, read_scheme
from sfumato.telemetry._together import pair_statement
from sfumato.telemetry.aggregate import Counts
from sfumato.telemetry.bound import cramer_rao
from sfumato.telemetry.decode import decode
from sfumato.telemetry.discover import Discovery, DiscoveryReports
from sfumato.telemetry.encode import Encoder
from sfumato.telemetry.hadamard_response import HadamardResponse
from sfumato.telemetry.joint import Joint, associate
from sfumato.telemetry.local_hashing import LocalHashing
from sfumato.telemetry.params import Params
from sfumato.telemetry.plan import Plan, PlanRow, plan
from sfumato.telemetry.prefixes import PrefixDiscovery, PrefixReports
from sfumato.telemetry.published import Published
from sfumato.telemetry.published_files import (
    Map,
    read_counts_csv,
    read_map_csv,
    read_params_csv,
    write_counts_csv,
    write_map_csv,
    write_params_csv,
)
from sfumato.telemetry.published_reports import read_reports_csv, write_reports_csv
from sfumato.telemetry.reports import Reports
from sfumato.telemetry.subset_selection import SubsetSelection

__all__ = [
    "Counts",
    "Decoded",
    "Discovery",
    "DiscoveryReports",
    "Dispersion",
    "Encoder",
    "HadamardResponse",
    "Joint",
    "LocalHashing",
    "Map",
    "Params",
    "Plan",
    "PlanRow",
    "PrefixDiscovery",
    "PrefixReports",
    "Published",
    "Reports",
    "Scheme",
    "SubsetSelection",
    "associate",
    "cramer_rao",
    "decode",
    "pair_statement",
    "plan",
    "read_counts_csv",
    "read_map_csv",
    "read_params_csv",
    "read_reports",
    "read_reports_csv",
    "read_scheme",
    "write_counts_csv",
    "write_map_csv",
    "write_params_csv",
    "write_reports",
    "write_reports_csv",
]
