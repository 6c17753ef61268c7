"""Intake of tables: from a file in any format that is read to one canonical, typed Arrow table."""
