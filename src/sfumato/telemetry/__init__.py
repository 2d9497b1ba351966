"""Telemetry: clients report noised bits of a value, servers count them and decode a table."""

from sfumato.telemetry.decoding.association import Joint, associate
from sfumato.telemetry.decoding.decode import Decoded, decode
from sfumato.telemetry.decoding.fisher_information import cramer_rao
from sfumato.telemetry.discovery.ngrams import Discovery, DiscoveryReports
from sfumato.telemetry.discovery.prefixes import PrefixDiscovery, PrefixReports
from sfumato.telemetry.encoder import Encoder
from sfumato.telemetry.planning import Plan, PlanRow, plan
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.google_csv import (
    Map,
    read_counts_csv,
    read_map_csv,
    read_params_csv,
    read_reports_csv,
    write_counts_csv,
    write_map_csv,
    write_params_csv,
    write_reports_csv,
)
from sfumato.telemetry.reports.jsonl import read_reports, write_reports
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.reports.validation import Dispersion
from sfumato.telemetry.schemes.base import Scheme, pair_statement, read_scheme
from sfumato.telemetry.schemes.google_rappor import Published
from sfumato.telemetry.schemes.hadamard_response import HadamardResponse
from sfumato.telemetry.schemes.local_hashing import LocalHashing
from sfumato.telemetry.schemes.rappor import Params
from sfumato.telemetry.schemes.subset_selection import SubsetSelection

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
