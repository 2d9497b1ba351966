"""`sfumato mine`: what goes together in baskets of items."""

import typer

from sfumato.cli.mine import itemsets as mine_itemsets
from sfumato.cli.mine import rules as mine_rules

__all__ = ["app"]

app = typer.Typer(
    help="Frequent itemsets and association rules of baskets, larger than memory or private.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.command()(mine_itemsets.itemsets)
app.command()(mine_rules.rules)
