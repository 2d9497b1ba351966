"""Settings: a file, then variables, then flags; what is unknown or invalid is named."""

import pytest

from sfumato.serve import ServiceConfig, load_config


def test_flags_win_over_variables_and_those_over_the_file(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text('database = "a.db"\nport = 1\nhost = "::1"\n[model]\nfactors = 8\n')
    environment = {"SFUMATO_PORT": "2", "SFUMATO_MODEL__CELLS": "4096", "OTHER": "x"}
    config = load_config(file, environment=environment, flags={"database": "b.db", "host": None})
    assert (config.database, config.port, config.host) == ("b.db", 2, "::1")
    assert (config.model.factors, config.model.cells) == (8, 4096)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "database"),
        ('database = "a"\nport = 70000', "port"),
        ('database = "a"\nprot = 1', "prot"),
        ('database = "a"\n[model]\nfactors = "x"', "model.factors"),
        ('database = "a"\n[budgets.views]\nepsilon = -1', "budgets"),
        ("database = ", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, named):
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"ServiceConfig.*{named}"):
        load_config(file, environment={})


def test_no_password_is_shown():
    config = ServiceConfig(database="postgresql://ann:SECRET@host/shop")
    assert "SECRET" not in repr(config)
