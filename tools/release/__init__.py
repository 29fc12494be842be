"""What goes out with a release beside the wheel and the sdist: notes, a list of components, a Homebrew formula.

export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)         # the same files wherever they are built
python -m build --outdir dist
python -m tools.release.sbom dist/*.whl -o dist/kafka-kgm.cdx.json
python -m tools.release.notes > dist/notes.md
python -m tools.release.homebrew dist/*.tar.gz --url URL --homepage URL > kafka-kgm.rb"""
