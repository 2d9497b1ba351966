"""`sfumato mine`: itemsets and rules, similar documents, clusters, matrices, ranks of graphs."""

import typer

from sfumato.cli.mine import cluster as mine_cluster
from sfumato.cli.mine import decompose as mine_decompose
from sfumato.cli.mine import itemsets as mine_itemsets
from sfumato.cli.mine import rank as mine_rank
from sfumato.cli.mine import rules as mine_rules
from sfumato.cli.mine import similar as mine_similar

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    help="Mine itemsets, texts, clusters, matrices and graphs.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.command()(mine_itemsets.itemsets)
app.command()(mine_rules.rules)
app.command()(mine_similar.similar)
app.command()(mine_cluster.cluster)
app.command()(mine_decompose.svd)
app.command()(mine_decompose.cur)
app.command()(mine_rank.rank)
