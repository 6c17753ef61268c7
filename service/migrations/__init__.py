"""Every schema the database has had: one file per revision, run in order, never edited once released.

A new one is `r0003_what.py` with `revision`, `down_revision` and `upgrade()`; names of constraints are written out. It
runs inside one transaction on SQLite and PostgreSQL alike; on SQLite what `ALTER TABLE` cannot do stands in
`op.batch_alter_table`. `tests/contract/test_migrations.py` compares the outcome with the tables of the adapters.
"""
