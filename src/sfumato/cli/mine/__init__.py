"""`sfumato mine`: what goes together in baskets, similar documents, and clusters of rows."""

import typer

from sfumato.cli.mine import cluster as mine_cluster
from sfumato.cli.mine import itemsets as mine_itemsets
from sfumato.cli.mine import rules as mine_rules
from sfumato.cli.mine import similar as mine_similar

__all__ = ["app"]

app = typer.Typer(
    help="Frequent itemsets and rules of baskets, near-duplicate documents, clusters of rows.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.command()(mine_cluster.cluster)
app.command()(mine_itemsets.itemsets)
app.command()(mine_rules.rules)
app.command()(mine_similar.similar)
