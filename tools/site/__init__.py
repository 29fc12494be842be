"""The documentation site: `python -m mkdocs build --strict -f tools/site/mkdocs.yml --site-dir DIR`."""
