"""The service: events in, recommendations and private statistics out, over HTTP.

Each name is imported when it is first used; the extra ``sfumato[serve]`` installs what it needs.
"""

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.serve.app import create_app
    from sfumato.serve.config import ServiceConfig, load_config
    from sfumato.serve.server import serve

__all__ = ["ServiceConfig", "create_app", "load_config", "serve"]

__getattr__ = on_demand(
    __name__,
    {
        "app": ("create_app",),
        "config": ("ServiceConfig", "load_config"),
        "server": ("serve",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
