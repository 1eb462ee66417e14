import pytest

from ledger import db


@pytest.fixture
def conn(tmp_path):
    connection = db.connect(tmp_path / "ledger.sqlite3")
    db.migrate(connection)
    yield connection
    connection.close()
