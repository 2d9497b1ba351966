"""Telemetry: private reports by clients, counting and decoding of reports by servers.

Each name is imported when it is first used.
"""

from sfumato.core.deprecation import on_demand, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.telemetry.decoding.association import AssociationResult, associate
    from sfumato.telemetry.decoding.decode import DecodeResult, decode
    from sfumato.telemetry.decoding.fisher_information import cramer_rao
    from sfumato.telemetry.discovery.prefix_files import read_prefix_reports
    from sfumato.telemetry.discovery.prefixes import PrefixDiscovery, PrefixReports
    from sfumato.telemetry.encoder import ReportEncoder
    from sfumato.telemetry.planning import Plan, PlanRow, plan
    from sfumato.telemetry.reports.counts import Counts
    from sfumato.telemetry.reports.engine_counts import count_reports
    from sfumato.telemetry.reports.google_csv import (
        CandidateMap,
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
    from sfumato.telemetry.schemes.google_rappor import GoogleRappor
    from sfumato.telemetry.schemes.hadamard_response import HadamardResponse
    from sfumato.telemetry.schemes.local_hashing import LocalHashing
    from sfumato.telemetry.schemes.rappor import Rappor
    from sfumato.telemetry.schemes.subset_selection import SubsetSelection

__all__ = [
    "AssociationResult",
    "CandidateMap",
    "Counts",
    "DecodeResult",
    "Dispersion",
    "GoogleRappor",
    "HadamardResponse",
    "LocalHashing",
    "Plan",
    "PlanRow",
    "PrefixDiscovery",
    "PrefixReports",
    "Rappor",
    "ReportEncoder",
    "Reports",
    "Scheme",
    "SubsetSelection",
    "associate",
    "count_reports",
    "cramer_rao",
    "decode",
    "pair_statement",
    "plan",
    "read_counts_csv",
    "read_map_csv",
    "read_params_csv",
    "read_prefix_reports",
    "read_reports",
    "read_reports_csv",
    "read_scheme",
    "write_counts_csv",
    "write_map_csv",
    "write_params_csv",
    "write_reports",
    "write_reports_csv",
]

_RENAMED = {
    "Decoded": "DecodeResult",
    "Encoder": "ReportEncoder",
    "Joint": "AssociationResult",
    "Map": "CandidateMap",
    "Params": "Rappor",
    "Published": "GoogleRappor",
}

__getattr__ = renamed(
    __name__,
    _RENAMED,
    on_demand(
        __name__,
        {
            "decoding.association": (
                "AssociationResult",
                "associate",
            ),
            "decoding.decode": (
                "DecodeResult",
                "decode",
            ),
            "decoding.fisher_information": ("cramer_rao",),
            "discovery.prefix_files": ("read_prefix_reports",),
            "discovery.prefixes": (
                "PrefixDiscovery",
                "PrefixReports",
            ),
            "encoder": ("ReportEncoder",),
            "planning": (
                "Plan",
                "PlanRow",
                "plan",
            ),
            "reports.counts": ("Counts",),
            "reports.engine_counts": ("count_reports",),
            "reports.google_csv": (
                "CandidateMap",
                "read_counts_csv",
                "read_map_csv",
                "read_params_csv",
                "read_reports_csv",
                "write_counts_csv",
                "write_map_csv",
                "write_params_csv",
                "write_reports_csv",
            ),
            "reports.jsonl": (
                "read_reports",
                "write_reports",
            ),
            "reports.reports": ("Reports",),
            "reports.validation": ("Dispersion",),
            "schemes.base": (
                "Scheme",
                "pair_statement",
                "read_scheme",
            ),
            "schemes.google_rappor": ("GoogleRappor",),
            "schemes.hadamard_response": ("HadamardResponse",),
            "schemes.local_hashing": ("LocalHashing",),
            "schemes.rappor": ("Rappor",),
            "schemes.subset_selection": ("SubsetSelection",),
        },
    ),
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
